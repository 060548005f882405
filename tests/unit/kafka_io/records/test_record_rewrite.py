"""Batches lose records and get other timestamps, in pieces; aiokafka reads them back."""

from __future__ import annotations

import random
import struct

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.kafka_io.records.record_batch import split_fetch, stamp
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from tests.fakes.encoded_batches import NOW, Plain, contents, encode, some_records, with_records
from tests.fakes.rewritten_batches import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    every_codec,
    offsets_of,
    only,
    records_of,
    rewritten,
    seeds,
)

pytestmark = pytest.mark.usefixtures("each_way")


@every_codec
@seeds
def test_a_compacted_batch_becomes_dense_and_remembers_its_offsets(codec: int, seed: int) -> None:
    records = some_records(seed, 30, first=500, gaps=True)
    producer_batch = rewritten(encode(records, codec, base=500, last=600), 500)
    assert contents(records_of(producer_batch)) == contents(records)
    assert offsets_of(producer_batch) == [record.offset for record in records]
    assert (producer_batch.first_offset, producer_batch.last_offset, producer_batch.codec) == (500, 600, codec)
    assert producer_batch.max_timestamp == max(record.timestamp for record in records)


@every_codec
@seeds
def test_records_below_the_wanted_offset_are_left_out(codec: int, seed: int) -> None:
    records = some_records(seed, 30, first=500, gaps=True)
    wanted = random.Random(seed).randint(501, records[-1].offset)
    producer_batch = rewritten(encode(records, codec, base=500), wanted)
    kept = [record for record in records if record.offset >= wanted]
    assert contents(records_of(producer_batch)) == contents(kept)
    assert offsets_of(producer_batch) == [record.offset for record in kept]
    assert (producer_batch.first_offset, producer_batch.last_offset) == (wanted, records[-1].offset)


def test_a_dense_batch_that_is_only_cut_needs_no_list_of_offsets() -> None:
    assert rewritten(encode(some_records(1, 30, first=500)), 510).upstream_offsets is None


def test_nothing_is_left_of_a_batch_whose_records_all_lie_below_the_wanted_offset() -> None:
    assert list(rewrite(only(encode(some_records(1, 5, first=10), last=30)), 20)) == []


def test_nothing_is_left_of_a_batch_that_compaction_has_emptied() -> None:
    assert list(rewrite(only(with_records(encode(some_records(1, 5)), b"", count=0)), 0)) == []


@every_codec
def test_a_log_append_time_batch_shows_the_brokers_time_on_every_record(codec: int) -> None:
    records = some_records(1, 20)
    producer_batch = rewritten(encode(records, codec, attributes=LOG_APPEND_TIME, max_timestamp=NOW + 5), 0)
    assert contents(records_of(producer_batch)) == contents([record._replace(timestamp=NOW + 5) for record in records])
    assert (producer_batch.base_timestamp, producer_batch.max_timestamp) == (NOW + 5, NOW + 5)


@every_codec
def test_records_of_one_time_get_the_brokers_time_and_keep_their_compressed_bytes(codec: int) -> None:
    records = [record._replace(timestamp=NOW) for record in some_records(1, 20, first=40)]
    content = encode(records, codec, attributes=LOG_APPEND_TIME, max_timestamp=NOW + 5)
    producer_batch = rewritten(content, 0)
    assert contents(records_of(producer_batch)) == contents([record._replace(timestamp=NOW + 5) for record in records])
    assert producer_batch.records == content[61:]
    assert (producer_batch.base_timestamp, producer_batch.max_timestamp) == (NOW + 5, NOW + 5)
    assert (producer_batch.first_offset, producer_batch.last_offset, producer_batch.upstream_offsets) == (40, 59, None)


@pytest.mark.parametrize(
    ("records", "wanted", "last"),
    [
        pytest.param(
            [record._replace(timestamp=NOW + (record.offset == 9)) for record in some_records(1, 20)], 0, None
        ),
        pytest.param([record._replace(timestamp=NOW) for record in some_records(1, 20)], 3, None),
        pytest.param([record._replace(timestamp=NOW) for record in some_records(1, 20)], 0, 30),
        pytest.param([record._replace(timestamp=NOW) for record in some_records(1, 20, gaps=True)], 0, None),
    ],
    ids=["one_of_another_time", "the_first_not_wanted", "a_gap_at_the_end", "gaps"],
)
def test_other_batches_with_the_brokers_time_are_written_again(
    records: list[Plain], wanted: int, last: int | None
) -> None:
    producer_batch = rewritten(encode(records, last=last, attributes=LOG_APPEND_TIME, max_timestamp=NOW + 5), wanted)
    kept = [record._replace(timestamp=NOW + 5) for record in records if record.offset >= wanted]
    assert contents(records_of(producer_batch)) == contents(kept)


@every_codec
def test_timestamps_count_from_the_delete_horizon_where_there_is_one(codec: int) -> None:
    records = some_records(1, 20)
    horizon = records[0].timestamp + 86_400_000
    producer_batch = rewritten(encode(records, codec, attributes=DELETE_HORIZON, base_timestamp=horizon), 0)
    shifted = [record._replace(timestamp=record.timestamp + 86_400_000) for record in records]
    assert contents(records_of(producer_batch)) == contents(shifted)
    assert not only(stamp(producer_batch, 1, 0, 0)).has_delete_horizon


def test_records_without_timestamp_stay_without() -> None:
    records = [record._replace(timestamp=-1) for record in some_records(1, 5)]
    assert contents(records_of(rewritten(encode(records, last=10), 0))) == contents(records)


@pytest.mark.parametrize("extreme", [(1 << 63) - 1, -(1 << 63)])
def test_timestamps_at_the_ends_of_64_bits_pass(extreme: int) -> None:
    batch = encode(some_records(1, 3), last=9, base_timestamp=extreme)
    producer_batch = rewritten(batch, 0)
    assert records_of(producer_batch)[0].timestamp == extreme


def old_messages(magic: int, codec: int, count: int = 5, first: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
    for number in range(count):
        key = None if number % 2 else b"k%d" % number
        value = None if number == 3 else b"value %d" % number * 20
        builder.append(first + number, timestamp=NOW + number, key=key, value=value)
    content = builder.build()
    if codec:
        # A broker gives the outer message the offset of its last one; a producer leaves that at 0.
        struct.pack_into(">q", content, 0, first + count - 1)
    return bytes(content)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_old_messages_become_records(magic: int, codec: int) -> None:
    producer_batch = [rewritten(bytes(view.data), 0) for view in split_fetch(old_messages(magic, codec))]
    records = [record for each in producer_batch for record in records_of(each)]
    assert [(record.key, record.value, record.headers) for record in records] == [
        (None if number % 2 else b"k%d" % number, None if number == 3 else b"value %d" % number * 20, ())
        for number in range(5)
    ]
    assert [record.timestamp for record in records] == [NOW + number if magic else -1 for number in range(5)]
    assert {each.codec for each in producer_batch} == {codec}
    assert [offset for each in producer_batch for offset in offsets_of(each)] == list(range(5))


def test_an_old_message_set_is_cut_at_the_wanted_offset() -> None:
    producer_batch = rewritten(old_messages(1, 1), 3)
    assert (producer_batch.count, producer_batch.first_offset, producer_batch.last_offset) == (2, 3, 4)


def test_an_old_message_set_with_nothing_wanted_gives_nothing() -> None:
    assert list(rewrite(only(old_messages(1, 1)), 5)) == []


def test_a_batch_of_many_records_is_re_encoded_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror_connect.kafka_io.records.record_rewrite.REWRITTEN_RECORDS", 10)
    records = some_records(1, 35, first=100, gaps=True)
    pieces = list(rewrite(only(encode(records, 3, base=100, last=90_000)), 0))
    assert [piece.count for piece in pieces] == [10, 10, 10, 5]
    assert [offset for piece in pieces for offset in offsets_of(piece)] == [record.offset for record in records]
    # Together they cover what the batch covered, without a hole.
    assert [piece.first_offset for piece in pieces[1:]] == [piece.last_offset + 1 for piece in pieces[:-1]]
    assert (pieces[0].first_offset, pieces[-1].last_offset) == (100, 90_000)


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_pieces_have_a_limit_of_bytes_that_only_a_single_record_exceeds(attributes: int) -> None:
    sizes = [10, 900, 2_000, 10, 10, 500, 480, 3_000, 1]
    records = [Plain(number, NOW, None, bytes(size), ()) for number, size in enumerate(sizes)]
    view = only(encode(records, 4, attributes=attributes, max_timestamp=NOW))
    pieces = list(rewrite(view, 0, most_bytes=1_000))
    assert [piece.count for piece in pieces] == [2, 1, 3, 1, 1, 1]
    assert [each for piece in pieces for each in contents(records_of(piece))] == contents(records)
