"""Merges batches of one record each, faster than batch_merge.merge. Producers without linger write such batches.

Copied as they are, such batches are slow: each record has 61 bytes of header and a CRC. This merges only simple batches
(uncompressed, one record, no transaction, CreateTime), and reads only their headers and the first bytes of the record. All
others, also corrupt ones, are left to batch_merge.py. compiled.merge_plain does more, where it is there.
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.record_batch import HEADER_SIZE, BatchReader, ProducerBatch

# base offset, length, magic, CRC, attributes, last offset delta, base and max timestamp, count: record_batch.HEADER without
# the fields of the leader epoch and the producer.
_HEADER: Final = struct.Struct(">qi4xBIhiqq14xi")
_LENGTH_FROM: Final = 12
_CRC_FROM: Final = 21
_MAGIC: Final = 2
# At most so many records at a time: the event loop continues within about 10 ms, and varint.SMALL has their numbers.
MOST_RECORDS: Final = 8_000
_NO_ATTRIBUTES: Final = b"\x00"


def _beginning(size: int) -> bytes | None:
    """How the only record of a batch begins, if it has `size` bytes: length, no attributes, both deltas 0."""
    for width in (1, 2):
        length = varint.encode(size - width)
        if len(length) == width:
            return length + b"\x00\x00\x00"
    return None


# By size. A record that begins otherwise, or is larger, is left to batch_merge.py.
_BEGINNINGS: Final = tuple(_beginning(size) for size in range(8_000))


def merge_singles(reader: BatchReader, wanted: int, limit: int, *, check_crcs: bool) -> ProducerBatch | None:
    """Merges the reader's next simple one-record batches into one of at most `limit` bytes; None if there are not two.

    `wanted`: the lowest source offset that is not copied yet. The reader moves past the merged batches and no further.
    """
    if not reader.only_singles(2):
        return None
    at = start = reader.at
    buffer = reader.content
    stop = min(len(buffer), start + limit)
    header, begins, crc32c = _HEADER.unpack_from, buffer.startswith, google_crc32c.value
    small, small_limit, beginnings = varint.SMALL, varint.SMALL_LIMIT, _BEGINNINGS
    largest = len(beginnings)
    parts: list[bytes] = []
    add = parts.extend
    # Where the source's offsets continue after a gap: (offset, number of the record).
    breaks: list[tuple[int, int]] = []
    count = first = base = latest = 0
    while count < MOST_RECORDS and at + HEADER_SIZE < stop:
        offset, length, magic, crc, attributes, delta, timestamp, max_timestamp, records = header(buffer, at)
        record, following = at + HEADER_SIZE, at + _LENGTH_FROM + length
        size = following - record
        if (
            attributes
            or delta
            or records != 1
            or magic != _MAGIC
            or timestamp != max_timestamp
            or offset < wanted
            or following > stop
            or not 0 <= size < largest
        ):
            break
        beginning = beginnings[size]
        if beginning is None or not begins(beginning, record):
            break
        if check_crcs and crc32c(buffer[at + _CRC_FROM : following]) != crc:
            break
        if not count:
            first, base, latest = offset, timestamp, timestamp
        elif offset != wanted:
            breaks.append((offset, count))
        rest = buffer[record + len(beginning) : following]
        shift = timestamp - base
        stamp = small[shift] if 0 <= shift < small_limit else varint.encode(shift)
        number = small[count]
        add((small[1 + len(stamp) + len(number) + len(rest)], _NO_ATTRIBUTES, stamp, number, rest))
        latest = max(latest, timestamp)
        count += 1
        wanted = offset + 1
        at = following
    if count < 2:
        return None
    reader.at = at
    return ProducerBatch(
        b"".join(parts),
        count,
        first,
        wanted - 1,
        0,
        base,
        latest,
        rewritten=True,
        upstream_offsets=_offset_ranges(first, count, breaks),
    )


def _offset_ranges(first: int, count: int, breaks: list[tuple[int, int]]) -> tuple[tuple[int, int], ...] | None:
    if not breaks:
        return None
    starts = [(first, 0), *breaks]
    ends = [number for _, number in breaks] + [count]
    return tuple((offset, end - number) for (offset, number), end in zip(starts, ends, strict=True))
