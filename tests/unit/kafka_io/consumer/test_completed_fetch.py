"""Where the last whole batch of a fetched buffer ends, for every message format."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.kafka_io.consumer.completed_fetch import whole_batches
from tests.fakes.source_cluster import batch

LAST = (1 << 63) - 1
TWO = batch(100, 5) + batch(107, 3, size=200)


def legacy(magic: int, codec: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=10_000)
    for offset in range(4):
        builder.append(offset, timestamp=0, key=None, value=b"v" * 50)
    return bytes(builder.build())


@pytest.mark.parametrize(
    ("records", "size", "after"),
    [
        pytest.param(b"", 0, -1, id="nothing"),
        pytest.param(TWO, 300, 110, id="whole_batches_with_a_gap_between"),
        pytest.param(TWO[:-1], 100, 105, id="the_last_one_cut_off"),
        pytest.param(TWO[:105], 100, 105, id="the_next_header_cut_off"),
        pytest.param(TWO[:99], 0, -1, id="the_only_one_cut_off"),
        pytest.param(TWO[:8], 0, -1, id="less_than_a_header"),
        pytest.param(TWO + bytes(50), 300, 110, id="zeros_behind"),
    ],
)
def test_only_whole_batches_count(records: bytes, size: int, after: int) -> None:
    assert whole_batches(memoryview(records))[:2] == (size, after)


@pytest.mark.parametrize("magic", [0, 1])
def test_single_old_messages_count_one_by_one(magic: int) -> None:
    records = legacy(magic, 0)
    assert whole_batches(memoryview(records))[:3] == (len(records), 4, [(0, -1)])


def test_a_compressed_old_set_has_the_offset_of_its_last_message() -> None:
    records = bytearray(legacy(1, 1))
    struct.pack_into(">q", records, 0, 3)
    assert whole_batches(memoryview(records))[:3] == (len(records), 4, [(3, -1)])


@pytest.mark.parametrize(("offset", "count"), [(LAST - 1, 1), (LAST, 1), (LAST, 9)])
def test_the_next_offset_is_one_that_a_fetch_can_name(offset: int, count: int) -> None:
    assert whole_batches(memoryview(batch(offset, count))).next_offset == LAST


def test_each_batch_of_another_leader_epoch_is_named() -> None:
    batches = [(100, 3), (110, 3), (120, 5), (130, 6), (140, 6)]
    records = b"".join(batch(offset, 10, epoch=epoch) for offset, epoch in batches)
    assert whole_batches(memoryview(records)).epochs == [(100, 3), (120, 5), (130, 6)]


def test_old_messages_between_batches_have_no_epoch_and_end_that_of_those_before() -> None:
    records = batch(0, 5, epoch=3) + legacy(1, 0) + batch(9, 1, epoch=3)
    assert whole_batches(memoryview(records)).epochs == [(0, 3), (0, -1), (9, 3)]
