"""The compiled inner loops of what reads and writes records, a hundred times as fast as those in Python, if there are any.

They are built from _compiled.c where a C compiler is. Their results are those of the Python code, byte for byte. Where bytes
are not as expected, each function here returns None, and the caller's Python code reads the same bytes and names the fault.
`merge_plain` reads batches where they lie in a fetch. Its substitute, single_records.py, takes only those of one record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from mirror_connect.kafka_io.records.compression import LZ4, NONE, compress
from mirror_connect.kafka_io.records.record_batch import (
    ATTRIBUTES_AT,
    LARGEST_OFFSET,
    LOG_APPEND_TIME,
    BatchReader,
    BatchView,
    ProducerBatch,
)

try:
    from mirror_connect.kafka_io.records import _compiled
except ImportError:  # no compiler was there when this was installed
    _compiled = None  # type: ignore[assignment]

functions = _compiled

# At most so many records are merged at a time: the event loop continues within a millisecond.
PLAIN_RECORDS: Final = 20_000
# A batch whose blocks are kept when it is merged.
_WORTH_A_BLOCK: Final = 32 << 10
# Offsets without gaps: first, count.
_Ranges = tuple[tuple[int, int], ...]
_MASK: Final = (1 << 64) - 1


def rewrite(
    view: BatchView, data: bytes, from_offset: int, most_records: int, most_bytes: float, *, whole: bytes | None
) -> Generator[ProducerBatch, None, int | None]:
    """See record_rewrite.rewrite; `data`: the decompressed records. Returns where Python must continue, None at the end.

    `whole`: what the records of `view` decompress to, which is not `data` after steps; None if hardly any of it stays.
    """
    if functions is None or not _has_offsets(view):
        return from_offset
    timestamp = view.max_timestamp if view.log_append_time else None
    at, left, previous = 0, view.count, view.base_offset - 1
    begins: int = max(from_offset, view.base_offset)
    while left:
        done = functions.repack(
            data,
            at,
            len(data),
            left,
            view.base_timestamp,
            timestamp,
            view.base_offset,
            previous,
            view.last_offset,
            min(from_offset, LARGEST_OFFSET),
            False,
            most_records,
            most_bytes,
        )
        if done is None:
            return begins
        records, at, read, kept, base, latest, ranges, _ = done
        left -= read
        if not kept:
            return None
        previous = _ends(ranges)[1]
        last = previous if left else view.last_offset
        packed = None
        if view.codec == LZ4 and not left and whole is not None:
            packed = functions.recompress([(view.records, whole)], records)
        whole = None
        yield _batch(records, kept, (begins, last), view.codec, (base, latest), ranges=ranges, packed=packed)
        begins = last + 1
    return None


def unpack(view: BatchView, data: bytes, from_offset: int) -> list[tuple[int, int, bytes]] | None:
    """See unpacked_records.unpack; `data`: the decompressed records."""
    if functions is None or not _has_offsets(view):
        return None
    timestamp = view.max_timestamp if view.log_append_time else None
    return functions.unpack(
        data,
        view.count,
        view.base_timestamp,
        timestamp,
        view.base_offset,
        view.last_offset,
        min(from_offset, LARGEST_OFFSET),
    )


def _has_offsets(view: BatchView) -> bool:
    # Not each reader checks the header first.
    return bool(view.base_offset >= 0 and view.last_offset < LARGEST_OFFSET)


def merge(batches: Sequence[ProducerBatch], decompressed: Sequence[bytes]) -> bytes | None:
    """The records of the first of these batches as those of one, still uncompressed; see batch_merge.merge."""
    if functions is None:
        return None
    base = batches[0].base_timestamp
    return functions.merge(
        [
            (data, each.count, (each.base_timestamp - base) & _MASK)
            for each, data in zip(batches, decompressed, strict=False)
        ]
    )


def compress_merged(batches: Sequence[ProducerBatch], decompressed: Sequence[bytes], records: bytes) -> bytes:
    """The merged records of these batches, compressed."""
    packed = None
    # Blocks of less have fewer matches than one block of all would have.
    long = len(records) >= len(decompressed) * _WORTH_A_BLOCK
    if functions is not None and long and all(each.codec == LZ4 for each in batches):
        parts = [(each.records, data) for each, data in zip(batches, decompressed, strict=True)]
        packed = functions.recompress(parts, records)
    return compress(batches[0].codec, records) if packed is None else packed


def split(
    batch: ProducerBatch, data: bytes, limit: int, filled: float, most_records: int
) -> list[ProducerBatch] | None:
    """See batch_split.split; `data`: the decompressed records, `filled`: how much of the limit pieces should fill."""
    if functions is None:
        return None
    whole = _Part(0, len(data), 0, batch.count, len(data), batch.size)
    try:
        return list(_Splitter(batch, data, limit, filled, most_records).pieces(whole))
    except _UnexpectedError:
        return None


class _UnexpectedError(Exception):
    pass


class _Part(NamedTuple):
    """Some records of a batch, in data[at:end]: number of the first, how many, decompressed bytes, bytes as one batch."""

    at: int
    end: int
    number: int
    records: int
    measure: int
    size: int


class _Splitter:
    def __init__(self, batch: ProducerBatch, data: bytes, limit: int, filled: float, most_records: int) -> None:
        self._batch, self._data = batch, data
        self._limit, self._filled, self._most_records = limit, filled, most_records
        self._offsets = SourceOffsets(batch)

    def pieces(self, part: _Part) -> Iterator[ProducerBatch]:
        """The part as batches within the limit."""
        batch = self._batch
        most = part.measure * min(self._limit * self._filled / part.size, 0.5)
        at, number, end = part.at, part.number, part.number + part.records
        while number < end:
            done = functions.repack(
                self._data,
                at,
                part.end,
                end - number,
                batch.base_timestamp,
                None,
                0,
                -1,
                LARGEST_OFFSET,
                0,
                True,
                self._most_records,
                most,
            )
            if done is None:
                raise _UnexpectedError
            records, following, _, kept, base, latest, _, measure = done
            ranges = self._offsets.of(number, kept)
            piece = _batch(records, kept, _ends(ranges), batch.codec, (base, latest), ranges=ranges)
            if piece.size <= self._limit or kept == 1:
                yield piece
            else:
                yield from self.pieces(_Part(at, following, number, kept, measure, piece.size))
            at, number = following, number + kept


class SourceOffsets:
    """The source offsets of a batch's records, by the records' numbers."""

    def __init__(self, batch: ProducerBatch) -> None:
        self._ranges = batch.upstream_offsets or ((batch.first_offset, batch.count),)
        self._ends = list(accumulate(count for _, count in self._ranges))

    def of(self, number: int, count: int) -> _Ranges:
        """Those of `count` records from `number` on."""
        found = []
        at = bisect_right(self._ends, number)
        while count:
            first, length = self._ranges[at]
            skipped = number - (self._ends[at] - length)
            taken = min(length - skipped, count)
            found.append((first + skipped, taken))
            number, count, at = number + taken, count - taken, at + 1
        return tuple(found)

    def of_all(self, numbers: Iterable[tuple[int, int]]) -> _Ranges:
        """Those of records that are given as ranges of their numbers: first, count."""
        found: list[tuple[int, int]] = []
        for number, count in numbers:
            for first, length in self.of(number, count):
                if found and sum(found[-1]) == first:
                    found[-1] = (found[-1][0], found[-1][1] + length)
                else:
                    found.append((first, length))
        return tuple(found)


def take(reader: BatchReader, wanted: int, *, check_crcs: bool, append_time: bool) -> ProducerBatch | None:
    """The reader's next batch, if it is intact and can be copied as it is. If not, None, and the reader stays before it.

    It does what record_batch's `verify`, `needs_rewrite` and `as_is` do, with one look at the records for both CRCs. Control
    batches and those that `needs_rewrite` are left to the caller. `wanted`: the lowest source offset that is not copied yet.
    """
    if functions is None or not functions.CHECKS_CRCS:
        return None
    done = functions.take(reader.data, reader.at, wanted, check_crcs, append_time)
    if done is None:
        return None
    reader.at, fields, crc, by_broker = done
    batch = ProducerBatch(*fields, records_crc=crc)
    if by_broker:
        batch.append_time = batch.max_timestamp
    return batch


def merges_plain(*, check_crcs: bool) -> bool:
    """Whether `merge_plain` works here."""
    return functions is not None and (functions.CHECKS_CRCS or not check_crcs)


def merge_plain(
    reader: BatchReader, wanted: int, limit: int, largest: int, *, check_crcs: bool, append_time: bool = False
) -> tuple[ProducerBatch, int] | None:
    """Merges the reader's next batches that are uncompressed, dense, without transaction and have CreateTime.

    `append_time`: those with LogAppendTime, too; see record_batch.needs_rewrite.

    `wanted`: the lowest source offset that is not copied yet. `limit`: the most bytes of the result; `largest`: of a batch
    that is merged. Returns the result and how many batches are in it; None if there are not two. The reader moves past them
    and no further. Other batches, also corrupt ones, are left to batch_merge.py.
    """
    began = reader.at
    done = functions.merge_plain(reader.data, began, limit, wanted, PLAIN_RECORDS, largest, check_crcs, append_time)
    if done is None:
        return None
    records, reader.at, batches, count, base, latest, ranges = done
    merged = _batch(records, count, _ends(ranges), NONE, (base, latest), ranges=ranges)
    if reader.data[began + ATTRIBUTES_AT] & LOG_APPEND_TIME:
        merged.append_time = latest
    return merged, batches


def _ends(ranges: _Ranges) -> tuple[int, int]:
    """The first and the last offset."""
    return ranges[0][0], ranges[-1][0] + ranges[-1][1] - 1


def _batch(
    records: bytes,
    count: int,
    offsets: tuple[int, int],
    codec: int,
    stamps: tuple[int, int],
    *,
    ranges: _Ranges,
    packed: bytes | None = None,
) -> ProducerBatch:
    """`offsets`: first and last, `stamps`: base and max; `packed`: the records, if they are compressed already."""
    first = offsets[0]
    return ProducerBatch(
        compress(codec, records) if packed is None else packed,
        count,
        *offsets,
        codec,
        *stamps,
        rewritten=True,
        upstream_offsets=None if len(ranges) == 1 and ranges[0][0] == first else ranges,
    )
