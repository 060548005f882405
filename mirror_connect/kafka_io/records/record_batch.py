"""The v2 record batch as bytes: splits fetched records into batches, checks them, makes them ready to send. No I/O.

`stamp` writes the producer id, epoch, sequence and a new CRC. A batch that is copied as it is costs one header unpacked and
packed, two CRC-32C over its bytes, and one copy. compiled.take does the same with one CRC-32C. Other batches go
through unpacked_records.py and record_rewrite.py, which keep the bytes of keys, values and headers.
Layout: Kafka's protocol guide, "Record Batch". The CRC covers everything from `attributes` (byte 21) on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import google_crc32c

from mirror_connect.kafka_io.records import compression, legacy_records

try:
    from mirror_connect.kafka_io.records import _compiled
except ImportError:  # see compiled.py, which alone gives batches a `records_crc`
    _compiled = None  # type: ignore[assignment]

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
# Every format begins with offset and length.
_PREFIX: Final = struct.Struct(">qi")
_PREFIX_SIZE: Final = _PREFIX.size
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_NO_LEADER_EPOCH: Final = -1
_SMALLEST_LEGACY: Final = 14
_CRC_FROM: Final = 21
# The lower byte of the attributes; the upper one is not used.
ATTRIBUTES_AT: Final = 22
_CHECKED: Final = struct.Struct(">hiqqqhii")
_TIMES: Final = struct.Struct(">hiqq")
_TIMES_END: Final = _CRC_FROM + _TIMES.size
_V1_TIME: Final = struct.Struct(">q")
_V1_TIME_AT: Final = 18
_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = 57
SEQUENCES: Final = 1 << 31
# Of the end of a log; the records are below it.
LARGEST_OFFSET: Final = (1 << 63) - 1
NO_TIMESTAMP: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class CorruptBatchError(Exception):
    """A batch that contradicts its header or its CRC. The caller knows topic and partition."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class BatchView:
    """One batch in a fetch buffer: its header fields, and a view of its bytes. Legacy messages have views too."""

    __slots__ = (
        "_records",
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "data",
        "last_offset",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self._records: bytes | None = None
        self.magic: int = data[_MAGIC_AT]
        if self.magic < 2:
            # A compressed message has the offset of its last record; only decoding shows the first offset.
            self.base_offset = self.last_offset = _PREFIX.unpack_from(data)[0]
            self.count = self.attributes = self.crc = 0
            self.base_timestamp = self.max_timestamp = self.producer_id = self.producer_epoch = -1
            self.base_sequence = self.leader_epoch = -1
            return
        (
            self.base_offset,
            _,
            self.leader_epoch,
            _,
            self.crc,
            self.attributes,
            delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(data)
        self.last_offset = self.base_offset + delta

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return len(self.data)

    @property
    def codec(self) -> int:
        """Number of the compression codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it is a transaction's marker and holds no data."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def log_append_time(self) -> bool:
        """Whether the broker set the timestamps (LogAppendTime): every record has the batch's max_timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time to remove tombstones; records' timestamps are still relative to it."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def records(self) -> bytes:
        """What follows the header, still compressed; copied out of the buffer once."""
        if self._records is None:
            self._records = bytes(self.data[HEADER_SIZE:])
        return self._records


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A batch for the target, complete except for producer id, epoch, sequence and CRC.

    It covers the source offsets `first_offset`..`last_offset`, also those without a record.
    `upstream_offsets`: the source offsets of its records as ranges of (first, count); None if they begin at `first_offset`
    and have no gap.
    `append_time`: the time that its records have at the source, by the source's broker (LogAppendTime), if the bytes of the
    records have other times; None if they have the right ones.
    `records_crc`: of `records`, as compiled.take gives it; None if it isn't known.
    """

    records: bytes
    count: int
    first_offset: int
    last_offset: int
    codec: int
    base_timestamp: int
    max_timestamp: int
    rewritten: bool = False
    upstream_offsets: tuple[tuple[int, int], ...] | None = None
    append_time: int | None = None
    records_crc: int | None = None

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return HEADER_SIZE + len(self.records)

    @property
    def first_ms(self) -> int:
        """The timestamp of its first record at the source."""
        return self.base_timestamp if self.append_time is None else self.append_time


class NewRecord(NamedTuple):
    """A record that is created here; `timestamp` in ms since the epoch."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


class BatchReader:
    """Reads the batches of a fetch in order. `at`: where in `data` the next one begins, in bytes.

    A batch that is cut off at the end is left out. A corrupt length may look the same: if `buffer` is known to hold only
    `whole` batches, one that is cut off is corrupt.
    """

    def __init__(self, buffer: bytes | bytearray | memoryview, *, whole: bool = False) -> None:
        self.data = memoryview(buffer)
        self._whole = whole
        self.at = 0

    @cached_property
    def content(self) -> bytes:
        """The buffer as `bytes`, for callers that read many small pieces; copied at the first use."""
        return bytes(self.data)

    @property
    def ended(self) -> bool:
        """Whether no bytes are left."""
        return self.at >= len(self.data)

    def only_singles(self, count: int) -> bool:
        """Whether the next `count` batches hold one record each, according to their headers."""
        data, at = self.data, self.at
        for _ in range(count):
            if (
                at + HEADER_SIZE > len(data)
                or data[at + _MAGIC_AT] != 2
                or _COUNT.unpack_from(data, at + _COUNT_AT)[0] != 1
            ):
                return False
            at += _PREFIX_SIZE + max(0, _PREFIX.unpack_from(data, at)[1])
        return True

    def next(self) -> BatchView | None:
        """The next batch, None after the last. CorruptBatchError for an impossible header."""
        data, at = self.data, self.at
        end = len(data)
        if end - at <= _MAGIC_AT:
            if self._whole and at != end:
                raise CorruptBatchError(-1, f"there are {end - at} bytes behind the last batch")
            return None
        offset, length = _PREFIX.unpack_from(data, at)
        magic = data[at + _MAGIC_AT]
        smallest = HEADER_SIZE - _PREFIX_SIZE if magic == 2 else _SMALLEST_LEGACY
        if length < smallest or magic > 2:
            raise CorruptBatchError(offset, f"its header says format {magic} and {length} bytes")
        following = at + _PREFIX_SIZE + length
        if following > end:
            if self._whole:
                raise CorruptBatchError(offset, f"its header says {length} bytes, {end - at - _PREFIX_SIZE} are there")
            return None
        self.at = following
        return BatchView(data[at:following])


def first_timestamp(data: bytes | memoryview, at: int = 0) -> int:
    """About the timestamp of the first record in the batch that begins there, from its header; NO_TIMESTAMP if unknown.

    The batch may be cut off behind its header. Under LogAppendTime, and where a compaction has removed records, it is the
    newest record's: other timestamps are not in the header.
    """
    if at < 0 or len(data) - at < _TIMES_END:
        return NO_TIMESTAMP
    magic = data[at + _MAGIC_AT]
    if magic == _MAGIC:
        attributes, _, first, newest = _TIMES.unpack_from(data, at + _CRC_FROM)
        return int(newest if attributes & (LOG_APPEND_TIME | DELETE_HORIZON) else first)
    return int(_V1_TIME.unpack_from(data, at + _V1_TIME_AT)[0]) if magic == 1 else NO_TIMESTAMP


def split_fetch(buffer: bytes | bytearray | memoryview, *, whole: bool = False) -> Iterator[BatchView]:
    """Every complete batch of a fetch; see BatchReader."""
    reader = BatchReader(buffer, whole=whole)
    while (view := reader.next()) is not None:
        yield view


def verify(view: BatchView, *, check_crc: bool = True) -> None:
    """Raises CorruptBatchError if the CRC (with `check_crc`) or a number of the header is wrong.

    The CRC does not cover base offset and leader epoch, because brokers write them; wrong ones are mostly not noticed.
    """
    if view.base_offset < 0:
        raise CorruptBatchError(view.base_offset, "its offset is negative")
    if view.last_offset >= LARGEST_OFFSET:
        raise CorruptBatchError(view.base_offset, f"it ends at offset {view.last_offset}, which none can follow")
    if view.magic < 2:
        if check_crc and not legacy_records.crc_is_right(bytes(view.data)):
            raise CorruptBatchError(view.base_offset, "its CRC does not fit its bytes")
        return
    if check_crc:
        # The library hashes only `bytes`. The records must be copied out of the buffer anyway, and hashing them (26 GB/s
        # with the processor's instruction) costs less than combining two CRCs in Python.
        crc = google_crc32c.extend(google_crc32c.value(bytes(view.data[_CRC_FROM:HEADER_SIZE])), view.records)
        if crc != view.crc:
            raise CorruptBatchError(view.base_offset, "its CRC does not fit its bytes")
    if view.last_offset < view.base_offset or not 0 <= view.count <= view.last_offset - view.base_offset + 1:
        raise CorruptBatchError(
            view.base_offset, f"its header says {view.count} records up to offset {view.last_offset}"
        )
    if view.attributes & CODEC_MASK > compression.ZSTD:
        raise CorruptBatchError(view.base_offset, f"there is no compression codec {view.codec}")


def needs_rewrite(view: BatchView, from_offset: int, *, append_time: bool = False) -> bool:
    """Whether the target would refuse or misread the batch as it is, or its first records must be left out.

    `append_time`: the target has LogAppendTime. Then its broker sets the times of the records, and theirs don't matter.
    """
    return (
        view.magic < 2
        or view.count != view.last_offset - view.base_offset + 1
        or view.base_offset < from_offset
        or bool(view.attributes & (DELETE_HORIZON if append_time else LOG_APPEND_TIME | DELETE_HORIZON))
    )


def as_is(view: BatchView) -> ProducerBatch:
    """The batch with the bytes of its records untouched."""
    batch = ProducerBatch(
        view.records,
        view.count,
        view.base_offset,
        view.last_offset,
        view.attributes & CODEC_MASK,
        view.base_timestamp,
        view.max_timestamp,
    )
    if view.attributes & LOG_APPEND_TIME:
        # Brokers refuse this attribute in a request, so `stamped_header` leaves it out.
        batch.append_time = view.max_timestamp
    return batch


def stamp(
    batch: ProducerBatch, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> bytes:
    """The bytes to send: `stamped_header`, and the records."""
    return (
        stamped_header(batch, producer_id, producer_epoch, base_sequence, transactional=transactional) + batch.records
    )


def stamped_header(
    batch: ProducerBatch, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> bytes:
    """The header to send: base offset 0, no leader epoch, this producer's id, epoch and sequence, and the CRC."""
    records = batch.records
    attributes = batch.codec | (TRANSACTIONAL if transactional else 0)
    if batch.records_crc is not None:
        return _compiled.header(
            len(records),
            batch.records_crc,
            attributes,
            batch.count,
            batch.base_timestamp,
            batch.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
        )
    checked = (
        attributes,
        batch.count - 1,
        batch.base_timestamp,
        batch.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        batch.count,
    )
    crc = google_crc32c.extend(google_crc32c.value(_CHECKED.pack(*checked)), records)
    return HEADER.pack(0, HEADER_SIZE - _PREFIX_SIZE + len(records), _NO_LEADER_EPOCH, _MAGIC, crc, *checked)


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after `count` records; it wraps at 2^31."""
    return (sequence + count) % SEQUENCES
