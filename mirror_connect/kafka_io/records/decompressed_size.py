"""How much LZ4 and Zstandard frames can decompress to, read from their block headers without decompressing anything.

Most encoders fill their blocks, so the result is usually at most one block too high. It is needed because the decoders
have no limit: they grow their output.
Layouts: lz4 "Frame Format Description" 1.6.4; RFC 8878 §3.1. IndexError and struct.error mean that the data is cut off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

_UINT32: Final = struct.Struct("<I")
_LZ4_MAGIC: Final = 0x184D2204
_ZSTD_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_SKIPPABLE_MASK: Final = 0xFFFFFFF0
# First bit of a block's size: the block is not compressed.
_LZ4_STORED: Final = 0x80000000
_ZSTD_BLOCK: Final = 128 << 10
_RAW, _RLE, _COMPRESSED = range(3)


def lz4_bound(data: bytes) -> int:
    """The most bytes that the LZ4 frames in `data` can hold. ValueError if one is not valid."""
    return _bound(data, _LZ4_MAGIC, "LZ4", _lz4_frame)


def zstd_bound(data: bytes) -> int:
    """The most bytes that the Zstandard frames in `data` can hold. ValueError if one is not valid."""
    return _bound(data, _ZSTD_MAGIC, "Zstandard", _zstd_frame)


def _bound(data: bytes, magic: int, name: str, frame: Callable[[bytes, int], tuple[int, int]]) -> int:
    """Adds up all frames. `frame` gets the position after a magic number; it returns the frame's bound and its end."""
    at = total = 0
    while at < len(data):
        found = _UINT32.unpack_from(data, at)[0]
        at += 4
        if found & _SKIPPABLE_MASK == _SKIPPABLE:
            at += 4 + _UINT32.unpack_from(data, at)[0]
            continue
        if found != magic:
            raise ValueError(f"no {name} frame")
        size, at = frame(data, at)
        total += size
    return total


def _lz4_frame(data: bytes, at: int) -> tuple[int, int]:
    total = 0
    flags, size_code = data[at], data[at + 1] >> 4 & 7
    if size_code < 4:
        raise ValueError("an LZ4 block size that does not exist")
    largest = 1 << (8 + 2 * size_code)
    # After flags and block descriptor: content size, dictionary id, header checksum.
    at += 2 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0) + 1
    while size := _UINT32.unpack_from(data, at)[0]:
        stored = size & ~_LZ4_STORED
        total += stored if size & _LZ4_STORED else largest
        at += 4 + stored + (4 if flags & 0x10 else 0)
    return total, at + 4 + (4 if flags & 0x04 else 0)


def _zstd_frame(data: bytes, at: int) -> tuple[int, int]:
    total = 0
    flags = data[at]
    single_segment = flags & 0x20
    at += 1 + (0 if single_segment else 1) + (0, 1, 2, 4)[flags & 3]
    at += (1 if single_segment else 0, 2, 4, 8)[flags >> 6]
    last = 0
    while not last:
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        total += _ZSTD_BLOCK if kind == _COMPRESSED else size
        at += 3 + (1 if kind == _RLE else size)
    return total, at + (4 if flags & 0x04 else 0)
