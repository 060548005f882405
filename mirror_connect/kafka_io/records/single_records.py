"""Batches of one record each, as a producer without linger writes them, merged at a fraction of the general way's cost.

Such topics are where copying batches raw loses: every record brings 61 bytes of header and a CRC of its own. This reads only
what is certain to be simple (uncompressed, one record, no transaction, the producer's time) with one look at the header and
one at the first bytes of the record, and leaves everything else, whatever is wrong with it, to the general way.
"""

from __future__ import annotations

import struct
from typing import Final

import google_crc32c

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.record_batch import HEADER_SIZE, BatchReader, Outgoing

# base offset, length, magic, CRC, attributes, last offset delta, base and max timestamp, count: what record_batch.HEADER has
# but for the leader's epoch and the producer.
_HEADER: Final = struct.Struct(">qi4xBIhiqq14xi")
_LENGTH_FROM: Final = 12
_CRC_FROM: Final = 21
_MAGIC: Final = 2
# Not more records at a time, so that the event loop is back within some 10 ms; each has its number in varint.SMALL.
MOST_RECORDS: Final = 8_000
_NO_ATTRIBUTES: Final = b"\x00"


def _beginning(size: int) -> bytes | None:
    """How a record of `size` bytes begins, alone in a batch: its length, no attributes, no deltas."""
    for width in (1, 2):
        length = varint.encode(size - width)
        if len(length) == width:
            return length + b"\x00\x00\x00"
    return None


# By size; a record that begins otherwise, or is larger, goes the general way.
_BEGINNINGS: Final = tuple(_beginning(size) for size in range(8_000))


def merge_singles(reader: BatchReader, wanted: int, limit: int, *, check_crcs: bool) -> Outgoing | None:
    """The simple one-record batches in front of the reader as one batch of at most `limit` bytes; None if there aren't two.

    `wanted` is the lowest source offset not copied yet. What was merged is behind the reader, nothing else was moved.
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
    # Where the source's offsets go on after a gap: (offset, number of the record).
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
    return Outgoing(
        b"".join(parts),
        count,
        first,
        wanted - 1,
        0,
        base,
        latest,
        rewritten=True,
        upstream_offsets=_runs(first, count, breaks),
    )


def _runs(first: int, count: int, breaks: list[tuple[int, int]]) -> tuple[tuple[int, int], ...] | None:
    if not breaks:
        return None
    starts = [(first, 0), *breaks]
    ends = [number for _, number in breaks] + [count]
    return tuple((offset, end - number) for (offset, number), end in zip(starts, ends, strict=True))
