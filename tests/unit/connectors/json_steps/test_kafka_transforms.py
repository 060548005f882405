"""Transformations of JSON make what Kafka's own classes make, and fail where those fail. Needs Java; one run of it."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import Steps
from tests.fakes.json_records import CLASSES, JsonRecord, a_chain, a_transformation, records_for
from tests.fakes.kafka_transforms import Case, by_kafka, by_us, meaning, steps_of, unread_parts

SEED: Final = int(os.environ.get("MODEL_SEED", "18"))


def cases(seed: int, configs: int, records: int) -> list[Case]:
    chance = random.Random(seed)
    chains = [[a_transformation(chance, name)] for name in CLASSES for _ in range(configs)]
    chains += [list(a_chain(chance)) for _ in range(configs * 3)]
    return [Case(chain, records_for(chance, chain, records)) for chain in chains]


def unread_errors(steps: Steps, record: JsonRecord) -> bool:
    """Whether a part is no JSON that no step reads: Kafka's converter fails on it, and here it stays as it is."""
    return any(not is_json(getattr(record, part)) for part in unread_parts(steps))


def is_json(raw: bytes | None) -> bool:
    try:
        return meaning(raw) is not None and b"NaN" not in (raw or b"").replace(b'"NaN"', b"")
    except ValueError:
        return False


def differences(asked: Sequence[Case], answers: Sequence[dict[str, Any]]) -> tuple[int, int, list[str]]:
    compared = failed = 0
    found: list[str] = []
    for case, answer in zip(asked, answers, strict=True):
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
        for record, theirs in zip(case.records, answer["records"], strict=True):
            if isinstance(theirs, str) and theirs.startswith("converter") and unread_errors(steps, record):
                continue
            compared += 1
            wanted = theirs
            try:
                ours: Any = [meaning(part, single=single) for part in by_us(steps, record)]
            except RecordError as error:
                ours = f"error: {error}"
            if isinstance(theirs, str):
                failed += 1
                same = isinstance(ours, str)
            else:
                wanted = [meaning(part if part is None else bytes.fromhex(part), single=single) for part in theirs]
                same = ours == wanted
            if not same:
                found.append(f"{case.chain} {record}:\n  Kafka {wanted}\n  we    {ours}")
    return compared, failed, found


def test_thousands_of_records_become_what_kafka_makes_of_them(tmp_path: Path) -> None:
    asked = cases(SEED, configs=16, records=16)
    compared, failed, found = differences(asked, by_kafka(asked, tmp_path))
    assert not found, f"{len(found)} differ:\n" + "\n".join(found[:20])
    assert compared > 2500
    assert failed > 300


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_many_more_records_become_what_kafka_makes_of_them(tmp_path: Path, seed: int) -> None:
    asked = cases(SEED * 1000 + seed, configs=200, records=50)
    compared, _, found = differences(asked, by_kafka(asked, tmp_path))
    assert not found, f"{len(found)} differ:\n" + "\n".join(found[:20])
    assert compared > 80_000
