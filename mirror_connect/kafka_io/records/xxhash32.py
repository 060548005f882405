"""xxHash-32 of fewer than 16 bytes: the checksum in the header of an LZ4 frame. No small package has it."""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFF
_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393
_MOST: Final = 16


def xxhash32(data: bytes) -> int:
    """The hash with seed 0. ValueError for 16 bytes and more."""
    if len(data) >= _MOST:
        raise ValueError("only fewer than 16 bytes can be hashed")
    number, words = _PRIME_5 + len(data), len(data) & ~3
    for at in range(0, words, 4):
        number = number + int.from_bytes(data[at : at + 4], "little") * _PRIME_3 & _MASK
        number = _rotated(number, 17) * _PRIME_4 & _MASK
    for byte in data[words:]:
        number = number + byte * _PRIME_5 & _MASK
        number = _rotated(number, 11) * _PRIME_1 & _MASK
    number = (number ^ number >> 15) * _PRIME_2 & _MASK
    number = (number ^ number >> 13) * _PRIME_3 & _MASK
    return number ^ number >> 16


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> 32 - by) & _MASK
