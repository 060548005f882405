"""What a preview shows of records that a user's function transforms: what a task would write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.user_code.user_function import ALLOWED
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.spark_jobs.compute.function_preview import function_answer
from tests.fakes.record_functions import MODULE


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, MODULE)


def answer(function: str, values: list[bytes | None]) -> dict[str, Any]:
    records = [
        AskedRecord(TopicPartition("orders", 0), offset, 1000 + offset, rest_of(RecordParts(b"k", value, ())))
        for offset, value in enumerate(values)
    ]
    transform = TransformFunction(f"{MODULE}:{function}", ("SALT",))
    body = {"sql": transform.to_json(), "secrets": {"SALT": "pepper"}, "records": [each.to_json() for each in records]}
    return function_answer(json.loads(json.dumps(body)))


def test_each_record_is_shown_as_a_task_would_write_it() -> None:
    rows = [{"country": country, "email": "a@b"} for country in ("EU", "US")]
    found = answer("mask", [json.dumps(rows[0]).encode(), json.dumps(rows[1]).encode(), None, b"no JSON"])
    made = [TransformedRecord.from_json(each) for each in found["records"]]
    assert [(each.kept, each.timestamp) for each in made] == [(True, 1000), (False, 1001), (True, 1002), (False, 1003)]
    first, _, third, last = made
    assert first.rest is not None
    masked = json.loads(parts_of(first.rest).value or b"")
    assert masked["country"] == "EU"
    assert len(masked["email"]) == 64
    assert third.rest is not None
    assert parts_of(third.rest).value is None
    assert last.error is not None
    assert last.error.startswith(f"{MODULE}:mask raised JSONDecodeError (line ")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("too_short", "too_short returned 2 of value for 1 records: it must return one for each"),
        ("none", "none can't be used: module {} has no function none"),
        ("dies", "dies has ended its process (exit code 9)"),
    ],
)
def test_a_wrong_function_is_one_line(function: str, text: str) -> None:
    assert answer(function, [b"x"]) == {
        "problem": f"{MODULE}:{text.format(MODULE)}",
        "setting": "spark.transform.python",
    }
