"""Records through Kafka's own transformations, in Java, and through these. See TransformJson.java."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from deploy.local.java import java_command
from deploy.local.kafka_jars import class_path
from mirror_connect.connectors.json_steps.configured import json_change
from mirror_connect.connectors.mirror.transforms import json_form
from mirror_connect.connectors.record_steps import JsonStep, Part, Steps
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.json_transforms import transformed_json
from tests.fakes.json_records import Configured, JsonRecord
from tests.paths import TESTS

PACKAGE: Final = "org.apache.kafka.connect.transforms."
TOPIC, PARTITION = "primary.orders", 3
PLAIN: Final[Mapping[str, Mapping[str, str]]] = {
    "key": {"schemas.enable": "false"},
    "value": {"schemas.enable": "false"},
}


class Case(NamedTuple):
    """A chain, the records that go through it, and the settings of the converters of "key" and "value"."""

    chain: Sequence[Configured]
    records: Sequence[JsonRecord]
    converters: Mapping[str, Mapping[str, str]] = PLAIN


def by_kafka(asked: Sequence[Case], directory: Path) -> list[dict[str, Any]]:
    """What Kafka's classes make of them; see TransformJson.java."""
    listed = directory / "cases.jsonl"
    with listed.open("w") as file:
        for case in asked:
            records = [
                [*(part if part is None else part.hex() for part in (each.key, each.value)), each.timestamp]
                for each in case.records
            ]
            chain = [[PACKAGE + name, settings] for name, settings in case.chain]
            json.dump({"chain": chain, "records": records, **case.converters}, file)
            file.write("\n")
    source = TESTS / "java" / "TransformJson.java"
    command = [*java_command(), "-XX:TieredStopAtLevel=1", "-cp", class_path(), str(source), str(listed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def steps_of(case: Case) -> Steps:
    """The chain of a case. ConfigError."""
    config = {
        f"{part}.converter.{name}": text for part, given in case.converters.items() for name, text in given.items()
    }
    key, value = json_form(config, "key"), json_form(config, "value")
    found = []
    for number, (name, settings) in enumerate(case.chain):
        kind, _, part = name.partition("$")
        of_part = {"Key": Part.KEY, "Value": Part.VALUE, "": Part.KEY_FROM_VALUE}[part]
        step = JsonStep(str(number), of_part, json_change(kind, settings, ""), key=key, value=value)
        found.append(step.placed(TOPIC, PARTITION))
    return tuple(found)


def field(raw: bytes | None) -> bytes:
    """A key or value as a record has it."""
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
    """The number of 32 bits that is nearest to it."""
    return float(struct.unpack("f", struct.pack("f", value))[0]) if abs(value) < 3e38 else value


def meaning(raw: bytes | None, *, single: bool = False) -> str:
    """What a JSON text says, in a form to compare."""
    return "None" if raw is None or not raw.strip() else shown(json.loads(raw), single=single)


def unread_parts(steps: Steps) -> set[str]:
    """Of key and value those that no step reads: Kafka's converter may fail on them, and here they stay as they are."""
    parts = [each.part for each in steps if isinstance(each, JsonStep)]
    unread = set()
    # A key that ValueToKey replaces before any step has read it stays unread.
    if next((each for each in parts if each is not Part.VALUE), None) is not Part.KEY:
        unread.add("key")
    if all(each is Part.KEY for each in parts):
        unread.add("value")
    return unread
