"""Zigzag varints of records, and the small ones ready made.

Numbers are 64 bits wide and wrap as Java's do, so that any bytes give the number that Kafka's own reader has.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63


def wrapped(number: int) -> int:
    """`number` as 64 bits with a sign."""
    return ((number + _SIGN) & _MASK) - _SIGN


def encode(number: int) -> bytes:
    """A signed number as Kafka's records have it."""
    left = ((number << 1) ^ (-1 if number >> 63 & 1 else 0)) & _MASK
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


SMALL_LIMIT: Final = 8192
# From 0 up: what lengths, offsets and timestamps of a batch mostly are.
SMALL: Final = tuple(encode(number) for number in range(SMALL_LIMIT))


def encoded(number: int) -> bytes:
    """`encode` with a short cut."""
    return SMALL[number] if 0 <= number < SMALL_LIMIT else encode(number)


def decode(data: bytes, at: int) -> tuple[int, int]:
    """(number, position behind it). IndexError where the data ends, ValueError for one longer than ten bytes."""
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
