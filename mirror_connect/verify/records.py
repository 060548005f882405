"""A record as it is compared: offset, timestamp (ms), content; and how two records differ.

librdkafka's reader gives key, value and headers separately. The copier's reader gives the bytes that follow a record's
deltas in its batch. Those bytes are equal where key, value and headers are. They are decoded only to describe a difference.
"""

from __future__ import annotations

from typing import Final

Headers = tuple[tuple[str, bytes | None], ...]
Content = bytes | tuple[bytes | None, bytes | None, Headers]
Record = tuple[int, int, Content]
Fields = dict[str, bytes | None]

_MASK: Final = (1 << 64) - 1
# Bytes of an empty record: objects need memory, too.
_OBJECTS: Final = 16


def size(content: Content) -> int:
    """About how many bytes of memory the content takes."""
    if isinstance(content, bytes):
        return len(content)
    key, value, headers = content
    taken = _OBJECTS + len(key or b"") + len(value or b"")
    return taken + sum(len(name) + len(held or b"") for name, held in headers) if headers else taken


def fields(content: Content) -> Fields:
    """Key, value and encoded headers. Content that can't be decoded is all `value`."""
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
    """A zigzag varint, and the index after it."""
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
        encoded = name.encode()
        parts += (_varint(len(encoded)), encoded, _varint(-1 if held is None else len(held)), held or b"")
    return b"".join(parts)


def _varint(number: int) -> bytes:
    left = ((number << 1) ^ (number >> 63)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def alike(one: Record, other: Record, *, same_key: bool = False) -> bool:
    """Whether one may be a changed copy of the other: two of timestamp, key, value and headers are equal, or more."""
    first, second = fields(one[2]), fields(other[2])
    if same_key and (first.get("key") != second.get("key") or one[1] != other[1]):
        return False
    same = (one[1] == other[1]) + sum(first.get(name) == second.get(name) for name in ("key", "value", "headers"))
    return same >= 2


def difference(source: Record, target: Record, *, timestamps: bool) -> str:
    """Such as `value differs in 3 of 1024 bytes, the first is byte 17`. Semicolons join several differences.

    Contents are never shown, because they may be secrets.
    """
    lines = []
    if timestamps and source[1] != target[1]:
        lines.append(f"timestamp {target[1]} instead of {source[1]}")
    first, second = fields(source[2]), fields(target[2])
    for name in first.keys() | second.keys():
        if first.get(name) != second.get(name):
            lines.append(_difference(name, first.get(name), second.get(name)))
    return "; ".join(sorted(lines)) or "its encoding differs"


def _difference(name: str, source: bytes | None, target: bytes | None) -> str:
    if source is None:
        return f"{name} of {len(target or b'')} bytes instead of null"
    if target is None:
        return f"{name} null instead of {len(source)} bytes"
    at = next((at for at, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), None)
    if len(source) != len(target):
        where = min(len(source), len(target)) if at is None else at
        return f"{name} of {len(target)} bytes instead of {len(source)}, different from byte {where} on"
    wrong = sum(a != b for a, b in zip(source, target, strict=True))
    return f"{name} differs in {wrong} of {len(source)} bytes, the first is byte {at}"
