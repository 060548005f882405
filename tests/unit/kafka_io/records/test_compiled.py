"""What is compiled gives the same bytes, and the same errors, as the Python code beside it, whatever the records are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.kafka_io.records import compiled, record_rewrite, varint
from mirror_connect.kafka_io.records.compression import CodecError, compress
from mirror_connect.kafka_io.records.record_batch import (
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchReader,
    BatchView,
    CorruptBatchError,
    ProducerBatch,
    as_is,
)
from mirror_connect.kafka_io.records.record_rewrite import TooMuchToSplitError, merge, rewrite, split, unpack
from mirror_connect.kafka_io.records.single_records import merge_singles
from tests.fakes.encoded_batches import CODECS, NOW, encode, patched, some_records, with_records
from tests.fakes.rewritten_batches import DELETE_HORIZON, encoded_record

pytestmark = [
    pytest.mark.tool("cc"),
    pytest.mark.skipif(compiled.functions is None, reason="no C compiler was there at setup"),
]

EMPTY = encode(some_records(1, 1))
LAST = (1 << 63) - 1
PIECE = 5

codecs = some.sampled_from(list(CODECS.values()))
deltas = some.one_of(some.integers(-3, 200), some.integers(-(1 << 63), LAST))
rests = some.one_of(some.binary(max_size=12), some.integers(60, 20_000).map(bytes))


@some.composite
def views(draw: some.DrawFn) -> BatchView:
    """Batches that a broker may send: gaps, any times, numbers of any width, all attributes but that of markers."""
    offset, content, offsets = 0, b"", []
    for _ in range(draw(some.integers(1, 3 * PIECE))):
        offsets.append(offset)
        content += encoded_record(timestamp=draw(deltas), offset=offset, rest=draw(rests))
        offset += draw(some.one_of(some.just(1), some.integers(1, 100_000)))
    codec = draw(codecs)
    flags = (some.sampled_from([0, flag]) for flag in (LOG_APPEND_TIME, DELETE_HORIZON, TRANSACTIONAL))
    return view_of(
        compress(codec, content),
        count=len(offsets),
        base=draw(some.integers(0, 1 << 40)),
        last_delta=offsets[-1] + draw(some.sampled_from([0, 0, 7])),
        attributes=sum((draw(flag) for flag in flags), codec),
        base_timestamp=draw(some.one_of(some.just(NOW), some.integers(-(1 << 63), LAST))),
        max_timestamp=draw(some.one_of(some.just(NOW + 50), some.integers(-(1 << 63), LAST))),
        producer_id=draw(some.sampled_from([-1, 7])),
        leader_epoch=draw(some.integers(-1, 9)),
    )


@some.composite
def damaged_views(draw: some.DrawFn) -> BatchView:
    """The same with bytes or numbers of the header that a broken or malicious producer may have written."""
    view = draw(views())
    content = bytearray(record_rewrite.decompress(view.codec, view.records))
    for _ in range(draw(some.integers(0, 3))):
        at = draw(some.integers(0, len(content) - 1))
        content[at : at + draw(some.integers(0, 2))] = draw(some.binary(max_size=12))
        if not content:
            break
    count = draw(some.sampled_from([view.count, view.count, view.count - 1, view.count + 1, 0, -5, (1 << 31) - 1]))
    return view_of(
        bytes(content),
        count=count,
        base=draw(some.sampled_from([view.base_offset, view.base_offset, -9, LAST, -LAST - 1])),
        last_delta=view.last_offset - view.base_offset,
        attributes=view.attributes & LOG_APPEND_TIME,
        base_timestamp=view.base_timestamp,
        max_timestamp=view.max_timestamp,
    )


def view_of(content: bytes, **fields: int) -> BatchView:
    view = BatchReader(with_records(EMPTY, content, **fields)).next()
    assert view is not None
    return view


def plain(value: Any) -> Any:
    if isinstance(value, ProducerBatch):
        return {name: getattr(value, name) for name in ProducerBatch.__slots__}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def outcome(work: Callable[[], Iterable[Any]]) -> list[Any]:
    """All that comes of it, up to an error."""
    found: list[Any] = []
    try:
        found.extend(map(plain, work()))
    except (CorruptBatchError, TooMuchToSplitError, CodecError) as error:
        found.append((type(error), str(error)))
    return found


def same_both_ways(work: Callable[[], Iterable[Any]]) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_rewrite, "REWRITTEN_RECORDS", PIECE)
        fast = outcome(work)
        patch.setattr(compiled, "functions", None)
        assert fast == outcome(work)
    return fast


@given(some.one_of(views(), damaged_views()), some.integers(-1, 20))
@settings(max_examples=200)
def test_rewriting_and_unpacking_give_the_same(view: BatchView, behind: int) -> None:
    for wanted in (0, view.base_offset + behind, view.last_offset):
        same_both_ways(lambda at=wanted: rewrite(view, at))
        same_both_ways(lambda at=wanted: unpack(view, at))


@given(some.lists(some.one_of(views(), damaged_views()), min_size=2, max_size=4), codecs)
@settings(max_examples=100)
def test_merging_gives_the_same(found: list[BatchView], codec: int) -> None:
    batches = [as_is(view) for view in found]
    for each in batches:
        each.records, each.codec = compress(codec, record_rewrite.decompress(each.codec, each.records)), codec
    same_both_ways(lambda: merge(batches))


@given(some.one_of(views(), damaged_views()), some.floats(0.05, 1.2))
@settings(max_examples=100)
def test_splitting_gives_the_same(view: BatchView, part: float) -> None:
    whole = as_is(view)
    if whole.count > 0:
        same_both_ways(lambda: split(whole, max(70, int(whole.size * part))))


def test_splitting_a_merged_batch_keeps_the_offsets_of_its_records() -> None:
    group = [as_is(view_of(encoded_record() + encoded_record(offset=1), count=2, base=at)) for at in (3, 10, 12, 40)]
    whole = merge(group)[0]
    pieces = same_both_ways(lambda: split(whole, 70))
    assert [piece["first_offset"] for piece in pieces] == [3, 4, 10, 11, 12, 13, 40, 41]


@some.composite
def single_batches(draw: some.DrawFn) -> bytes:
    """Batches of one record, nearly all of them simple ones."""
    parts, offset = [], draw(some.integers(0, 1 << 40))
    for _ in range(draw(some.integers(1, 12))):
        now = draw(some.one_of(some.integers(NOW, NOW + 20_000), some.integers(-(1 << 63), LAST)))
        record = encoded_record(rest=draw(rests))
        odd = draw(some.sampled_from([{}] * 12 + [{"attributes": 3}, {"last_delta": 1}, {"count": 2}, {"magic": 1}]))
        if draw(some.integers(0, 30)) == 0:
            record = draw(some.sampled_from([record[:-1], b"", b"\x00" + record, b"\x82\x00" + record[1:]]))
        simple = {"base_timestamp": now, "max_timestamp": now, "count": 1, "last_delta": 0}
        batch = with_records(EMPTY, record, base=offset, **{**simple, **odd})
        if draw(some.integers(0, 30)) == 0:
            batch = batch[:-1] + bytes([batch[-1] ^ 1])
        parts.append(batch)
        offset += draw(some.sampled_from([1, 1, 1, 0, -1, 90]))
    return b"".join(parts)


@given(single_batches(), some.integers(0, 20), some.integers(100, 20_000), some.booleans())
@settings(max_examples=200)
def test_merging_single_records_gives_the_same(content: bytes, cut: int, limit: int, check: bool) -> None:
    for buffer in (content, content[: len(content) - cut]):
        readers: list[BatchReader] = []

        def work(data: bytes = buffer, readers: list[BatchReader] = readers) -> Iterable[Any]:
            readers.append(BatchReader(data))
            yield merge_singles(readers[-1], 0, limit, check_crcs=check)

        same_both_ways(work)
        assert readers[0].at == readers[1].at


def test_single_records_of_every_size_are_merged_the_same_way() -> None:
    rng = random.Random(1)
    batches = [
        patched(with_records(EMPTY, encoded_record(rest=rng.randbytes(size))), base=size, count=1, last_delta=0)
        for size in [*range(140), *range(7_980, 8_010)]
    ]
    for start in range(0, len(batches), 2):
        buffer = b"".join(batches[start:])
        same_both_ways(lambda data=buffer: [merge_singles(BatchReader(data), 0, 1 << 20, check_crcs=True)])


@pytest.mark.parametrize("size", [*range(40), 1_000, 4_099])
def test_the_checksum_is_that_of_the_brokers(size: int) -> None:
    record = encoded_record(rest=random.Random(size).randbytes(size))
    batch = with_records(EMPTY, record, count=1, last_delta=0)
    following = patched(batch, base=1)
    assert merge_singles(BatchReader(batch + following), 0, 1 << 20, check_crcs=True) is not None
    damaged = following[:17] + bytes([following[17] ^ 1]) + following[18:]
    assert merge_singles(BatchReader(batch + damaged), 0, 1 << 20, check_crcs=True) is None


def test_what_is_compiled_refuses_parts_that_are_not_there() -> None:
    functions = compiled.functions
    for at, end in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="no such part"):
            functions.repack(b"abc", at, end, 1, 0, None, 0, -1, 9, 0, False, 9, 9.0)
        with pytest.raises(ValueError, match="no such part"):
            functions.merge_singles(b"abc", at, end, 0, 9, 9, True)
    with pytest.raises(ValueError, match="offset"):
        functions.unpack(b"abc", 1, 0, None, -1, 9, 0)


def test_numbers_of_ten_bytes_are_read_and_longer_ones_are_not() -> None:
    ten, eleven = b"\xff" * 9 + b"\x7f", b"\xff" * 10 + b"\x00"
    for number, readable in ((ten, True), (eleven, False)):
        body = b"\x00" + number + b"\x00\x00"
        view = view_of(varint.encode(len(body)) + body, count=1, last_delta=0, base=0)
        (found,) = same_both_ways(lambda given=view: rewrite(given, 0))
        assert isinstance(found, dict) is readable
