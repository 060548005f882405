"""A record as it is compared: offset, timestamp (ms), content. Whoever reads gives the content in one of two forms.

librdkafka's reader gives key, value and headers apart. The fast reader gives what follows a record's deltas in its batch,
as bytes: those are equal where key, value and headers are, and are taken apart only to say in what two differ.
"""

from __future__ import annotations

from typing import Final

Headers = tuple[tuple[str, bytes | None], ...]
Content = bytes | tuple[bytes | None, bytes | None, Headers]
Record = tuple[int, int, Content]
Fields = dict[str, bytes | None]

_MASK: Final = (1 << 64) - 1
# Of a record that has nothing in it: objects are memory, too.
_OBJECTS: Final = 16


def size(content: Content) -> int:
    """About how many bytes it takes."""
    if isinstance(content, bytes):
        return len(content)
    key, value, headers = content
    taken = _OBJECTS + len(key or b"") + len(value or b"")
    return taken + sum(len(name) + len(held or b"") for name, held in headers) if headers else taken


def fields(content: Content) -> Fields:
    """Key, value and headers, these as a record has them; all of it as `value` if it can't be taken apart."""
    if not isinstance(content, bytes):
        return {"key": content[0], "value": content[1], "headers": _encoded(content[2])}
    try:
        key, at = _nullable(content, 0)
        value, at = _nullable(content, at)
    except (IndexError, ValueError):
        return {"value": content}
    return {"key": key, "value": value, "headers": content[at:]}


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _number(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError
    return data[at : at + length], at + length


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint and the place behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise ValueError


def _encoded(headers: Headers) -> bytes:
    parts = [_varint(len(headers))]
    for name, held in headers:
        told = name.encode()
        parts += (_varint(len(told)), told, _varint(-1 if held is None else len(held)), held or b"")
    return b"".join(parts)


def _varint(number: int) -> bytes:
    left = ((number << 1) ^ (number >> 63)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
