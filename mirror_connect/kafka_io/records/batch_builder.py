"""Makes batches of records: of new ones, and of those that were read from other batches.

Their header is written later: by `stamp` in record_batch.py, with the CRC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.compression import NONE, compress
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from mirror_connect.kafka_io.records.unpacked_records import Record

_NO_ATTRIBUTES: Final = b"\x00"
_NULL: Final = varint.encode(-1)
_NO_HEADERS: Final = varint.encode(0)
# Source offsets of all partitions of a topic have the same.
HEADERS_KEPT: Final = 256


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
    return pack([record], NONE, record[0], record[0])


def of_records(records: Sequence[Record]) -> ProducerBatch:
    """An uncompressed batch of these records, as they are. Their numbers take the place of source offsets."""
    return pack(records, 0, records[0][0], records[-1][0])


def pack(records: Sequence[Record], codec: int, first_offset: int, last_offset: int) -> ProducerBatch:
    """A batch of at least one record, compressed. It covers the source's offsets from the first to the last."""
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
