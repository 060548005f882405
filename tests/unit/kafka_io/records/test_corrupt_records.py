"""Records that contradict their header, under a right CRC, raise CorruptBatchError and nothing else."""

from __future__ import annotations

import random

import pytest

from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.batch_split import SPLIT_RECORDS, split
from mirror_connect.kafka_io.records.compression import compress
from mirror_connect.kafka_io.records.record_batch import (
    CorruptBatchError,
    NewRecord,
    as_is,
)
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from tests.fakes.encoded_batches import NOW, encode, some_records, with_records
from tests.fakes.rewritten_batches import encoded_record, every_codec, only, seeds

pytestmark = pytest.mark.usefixtures("each_way")

CONTRADICTIONS = [
    pytest.param(encoded_record(length=-1), {}, id="negative_length"),
    pytest.param(encoded_record(length=(1 << 31) - 1), {}, id="length_of_two_gigabytes"),
    pytest.param(encoded_record(length=1), {}, id="length_shorter_than_its_numbers"),
    pytest.param(encoded_record(length=4, timestamp=1 << 60), {}, id="length_that_ends_within_its_numbers"),
    pytest.param(b"\xff" * 30, {}, id="number_without_end"),
    pytest.param(b"", {}, id="no_records_at_all"),
    pytest.param(encoded_record()[:-1], {}, id="record_cut_off"),
    pytest.param(encoded_record() + b"\x00", {}, id="bytes_behind_the_last"),
    pytest.param(encoded_record(), {"count": (1 << 31) - 1, "last_delta": (1 << 31) - 1}, id="two_billion_records"),
    pytest.param(b"not compressed", {"attributes": 1}, id="not_gzip"),
    pytest.param(b"not compressed", {"attributes": 2}, id="not_snappy"),
    pytest.param(b"not compressed", {"attributes": 3}, id="not_lz4"),
    pytest.param(b"not compressed", {"attributes": 4}, id="not_zstd"),
]

ONE: dict[str, int] = {"count": 1, "last_delta": 0, "base": 7}


@pytest.mark.parametrize(("content", "fields"), CONTRADICTIONS)
def test_contradicting_records_are_corruption_when_rewritten(content: bytes, fields: dict[str, int]) -> None:
    view = only(with_records(encode(some_records(1, 2)), content, **{**ONE, **fields}))
    with pytest.raises(CorruptBatchError) as caught:
        list(rewrite(view, 0))
    assert caught.value.offset == 7


@pytest.mark.parametrize(("content", "fields"), CONTRADICTIONS)
def test_contradicting_records_are_corruption_when_merged_or_split(content: bytes, fields: dict[str, int]) -> None:
    producer_batch = as_is(only(with_records(encode(some_records(1, 2)), content, **{**ONE, **fields})))
    readable = build([NewRecord(None, b"v", NOW)])
    readable.codec, readable.records = producer_batch.codec, compress(producer_batch.codec, readable.records)
    with pytest.raises(CorruptBatchError, match="offset 7"):
        merge([readable, producer_batch])
    if producer_batch.count <= SPLIT_RECORDS:
        with pytest.raises(CorruptBatchError, match="offset 7"):
            split(producer_batch, 1 << 20)


@pytest.mark.parametrize("content", [b"", b"\xff"], ids=["nothing", "half_a_number"])
def test_a_batch_that_ends_too_early_is_called_cut_off_and_no_index(content: bytes) -> None:
    producer_batch = as_is(only(with_records(encode(some_records(1, 2)), content, **ONE)))
    for act in (lambda: merge([producer_batch, producer_batch]), lambda: split(producer_batch, 1 << 20)):
        with pytest.raises(CorruptBatchError, match="a record in it is cut off"):
            act()


@pytest.mark.parametrize("offset", [-1, 1, 1 << 40])
def test_a_record_outside_of_its_batch_is_corruption(offset: int) -> None:
    view = only(with_records(encode(some_records(1, 2)), encoded_record(offset=offset), **ONE))
    with pytest.raises(CorruptBatchError, match=f"has offset {7 + offset}"):
        list(rewrite(view, 0))


def test_records_whose_offsets_go_back_are_corruption() -> None:
    view = only(
        with_records(
            encode(some_records(1, 2)), encoded_record(offset=1) + encoded_record(offset=0), count=2, last_delta=1
        )
    )
    with pytest.raises(CorruptBatchError):
        list(rewrite(view, 0))


@every_codec
@seeds
def test_records_damaged_at_random_give_a_batch_or_corruption_and_nothing_else(codec: int, seed: int) -> None:
    rng = random.Random(seed)
    batch = encode(some_records(seed, 10), codec, last=40)
    outcomes = set()
    for _ in range(150):
        content = bytearray(batch[61:])
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        view = only(with_records(batch, bytes(content)))
        try:
            outcomes.add("batch" if list(rewrite(view, 3)) else "nothing")
        except CorruptBatchError:
            outcomes.add("corrupt")
    assert "corrupt" in outcomes


def test_a_bomb_is_corruption_and_takes_no_memory() -> None:
    bomb = compress(4, bytes(300 << 20))
    view = only(with_records(encode(some_records(1, 2)), bomb, attributes=4, count=1, last_delta=5))
    with pytest.raises(CorruptBatchError, match="decompress"):
        list(rewrite(view, 0))
