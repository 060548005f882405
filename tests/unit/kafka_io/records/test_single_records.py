"""The merge for one-record batches gives the same as the general one, and leaves other batches alone."""

from __future__ import annotations

import random
import struct

import google_crc32c
import pytest

from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    SEQUENCES,
    TRANSACTIONAL,
    BatchReader,
    NewRecord,
    ProducerBatch,
    as_is,
    split_fetch,
    stamp,
)
from mirror_connect.kafka_io.records.single_records import MOST_RECORDS, merge_singles

NOW = 1_790_000_000_000
LIMIT = 1_000_000


def batch(offset: int, *values: bytes | None, timestamp: int = NOW) -> bytes:
    """A batch as in the log of the source's broker."""
    made = bytearray(stamp(build([NewRecord(b"k", value, timestamp) for value in values]), 7, 3, offset % SEQUENCES))
    struct.pack_into(">q", made, 0, offset)
    return bytes(made)


def generally(buffer: bytes) -> ProducerBatch:
    return merge([as_is(view) for view in split_fetch(buffer)])[0]


def with_attributes(made: bytes, attributes: int) -> bytes:
    changed = bytearray(made)
    struct.pack_into(">h", changed, 21, attributes)
    struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize("seed", range(20))
def test_the_short_way_gives_the_same_batch_as_the_general_one(seed: int) -> None:
    chance = random.Random(seed)
    offset, parts = chance.randrange(1 << 40), []
    for _ in range(chance.randrange(2, 300)):
        value = chance.choice([None, b"", chance.randbytes(chance.choice([1, 50, 63, 64, 70, 200, 7000]))])
        parts.append(
            batch(offset, value, timestamp=NOW + chance.choice([0, 1, -5, 100_000, chance.randrange(1 << 33)]))
        )
        offset += chance.choice([1, 1, 1, 1, 2, 1000])
    buffer = b"".join(parts)
    reader = BatchReader(buffer, whole=True)
    merged = merge_singles(reader, 0, len(buffer), check_crcs=True)
    assert vars_of(merged) == vars_of(generally(buffer))
    assert reader.ended


def vars_of(batch: ProducerBatch | None) -> dict[str, object]:
    assert batch is not None
    return {name: getattr(batch, name) for name in ProducerBatch.__slots__}


def test_one_batch_alone_is_left_where_it_is() -> None:
    reader = BatchReader(batch(5, b"v") + batch(6, b"v", b"w"))
    assert merge_singles(reader, 5, LIMIT, check_crcs=True) is None
    assert reader.at == 0


@pytest.mark.parametrize(
    "third",
    [
        pytest.param(batch(12, b"v", b"w"), id="two records"),
        pytest.param(batch(12, b"x" * 9_000), id="large"),
        pytest.param(with_attributes(batch(12, b"v"), TRANSACTIONAL), id="transactional"),
        pytest.param(with_attributes(batch(12, b"v"), CONTROL | TRANSACTIONAL), id="marker"),
        pytest.param(with_attributes(batch(12, b"v"), LOG_APPEND_TIME), id="the broker's time"),
        pytest.param(with_attributes(batch(12, b"v"), 1), id="compressed"),
        pytest.param(batch(12, b"v")[:-1] + b"\xff", id="a wrong byte"),
        pytest.param(batch(12, b"v")[:20] + b"\0" + batch(12, b"v")[21:], id="a wrong CRC"),
        pytest.param(batch(9, b"v"), id="had already"),
        pytest.param(batch(12, b"v")[:-3], id="cut off"),
        pytest.param(batch(12, b"v")[:16] + b"\x01" + batch(12, b"v")[17:], id="an older format"),
        pytest.param(batch(12, b"v")[:8] + b"\x80\0\0\0" + batch(12, b"v")[12:], id="a negative length"),
    ],
)
def test_batches_that_are_not_simple_are_left_to_the_general_merge(third: bytes) -> None:
    simple = batch(10, b"v") + batch(11, b"w")
    reader = BatchReader(simple + third)
    merged = merge_singles(reader, 10, LIMIT, check_crcs=True)
    assert merged is not None
    assert (merged.count, merged.last_offset, reader.at) == (2, 11, len(simple))


def test_a_batch_that_is_not_wanted_any_more_is_not_merged() -> None:
    reader = BatchReader(batch(10, b"v") + batch(11, b"w"))
    assert merge_singles(reader, 11, LIMIT, check_crcs=True) is None


def test_a_merged_batch_stays_below_the_limit() -> None:
    reader = BatchReader(b"".join(batch(n, b"x" * 100) for n in range(100)))
    merged = merge_singles(reader, 0, 1_000, check_crcs=True)
    assert merged is not None
    assert merged.size <= 1_000
    assert not reader.ended


def test_the_event_loop_is_given_back_after_so_many_records() -> None:
    buffer = b"".join(batch(n, b"") for n in range(MOST_RECORDS + 10))
    merged = merge_singles(BatchReader(buffer), 0, len(buffer), check_crcs=True)
    assert merged is not None
    assert merged.count == MOST_RECORDS


def test_without_check_crcs_a_wrong_crc_does_not_matter() -> None:
    damaged = bytearray(batch(0, b"v") + batch(1, b"w"))
    damaged[17] ^= 1
    assert merge_singles(BatchReader(damaged), 0, LIMIT, check_crcs=False) is not None


def test_source_offsets_of_a_thinned_topic_are_kept_with_the_batch() -> None:
    reader = BatchReader(batch(3, b"a") + batch(4, b"b") + batch(9, b"c"))
    merged = merge_singles(reader, 0, LIMIT, check_crcs=True)
    assert merged is not None
    assert merged.upstream_offsets == ((3, 2), (9, 1))
