"""The single records of a fetch."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord, read_records
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from tests.fakes.encoded_batches import Plain, encode, with_records

RECORDS = [Plain(0, 7, b"k", b"v", ()), Plain(1, 8, None, b"", (("h", b"x"),)), Plain(2, 9, b"", None, ())]


def fetched(data: bytes, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> CompletedFetch:
    return CompletedFetch(TopicPartition("t", 0), memoryview(data), offset, 3, 3, 3, 0, aborted)


def test_keys_and_values_come_in_order_and_none_is_not_empty() -> None:
    assert list(read_records(fetched(encode(RECORDS)))) == [
        ReadRecord(0, 7, b"k", b"v"),
        ReadRecord(1, 8, None, b""),
        ReadRecord(2, 9, b"", None),
    ]


def test_control_batches_have_no_records() -> None:
    assert list(read_records(fetched(encode(RECORDS[:1], attributes=0x20) + encode(RECORDS[1:])))) == [
        ReadRecord(1, 8, None, b""),
        ReadRecord(2, 9, b"", None),
    ]


def test_records_below_the_fetch_offset_are_left_out() -> None:
    assert [record.offset for record in read_records(fetched(encode(RECORDS), 2))] == [2]


def test_a_record_that_is_cut_off_is_corrupt() -> None:
    # Attributes, timestamp, offset, key null, then a value of 5 bytes of which one is there.
    record = bytes([0, 0, 0, 1, 10]) + b"v"
    data = with_records(encode(RECORDS[:1]), bytes([2 * len(record)]) + record)
    with pytest.raises(CorruptBatchError, match="cut off"):
        list(read_records(fetched(data)))


def test_aborted_records_are_left_out_of_a_fetch_of_committed_ones() -> None:
    data = encode(RECORDS[:2], attributes=0x10, producer_id=7) + encode(RECORDS[2:], attributes=0x10, producer_id=8)
    assert [record.offset for record in read_records(fetched(data))] == [0, 1, 2]
    assert [record.offset for record in read_records(fetched(data, aborted=((7, 0),)))] == [2]
