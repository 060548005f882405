"""Transformations of JSON make what Kafka's own classes make, and fail where those fail. Needs Java; one run of it."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from deploy.local.java import java_command
from deploy.local.kafka_jars import class_path
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.json_steps.configured import json_change
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import JsonStep, Part, Steps
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.json_transforms import transformed_json
from tests.fakes.json_records import CLASSES, Configured, JsonRecord, a_chain, a_transformation, records_for
from tests.paths import TESTS

PACKAGE: Final = "org.apache.kafka.connect.transforms."
TOPIC, PARTITION = "primary.orders", 3
SEED: Final = int(os.environ.get("MODEL_SEED", "18"))


class Case(NamedTuple):
    """A chain and the records that go through it."""

    chain: Sequence[Configured]
    records: list[JsonRecord]


def cases(seed: int, configs: int, records: int) -> list[Case]:
    chance = random.Random(seed)
    chains = [[a_transformation(chance, name)] for name in CLASSES for _ in range(configs)]
    chains += [list(a_chain(chance)) for _ in range(configs * 3)]
    return [Case(chain, records_for(chance, chain, records)) for chain in chains]


def by_kafka(asked: Sequence[Case], directory: Path) -> list[dict[str, Any]]:
    """What Kafka's classes make of them; see TransformJson.java."""
    listed = directory / "cases.jsonl"
    with listed.open("w") as file:
        for case in asked:
            records = [
                [*(part and part.hex() for part in (each.key, each.value)), each.timestamp] for each in case.records
            ]
            # An empty text is no null.
            records = [[*("" if part == b"" else text for part, text in zip(each[:2], texts, strict=False)), texts[2]]
                       for each, texts in zip(case.records, records, strict=True)]  # fmt: skip
            json.dump(
                {"chain": [[PACKAGE + name, settings] for name, settings in case.chain], "records": records}, file
            )
            file.write("\n")
    source = TESTS / "java" / "TransformJson.java"
    command = [*java_command(), "-XX:TieredStopAtLevel=1", "-cp", class_path(), str(source), str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def steps_of(chain: Sequence[Configured]) -> Steps:
    found = []
    for number, (name, settings) in enumerate(chain):
        kind, _, part = name.partition("$")
        of_part = {"Key": Part.KEY, "Value": Part.VALUE, "": Part.KEY_FROM_VALUE}[part]
        found.append(JsonStep(str(number), of_part, json_change(kind, settings, "")).placed(TOPIC, PARTITION))
    return tuple(found)


def field(raw: bytes | None) -> bytes:
    return varint.encoded(-1) if raw is None else varint.encoded(len(raw)) + raw


def by_us(steps: Steps, record: JsonRecord) -> tuple[bytes | None, bytes | None]:
    """Key and value after the steps."""
    before = field(record.key) + field(record.value) + b"\x00"
    rest = transformed_json(before, steps, 0, record.timestamp)
    assert rest is not None
    parts, at = [], 0
    for _ in range(2):
        length, at = varint.decode(rest, at)
        parts.append(None if length < 0 else rest[at : at + length])
        at += max(0, length)
    assert rest[at:] == b"\x00"
    return parts[0], parts[1]


def shown(value: Any, *, single: bool = False) -> str:
    """A JSON value with its types, whatever the order of fields; 0.0 and -0.0 are one, as in Kafka's decimals.

    `single`: numbers are those of 32 bits, as Java 17 does not write the shortest text of them.
    """
    if isinstance(value, float):
        number = nearest_single(value) if single else value
        return repr(number if number else 0.0)
    if isinstance(value, list):
        return f"[{', '.join(shown(each, single=single) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {shown(value[name], single=single)}' for name in sorted(value))}}}"
    return repr(value)


def nearest_single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0]) if abs(value) < 3e38 else value


def meaning(raw: bytes | None, *, single: bool = False) -> str:
    return "None" if raw is None or not raw.strip() else shown(json.loads(raw), single=single)


def unread_errors(steps: Steps, record: JsonRecord) -> bool:
    """Whether a part is no JSON that no step reads: Kafka's converter fails on it, and here it stays as it is."""
    parts = [each.part for each in steps if isinstance(each, JsonStep)]
    unread = []
    # A key that ValueToKey replaces before any step has read it stays unread.
    if next((each for each in parts if each is not Part.VALUE), None) is not Part.KEY:
        unread.append(record.key)
    if all(each is Part.KEY for each in parts):
        unread.append(record.value)
    return any(not is_json(raw) for raw in unread)


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
            steps = steps_of(case.chain)
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
