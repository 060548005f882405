"""What is compiled gives the same bytes, and the same errors, as the Python code beside it, whatever the records are."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.kafka_io.records import batch_split, compiled, record_rewrite, varint
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.batch_split import TooMuchToSplitError, split
from mirror_connect.kafka_io.records.compression import LZ4, CodecError, compress, decompress
from mirror_connect.kafka_io.records.record_batch import (
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchReader,
    BatchView,
    CorruptBatchError,
    ProducerBatch,
    as_is,
    needs_rewrite,
    split_fetch,
    stamp,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.kafka_io.records.unpacked_records import unpack
from tests.fakes.encoded_batches import CODECS, NOW, encode, some_records, with_records
from tests.fakes.rewritten_batches import DELETE_HORIZON, encoded_record

HEADERS = Path(sysconfig.get_path("include"), "Python.h")

pytestmark = [
    pytest.mark.tool("cc", *([] if HEADERS.exists() else ["python3-dev"])),
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
    steps = draw(some.sampled_from([some.just(1), some.one_of(some.just(1), some.integers(1, 100_000))]))
    stamps = draw(some.one_of(some.just(deltas), deltas.map(some.just)))
    for _ in range(draw(some.integers(1, 3 * PIECE))):
        offsets.append(offset)
        content += encoded_record(timestamp=draw(stamps), offset=offset, rest=draw(rests))
        offset += draw(steps)
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
    content = bytearray(decompress(view.codec, view.records))
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
        # LZ4's matches may be taken over or searched anew: see test_recompress.py.
        records = decompress(value.codec, value.records) if value.codec == LZ4 else value.records
        return {name: getattr(value, name) for name in ProducerBatch.__slots__} | {"records": records}
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
        for module in (record_rewrite, batch_split):
            patch.setattr(module, "REWRITTEN_RECORDS", PIECE)
        fast = outcome(work)
        patch.setattr(compiled, "functions", None)
        assert fast == outcome(work)
    return fast


@given(some.one_of(views(), damaged_views()), some.integers(-1, 20), some.integers(1, 500))
@settings(max_examples=200)
def test_rewriting_and_unpacking_give_the_same(view: BatchView, behind: int, most_bytes: int) -> None:
    for wanted in (0, view.base_offset + behind, view.last_offset):
        same_both_ways(lambda at=wanted: rewrite(view, at))
        same_both_ways(lambda at=wanted: rewrite(view, at, most_bytes=most_bytes))
        same_both_ways(lambda at=wanted: unpack(view, at))


@given(some.lists(some.one_of(views(), damaged_views()), min_size=2, max_size=4), codecs)
@settings(max_examples=100)
def test_merging_gives_the_same(found: list[BatchView], codec: int) -> None:
    batches = [as_is(view) for view in found]
    for each in batches:
        each.records, each.codec = compress(codec, decompress(each.codec, each.records)), codec
    same_both_ways(lambda: merge(batches))


@given(some.one_of(views(), damaged_views()), some.floats(0.05, 1.2))
@settings(max_examples=100)
def test_splitting_gives_the_same(view: BatchView, part: float) -> None:
    whole = as_is(view)
    if whole.count > 0:
        same_both_ways(lambda: split(whole, max(70, int(whole.size * part))))


@given(some.one_of(views(), damaged_views()), some.integers(-1, 3), some.booleans(), some.booleans(), some.data())
@settings(max_examples=300)
def test_a_batch_is_copied_as_it_is_by_the_same_rules_and_with_the_same_bytes(
    view: BatchView, behind: int, check: bool, append_time: bool, data: some.DataObject
) -> None:
    content = bytearray(view.data)
    if data.draw(some.booleans()):
        content[data.draw(some.integers(0, len(content) - 1))] ^= data.draw(some.integers(1, 255))
    before = data.draw(some.binary(max_size=70))
    reader = BatchReader(before + content)
    reader.at, wanted = len(before), min(max(0, view.base_offset + behind), LAST)
    taken = compiled.take(reader, wanted, check_crcs=check, append_time=append_time)
    expected = by_python(bytes(content), wanted, check=check, append_time=append_time)
    assert (taken is None) == (expected is None)
    assert reader.at == len(before) + (0 if taken is None else len(content))
    if taken is None or expected is None:
        return
    producer = data.draw(
        some.tuples(some.integers(-1, LAST), some.integers(-1, 32_767), some.integers(-1, (1 << 31) - 1))
    )
    transactional = data.draw(some.booleans())
    assert stamp(taken, *producer, transactional=transactional) == stamp(
        expected, *producer, transactional=transactional
    )
    assert plain(taken) | {"records_crc": None} == plain(expected)


def by_python(content: bytes, wanted: int, *, check: bool, append_time: bool) -> ProducerBatch | None:
    try:
        view = BatchReader(content, whole=True).next()
        assert view is not None
        verify(view, check_crc=check)
    except CorruptBatchError:
        return None
    odd = view.is_control or view.data[21] or view.attributes & 0x80
    if odd or view.size != len(content) or needs_rewrite(view, wanted, append_time=append_time):
        return None
    return as_is(view)


@pytest.mark.parametrize("size", [1, 7, 8, 255, 767, 768, 769, 1_535, 12_287, 12_288, 12_289, 99_991, 1_000_003])
def test_the_checksum_of_records_of_any_length_is_that_of_the_brokers(size: int) -> None:
    content = with_records(EMPTY, random.Random(size).randbytes(size))
    taken = compiled.take(BatchReader(content), 0, check_crcs=True, append_time=False)
    assert taken is not None
    assert stamp(taken, 7, 1, 2) == stamp(as_is(BatchView(memoryview(content))), 7, 1, 2)
    for at in {0, size // 2, size - 1}:
        damaged = bytearray(content)
        damaged[61 + at] ^= 0x10
        assert compiled.take(BatchReader(damaged), 0, check_crcs=True, append_time=False) is None


@pytest.mark.parametrize("left", [0, 16, 60, 61, 80])
def test_a_batch_that_is_cut_off_is_not_taken(left: int) -> None:
    reader = BatchReader(small(40)[:left])
    assert compiled.take(reader, 0, check_crcs=True, append_time=False) is None
    assert reader.at == 0


def test_splitting_a_merged_batch_keeps_the_offsets_of_its_records() -> None:
    group = [as_is(view_of(encoded_record() + encoded_record(offset=1), count=2, base=at)) for at in (3, 10, 12, 40)]
    whole = merge(group)[0]
    pieces = same_both_ways(lambda: split(whole, 70))
    assert [piece["first_offset"] for piece in pieces] == [3, 4, 10, 11, 12, 13, 40, 41]


@some.composite
def plain_batches(draw: some.DrawFn) -> list[bytes]:
    """Uncompressed batches one after the other, nearly all of them small and dense."""
    parts, offset = [], draw(some.integers(0, 1 << 40))
    for _ in range(draw(some.integers(1, 12))):
        count = draw(some.sampled_from([1, 1, 1, 2, 30]))
        records = [encoded_record(timestamp=draw(deltas), offset=n, rest=draw(rests)) for n in range(count)]
        now = draw(some.one_of(some.integers(NOW, NOW + 20_000), some.integers(-(1 << 63), LAST)))
        fields = {"base_timestamp": now, "max_timestamp": now + draw(some.sampled_from([0, 0, -1])) * (now > 0)}
        odd = (
            {"attributes": 3},
            {"attributes": LOG_APPEND_TIME},
            {"last_delta": count},
            {"count": count + 1},
            {"magic": 1},
        )
        fields |= {"count": count, "last_delta": count - 1, **draw(some.sampled_from([{}] * 25 + list(odd)))}
        if draw(some.integers(0, 20)) == 0:
            records.append(draw(some.sampled_from([b"", b"\x00", b"\x82\x00", records[0]])))
        batch = with_records(EMPTY, b"".join(records), base=offset, **fields)
        if draw(some.integers(0, 20)) == 0:
            batch = batch[:-1] + bytes([batch[-1] ^ 1])
        parts.append(batch)
        offset += draw(some.sampled_from([count, count, count, 1, -1, 90]))
    return parts


@given(plain_batches(), some.integers(0, 20), some.integers(61, 40_000), some.integers(61, 20_000), some.booleans())
@settings(max_examples=200)
def test_batches_merged_where_they_lie_are_those_merged_one_by_one(
    parts: list[bytes], cut: int, limit: int, largest: int, check: bool
) -> None:
    content = b"".join(parts)
    reader = BatchReader(content[: len(content) - cut])
    wanted = int.from_bytes(parts[0][:8], "big")
    found = compiled.merge_plain(reader, wanted, limit, largest, check_crcs=check)
    if found is None:
        assert reader.at == 0
        return
    merged, batches = found
    views = list(split_fetch(b"".join(parts[:batches])))
    assert reader.at == sum(view.size for view in views)
    assert max(view.size for view in views) <= largest
    assert merged.size <= limit
    assert merged.first_offset == wanted
    for view in views:
        verify(view, check_crc=check)
        assert not needs_rewrite(view, wanted)
        wanted = view.last_offset + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "functions", None)
        assert plain(merge([as_is(view) for view in views])[0]) == plain(merged)


def small(*sizes: int, base: int = 0, **fields: int) -> bytes:
    records = b"".join(encoded_record(offset=number, rest=bytes(size)) for number, size in enumerate(sizes))
    return with_records(EMPTY, records, **{"count": len(sizes), "last_delta": len(sizes) - 1, "base": base, **fields})


STOPS = {
    "compressed": small(5, base=4, attributes=3),
    "of the broker's time": small(5, base=4, attributes=LOG_APPEND_TIME),
    "of a transaction": small(5, base=4, attributes=TRANSACTIONAL),
    "with gaps": small(5, base=4, last_delta=3),
    "copied already": small(5, base=3),
    "large": small(900, base=4),
    "with another CRC": small(5, base=4)[:-1] + b"\x01",
    "with more records than it has": with_records(EMPTY, encoded_record(), base=4, count=2, last_delta=1),
    "with bytes behind its records": with_records(EMPTY, encoded_record() + b"\x00", base=4, count=1, last_delta=0),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS.keys())
def test_the_merge_of_batches_ends_before_one_that_is_not_plain(stop: bytes) -> None:
    before = small(3, 4) + small(5, 6, base=2)
    reader = BatchReader(before + stop + small(1, base=9))
    found = compiled.merge_plain(reader, 0, 1 << 20, 800, check_crcs=True)
    assert found is not None
    assert (found[0].count, found[0].last_offset, found[1], reader.at) == (4, 3, 2, len(before))
    alone = BatchReader(small(3, base=3) + stop)
    assert compiled.merge_plain(alone, 0, 1 << 20, 800, check_crcs=True) is None
    assert alone.at == 0


@pytest.mark.parametrize("stop", [3, TRANSACTIONAL, DELETE_HORIZON])
def test_batches_of_the_brokers_time_are_merged_for_a_target_that_sets_the_times_itself(stop: int) -> None:
    by_broker = {"attributes": LOG_APPEND_TIME, "max_timestamp": NOW + 5}
    parts = [small(3, 4, **by_broker), small(5, base=2, **by_broker), small(6, base=3)]
    behind = small(1, base=4, attributes=LOG_APPEND_TIME | stop)
    reader = BatchReader(b"".join(parts) + behind)
    found = compiled.merge_plain(reader, 0, 1 << 20, 800, check_crcs=True, append_time=True)
    assert found is not None
    assert (found[0].count, found[0].append_time, found[1]) == (4, NOW + 5, 3)
    assert reader.at == len(b"".join(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "functions", None)
        views = list(split_fetch(b"".join(parts)))
        assert plain(merge([as_is(view) for view in views])[0]) == plain(found[0])


def test_a_batch_that_is_cut_off_is_not_merged() -> None:
    whole = small(5) + small(5, base=1)
    assert compiled.merge_plain(BatchReader(whole), 0, 1 << 20, 800, check_crcs=True) is not None
    assert compiled.merge_plain(BatchReader(whole[:-1]), 0, 1 << 20, 800, check_crcs=True) is None


def test_a_merged_batch_has_no_more_records_than_the_event_loop_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PLAIN_RECORDS", 5)
    reader = BatchReader(b"".join(small(1, 1, base=base) for base in range(0, 20, 2)))
    found = compiled.merge_plain(reader, 0, 1 << 20, 800, check_crcs=True)
    assert found is not None
    assert (found[0].count, found[1]) == (4, 2)


@pytest.mark.parametrize("size", [*range(1, 40), 1_000, 4_099])
def test_the_checksum_is_that_of_the_brokers(size: int) -> None:
    record = encoded_record(rest=random.Random(size).randbytes(size))
    first, second = (with_records(EMPTY, record, base=base, count=1, last_delta=0) for base in (0, 1))
    assert compiled.merge_plain(BatchReader(first + second), 0, 1 << 20, 1 << 20, check_crcs=True) is not None
    damaged = second[:17] + bytes([second[17] ^ 1]) + second[18:]
    assert compiled.merge_plain(BatchReader(first + damaged), 0, 1 << 20, 1 << 20, check_crcs=True) is None
    assert compiled.merge_plain(BatchReader(first + damaged), 0, 1 << 20, 1 << 20, check_crcs=False) is not None


def test_what_is_compiled_refuses_parts_that_are_not_there() -> None:
    functions = compiled.functions
    for at, end in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(ValueError, match="no such part"):
            functions.repack(b"abc", at, end, 1, 0, None, 0, -1, 9, 0, False, 9, 9.0)
    for at in (-1, 4):
        with pytest.raises(ValueError, match="no such part"):
            functions.merge_plain(b"abc", at, 100, 0, 9, 9, True)
        with pytest.raises(ValueError, match="no such part"):
            functions.take(b"abc", at, 0, True, False)
    with pytest.raises(ValueError, match="no such size"):
        functions.header(-1, 0, 0, 1, 0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="offset"):
        functions.unpack(b"abc", 1, 0, None, -1, 9, 0)


def test_numbers_of_ten_bytes_are_read_and_longer_ones_are_not() -> None:
    ten, eleven = b"\xff" * 9 + b"\x7f", b"\xff" * 10 + b"\x00"
    for number, readable in ((ten, True), (eleven, False)):
        body = b"\x00" + number + b"\x00\x00"
        view = view_of(varint.encode(len(body)) + body, count=1, last_delta=0, base=0)
        (found,) = same_both_ways(lambda given=view: rewrite(given, 0))
        assert isinstance(found, dict) is readable
