"""The five codecs of record batches, by the number in a batch's attributes.

Any producer may have compressed the records, so their decompressed size is limited before memory is allocated.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import cramjam
from aiokafka import codec as _codec

from mirror_connect.kafka_io.records.decompressed_size import lz4_bound, zstd_bound
from mirror_connect.kafka_io.records.xxhash32 import xxhash32

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

# Far more than a usual batch of a few megabytes holds, far less than a malicious one can (zstd: 32,000 times its size).
MOST_DECOMPRESSED: Final = 256 << 20

_GZIP_WINDOW: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_FIRST_PIECE: Final = 512
# Producers write one member. One of 20 bytes takes as much time as one of kilobytes.
_MOST_GZIP_MEMBERS: Final = 1000
# The frames of LZ4 that are written here: blocks that need no other block, as Kafka's Java reader requires it, and no
# checksums, as a batch has its own. A block may have 64 KiB (4), as Java writes them, or 256 KiB (5): docs/decisions/0064.
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAGS: Final = 0x60
_LZ4_SMALL: Final = 64 << 10
_LZ4_LARGE: Final = 256 << 10
_LZ4_STORED: Final = 1 << 31
_LZ4_END: Final = bytes(4)
_LZ4_SIZE: Final = struct.Struct("<I")
# The most bytes that one byte can become. LZ4: it adds 255 to the length of a match. Zstandard: four bytes are a block of
# 128 KiB. With these limits, the blocks of small batches need not be read.
_LZ4_MOST: Final = 255
_ZSTD_MOST: Final = 32 << 10
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
# Magic, version, oldest version that can read it.
_XERIAL_HEADER_SIZE: Final = len(_XERIAL_MAGIC) + 8
_NO_MORE_ROOM: Final = "failed to write whole buffer"
_BLOCK_SIZE: Final = struct.Struct(">i")
_XERIAL_MAGIC_AS_SIZE: Final = _BLOCK_SIZE.unpack_from(_XERIAL_MAGIC)[0]


class CodecError(Exception):
    """The bytes are not valid, they decompress to too much, or their codec does not exist."""


class DecompressesTooMuchError(CodecError):
    """The records decompress to more than the caller's limit."""


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise DecompressesTooMuchError(f"its compressed records decompress to more than {limit} bytes")


def _gzip_decode(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    total = at = 0
    view = memoryview(data)
    # Gzip data may have several members; zlib stops after the first one without an error.
    for _ in range(_MOST_GZIP_MEMBERS):
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        # zlib copies what follows a member's end. The first member, nearly always the only one, gets all the data. Later
        # ones get a small piece, then twice as much each time, so that all copies together are about as long as the data.
        piece = len(data) if at == 0 else _GZIP_FIRST_PIECE
        while not unpacker.eof:
            if at >= len(data):
                raise CodecError("its compressed records are cut off")
            parts.append(unpacker.decompress(view[at : at + piece], limit - total + 1))
            total += len(parts[-1])
            _check(total, limit)
            at = min(at + piece, len(data)) - len(unpacker.unused_data)
            piece *= 2
        if not data.startswith(_GZIP_MAGIC, at):
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise CodecError(f"its compressed records have more than {_MOST_GZIP_MEMBERS} gzip members")


def _gzip_encode(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _snappy_decode(data: bytes, limit: int) -> bytes:
    # Java writes snappy as xerial blocks, librdkafka does not; readers need both.
    if not data.startswith(_XERIAL_MAGIC):
        _check(cramjam.snappy.decompress_raw_len(data), limit)
        return bytes(cramjam.snappy.decompress_raw(data))
    parts: list[bytes] = []
    total, at = 0, _XERIAL_HEADER_SIZE
    while at < len(data):
        size = _BLOCK_SIZE.unpack_from(data, at)[0]
        if size == _XERIAL_MAGIC_AS_SIZE:  # a second stream after the first: Java reads it, too
            at += _XERIAL_HEADER_SIZE
            continue
        at += _BLOCK_SIZE.size
        if not 0 < size <= len(data) - at:
            raise CodecError("its compressed records are cut off")
        block = data[at : at + size]
        total += cramjam.snappy.decompress_raw_len(block)
        _check(total, limit)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        at += size
    return b"".join(parts)


def _within(decompress_into: Callable[[bytes, mmap.mmap], int], data: bytes, limit: int) -> bytes:
    # Either too large, or the encoder did not fill its blocks (it may flush after each record): only decompressing shows it.
    # The pages of the map cost nothing until they are written.
    with mmap.mmap(-1, limit) as room:
        try:
            return room[: decompress_into(data, room)]
        except cramjam.DecompressionError as error:
            if _NO_MORE_ROOM in str(error):
                _check(limit + 1, limit)
            raise


def _lz4_decode(data: bytes, limit: int) -> bytes:
    if len(data) * _LZ4_MOST > limit and lz4_bound(data) > limit:
        return _within(cramjam.lz4.decompress_into, data, limit)
    return bytes(cramjam.lz4.decompress(data))


def _lz4_head(block_size: int) -> bytes:
    descriptor = bytes((_LZ4_FLAGS, block_size << 4))
    return _LZ4_MAGIC + descriptor + bytes((xxhash32(descriptor) >> 8 & 0xFF,))


_LZ4_HEAD_SMALL: Final = _lz4_head(4)
_LZ4_HEAD_LARGE: Final = _lz4_head(5)


def _lz4_encode(data: bytes) -> bytes:
    parts = [_LZ4_HEAD_SMALL if len(data) <= _LZ4_SMALL else _LZ4_HEAD_LARGE]
    view = memoryview(data)
    for at in range(0, len(data), _LZ4_LARGE):
        block = view[at : at + _LZ4_LARGE]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_LZ4_SIZE.pack(len(packed)), packed)
        else:
            parts += (_LZ4_SIZE.pack(len(block) | _LZ4_STORED), bytes(block))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _zstd_decode(data: bytes, limit: int) -> bytes:
    if len(data) * _ZSTD_MOST > limit and zstd_bound(data) > limit:
        return _within(cramjam.zstd.decompress_into, data, limit)
    return bytes(cramjam.zstd.decompress(data))


_DECODERS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    GZIP: _gzip_decode,
    SNAPPY: _snappy_decode,
    LZ4: _lz4_decode,
    ZSTD: _zstd_decode,
}
_ENCODERS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    GZIP: _gzip_encode,
    SNAPPY: lambda data: bytes(_codec.snappy_encode(data)),
    LZ4: _lz4_encode,
    # Level 3 is Kafka's default; cramjam's differs from version to version.
    ZSTD: lambda data: bytes(_codec.zstd_encode(data, level=3)),
}


def decompress(codec: int, data: bytes, limit: int = MOST_DECOMPRESSED) -> bytes:
    """The records, decompressed. CodecError if that is not possible, DecompressesTooMuchError above `limit` bytes."""
    if codec == NONE:
        return data
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise CodecError(f"there is no compression codec {codec}")
    try:
        return decoder(data, limit)
    except CodecError:
        raise
    except Exception:  # noqa: BLE001 — each codec and decoder has errors of its own
        raise CodecError(f"its records can't be decompressed as {_NAMES[codec]}") from None


def compress(codec: int, data: bytes) -> bytes:
    """The inverse of `decompress`."""
    return data if codec == NONE else _ENCODERS[codec](data)
