"""The partition of a key, as Kafka's default partitioner chooses it (murmur2)."""

from __future__ import annotations

from typing import Final

_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit number (Java's is the same number, signed)."""
    length = len(data)
    h = 0x9747B28C ^ length
    for at in range(0, length - 3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if rest := length & 3:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for(key: bytes, count: int) -> int:
    """The partition of a key in a topic of `count` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % count
