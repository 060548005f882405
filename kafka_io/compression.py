"""The five codecs of record batches, by the number in a batch's attributes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final

import cramjam
from aiokafka import codec as _codec

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_GZIP_WINDOW: Final = 31


class CodecError(Exception):
    """Bytes that are not what their codec says, or a codec that there is none of."""


def _gzip_decode(data: bytes) -> bytes:
    return zlib.decompress(data, _GZIP_WINDOW)


def _gzip_encode(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _snappy_decode(data: bytes) -> bytes:
    # Java frames snappy in blocks (xerial), librdkafka doesn't; readers have to take both.
    return bytes(_codec.snappy_decode(data))


def _lz4_encode(data: bytes) -> bytes:
    # Kafka's Java reader wants independent blocks, which is what this frame has.
    return bytes(_codec.lz4_encode(data))


_DECODERS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    GZIP: _gzip_decode,
    SNAPPY: _snappy_decode,
    LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}
_ENCODERS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    GZIP: _gzip_encode,
    SNAPPY: lambda data: bytes(_codec.snappy_encode(data)),
    LZ4: _lz4_encode,
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}


def decompress(codec: int, data: bytes) -> bytes:
    """The records of a batch; CodecError for anything that can't be decompressed."""
    if codec == NONE:
        return data
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise CodecError(f"there is no compression codec {codec}")
    try:
        return decoder(data)
    except Exception as error:  # noqa: BLE001 — each codec and decoder has errors of its own
        raise CodecError(f"its compressed records can't be read ({type(error).__name__})") from None


def compress(codec: int, data: bytes) -> bytes:
    """The inverse of `decompress`."""
    return data if codec == NONE else _ENCODERS[codec](data)
