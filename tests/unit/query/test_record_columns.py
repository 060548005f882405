"""Records as Arrow's columns: all that a consumer sees of them, in the schema of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import _parse_datatype_json_string

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.query.record_columns import MOST_RECORDS, RecordColumns, records_of
from tests.fakes.encoded_batches import NOW, Plain, encode, some_records

SCHEMA = to_arrow_schema(
    _parse_datatype_json_string(
        """{"type":"struct","fields":[
        {"name":"topic","type":"string","nullable":true,"metadata":{}},
        {"name":"partition","type":"integer","nullable":true,"metadata":{}},
        {"name":"offset","type":"long","nullable":true,"metadata":{}},
        {"name":"timestamp","type":"timestamp","nullable":true,"metadata":{}},
        {"name":"timestamp_type","type":"string","nullable":true,"metadata":{}},
        {"name":"key","type":"binary","nullable":true,"metadata":{}},
        {"name":"value","type":"binary","nullable":true,"metadata":{}},
        {"name":"headers","nullable":true,"metadata":{},"type":{"type":"array","containsNull":true,"elementType":
          {"type":"struct","fields":[
            {"name":"key","type":"string","nullable":true,"metadata":{}},
            {"name":"value","type":"binary","nullable":true,"metadata":{}}]}}}]}"""
    ),
    timezone="UTC",
)
ORDERS = TopicPartition("orders", 3)
ABORTED_BY_7 = ((7, 0),)


def fetched(data: bytes, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> CompletedFetch:
    return CompletedFetch(ORDERS, memoryview(data), offset, 3, 3, 3, 0, aborted)


def rows(
    found: CompletedFetch,
    first: int = 0,
    end: int = 1 << 62,
    from_ms: int | None = None,
    until_ms: int | None = None,
    *,
    committed: bool = False,
) -> list[dict[str, Any]]:
    columns = RecordColumns(*ORDERS, SCHEMA)
    for kind, records in records_of(found, first, end, from_ms, until_ms, committed=committed):
        columns.add(records, kind)
    batch = columns.take()
    assert columns.take() is None
    if batch is None:
        return []
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA)
    found_rows: list[dict[str, Any]] = batch.to_pylist()
    return found_rows


def offsets(found: Sequence[dict[str, Any]]) -> list[int]:
    return [each["offset"] for each in found]


def test_every_column_of_a_record() -> None:
    records = [
        Plain(0, NOW, b"k", b"v" * 300, (("h", b"x"), ("h", b""), ("ü" * 100, b"y" * 100))),
        Plain(1, NOW + 1, None, b"", ()),
        Plain(2, NOW + 2, b"", None, (("only", b"z"),)),
    ]
    found = rows(fetched(encode(records)))
    assert [(each["key"], each["value"]) for each in found] == [(b"k", b"v" * 300), (None, b""), (b"", None)]
    assert [[(one["key"], one["value"]) for one in each["headers"]] for each in found] == [
        list(each.headers) for each in records
    ]
    begin = datetime.fromtimestamp(NOW / 1000, UTC)
    assert [each["timestamp"] for each in found] == [begin + timedelta(milliseconds=number) for number in range(3)]
    assert {(each["topic"], each["partition"], each["timestamp_type"]) for each in found} == {
        ("orders", 3, "CreateTime")
    }
    assert offsets(found) == [0, 1, 2]


def test_the_brokers_time_has_its_type() -> None:
    found = rows(fetched(encode(some_records(0, 2), attributes=0x08)))
    assert [each["timestamp_type"] for each in found] == ["LogAppendTime"] * 2
    assert len({each["timestamp"] for each in found}) == 1


def test_a_record_without_a_timestamp_has_none() -> None:
    assert rows(fetched(encode([Plain(0, -1, b"k", b"v", ())])))[0]["timestamp"] is None


def test_a_time_that_spark_can_not_have_is_the_latest_that_it_can() -> None:
    columns = RecordColumns(*ORDERS, SCHEMA)
    columns.add([(0, (1 << 63) - 1, b"\x01\x01\x00")], "CreateTime")
    batch = columns.take()
    assert batch is not None
    assert batch.column("timestamp").cast("int64").to_pylist() == [(2**63 - 1) // 1000 * 1000]


def test_first_and_end() -> None:
    data = encode(some_records(0, 4)) + encode(some_records(4, 4, first=4)) + encode(some_records(8, 4, first=8))
    assert offsets(rows(fetched(data), 2, 6)) == [2, 3, 4, 5]
    assert offsets(rows(fetched(data), 4, 8)) == [4, 5, 6, 7]


def test_times_are_those_of_each_record() -> None:
    records = [Plain(number, NOW + ms, b"k", b"v", ()) for number, ms in enumerate((5, 1, 9, 3))]
    found = fetched(encode(records))
    assert offsets(rows(found, from_ms=NOW + 3)) == [0, 2, 3]
    assert offsets(rows(found, until_ms=NOW + 5)) == [1, 3]
    assert offsets(rows(found, from_ms=NOW + 3, until_ms=NOW + 4)) == [3]
    assert rows(found, from_ms=NOW + 10) == []


def test_control_records_are_never_there_and_aborted_ones_only_for_who_reads_uncommitted() -> None:
    data = (
        encode(some_records(0, 2), attributes=0x10, producer_id=7)
        + encode(some_records(2, 2, first=2), attributes=0x10, producer_id=8)
        + encode(some_records(4, 1, first=4), attributes=0x30, producer_id=7)
    )
    assert offsets(rows(fetched(data, aborted=ABORTED_BY_7))) == [0, 1, 2, 3]
    assert offsets(rows(fetched(data, aborted=ABORTED_BY_7), committed=True)) == [2, 3]


def test_a_damaged_batch_is_an_error() -> None:
    data = bytearray(encode(some_records(0, 2)))
    data[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="offset 0: its CRC"):
        rows(fetched(bytes(data)))


@pytest.mark.parametrize("rest", [b"", b"\x0a", b"\x01\x0av", b"\x01\x01\x02", b"\x01\x01\x02\x01\x00"])
def test_a_record_that_is_cut_off_is_an_error(rest: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="offset 5: a record in it is cut off"):
        RecordColumns(*ORDERS, SCHEMA).add([(5, NOW, rest)], "CreateTime")


def test_a_header_without_a_value_and_one_whose_key_is_not_utf_8() -> None:
    columns = RecordColumns(*ORDERS, SCHEMA)
    columns.add([(0, NOW, b"\x01\x01\x04\x02\xff\x01\x02a\x02b")], "CreateTime")
    batch = columns.take()
    assert batch is not None
    assert batch.to_pylist()[0]["headers"] == [{"key": "\ufffd", "value": None}, {"key": "a", "value": b"b"}]


def test_a_batch_is_full_by_its_records_and_by_its_bytes() -> None:
    columns = RecordColumns(*ORDERS, SCHEMA)
    for number in range(MOST_RECORDS):
        assert not columns.full
        columns.add([(number, NOW, b"\x01\x01\x00")], "CreateTime")
    assert columns.full
    columns.take()
    assert not columns.full
    columns.add([(0, NOW, b"\x01\x80\x80\x80\x08" + bytes(8 << 20) + b"\x00")], "CreateTime")
    assert columns.full
