"""Batches that can't be copied as they are, or shouldn't: thinned, cut, re-dated, merged, split, built.

Keys, values and headers are never looked into: of a record `length, attributes, timestamp delta, offset delta, rest` only
the numbers are written anew, so a record costs two to three microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mirror_connect.kafka_io.records import legacy_records, varint
from mirror_connect.kafka_io.records.compression import NONE, CodecError, UnfoldsTooMuchError, compress, decompress
from mirror_connect.kafka_io.records.record_batch import (
    CODEC_MASK,
    BatchView,
    CorruptBatchError,
    NewRecord,
    Outgoing,
)

# (source offset, timestamp, what follows the two deltas)
Record = tuple[int, int, bytes]
_NO_ATTRIBUTES: Final = b"\x00"
_LEGACY_ATTRIBUTES_AT: Final = 17
_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1
# Readers have limits of their own for what a batch unfolds to, and here it is memory: twice this at most.
MERGED_UNFOLDED: Final = 8 << 20
# Some hundred bytes of objects for each record; a batch may hold millions that are nearly empty.
REWRITTEN_RECORDS: Final = 50_000
# A batch is split in the event loop, at some microseconds a record: what has more records, or unfolds to more bytes, isn't.
SPLIT_RECORDS: Final = 200_000
SPLIT_UNFOLDED: Final = 64 << 20
# Of a record as bytes, besides what follows its two deltas: length, attributes and the deltas themselves, at the least.
RECORD_OVERHEAD: Final = 4
# How full the pieces of a split batch are meant to be: what compression leaves of them is only known afterwards.
FILLED: Final = 0.95


class TooMuchToSplitError(Exception):
    """The batch can't be split within a bounded time. The text says why, in half a sentence."""


def rewrite(view: BatchView, from_offset: int) -> Iterator[Outgoing]:
    """The batch without records below `from_offset`, dense, with the timestamps that a consumer sees; nothing if empty.

    In pieces of REWRITTEN_RECORDS, each made when it is asked for: one with more records is checked piece by piece, too.
    After a delete horizon was written over the base timestamp the records' deltas count from it (KIP-534), so it serves as
    any other. CorruptBatchError for records that contradict the header.
    """
    if view.magic >= 2 and view.count == 0:  # compaction keeps the header of a producer's last batch
        return
    records, codec = _unpacked(view)
    begins = None if view.magic < 2 else max(view.base_offset, from_offset)
    piece: list[Record] = []
    for record in _in_order(records, view, from_offset):
        if len(piece) == REWRITTEN_RECORDS:
            last = piece[-1][0]
            yield _pack(piece, codec, piece[0][0] if begins is None else begins, last)
            piece, begins = [], last + 1
        piece.append(record)
    if piece:
        yield _pack(piece, codec, piece[0][0] if begins is None else begins, view.last_offset)


def unpack(view: BatchView, from_offset: int) -> tuple[list[Record], int]:
    """The records from `from_offset` on with the timestamps that a consumer sees, and the codec they came in."""
    records, codec = _unpacked(view)
    return list(_in_order(records, view, from_offset)), codec


def _unpacked(view: BatchView) -> tuple[Iterable[Record], int]:
    if view.magic < 2:
        return _legacy_records(view)
    records = _records(view.records, view.codec, view.base_offset, view.base_timestamp, view.count)
    if view.log_append_time:
        return ((offset, view.max_timestamp, rest) for offset, _, rest in records), view.codec
    return records, view.codec


def _in_order(records: Iterable[Record], view: BatchView, from_offset: int) -> Iterator[Record]:
    # Where a legacy message set begins only its records tell.
    previous = -1 if view.magic < 2 else view.base_offset - 1
    for record in records:
        offset = record[0]
        if not previous < offset <= view.last_offset:
            raise CorruptBatchError(view.base_offset, f"a record in it has offset {offset}")
        previous = offset
        if offset >= from_offset:
            yield record


def merge(outgoings: Sequence[Outgoing]) -> tuple[Outgoing, int]:
    """Neighbours of one partition and codec as one batch, and how many: until they unfold to MERGED_UNFOLDED bytes.

    One that unfolds to more is left as it is. CorruptBatchError names the first one whose records can't be read.
    """
    unfolded = _unfolded(outgoings) if len(outgoings) > 1 else []
    used = len(unfolded)
    first = outgoings[0]
    if used <= 1:
        return first, 1
    base = first.base_timestamp
    small, small_limit = varint.SMALL, varint.SMALL_LIMIT
    parts: list[bytes] = []
    runs: list[tuple[int, int]] = []
    count = 0
    try:
        for each, data in zip(outgoings, unfolded, strict=False):
            shift = each.base_timestamp - base
            at, end = 0, len(data)
            for _ in range(each.count):
                # varint.decode, written out: this is the loop that single-record batches live in.
                length, at = varint.decode(data, at)
                following = at + length
                if length < 4 or following > end:
                    raise CorruptBatchError(each.first_offset, "a record in it has an impossible length")
                delta = data[at + 1]
                if delta < 0x80:
                    delta = (delta >> 1) ^ -(delta & 1)
                    at += 2
                else:
                    delta, at = varint.decode(data, at + 1)
                at = at + 1 if data[at] < 0x80 else varint.decode(data, at)[1]
                if at > following:
                    raise CorruptBatchError(each.first_offset, "a record in it has an impossible length")
                delta += shift
                stamp = small[delta] if 0 <= delta < small_limit else varint.encode(delta)
                number = small[count] if count < small_limit else varint.encode(count)
                size = 1 + len(stamp) + len(number) + following - at
                parts += (
                    small[size] if size < small_limit else varint.encode(size),
                    _NO_ATTRIBUTES,
                    stamp,
                    number,
                    data[at:following],
                )
                at = following
                count += 1
            if at != end:
                raise CorruptBatchError(each.first_offset, "there are more bytes in it than records")
            for start, length in each.upstream_offsets or ((each.first_offset, each.count),):
                if runs and runs[-1][0] + runs[-1][1] == start:
                    runs[-1] = (runs[-1][0], runs[-1][1] + length)
                else:
                    runs.append((start, length))
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(each.first_offset, _reason(error)) from None
    merged = Outgoing(
        compress(first.codec, b"".join(parts)),
        count,
        first.first_offset,
        outgoings[used - 1].last_offset,
        first.codec,
        base,
        max(each.max_timestamp for each in outgoings[:used]),
        rewritten=True,
        upstream_offsets=None if len(runs) == 1 and runs[0][0] == first.first_offset else tuple(runs),
    )
    return merged, used


def _unfolded(outgoings: Sequence[Outgoing]) -> list[bytes]:
    """The records of the first ones, until there are MERGED_UNFOLDED bytes of them."""
    found: list[bytes] = []
    size = 0
    for each in outgoings:
        try:
            found.append(decompress(each.codec, each.records, MERGED_UNFOLDED))
        except UnfoldsTooMuchError:
            break
        except CodecError as error:
            raise CorruptBatchError(each.first_offset, str(error)) from None
        size += len(found[-1])
        if size >= MERGED_UNFOLDED:
            break
    return found


def split(outgoing: Outgoing, limit: int) -> list[Outgoing]:
    """The batch as several of at most `limit` bytes and REWRITTEN_RECORDS records each.

    A record that is larger alone has a batch of its own. Together they hold the same records and cover what the whole
    covered. CorruptBatchError where its records can't be read, TooMuchToSplitError where that would take too long.
    """
    if outgoing.count > SPLIT_RECORDS:
        raise TooMuchToSplitError(f"with more than {SPLIT_RECORDS} records it would hold the others up")
    try:
        data = decompress(outgoing.codec, outgoing.records, SPLIT_UNFOLDED)
    except UnfoldsTooMuchError as error:
        raise TooMuchToSplitError(str(error)) from None
    except CodecError as error:
        raise CorruptBatchError(outgoing.first_offset, str(error)) from None
    unpacked = _records(data, NONE, outgoing.first_offset, outgoing.base_timestamp, outgoing.count)
    records = (
        (offset, timestamp, rest)
        for offset, (_, timestamp, rest) in zip(_source_offsets(outgoing), unpacked, strict=True)
    )
    if outgoing.size <= limit:
        deque(records, maxlen=0)  # whether they can be read
        return [outgoing]
    pieces = list(_pieces(records, len(data), outgoing.codec, outgoing.size, limit))
    # Also the offsets without a record in front of the first one and behind the last.
    first = pieces[0]
    if first.upstream_offsets is None and first.first_offset != outgoing.first_offset:
        first.upstream_offsets = ((first.first_offset, first.count),)
    first.first_offset, pieces[-1].last_offset = outgoing.first_offset, outgoing.last_offset
    return pieces


def _pieces(records: Iterable[Record], unfolded: int, codec: int, size: int, limit: int) -> Iterator[Outgoing]:
    """`unfolded`: what the records measure uncompressed, `size`: about what they measure as one batch."""
    for group, measure in _groups(records, unfolded * min(limit * FILLED / size, 0.5)):
        piece = _pack(group, codec, group[0][0], group[-1][0])
        if piece.size <= limit or len(group) == 1:
            yield piece
        else:
            yield from _pieces(group, measure, codec, piece.size, limit)


def _groups(records: Iterable[Record], most: float) -> Iterator[tuple[list[Record], int]]:
    """Neighbours in groups of at most `most` bytes and REWRITTEN_RECORDS records, and their bytes. One record at least.

    Where `most` is half of all bytes, there are two groups or more: each record counts, also one of nothing.
    """
    group: list[Record] = []
    measure = 0
    for record in records:
        own = len(record[2]) + RECORD_OVERHEAD
        if group and (measure + own > most or len(group) == REWRITTEN_RECORDS):
            yield group, measure
            group, measure = [], 0
        group.append(record)
        measure += own
    if group:
        yield group, measure


def build(records: Iterable[NewRecord], first: int = 0) -> Outgoing:
    """An uncompressed batch of records of our own, numbered from `first` on as if these were offsets of a source."""
    packed = [
        (number, each.timestamp, _rest(each.key, each.value, each.headers))
        for number, each in enumerate(records, first)
    ]
    return _pack(packed, 0, first, first + len(packed) - 1)


def _rest(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()) -> bytes:
    parts = []
    for each in (key, value):
        parts += [varint.encoded(-1)] if each is None else [varint.encoded(len(each)), each]
    parts.append(varint.encoded(len(headers)))
    for name, content in headers:
        title = name.encode()
        parts += [varint.encoded(len(title)), title, varint.encoded(len(content)), content]
    return b"".join(parts)


def _records(data: bytes, codec: int, base_offset: int, base_timestamp: int, count: int) -> Iterator[Record]:
    try:
        data = decompress(codec, data)
        at = 0
        for _ in range(count):
            length, at = varint.decode(data, at)
            following = at + length
            if length < 4 or following > len(data):
                raise CorruptBatchError(base_offset, "a record in it has an impossible length")
            timestamp, at = varint.decode(data, at + 1)
            offset, at = varint.decode(data, at)
            if at > following:
                raise CorruptBatchError(base_offset, "a record in it has an impossible length")
            timestamp += base_timestamp
            if not _EARLIEST <= timestamp <= _LATEST:
                timestamp = varint.wrapped(timestamp)
            yield base_offset + offset, timestamp, data[at:following]
            at = following
    except (CodecError, IndexError, ValueError) as error:
        raise CorruptBatchError(base_offset, _reason(error)) from None
    if at != len(data):
        raise CorruptBatchError(base_offset, "there are more bytes in it than records")


def _reason(error: Exception) -> str:
    # Python's own words for an index say nothing to a user.
    return "a record in it is cut off" if isinstance(error, IndexError) else str(error)


def _pack(records: Sequence[Record], codec: int, first_offset: int, last_offset: int) -> Outgoing:
    base = records[0][1]
    parts: list[bytes] = []
    runs: list[tuple[int, int]] = []
    for number, (offset, timestamp, rest) in enumerate(records):
        stamp, place = varint.encoded(timestamp - base), varint.encoded(number)
        parts += (varint.encoded(1 + len(stamp) + len(place) + len(rest)), _NO_ATTRIBUTES, stamp, place, rest)
        if runs and runs[-1][0] + runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((offset, 1))
    return Outgoing(
        compress(codec, b"".join(parts)),
        len(records),
        first_offset,
        last_offset,
        codec,
        base,
        max(timestamp for _, timestamp, _ in records),
        rewritten=True,
        upstream_offsets=None if len(runs) == 1 and runs[0][0] == first_offset else tuple(runs),
    )


def _source_offsets(outgoing: Outgoing) -> Iterator[int]:
    for start, count in outgoing.upstream_offsets or ((outgoing.first_offset, outgoing.count),):
        yield from range(start, start + count)


def _legacy_records(view: BatchView) -> tuple[Iterable[Record], int]:
    try:
        records = legacy_records.decode(bytes(view.data))
    except legacy_records.LegacyError as error:
        raise CorruptBatchError(view.base_offset, str(error)) from None
    return [(r.offset, r.timestamp, _rest(r.key, r.value)) for r in records], view.data[
        _LEGACY_ATTRIBUTES_AT
    ] & CODEC_MASK
