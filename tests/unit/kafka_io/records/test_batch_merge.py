"""Small batches are merged into one; aiokafka reads it back."""

from __future__ import annotations

import random

import pytest

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.batch_merge import MERGED_DECOMPRESSED, merge
from mirror_connect.kafka_io.records.compression import decompress
from mirror_connect.kafka_io.records.record_batch import NewRecord, as_is
from tests.fakes.encoded_batches import NOW, Plain, contents, encode, some_records
from tests.fakes.rewritten_batches import every_codec, offsets_of, only, records_of, rewritten, seeds

pytestmark = pytest.mark.usefixtures("each_way")


@every_codec
@seeds
def test_merged_batches_hold_every_record_in_order(codec: int, seed: int) -> None:
    rng = random.Random(seed)
    group, all_records, offset = [], [], 100
    for number in range(40):
        records = some_records(seed * 100 + number, rng.randint(1, 4), first=offset)
        group.append(as_is(only(encode(records, codec))))
        all_records += records
        offset = records[-1].offset + 1
    merged, used = merge(group)
    assert used == len(group)
    assert contents(records_of(merged)) == contents(all_records)
    assert (merged.first_offset, merged.last_offset, merged.upstream_offsets) == (100, offset - 1, None)
    assert merged.max_timestamp == max(record.timestamp for record in all_records)


def test_merging_a_single_batch_returns_that_batch() -> None:
    producer_batch = as_is(only(encode(some_records(1, 2))))
    assert merge([producer_batch]) == (producer_batch, 1)


def test_more_records_than_ready_made_numbers_can_be_merged() -> None:
    count = varint.SMALL_LIMIT + 100
    group = [build([NewRecord(None, b"%d" % number, NOW + number * 60_000)]) for number in range(count)]
    assert [record.value for record in records_of(merge(group)[0])] == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_batches_that_decompress_to_much_are_merged_up_to_a_limit(codec: int) -> None:
    group = [as_is(only(encode([Plain(n, NOW, None, bytes(900_000), ())], codec))) for n in range(40)]
    merged, used = merge(group)
    assert 1 < used < 40
    assert sum(len(decompress(codec, each.records)) for each in group[:used]) <= 2 * MERGED_DECOMPRESSED
    assert (merged.first_offset, merged.last_offset, merged.count) == (0, used - 1, used)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_small_batch_that_decompresses_to_much_goes_as_it_is(codec: int) -> None:
    large = as_is(only(encode([Plain(0, NOW, None, bytes(MERGED_DECOMPRESSED), ())], codec)))
    small = as_is(only(encode(some_records(1, 3, first=1), codec)))
    assert merge([large, small]) == (large, 1)
    following = as_is(only(encode([Plain(4, NOW, None, bytes(MERGED_DECOMPRESSED), ())], codec)))
    assert merge([small, small, following])[1] == 2


def test_merged_batches_remember_the_offsets_between_them() -> None:
    first = rewritten(encode(some_records(1, 5, first=10, gaps=True), last=40), 10)
    second = as_is(only(encode(some_records(2, 3, first=50))))
    merged, _ = merge([first, second])
    assert offsets_of(merged) == [*offsets_of(first), 50, 51, 52]
    assert (merged.first_offset, merged.last_offset) == (first.first_offset, 52)
