"""LZ4 frames as other encoders write them, and a decoder that checks what the format's description asks of an encoder."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import cramjam

from mirror_connect.kafka_io.records.xxhash32 import xxhash32

MAGIC = b"\x04\x22\x4d\x18"
VERSION, INDEPENDENT, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM = 0x40, 0x20, 0x10, 0x08, 0x04
STORED = 1 << 31
END = bytes(4)
LAST_LITERALS, LAST_MATCH = 5, 12
# Of blocks and contents. Whoever follows a frame that was decompressed needs none.
NO_CHECKSUM = b"\xee" * 4


def frame(data: bytes, block: int = 64 << 10, flags: int = INDEPENDENT, code: int = 4) -> bytes:
    """The data in blocks of this many bytes, with what the flags ask for. `code`: of the largest block."""
    descriptor = bytes((VERSION | flags, code << 4))
    if flags & CONTENT_SIZE:
        descriptor += len(data).to_bytes(8, "little")
    parts = [MAGIC, descriptor, bytes((xxhash32(descriptor) >> 8 & 0xFF,))]
    for at in range(0, len(data), block):
        piece = data[at : at + block]
        packed = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        stored = len(packed) >= len(piece)
        content = piece if stored else packed
        parts += (struct.pack("<I", len(content) | STORED * stored), content)
        if flags & BLOCK_CHECKSUM:
            parts.append(NO_CHECKSUM)
    parts.append(END)
    if flags & CONTENT_CHECKSUM:
        parts.append(NO_CHECKSUM)
    return b"".join(parts)


def of_blocks(packed: Sequence[bytes], code: int) -> bytes:
    """A frame of compressed blocks."""
    descriptor = bytes((VERSION | INDEPENDENT, code << 4))
    head = MAGIC + descriptor + bytes((xxhash32(descriptor) >> 8 & 0xFF,))
    return head + b"".join(struct.pack("<I", len(block)) + block for block in packed) + END


def blocks(content: bytes) -> list[bytes]:
    """The decompressed blocks of a frame without checksums. AssertionError if it is not as the format is described."""
    assert content[:4] == MAGIC
    assert content[4] == VERSION | INDEPENDENT
    assert content[6] == xxhash32(content[4:6]) >> 8 & 0xFF
    most = 64 << 10 << 2 * ((content[5] >> 4) - 4)
    at, found = 7, []
    while (head := struct.unpack_from("<I", content, at)[0]) != 0:
        size = head & ~STORED
        piece = content[at + 4 : at + 4 + size]
        assert len(piece) == size
        found.append(piece if head & STORED else _block(piece))
        assert 0 < len(found[-1]) <= most
        at += 4 + size
    assert at + 4 == len(content)
    return found


def _block(packed: bytes) -> bytes:
    out, at, begun = bytearray(), 0, 0
    while True:
        token = packed[at]
        literals, at = _length(packed, at + 1, token >> 4)
        assert at + literals <= len(packed)
        out += packed[at : at + literals]
        at += literals
        if at == len(packed):
            break
        distance = packed[at] | packed[at + 1] << 8
        length, at = _length(packed, at + 2, token & 15)
        assert 0 < distance <= len(out)
        begun = len(out)
        for _ in range(length + 4):
            out.append(out[-distance])
        ended = len(out)
    if begun:
        assert len(out) - ended >= LAST_LITERALS
        assert len(out) - begun >= LAST_MATCH
    return bytes(out)


def _length(packed: bytes, at: int, found: int) -> tuple[int, int]:
    byte = 255 if found == 15 else 0
    while byte == 255:
        byte = packed[at]
        found, at = found + byte, at + 1
    return found, at
