"""The records of a batch as columns, and columns as its records again: what Spark gets of a batch, and gives back.

The columns are buffers of Arrow's arrays, so that pyarrow needs no copy of them. A record gets new bytes only for what has
changed: its other fields stay as they are. _compiled.c does the same where it can. This code is its twin, and names what is
wrong with a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror_connect.kafka_io.records import compiled, varint
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.compression import compress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_transforms import MOST_HEADERS, MOST_TRANSFORMED

# What `wants` may name. The numbers are those of _compiled.c.
TIMESTAMP: Final = "timestamp"
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
_WANTED: Final = {TIMESTAMP: 1, KEY: 2, VALUE: 4, HEADERS: 8}
# What a column of Arrow holds at most.
_MOST_BYTES: Final = (1 << 31) - 1
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 63) - 1
_MICROSECONDS: Final = 1000
# Of a record besides its key, value and headers, as in record_transforms.py.
_FEWEST_BYTES: Final = 4
Buffer = bytes | memoryview


class BytesColumn(NamedTuple):
    """Buffers of an array of bytes: which rows are there (None: all), where each begins, and the bytes of all."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    first: int = 0


class HeadersColumn(NamedTuple):
    """Buffers of an array of lists: of each row, which of the `names` and `contents` are its headers."""

    validity: Buffer | None
    offsets: Buffer
    names: BytesColumn
    contents: BytesColumn
    first: int = 0


class TimesColumn(NamedTuple):
    """Buffers of an array of timestamps, in microseconds since the epoch."""

    validity: Buffer | None
    values: Buffer
    first: int = 0


class KeepColumn(NamedTuple):
    """The bits of an array of booleans."""

    values: Buffer
    first: int = 0


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """What was read of records; None for what was not wanted."""

    timestamps: TimesColumn | None
    keys: BytesColumn | None
    values: BytesColumn | None
    headers: HeadersColumn | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to change of records. None: it stays as it is, and without `keep` all are kept.

    A null is a null key or value, no headers, and for a timestamp the record's own.
    """

    keep: KeepColumn | None = None
    timestamps: TimesColumn | None = None
    keys: BytesColumn | None = None
    values: BytesColumn | None = None
    headers: HeadersColumn | None = None


def read_columns(batch: ProducerBatch, wants: Sequence[str]) -> RecordColumns:
    """Columns of the records of an uncompressed batch that `rewrite` has made. CorruptBatchError."""
    wanted = sum(_WANTED[each] for each in wants)
    found = None
    try:
        if compiled.functions is not None:
            found = compiled.functions.columns(batch.records, batch.count, batch.base_timestamp, wanted)
        if found is None:
            found = _columns(batch, wanted)
    except OverflowError:
        raise CorruptBatchError(
            batch.first_offset, f"it has a record of more than {MOST_HEADERS} headers, or too many bytes for columns"
        ) from None
    timestamps, keys, values, headers = found
    return RecordColumns(
        None if timestamps is None else TimesColumn(None, timestamps),
        None if keys is None else BytesColumn(*keys),
        None if values is None else BytesColumn(*values),
        None
        if headers is None
        else HeadersColumn(None, headers[0], BytesColumn(*headers[1]), BytesColumn(*headers[2])),
    )


def with_columns(batch: ProducerBatch, changes: Changes, codec: int) -> ProducerBatch | None:
    """The batch, which is uncompressed, with these changes and compressed; None if no record is kept.

    CorruptBatchError for records that can't be read, or become too many bytes. ValueError for columns that don't fit.
    """
    found = None
    try:
        if compiled.functions is not None:
            found = compiled.functions.with_columns(
                batch.records, batch.count, batch.base_timestamp, *_as_tuples(changes)
            )
        if found is None:
            found = _with_columns(batch, changes)
    except OverflowError:
        raise CorruptBatchError(
            batch.first_offset,
            f"it has a record of more than {MOST_HEADERS} headers, or becomes more than {MOST_TRANSFORMED} bytes",
        ) from None
    records, kept, base_timestamp, max_timestamp, numbers = found
    if not kept:
        return None
    ranges = SourceOffsets(batch).of_all(numbers)
    return ProducerBatch(
        compress(codec, records),
        kept,
        batch.first_offset,
        batch.last_offset,
        codec,
        base_timestamp,
        max_timestamp,
        rewritten=True,
        upstream_offsets=None if len(ranges) == 1 and ranges[0][0] == batch.first_offset else ranges,
    )


_Given = tuple[Buffer | None, Buffer, Buffer, int] | None


def _as_tuples(changes: Changes) -> tuple[_Given, ...]:
    keep, times, headers = changes.keep, changes.timestamps, changes.headers
    return (
        None if keep is None else (None, keep.values, b"", keep.first),
        None if times is None else (times.validity, times.values, b"", times.first),
        changes.keys,
        changes.values,
        None if headers is None else (headers.validity, headers.offsets, b"", headers.first),
        None if headers is None else headers.names,
        None if headers is None else headers.contents,
    )


# In Python.

_Field = bytes | None
_Bytes = tuple[bytes | None, bytes, bytes]
_Read = tuple[bytes | None, _Bytes | None, _Bytes | None, tuple[bytes, _Bytes, _Bytes] | None]


def _columns(batch: ProducerBatch, wanted: int) -> _Read:
    times: list[int] = []
    keys: list[_Field] = []
    values: list[_Field] = []
    names: list[_Field] = []
    contents: list[_Field] = []
    lists = [0]
    for delta, rest in _records(batch):
        times.append(min(max(varint.wrapped(batch.base_timestamp + delta) * _MICROSECONDS, _SMALLEST), _LARGEST))
        if not wanted & (_WANTED[KEY] | _WANTED[VALUE] | _WANTED[HEADERS]):
            continue
        with _Reading(batch):
            key, at = _field(rest, 0)
            value, at = _field(rest, at)
            keys.append(key)
            values.append(value)
            if wanted & _WANTED[HEADERS]:
                for name, content in _headers(rest, at):
                    names.append(name)
                    contents.append(content)
                lists.append(len(names))
    return (
        struct.pack(f"<{len(times)}q", *times) if wanted & _WANTED[TIMESTAMP] else None,
        _made(keys) if wanted & _WANTED[KEY] else None,
        _made(values) if wanted & _WANTED[VALUE] else None,
        (struct.pack(f"<{len(lists)}i", *lists), _made(names), _made(contents)) if wanted & _WANTED[HEADERS] else None,
    )


class _Reading:
    """What goes wrong while a record is read becomes a CorruptBatchError."""

    def __init__(self, batch: ProducerBatch) -> None:
        self._offset = batch.first_offset

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, IndexError):
            raise CorruptBatchError(self._offset, "a record in it is cut off") from None
        if isinstance(error, ValueError) and not isinstance(error, UnfitColumnError):
            raise CorruptBatchError(self._offset, str(error)) from None


class UnfitColumnError(ValueError):
    """A column has other rows than the records it is for: a bug here, or of the statement's query."""


def _records(batch: ProducerBatch) -> Iterator[tuple[int, bytes]]:
    """The timestamp delta and the rest of each record."""
    data, at = batch.records, 0
    for _ in range(batch.count):
        with _Reading(batch):
            length, at = varint.decode(data, at)
            following = at + length
            if length < _FEWEST_BYTES or following > len(data):
                raise ValueError("a record in it has an impossible length")
            delta, at = varint.decode(data, at + 1)
            at = varint.decode(data, at)[1]
            if at > following:
                raise ValueError("a record in it has an impossible length")
        yield delta, data[at:following]
        at = following
    if at != len(data) or batch.count < 0:
        raise CorruptBatchError(batch.first_offset, "there are more bytes in it than records")


def _field(rest: bytes, at: int) -> tuple[_Field, int]:
    length, at = varint.decode(rest, at)
    if length < 0:
        return None, at
    if at + length > len(rest):
        raise ValueError("a key or value in it is longer than its record")
    return rest[at : at + length], at + length


def _headers(rest: bytes, at: int) -> list[tuple[bytes, _Field]]:
    count, at = varint.decode(rest, at)
    if not 0 <= count <= len(rest) - at:
        raise ValueError(f"a record in it has {count} headers")
    if count > MOST_HEADERS:
        raise OverflowError
    found = []
    for _ in range(count):
        name, at = _field(rest, at)
        if name is None:
            raise ValueError("a header in it has no name")
        content, at = _field(rest, at)
        found.append((name, content))
    if at != len(rest):
        raise ValueError("a record in it has bytes behind its headers")
    return found


def _made(fields: Sequence[_Field]) -> _Bytes:
    offsets = [0]
    for each in fields:
        offsets.append(offsets[-1] + len(each or b""))
    if offsets[-1] > _MOST_BYTES:
        raise OverflowError
    bits = bytearray((len(fields) + 7) // 8)
    for row, each in enumerate(fields):
        if each is not None:
            bits[row // 8] |= 1 << row % 8
    whole = bytes(bits) if None in fields else None
    return whole, struct.pack(f"<{len(offsets)}i", *offsets), b"".join(each or b"" for each in fields)


def _with_columns(batch: ProducerBatch, changes: Changes) -> tuple[bytes, int, int, int, tuple[tuple[int, int], ...]]:
    parts: list[bytes] = []
    numbers: list[tuple[int, int]] = []
    kept = first = latest = size = 0
    for row, (delta, before) in enumerate(_records(batch)):
        if changes.keep is not None and not _bit(changes.keep.values, row + changes.keep.first):
            continue
        timestamp = varint.wrapped(batch.base_timestamp + delta)
        if changes.timestamps is not None:
            timestamp = _time(changes.timestamps, row, timestamp)
        rest = before
        if not (changes.keys is None and changes.values is None and changes.headers is None):
            with _Reading(batch):
                rest = _rest(before, changes, row)
        if not kept:
            first = latest = timestamp
        latest = max(latest, timestamp)
        stamp, number = varint.encode(varint.wrapped(timestamp - first)), varint.encoded(kept)
        body = b"".join((b"\x00", stamp, number, rest))
        size += len(varint.encoded(len(body))) + len(body)
        if size > MOST_TRANSFORMED:
            raise OverflowError
        parts += (varint.encoded(len(body)), body)
        if numbers and sum(numbers[-1]) == row:
            numbers[-1] = (numbers[-1][0], numbers[-1][1] + 1)
        else:
            numbers.append((row, 1))
        kept += 1
    return b"".join(parts), kept, first, latest, tuple(numbers)


def _rest(before: bytes, changes: Changes, row: int) -> bytes:
    value_at = _field(before, 0)[1]
    headers_at = _field(before, value_at)[1]
    parts = [
        before[:value_at] if changes.keys is None else _written(_given(changes.keys, row)),
        before[value_at:headers_at] if changes.values is None else _written(_given(changes.values, row)),
    ]
    if changes.headers is None:
        parts.append(before[headers_at:])
        return b"".join(parts)
    given = changes.headers
    start, end = _span(given.offsets, row + given.first, _MOST_BYTES)
    if given.validity is not None and not _bit(given.validity, row + given.first):
        end = start
    named = []
    for each in range(start, end):
        name = _given(given.names, each)
        named.append((name, _given(given.contents, each)))
        if name is None:
            raise UnfitColumnError("a column does not fit the records")
    if len(named) > MOST_HEADERS:
        raise OverflowError
    parts.append(varint.encoded(len(named)))
    for name, content in named:
        parts += (_written(name), _written(content))
    return b"".join(parts)


def _written(field: _Field) -> bytes:
    return varint.encode(-1) if field is None else varint.encoded(len(field)) + field


def _given(column: BytesColumn, row: int) -> _Field:
    row += column.first
    there = column.validity is None or _bit(column.validity, row)
    data = memoryview(column.data)
    start, end = _span(column.offsets, row, len(data))
    return bytes(data[start:end]) if there else None


def _bit(bits: Buffer, row: int) -> bool:
    view = memoryview(bits)
    if row // 8 >= len(view):
        raise UnfitColumnError("a column does not fit the records")
    return bool(view[row // 8] >> row % 8 & 1)


def _span(offsets: Buffer, row: int, size: int) -> tuple[int, int]:
    view = memoryview(offsets)
    if (row + 2) * 4 > len(view):
        raise UnfitColumnError("a column does not fit the records")
    start, end = struct.unpack_from("<II", view, 4 * row)
    if not start <= end <= size:
        raise UnfitColumnError("a column does not fit the records")
    return start, end


def _time(column: TimesColumn, row: int, own: int) -> int:
    row += column.first
    there = column.validity is None or _bit(column.validity, row)
    view = memoryview(column.values)
    if (row + 1) * 8 > len(view):
        raise UnfitColumnError("a column does not fit the records")
    return int(struct.unpack_from("<q", view, 8 * row)[0]) // _MICROSECONDS if there else own
