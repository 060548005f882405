"""Merges small batches of a partition into one: each batch has 61 bytes of header and a CRC.

Only the lengths and deltas of records are written again. compiled.py does the same where it can, and single_records.py for
batches of one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror_connect.kafka_io.records import compiled, varint
from mirror_connect.kafka_io.records.compression import CodecError, DecompressesTooMuchError, decompress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.unpacked_records import reason_of

_NO_ATTRIBUTES: Final = b"\x00"
# Consumers may limit what a batch decompresses to. Merging needs at most twice this much memory.
MERGED_DECOMPRESSED: Final = 8 << 20


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
        compiled.compress_merged(batches[:used], decompressed, records),
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
        raise CorruptBatchError(each.first_offset, reason_of(error)) from None
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
