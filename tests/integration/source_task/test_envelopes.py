"""JSON with schemas between two real clusters: what the target gets is what Kafka's own classes write, to the byte."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from deploy.local import LocalCluster
from tests.fakes.json_records import Configured, JsonRecord
from tests.fakes.kafka_transforms import PACKAGE, Case, by_kafka
from tests.fakes.source_spec import WITHOUT_SYNCS
from tests.integration.mirror_rig import produce, read, running, spec_for
from tests.integration.source_task.copied_topics import BEGUN, mirrored_topic

pytestmark = [pytest.mark.brokers, pytest.mark.long]

COUNT, BAD = 5000, 137
CHAIN: list[Configured] = [
    ("MaskField$Value", {"fields": "card"}),
    ("TimestampConverter$Value", {"field": "at", "target.type": "string", "format": "yyyy-MM-dd'T'HH:mm:ss"}),
    ("Flatten$Value", {"delimiter": "_"}),
    ("ReplaceField$Value", {"exclude": "customer_since", "renames": "customer_email:email"}),
    ("Cast$Value", {"spec": "pieces:int64,express:string"}),
    ("InsertField$Value", {"timestamp.field": "copied!", "static.field": "from", "static.value": "eu"}),
    ("ValueToKey", {"fields": "id,email"}),
]
CONVERTERS = {"key": {"schemas.enable": "true"}, "value": {"schemas.enable": "true", "decimal.format": "NUMERIC"}}


def schema_of(version: int) -> dict[str, Any]:
    customer = [
        {"type": "string", "optional": True, "field": "email"},
        {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1, "field": "since"},
    ]
    fields: list[dict[str, Any]] = [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "optional": False, "default": "none", "field": "card"},
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2"},
            "field": "price",
        },
        {"type": "int64", "optional": True, "field": "at"},
        {"type": "struct", "fields": customer, "optional": True, "field": "customer"},
        {"type": "array", "items": {"type": "string"}, "field": "tags"},
        {"type": "int16", "optional": True, "default": 1, "field": "pieces"},
        {"type": "boolean", "optional": True, "field": "express"},
    ]
    return {"type": "struct", "name": "com.example.Order", "version": version, "fields": fields[: 8 - version % 2]}


def a_record(number: int) -> JsonRecord:
    # The schema changes on the way.
    schema = schema_of(number * 3 // COUNT)
    payload = {
        "id": number,
        "card": None if number % 7 == 0 else "4111",
        "price": "EmQ=",
        "at": None if number % 5 == 0 else 1_600_000_000_000 + number,
        "customer": None if number % 3 == 0 else {"email": f"{number}@example.com", "since": number},
        "tags": ["a", str(number)],
        "pieces": None if number % 2 else number % 100,
        "express": number % 4 == 0,
    }
    value = payload if number == BAD else {"schema": schema, "payload": payload}
    return JsonRecord(b"%d" % number, json.dumps(value).encode(), BEGUN + number)


async def test_copies_are_what_kafkas_classes_write(source: LocalCluster, target: LocalCluster, tmp_path: Path) -> None:
    topic = mirrored_topic(source, target)
    records = [a_record(number) for number in range(COUNT)]
    sent = [{"key": each.key, "value": each.value, "partition": 0, "timestamp": each.timestamp} for each in records]
    produce(source, topic, sent, **{"compression.type": "lz4"})
    # The key is not read, as ValueToKey replaces it. Kafka's converter would read it.
    (answer,) = by_kafka([Case(CHAIN, [each._replace(key=None) for each in records], CONVERTERS)], tmp_path)
    wanted = [[bytes.fromhex(part) for part in each] for each in answer["records"] if isinstance(each, list)]
    assert len(wanted) == COUNT - 1
    config = {**WITHOUT_SYNCS, "errors.tolerance": "all", "transforms": ",".join(f"t{n}" for n in range(len(CHAIN)))}
    for part, settings in CONVERTERS.items():
        config[f"{part}.converter"] = "org.apache.kafka.connect.json.JsonConverter"
        config |= {f"{part}.converter.{name}": text for name, text in settings.items()}
    for number, (name, settings) in enumerate(CHAIN):
        config[f"transforms.t{number}.type"] = PACKAGE + name
        config |= {f"transforms.t{number}.{setting}": text for setting, text in settings.items()}
    async with running(spec_for(source, target, {topic: 1}, config=config), target) as task, asyncio.timeout(240):
        await task.copied(COUNT - 1)
        await task.finish()
    assert [[each.key, each.value] for each in read(target, f"A.{topic}")] == wanted
