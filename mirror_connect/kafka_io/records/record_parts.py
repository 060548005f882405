"""The bytes of a record behind its deltas, as key, value and headers; and back."""

from __future__ import annotations

from typing import NamedTuple

from mirror_connect.kafka_io.records import varint


class RecordParts(NamedTuple):
    """Key, value and headers. A header may have no value."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def rest_of(parts: RecordParts) -> bytes:
    """As they are in a batch."""
    found = [_sized(parts.key), _sized(parts.value), varint.encoded(len(parts.headers))]
    for name, content in parts.headers:
        found += (_sized(name), _sized(content))
    return b"".join(found)


def parts_of(rest: bytes) -> RecordParts:
    """What `rest_of` was made of. ValueError or IndexError if the bytes are none of a record."""
    key, at = _read(rest, 0)
    value, at = _read(rest, at)
    count, at = varint.decode(rest, at)
    headers = []
    for _ in range(count):
        name, at = _read(rest, at)
        content, at = _read(rest, at)
        headers.append((name or b"", content))
    return RecordParts(key, value, tuple(headers))


def _sized(content: bytes | None) -> bytes:
    return varint.encode(-1) if content is None else varint.encoded(len(content)) + content


def _read(rest: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = varint.decode(rest, at)
    if length < 0:
        return None, at
    if at + length > len(rest):
        raise ValueError("a key, value or header in it is longer than its record")
    return rest[at : at + length], at + length
