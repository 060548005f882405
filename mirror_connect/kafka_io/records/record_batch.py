"""The v2 record batch as bytes: what a fetch brought is split, checked, and made ready for the target. No I/O.

A batch that can be copied as it is costs a header unpacked and packed again, two CRC-32C over its bytes and two copies. Only
what has to be changed is decompressed, and even then keys, values and headers stay the bytes they were (record_rewrite.py).
Layout: Kafka's protocol guide, "Record Batch". The CRC covers everything from `attributes` (byte 21) on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import google_crc32c

from mirror_connect.kafka_io.records import compression, legacy_records

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
# Offset and length, which every format begins with, then what is common to the end of the magic byte.
_PREFIX: Final = struct.Struct(">qi")
_PREFIX_SIZE: Final = _PREFIX.size
_MAGIC_AT: Final = 16
_SMALLEST_LEGACY: Final = 14
_CRC_FROM: Final = 21
_CHECKED: Final = struct.Struct(">hiqqqhii")
_CRC: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">i")
_COUNT_AT: Final = 57
SEQUENCES: Final = 1 << 31

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40


class CorruptBatchError(Exception):
    """A batch that is not what its header or its CRC says. The caller knows topic and partition."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class BatchView:
    """One batch in a fetch buffer: header fields, and the bytes where they are. Legacy messages are views too."""

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
            # The offset of a compressed message is that of its last record; where it begins only decoding tells.
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
        """Bytes of the whole batch."""
        return len(self.data)

    @property
    def codec(self) -> int:
        """Number of the compression codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """A transaction's marker, no data."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def log_append_time(self) -> bool:
        """The broker's clock counts: every record has the batch's max_timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        """base_timestamp is when tombstones may go; records' timestamps are still relative to it."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def records(self) -> bytes:
        """What follows the header, still compressed; copied out of the buffer once."""
        if self._records is None:
            self._records = bytes(self.data[HEADER_SIZE:])
        return self._records


@dataclass(slots=True, eq=False)
class Outgoing:
    """A batch for the target, final but for producer id, epoch, sequence and CRC.

    It covers the source offsets `first_offset`..`last_offset`, also those in between that it has no record of.
    `upstream_offsets`: the source offsets of its records as runs of (first, count), None when they are `first_offset` and
    following without a gap.
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

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return HEADER_SIZE + len(self.records)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record of our own making; `timestamp` in ms since the epoch."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


class BatchReader:
    """Goes through the batches of a fetch. `at`: where the next one begins, in bytes.

    A batch that is cut off at the end is left out. A length that became larger than the rest of the buffer looks like one:
    if `buffer` is known to hold `whole` batches only, that is corruption too.
    """

    def __init__(self, buffer: bytes | bytearray | memoryview, *, whole: bool = False) -> None:
        self._data = memoryview(buffer)
        self._whole = whole
        self.at = 0

    @cached_property
    def content(self) -> bytes:
        """All of it as `bytes`, for those who look at many small pieces; copied once, when first asked for."""
        return bytes(self._data)

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self._data)

    def only_singles(self, count: int) -> bool:
        """Whether the next `count` batches hold one record each, as far as their headers are to be believed."""
        data, at = self._data, self.at
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
        """The next batch, None behind the last; CorruptBatchError for nonsense."""
        data, at = self._data, self.at
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


def split_fetch(buffer: bytes | bytearray | memoryview, *, whole: bool = False) -> Iterator[BatchView]:
    """Every complete batch of a fetch, see BatchReader."""
    reader = BatchReader(buffer, whole=whole)
    while (view := reader.next()) is not None:
        yield view


def verify(view: BatchView, *, check_crc: bool = True) -> None:
    """CorruptBatchError unless the CRC, if it is to be checked, and the numbers of the header fit.

    Base offset and leader epoch are not under the CRC, so that brokers can write them; a wrong one can't be seen here.
    """
    if view.base_offset < 0:
        raise CorruptBatchError(view.base_offset, "its offset is negative")
    if view.magic < 2:
        if check_crc and not legacy_records.crc_is_right(bytes(view.data)):
            raise CorruptBatchError(view.base_offset, "its CRC does not fit its bytes")
        return
    if check_crc:
        # The library hashes nothing but `bytes`; hashing the records costs less than any way of combining two CRCs in
        # Python (26 GB/s with the processor's instruction), and copying them out of the buffer is needed anyway.
        crc = google_crc32c.extend(google_crc32c.value(bytes(view.data[_CRC_FROM:HEADER_SIZE])), view.records)
        if crc != view.crc:
            raise CorruptBatchError(view.base_offset, "its CRC does not fit its bytes")
    if view.last_offset < view.base_offset or not 0 <= view.count <= view.last_offset - view.base_offset + 1:
        raise CorruptBatchError(
            view.base_offset, f"its header says {view.count} records up to offset {view.last_offset}"
        )
    if view.attributes & CODEC_MASK > compression.ZSTD:
        raise CorruptBatchError(view.base_offset, f"there is no compression codec {view.codec}")


def needs_rewrite(view: BatchView, from_offset: int) -> bool:
    """Whether the target would refuse or misread the batch as it is, or its first records are not wanted."""
    return (
        view.magic < 2
        or view.count != view.last_offset - view.base_offset + 1
        or view.base_offset < from_offset
        or bool(view.attributes & (LOG_APPEND_TIME | DELETE_HORIZON))
    )


def as_is(view: BatchView) -> Outgoing:
    """The batch with the bytes of its records untouched."""
    return Outgoing(
        view.records,
        view.count,
        view.base_offset,
        view.last_offset,
        view.attributes & CODEC_MASK,
        view.base_timestamp,
        view.max_timestamp,
    )


def stamp(
    outgoing: Outgoing, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> bytes:
    """The bytes to send: base offset 0, no leader epoch, this producer's identity, and the CRC of all that."""
    checked = _CHECKED.pack(
        outgoing.codec | (TRANSACTIONAL if transactional else 0),
        outgoing.count - 1,
        outgoing.base_timestamp,
        outgoing.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        outgoing.count,
    )
    crc = google_crc32c.extend(google_crc32c.value(checked), outgoing.records)
    length = HEADER_SIZE - _PREFIX_SIZE + len(outgoing.records)
    return b"".join((_PREFIX.pack(0, length), b"\xff\xff\xff\xff\x02", _CRC.pack(crc), checked, outgoing.records))


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after `count` records; it wraps at 2^31."""
    return (sequence + count) % SEQUENCES
