"""Matches that are taken over: the frame holds the new records, and any reader of LZ4 can read it."""

from __future__ import annotations

import random
from collections.abc import Callable

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.kafka_io.records import compiled
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.compression import LZ4, compress, decompress
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME, ProducerBatch
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from tests.fakes import lz4_frames
from tests.fakes.lz4_frames import BLOCK_CHECKSUM, CONTENT_CHECKSUM, CONTENT_SIZE, INDEPENDENT, frame
from tests.fakes.rewritten_batches import encoded_record
from tests.unit.kafka_io.records.test_compiled import pytestmark as needs_compiler
from tests.unit.kafka_io.records.test_compiled import view_of

pytestmark = needs_compiler

WORDS = [bytes(random.Random(0).choices(b"abcdefgh ", k=size)) for size in (3, 4, 5, 7, 9, 12, 20, 33, 64, 300)]


@some.composite
def changed_records(draw: some.DrawFn) -> tuple[bytes, bytes]:
    """Records, and the same with other numbers, some with other ends."""
    dice = random.Random(draw(some.integers(0, 1 << 30)))
    count, most = draw(some.integers(1, 60)), draw(some.sampled_from([1, 4, 40, 400]))
    noise = draw(some.sampled_from([0.0, 0.1, 0.9]))
    old, new = [], []
    stamps, offsets = draw(some.sampled_from([1, 40, 1 << 30])), draw(some.sampled_from([1, 2, 500]))
    flat = draw(some.integers(0, 1))
    ends = draw(some.sampled_from([0.0, 0.0, 0.5, 1.0]))
    for number in range(count):
        parts = (
            dice.randbytes(8) if dice.random() < noise else dice.choice(WORDS) for _ in range(dice.randint(1, most))
        )
        rest = b"".join(parts)
        old.append(
            encoded_record(timestamp=dice.randint(0, stamps), offset=number * dice.randint(1, offsets), rest=rest)
        )
        if dice.random() < ends:
            rest = rest[: -dice.randint(1, 9)] + dice.choice([b"", b"\x02header", dice.randbytes(40)])
        new.append(encoded_record(timestamp=dice.randint(0, stamps) * flat, offset=len(new), rest=rest))
    return b"".join(old), b"".join(new)


def recompressed(packed: bytes, old: bytes, new: bytes) -> bytes | None:
    assert compiled.functions is not None
    return compiled.functions.recompress([(packed, old)], new)


@given(
    changed_records(),
    some.sampled_from([40, 300, 5_000, 64 << 10]),
    some.sampled_from([0, CONTENT_SIZE, BLOCK_CHECKSUM | CONTENT_CHECKSUM]),
)
@settings(max_examples=400)
def test_a_frame_holds_the_new_records_and_is_as_lz4_wants_it(
    records: tuple[bytes, bytes], block: int, flags: int
) -> None:
    old, new = records
    found = recompressed(frame(old, block, INDEPENDENT | flags), old, new)
    if found is not None:
        assert b"".join(lz4_frames.blocks(found)) == new
        assert decompress(LZ4, found) == new


@given(some.lists(changed_records(), min_size=2, max_size=4), some.sampled_from([300, 64 << 10]))
def test_a_frame_of_several_holds_the_records_of_all(records: list[tuple[bytes, bytes]], block: int) -> None:
    assert compiled.functions is not None
    new = b"".join(after for _, after in records)
    found = compiled.functions.recompress([(frame(old, block), old) for old, _ in records], new)
    if found is not None:
        assert b"".join(lz4_frames.blocks(found)) == decompress(LZ4, found) == new


@pytest.mark.parametrize(
    ("count", "blocks"), [pytest.param(100, 6, id="long_ones"), pytest.param(5, 1, id="short_ones")]
)
def test_long_batches_keep_their_blocks_when_they_are_merged_and_short_ones_become_one(count: int, blocks: int) -> None:
    old = b"".join(encoded_record(timestamp=0, offset=at, rest=dice_text(1_000)) for at in range(count))
    ends = [(at * count, (at + 1) * count - 1) for at in range(3)]
    merged, used = merge([ProducerBatch(frame(old), count, first, last, LZ4, 7, 9) for first, last in ends])
    found = lz4_frames.blocks(merged.records)
    assert (used, merged.count, len(found)) == (3, 3 * count, blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "functions", None)
        again, _ = merge([ProducerBatch(frame(old), count, first, last, LZ4, 7, 9) for first, last in ends])
    assert b"".join(found) == decompress(LZ4, again.records)


def dice_text(size: int) -> bytes:
    return b"".join(random.Random(size).choices(WORDS, k=size))[:size]


def text_records(count: int, size: int, **numbers: int) -> tuple[bytes, bytes]:
    """Text, with the offsets of a compacted topic, and with those that a producer has to write."""
    dice = random.Random(size)
    old, new = [], []
    for number in range(count):
        rest = b" ".join(dice.choice(WORDS) for _ in range(size // 20))
        old.append(encoded_record(timestamp=number % 5, offset=2 * number, rest=rest))
        new.append(encoded_record(timestamp=numbers.get("stamp", number % 5), offset=number, rest=rest))
    return b"".join(old), b"".join(new)


@pytest.mark.parametrize("count", [1, 30, 150, 1_000])
@pytest.mark.parametrize("stamp", [0, 1 << 20])
@pytest.mark.parametrize("made", [frame, lambda data: frame(data, 256 << 10, code=5), lambda data: compress(LZ4, data)])
def test_gaps_and_times_of_a_broker_need_no_search(count: int, stamp: int, made: Callable[[bytes], bytes]) -> None:
    old, new = text_records(count, 1_000, stamp=stamp)
    packed = made(old)
    found = recompressed(packed, old, new)
    assert found is not None
    assert b"".join(lz4_frames.blocks(found)) == new
    assert len(found) < 1.02 * len(packed) + 10 * count


def test_rewriting_takes_the_matches_over() -> None:
    """A producer may have searched longer than is done here: what it found stays."""
    old, new = text_records(100, 1_000, stamp=0)
    packed = bytes(cramjam.lz4.compress_block(old, mode="high_compression", compression=12, store_size=False))
    best = lz4_frames.of_blocks([packed], 5)
    view = view_of(best, count=100, last_delta=198, attributes=LZ4, base_timestamp=0, max_timestamp=3)
    view.attributes |= LOG_APPEND_TIME
    (batch,) = rewrite(view, 0)
    assert decompress(LZ4, batch.records) == new
    assert batch.records == recompressed(best, old, new)
    assert len(batch.records) <= len(best) < len(compress(LZ4, new))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda packed: b"", id="nothing"),
        pytest.param(lambda packed: packed[:-1], id="cut_off"),
        pytest.param(lambda packed: packed + packed, id="two_frames"),
        pytest.param(lambda packed: b"\x05" + packed[1:], id="another_magic"),
        pytest.param(lambda packed: packed[:4] + b"\x40" + packed[5:], id="linked_blocks"),
        pytest.param(lambda packed: packed[:4] + b"\x61" + packed[5:], id="a_dictionary"),
        pytest.param(lambda packed: packed[:4] + b"\xa0" + packed[5:], id="another_version"),
        pytest.param(lambda packed: packed[:7] + bytes(4), id="no_block"),
    ],
)
def test_other_frames_are_left_to_the_caller(change: Callable[[bytes], bytes]) -> None:
    old, new = text_records(20, 500)
    assert recompressed(change(compress(LZ4, old)), old, new) is None


def test_other_records_are_left_to_the_caller() -> None:
    old, new = text_records(20, 500)
    packed = compress(LZ4, old)
    others = text_records(20, 700)[1]
    for changed in (new + b"\0", new[:-1], b"", new + new, others):
        assert recompressed(packed, old, changed) is None
    assert recompressed(packed, old[:-1], new) is None
    assert recompressed(packed, b"", new) is None


def test_new_headers_need_no_search_and_dropped_records_do() -> None:
    dice = random.Random(5)
    rests = [b" ".join(dice.choice(WORDS) for _ in range(50)) + b"\0" for _ in range(100)]
    added = [rest[:-1] + b"\x02\x0corigin\x0eprivate" for rest in rests]
    old, changed, fewer = (
        b"".join(encoded_record(timestamp=0, offset=number, rest=rest) for number, rest in enumerate(records))
        for records in (rests, added, rests[1:])
    )
    packed = compress(LZ4, old)
    for before, after in ((old, changed), (changed, old)):
        found = recompressed(compress(LZ4, before), before, after)
        assert found is not None
        assert decompress(LZ4, found) == b"".join(lz4_frames.blocks(found)) == after
    assert recompressed(packed, old, fewer) is None


def test_a_change_that_keeps_a_records_size_is_not_undone() -> None:
    """A transformation masks a number: the old digits are literals of the frame."""
    rests = [dice_text(500) + b" 4111-1111-%04d " % number + dice_text(400) for number in range(60)]
    old, new = (
        b"".join(encoded_record(timestamp=0, offset=number, rest=rest) for number, rest in enumerate(each))
        for each in (rests, [rest.replace(b"4111-1111", b"****-****") for rest in rests])
    )
    found = recompressed(frame(old), old, new)
    assert found is not None
    assert decompress(LZ4, found) == new


@given(changed_records(), changed_records(), some.sampled_from([40, 300, 64 << 10]))
def test_a_frame_of_other_records_does_no_harm(
    records: tuple[bytes, bytes], others: tuple[bytes, bytes], block: int
) -> None:
    for packed in (frame(others[0], block), frame(records[0] + others[0], block), frame(records[0][:-9], block)):
        recompressed(packed, *records)


@given(changed_records(), some.integers(0, 1 << 30))
@settings(max_examples=400)
def test_damaged_bytes_do_no_harm(records: tuple[bytes, bytes], seed: int) -> None:
    """Nobody sends such a frame: it was decompressed before. Run it with AddressSanitizer after changes of _recompress.c."""
    old, new = records
    dice = random.Random(seed)
    parts = [bytearray(frame(old, dice.choice([40, 300, 64 << 10]))), bytearray(old), bytearray(new)]
    for part in filter(None, dice.sample(parts, dice.randint(1, 3))):
        for _ in range(dice.randint(1, 4)):
            part[dice.randrange(len(part))] = dice.choice([0, 0xFF, 0xF0, 0x0F, dice.randrange(256)])
    recompressed(bytes(parts[0]), bytes(parts[1]), bytes(parts[2]))
