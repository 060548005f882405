"""Transformations of JSON with schemas make what Kafka's own classes make, and fail where those do. Needs Java; one run."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.transforms import json_form
from mirror_connect.connectors.record_errors import RecordError, StepError
from mirror_connect.kafka_io.records import json_envelope, json_text
from tests.fakes.json_envelopes import EnvelopeRecord, converter, envelopes_for, with_nulls
from tests.fakes.json_records import CLASSES, JsonRecord, a_chain, a_transformation
from tests.fakes.kafka_transforms import Case, by_kafka, by_us, shown, steps_of, unread_parts

SEED: Final = int(os.environ.get("MODEL_SEED", "18"))


def cases(seed: int, configs: int, records: int) -> list[tuple[Case, list[EnvelopeRecord]]]:
    chance = random.Random(seed)
    chains = [[a_transformation(chance, name)] for name in CLASSES for _ in range(configs)]
    chains += [list(a_chain(chance)) for _ in range(configs * 3)]
    found = []
    for chain in chains:
        typed = with_nulls(chance, chain)
        converters = {"key": converter(chance), "value": converter(chance)}
        envelopes = envelopes_for(chance, typed, converters, records)
        plain = [JsonRecord(each.key.text, each.value.text, each.timestamp) for each in envelopes]
        found.append((Case(typed, plain, converters), envelopes))
    return found


def said(raw: bytes | str | None, *, single: bool) -> str:
    """What an envelope says, with its schema in the order of its members, and the fields of a struct in theirs."""
    if raw is None or raw == UNREADABLE:
        return str(raw)
    parsed = json.loads(raw)
    order = ""
    if isinstance(parsed, dict) and isinstance(parsed.get("schema"), dict):
        payload = parsed["payload"]
        order = (
            f"{ordered(parsed['schema'])} {list(payload) if parsed['schema']['type'] == 'struct' and payload else ''}"
        )
    return f"{order}{shown(with_pairs_sorted(parsed), single=single)}"


def with_pairs_sorted(value: Any) -> Any:
    """A map whose keys are no texts is a list of pairs, in the order of a hash table."""
    if isinstance(value, dict):
        return {name: with_pairs_sorted(each) for name, each in value.items()}
    if isinstance(value, list):
        found = [with_pairs_sorted(each) for each in value]
        return sorted(found, key=shown) if all(isinstance(each, list) and len(each) == 2 for each in found) else found
    return value


def ordered(schema: Any) -> str:
    """The names in a schema, in their order. What its defaults hold is compared elsewhere."""
    if isinstance(schema, list):
        return f"[{','.join(map(ordered, schema))}]"
    if isinstance(schema, dict):
        members = (name + ordered(each) for name, each in schema.items() if name != "default")
        return f"{{{','.join(members)}}}"
    return repr(schema)


UNREADABLE: Final = "can't be read"


def rewritten(case: Case, part: str, raw: bytes | None) -> bytes | str | None:
    """A key or value as its converter reads and writes it, UNREADABLE if it can't."""
    form = json_form({f"{part}.converter.{name}": text for name, text in case.converters[part].items()}, part)
    try:
        read = json_envelope.read(raw, form) if form.schemas else (None, json_text.read(raw))
        return json_envelope.written(*read, form)
    except StepError:
        return UNREADABLE


def differences(
    asked: Sequence[tuple[Case, list[EnvelopeRecord]]], answers: Sequence[dict[str, Any]]
) -> tuple[int, int, list[str]]:
    compared = failed = 0
    found: list[str] = []
    for (case, envelopes), answer in zip(asked, answers, strict=True):
        try:
            steps = steps_of(case)
        except ConfigError as error:
            if "refused" not in answer:
                found.append(f"{case.chain}: we refuse it: {error}")
            continue
        if "refused" in answer:
            found.append(f"{case.chain}: Kafka refuses it: {answer['refused']}")
            continue
        single = "float32" in str(case.chain)
        unread = unread_parts(steps)
        for envelope, record, theirs in zip(envelopes, case.records, answer["records"], strict=True):
            before = (record.key, record.value)
            as_they_are = [rewritten(case, part, raw) for part, raw in zip(("key", "value"), before, strict=True)]
            try:
                made = by_us(steps, record)
            except RecordError as error:
                ours: Any = f"error: {error}"
                kept = list(unread)
            else:
                # What nothing changes keeps its bytes. Kafka's converter writes it again, or fails.
                pairs = list(zip(made, before, as_they_are, strict=True))
                ours = [said(again if own == former else own, single=single) for own, former, again in pairs]
                same_bytes = {part for part, (own, old, _) in zip(("key", "value"), pairs, strict=True) if own == old}
                kept = list(unread | same_bytes)
            if isinstance(theirs, str) and any(
                as_they_are[("key", "value").index(part)] == UNREADABLE for part in kept
            ):
                continue
            compared += 1
            wrong = any(getattr(envelope, each).wrong for each in {"key", "value"} - unread)
            if isinstance(theirs, str):
                failed += 1
                same, wanted = isinstance(ours, str), theirs
            else:
                wanted = [said(part if part is None else bytes.fromhex(part), single=single) for part in theirs]
                # Kafka makes something else of what its schema does not say.
                same = (wrong and isinstance(ours, str)) or all(
                    own in (other, UNREADABLE) for own, other in zip(ours, wanted, strict=True)
                )
            if not same:
                found.append(f"{case.chain} {case.converters} {record}:\n  Kafka {wanted}\n  we    {ours}")
    return compared, failed, found


def test_thousands_of_envelopes_become_what_kafka_makes_of_them(tmp_path: Path) -> None:
    asked = cases(SEED, configs=14, records=16)
    compared, failed, found = differences(asked, by_kafka([case for case, _ in asked], tmp_path))
    assert not found, f"{len(found)} differ:\n" + "\n".join(found[:20])
    assert compared - failed > 700
    assert failed > 700


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_many_more_envelopes_become_what_kafka_makes_of_them(tmp_path: Path, seed: int) -> None:
    asked = cases(SEED * 1000 + seed, configs=200, records=50)
    compared, failed, found = differences(asked, by_kafka([case for case, _ in asked], tmp_path))
    assert not found, f"{len(found)} differ:\n" + "\n".join(found[:20])
    assert compared - failed > 20_000
