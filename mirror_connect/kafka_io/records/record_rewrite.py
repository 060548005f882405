"""Rewrites batches that cannot be copied as they are: drops records, sets timestamps, merges, splits, builds batches.

A record is `length, attributes, timestamp delta, offset delta, rest`. Only the numbers are written again; keys, values and
headers, in `rest`, are never parsed. A record takes two to three microseconds here. compiled.py does the same where it can,
in less than a tenth of one; what it leaves over is done here. `stamp` in record_batch.py writes the CRC.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from functools import lru_cache
from math import inf
from typing import Final

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.kafka_io.records import compiled, legacy_records, varint
from mirror_connect.kafka_io.records.compression import NONE, CodecError, DecompressesTooMuchError, compress, decompress
from mirror_connect.kafka_io.records.json_transforms import (
    OnError,
    looks_into_json,
    transform_json,
    transformed_json,
)
from mirror_connect.kafka_io.records.record_batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    BatchView,
    CorruptBatchError,
    NewRecord,
    ProducerBatch,
    as_is,
    stamp,
)
from mirror_connect.kafka_io.records.record_transforms import only_bytes, transform, transformed

# (source offset, timestamp, what follows the two deltas)
Record = tuple[int, int, bytes]
_NO_ATTRIBUTES: Final = b"\x00"
_NULL: Final = varint.encode(-1)
_NO_HEADERS: Final = varint.encode(0)
# Source offsets of all partitions of a topic have the same.
HEADERS_KEPT: Final = 256
_LEGACY_ATTRIBUTES_AT: Final = 17
_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1
# Consumers may limit what a batch decompresses to. Merging needs at most twice this much memory.
MERGED_DECOMPRESSED: Final = 8 << 20
# Each record needs some hundred bytes of objects, and a batch may hold millions of nearly empty ones.
REWRITTEN_RECORDS: Final = 50_000
# Splitting runs in the event loop and takes some microseconds a record. Batches above these limits are not split.
SPLIT_RECORDS: Final = 200_000
SPLIT_DECOMPRESSED: Final = 64 << 20
# The least bytes of a record besides `rest`: length, attributes and two deltas.
RECORD_OVERHEAD: Final = 4
# How much of the limit the pieces of a split batch should fill: their compressed size is only known afterwards.
FILLED: Final = 0.95


class TooMuchToSplitError(Exception):
    """The batch can't be split within a bounded time. The text says why, in half a sentence."""


def _nothing(_: int) -> None: ...


def rewrite(
    view: BatchView,
    from_offset: int,
    steps: Steps = (),
    on_filtered: Callable[[int], None] = _nothing,
    on_error: OnError | None = None,
    *,
    most_bytes: float = inf,
) -> Iterator[ProducerBatch]:
    """The batch without records below `from_offset`, without gaps, with the timestamps that a consumer sees.

    It comes in pieces of REWRITTEN_RECORDS, or about `most_bytes` decompressed ones, nothing if no record is left. A larger
    record is a piece of its own. Each piece is checked and made when it is requested. With a delete horizon as base
    timestamp, the records' deltas are relative to it (KIP-534), so it needs no special case. CorruptBatchError for records
    that contradict the header.

    `steps`: transformations to apply to the records. `on_filtered` gets how many of them they have dropped. `on_error` gets
    a record that they can't take, which is then left out. Without it RecordError follows the pieces of those before.
    """
    failed: RecordError | None = None
    if view.magic >= 2 and view.count == 0:  # compaction keeps the header of a producer's last batch
        return
    data, transformed_here = _data(view), False
    if steps and view.magic >= 2:
        if looks_into_json(steps):
            after, kept, filtered, failed = transform_json(data, view, from_offset, steps, on_error)
        else:
            after, kept = transform(data, view.count, only_bytes(steps), view.base_offset)
            filtered = view.count - kept
        on_filtered(filtered)
        if failed is not None and (not kept or failed.offset <= from_offset):
            raise failed
        if not kept:
            return
        data, transformed_here = after, after is not data
        view = copy(view)
        view.count = kept
        if failed is not None:
            view.last_offset = failed.offset - 1
    # That one sends the records as they were fetched.
    if (
        view.log_append_time
        and not transformed_here
        and len(data) <= most_bytes
        and (whole := _with_the_brokers_time(view, data, from_offset)) is not None
    ):
        yield whole
        return
    left: int | None = from_offset
    if view.magic >= 2:
        left = yield from compiled.rewrite(view, data, from_offset, REWRITTEN_RECORDS, most_bytes)
    if left is not None:
        records, codec = _unpacked(view, data)
        if steps and view.magic < 2:
            records = _of_legacy(records, left, steps, on_filtered, on_error)
        failed = (yield from _in_pieces(view, records, codec, left, most_bytes)) or failed
    if failed is not None:
        raise failed


def _in_pieces(
    view: BatchView, records: Iterable[Record], codec: int, from_offset: int, most_bytes: float
) -> Generator[ProducerBatch, None, RecordError | None]:
    """The pieces in Python. It returns the error of the record behind the last piece."""
    begins = None if view.magic < 2 else max(view.base_offset, from_offset)
    piece: list[Record] = []
    measure = 0
    last_offset, failed = view.last_offset, None
    try:
        for record in _in_order(records, view, from_offset):
            own = len(record[2]) + RECORD_OVERHEAD
            if piece and (len(piece) == REWRITTEN_RECORDS or measure + own > most_bytes):
                last = piece[-1][0]
                yield _pack(piece, codec, piece[0][0] if begins is None else begins, last)
                piece, begins, measure = [], last + 1, 0
            piece.append(record)
            measure += own
    except RecordError as error:
        last_offset, failed = error.offset - 1, error
    if piece:
        yield _pack(piece, codec, piece[0][0] if begins is None else begins, last_offset)
    return failed


def _of_legacy(
    records: Iterable[Record],
    from_offset: int,
    steps: Steps,
    on_filtered: Callable[[int], None],
    on_error: OnError | None,
) -> Iterator[Record]:
    for offset, timestamp, before in records:
        if offset < from_offset:
            continue
        try:
            rest = after_steps((offset, timestamp, before), steps)
        except RecordError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        if rest is None:
            on_filtered(1)
        else:
            yield offset, timestamp, rest


def after_steps(record: Record, steps: Steps) -> bytes | None:
    """What one record's bytes become; None if the steps drop it. RecordError."""
    offset, timestamp, rest = record
    if looks_into_json(steps):
        return transformed_json(rest, steps, offset, timestamp)
    return transformed(rest, only_bytes(steps))


def _with_the_brokers_time(view: BatchView, data: bytes, from_offset: int) -> ProducerBatch | None:
    """The batch with LogAppendTime as a change of its header alone: its records have one time and nothing else is to change.

    Producers that are busy, and those that send single records, write such batches. Compressing is most of a rewrite's cost.
    """
    if from_offset > view.base_offset or view.count != view.last_offset - view.base_offset + 1:
        return None
    functions = compiled.functions
    delta = _common_delta(data, view.count) if functions is None else functions.common_delta(data, view.count)
    if delta is None or not _EARLIEST <= view.max_timestamp - delta <= _LATEST:
        return None
    batch = as_is(view)
    batch.base_timestamp = view.max_timestamp - delta
    batch.append_time = None
    return batch


def with_append_time(batch: ProducerBatch) -> list[ProducerBatch]:
    """The batch with its `append_time` on all records, in pieces; for one that `as_is` made. CorruptBatchError."""
    view = BatchView(memoryview(stamp(batch, -1, -1, -1)))
    view.base_offset, view.last_offset = batch.first_offset, batch.last_offset
    view.attributes |= LOG_APPEND_TIME
    return list(rewrite(view, batch.first_offset))


def _common_delta(data: bytes, count: int) -> int | None:
    """The timestamp delta of all records. None if they have several, or offsets other than 0, 1, 2 …, or are not valid."""
    at, common = 0, None
    try:
        for number in range(count):
            length, at = varint.decode(data, at)
            following = at + length
            delta, at = varint.decode(data, at + 1)
            offset, at = varint.decode(data, at)
            common = delta if number == 0 else common
            if length < RECORD_OVERHEAD or not at <= following <= len(data) or (offset, delta) != (number, common):
                return None
            at = following
    except (IndexError, ValueError):
        return None
    return common if at == len(data) else None


def unpack(view: BatchView, from_offset: int) -> tuple[list[Record], int]:
    """The records from `from_offset` on with the timestamps that a consumer sees, and their codec."""
    data = _data(view)
    found = compiled.unpack(view, data, from_offset) if view.magic >= 2 else None
    if found is not None:
        return found, view.codec
    records, codec = _unpacked(view, data)
    return list(_in_order(records, view, from_offset)), codec


def _data(view: BatchView) -> bytes:
    """The decompressed records; nothing for a legacy message."""
    try:
        return b"" if view.magic < 2 else decompress(view.codec, view.records)
    except CodecError as error:
        raise CorruptBatchError(view.base_offset, str(error)) from None


def _unpacked(view: BatchView, data: bytes) -> tuple[Iterable[Record], int]:
    if view.magic < 2:
        return _legacy_records(view)
    records = _records(data, view.base_offset, view.base_timestamp, view.count)
    if view.log_append_time:
        return ((offset, view.max_timestamp, rest) for offset, _, rest in records), view.codec
    return records, view.codec


def _in_order(records: Iterable[Record], view: BatchView, from_offset: int) -> Iterator[Record]:
    # Only the records of a legacy message set show where it begins.
    previous = -1 if view.magic < 2 else view.base_offset - 1
    for record in records:
        offset = record[0]
        if not previous < offset <= view.last_offset:
            raise CorruptBatchError(view.base_offset, f"a record in it has offset {offset}")
        previous = offset
        if offset >= from_offset:
            yield record


def merge(batches: Sequence[ProducerBatch]) -> tuple[ProducerBatch, int]:
    """Merges the first of these batches, which have one partition and codec, and returns how many it merged.

    It stops at MERGED_DECOMPRESSED decompressed bytes; a batch with more of them stays as it is. CorruptBatchError names
    the first batch whose records cannot be read.
    """
    decompressed = _decompressed(batches) if len(batches) > 1 else []
    used = len(decompressed)
    first = batches[0]
    if used <= 1:
        return first, 1
    records = compiled.merge(batches, decompressed)
    if records is None:
        records = _merged(batches, decompressed)
    ranges: list[tuple[int, int]] = []
    for each in batches[:used]:
        for start, length in each.upstream_offsets or ((each.first_offset, each.count),):
            if ranges and ranges[-1][0] + ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + length)
            else:
                ranges.append((start, length))
    merged = ProducerBatch(
        compress(first.codec, records),
        sum(each.count for each in batches[:used]),
        first.first_offset,
        batches[used - 1].last_offset,
        first.codec,
        first.base_timestamp,
        max(each.max_timestamp for each in batches[:used]),
        rewritten=True,
        upstream_offsets=None if len(ranges) == 1 and ranges[0][0] == first.first_offset else tuple(ranges),
        append_time=next((each.append_time for each in batches[:used] if each.append_time is not None), None),
    )
    return merged, used


def _merged(batches: Sequence[ProducerBatch], decompressed: Sequence[bytes]) -> bytes:
    """The records of the first of these batches as those of one."""
    base = batches[0].base_timestamp
    small, small_limit = varint.SMALL, varint.SMALL_LIMIT
    parts: list[bytes] = []
    count = 0
    try:
        for each, data in zip(batches, decompressed, strict=False):
            shift = each.base_timestamp - base
            at, end = 0, len(data)
            for _ in range(each.count):
                # varint.decode is inlined here: small batches spend most of their time in this loop.
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
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(each.first_offset, _reason(error)) from None
    return b"".join(parts)


def _decompressed(batches: Sequence[ProducerBatch]) -> list[bytes]:
    """The decompressed records of the first batches, until they have MERGED_DECOMPRESSED bytes."""
    found: list[bytes] = []
    size = 0
    for each in batches:
        try:
            found.append(decompress(each.codec, each.records, MERGED_DECOMPRESSED))
        except DecompressesTooMuchError:
            break
        except CodecError as error:
            raise CorruptBatchError(each.first_offset, str(error)) from None
        size += len(found[-1])
        if size >= MERGED_DECOMPRESSED:
            break
    return found


def split(batch: ProducerBatch, limit: int) -> list[ProducerBatch]:
    """Splits the batch into batches of at most `limit` bytes and REWRITTEN_RECORDS records each.

    A record larger than `limit` gets a batch of its own. Together, the batches hold the same records and cover the same
    offsets. CorruptBatchError if the records cannot be read, TooMuchToSplitError if that would take too long.
    """
    if batch.count > SPLIT_RECORDS:
        raise TooMuchToSplitError(f"splitting more than {SPLIT_RECORDS} records would delay other partitions")
    try:
        data = decompress(batch.codec, batch.records, SPLIT_DECOMPRESSED)
    except DecompressesTooMuchError as error:
        raise TooMuchToSplitError(str(error)) from None
    except CodecError as error:
        raise CorruptBatchError(batch.first_offset, str(error)) from None
    unpacked = _records(data, batch.first_offset, batch.base_timestamp, batch.count)
    if batch.size <= limit:
        deque(unpacked, maxlen=0)  # finds corrupt records
        return [batch]
    pieces = compiled.split(batch, data, limit, FILLED, REWRITTEN_RECORDS)
    if pieces is None:
        records = (
            (offset, timestamp, rest)
            for offset, (_, timestamp, rest) in zip(_source_offsets(batch), unpacked, strict=True)
        )
        pieces = list(_pieces(records, len(data), batch.codec, batch.size, limit))
    # They also cover the offsets without a record before the first record and after the last.
    first = pieces[0]
    if first.upstream_offsets is None and first.first_offset != batch.first_offset:
        first.upstream_offsets = ((first.first_offset, first.count),)
    first.first_offset, pieces[-1].last_offset = batch.first_offset, batch.last_offset
    for piece in pieces:
        piece.append_time = batch.append_time
    return pieces


def _pieces(records: Iterable[Record], decompressed: int, codec: int, size: int, limit: int) -> Iterator[ProducerBatch]:
    """`decompressed`: bytes of the records before compression; `size`: about their bytes as one batch."""
    for group, measure in _groups(records, decompressed * min(limit * FILLED / size, 0.5)):
        piece = _pack(group, codec, group[0][0], group[-1][0])
        if piece.size <= limit or len(group) == 1:
            yield piece
        else:
            yield from _pieces(group, measure, codec, piece.size, limit)


def _groups(records: Iterable[Record], most: float) -> Iterator[tuple[list[Record], int]]:
    """Groups of consecutive records, and the bytes of each: at most `most` bytes and REWRITTEN_RECORDS records.

    A group has at least one record. If `most` is half of all bytes, there are at least two groups, because even an empty
    record has RECORD_OVERHEAD.
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


class BatchBuilder:
    """An uncompressed batch of new records, made one after the other. `first`: see `build`.

    `size`: the bytes of their keys and values.
    """

    __slots__ = ("_base", "_first", "_newest", "_parts", "count", "size")

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._base = self._newest = 0
        self._parts: list[bytes] = []
        self.count = self.size = 0

    def add(self, record: NewRecord) -> None:
        """One more record."""
        key, value, timestamp, headers = record
        if not self.count:
            self._base = self._newest = timestamp
        self._newest = max(self._newest, timestamp)
        deltas = varint.encoded(timestamp - self._base) + varint.encoded(self.count)
        rest = _rest(key, value, headers)
        self._parts += (varint.encoded(1 + len(deltas) + len(rest)), _NO_ATTRIBUTES, deltas, rest)
        self.count += 1
        self.size += len(key or b"") + len(value or b"")

    def batch(self) -> ProducerBatch:
        """The batch of all of them, at least one."""
        first, last = self._first, self._first + self.count - 1
        return ProducerBatch(
            b"".join(self._parts), self.count, first, last, 0, self._base, self._newest, rewritten=True
        )


def build(records: Iterable[NewRecord], first: int = 0) -> ProducerBatch:
    """An uncompressed batch of new records; the numbers from `first` on take the place of source offsets."""
    builder = BatchBuilder(first)
    for record in records:
        builder.add(record)
    return builder.batch()


def one_record(record: Record) -> ProducerBatch:
    """An uncompressed batch of one record."""
    return _pack([record], NONE, record[0], record[0])


def record_of(batch: ProducerBatch) -> Record:
    """The record of such a batch. CorruptBatchError."""
    (found,) = _records(batch.records, batch.first_offset, batch.base_timestamp, batch.count)
    return found


def of_records(records: Sequence[Record]) -> ProducerBatch:
    """An uncompressed batch of these records, as they are. Their numbers take the place of source offsets."""
    return _pack(records, 0, records[0][0], records[-1][0])


def _rest(key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes], ...] = ()) -> bytes:
    return b"".join(
        (
            _NULL if key is None else varint.encoded(len(key)),
            key or b"",
            _NULL if value is None else varint.encoded(len(value)),
            value or b"",
            _headers(headers) if headers else _NO_HEADERS,
        )
    )


@lru_cache(HEADERS_KEPT)
def _headers(headers: tuple[tuple[str, bytes], ...]) -> bytes:
    parts = [varint.encoded(len(headers))]
    for name, content in headers:
        title = name.encode()
        parts += [varint.encoded(len(title)), title, varint.encoded(len(content)), content]
    return b"".join(parts)


def _records(data: bytes, base_offset: int, base_timestamp: int, count: int) -> Iterator[Record]:
    try:
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
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(base_offset, _reason(error)) from None
    if at != len(data):
        raise CorruptBatchError(base_offset, "there are more bytes in it than records")


def _reason(error: Exception) -> str:
    # Python's text for an index error does not help a user.
    return "a record in it is cut off" if isinstance(error, IndexError) else str(error)


def _pack(records: Sequence[Record], codec: int, first_offset: int, last_offset: int) -> ProducerBatch:
    base = records[0][1]
    parts: list[bytes] = []
    ranges: list[tuple[int, int]] = []
    for number, (offset, timestamp, rest) in enumerate(records):
        stamp, place = varint.encoded(timestamp - base), varint.encoded(number)
        parts += (varint.encoded(1 + len(stamp) + len(place) + len(rest)), _NO_ATTRIBUTES, stamp, place, rest)
        if ranges and ranges[-1][0] + ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((offset, 1))
    return ProducerBatch(
        compress(codec, b"".join(parts)),
        len(records),
        first_offset,
        last_offset,
        codec,
        base,
        max(timestamp for _, timestamp, _ in records),
        rewritten=True,
        upstream_offsets=None if len(ranges) == 1 and ranges[0][0] == first_offset else tuple(ranges),
    )


def _source_offsets(batch: ProducerBatch) -> Iterator[int]:
    for start, count in batch.upstream_offsets or ((batch.first_offset, batch.count),):
        yield from range(start, start + count)


def _legacy_records(view: BatchView) -> tuple[Iterable[Record], int]:
    try:
        records = legacy_records.decode(bytes(view.data))
    except legacy_records.LegacyError as error:
        raise CorruptBatchError(view.base_offset, str(error)) from None
    return [(r.offset, r.timestamp, _rest(r.key, r.value)) for r in records], view.data[
        _LEGACY_ATTRIBUTES_AT
    ] & CODEC_MASK
