"""Zigzag varints of records, with a table of the small ones.

Numbers have 64 bits and wrap as in Java, so that any bytes give the same number as in Kafka's reader.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63


def wrapped(number: int) -> int:
    """`number`, wrapped to 64 bits with a sign."""
    return ((number + _SIGN) & _MASK) - _SIGN


def encode(number: int) -> bytes:
    """A number as a zigzag varint."""
    left = ((number << 1) ^ (-1 if number >> 63 & 1 else 0)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


SMALL_LIMIT: Final = 8192
# From 0 up: most lengths and deltas in a batch are this small.
SMALL: Final = tuple(encode(number) for number in range(SMALL_LIMIT))


def encoded(number: int) -> bytes:
    """`encode`, with a table for small numbers."""
    return SMALL[number] if 0 <= number < SMALL_LIMIT else encode(number)


def decode(data: bytes, at: int) -> tuple[int, int]:
    """(number, position after it). IndexError if the data ends too early, ValueError above ten bytes."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            number &= _MASK
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than ten bytes")
