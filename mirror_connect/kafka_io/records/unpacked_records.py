"""The records of a batch with their offsets and timestamps, read from its decompressed bytes.

A record is `length, attributes, timestamp delta, offset delta, rest`. Only the numbers are read; keys, values and headers,
in `rest`, are never parsed (record_parts.py does). compiled.py does the same where it can, in less than a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mirror_connect.kafka_io.records import compiled, legacy_records, varint
from mirror_connect.kafka_io.records.compression import CodecError, decompress
from mirror_connect.kafka_io.records.record_batch import CODEC_MASK, BatchView, CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_parts import RecordParts, rest_of

# (source offset, timestamp, what follows the two deltas)
Record = tuple[int, int, bytes]
_LEGACY_ATTRIBUTES_AT: Final = 17
EARLIEST: Final = -(1 << 63)
LATEST: Final = (1 << 63) - 1
# Each record needs some hundred bytes of objects, and a batch may hold millions of nearly empty ones.
REWRITTEN_RECORDS: Final = 50_000
# The least bytes of a record besides `rest`: length, attributes and two deltas.
RECORD_OVERHEAD: Final = 4


def unpack(view: BatchView, from_offset: int) -> tuple[list[Record], int]:
    """The records from `from_offset` on with the timestamps that a consumer sees, and their codec."""
    data = decompress_records(view)
    found = compiled.unpack(view, data, from_offset) if view.magic >= 2 else None
    if found is not None:
        return found, view.codec
    records, codec = read_batch(view, data)
    return list(in_order(records, view, from_offset)), codec


def record_of(batch: ProducerBatch) -> Record:
    """The record of an uncompressed batch that has one, as `one_record` makes it. CorruptBatchError."""
    (found,) = read_records(batch.records, batch.first_offset, batch.base_timestamp, batch.count)
    return found


def decompress_records(view: BatchView) -> bytes:
    """The decompressed bytes of the records; nothing for a legacy message. CorruptBatchError."""
    try:
        return b"" if view.magic < 2 else decompress(view.codec, view.records)
    except CodecError as error:
        raise CorruptBatchError(view.base_offset, str(error)) from None


def read_batch(view: BatchView, data: bytes) -> tuple[Iterable[Record], int]:
    """The records with the timestamps that a consumer sees, and their codec; `data`: their decompressed bytes.

    They are read when they are asked for. CorruptBatchError then, or at once for a legacy message.
    """
    if view.magic < 2:
        return _legacy_records(view)
    records = read_records(data, view.base_offset, view.base_timestamp, view.count)
    if view.log_append_time:
        return ((offset, view.max_timestamp, rest) for offset, _, rest in records), view.codec
    return records, view.codec


def read_records(data: bytes, base_offset: int, base_timestamp: int, count: int) -> Iterator[Record]:
    """The records in decompressed bytes, each when it is asked for. CorruptBatchError where they contradict the header."""
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
            if not EARLIEST <= timestamp <= LATEST:
                timestamp = varint.wrapped(timestamp)
            yield base_offset + offset, timestamp, data[at:following]
            at = following
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(base_offset, reason_of(error)) from None
    if at != len(data):
        raise CorruptBatchError(base_offset, "there are more bytes in it than records")


def in_order(records: Iterable[Record], view: BatchView, from_offset: int) -> Iterator[Record]:
    """The records from `from_offset` on. CorruptBatchError at one whose offset goes back, or is not one of the batch."""
    # Only the records of a legacy message set show where it begins.
    previous = -1 if view.magic < 2 else view.base_offset - 1
    for record in records:
        offset = record[0]
        if not previous < offset <= view.last_offset:
            raise CorruptBatchError(view.base_offset, f"a record in it has offset {offset}")
        previous = offset
        if offset >= from_offset:
            yield record


def reason_of(error: Exception) -> str:
    """What is wrong with records whose numbers can't be read, for a CorruptBatchError."""
    # Python's text for an index error does not help a user.
    return "a record in it is cut off" if isinstance(error, IndexError) else str(error)


def _legacy_records(view: BatchView) -> tuple[Iterable[Record], int]:
    try:
        records = legacy_records.decode(bytes(view.data))
    except legacy_records.LegacyError as error:
        raise CorruptBatchError(view.base_offset, str(error)) from None
    return [(r.offset, r.timestamp, rest_of(RecordParts(r.key, r.value))) for r in records], view.data[
        _LEGACY_ATTRIBUTES_AT
    ] & CODEC_MASK
