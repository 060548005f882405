"""The bound of what frames decompress to, by frames written by hand; test_compression.py compares it with real codecs."""

from __future__ import annotations

import struct

import pytest

from mirror_connect.kafka_io.records.decompressed_size import lz4_bound, zstd_bound

LZ4 = struct.pack("<I", 0x184D2204)
ZSTD = struct.pack("<I", 0xFD2FB528)
SKIPPED = struct.pack("<II", 0x184D2A53, 3) + b"any"
LZ4_END = bytes(4)


def lz4_frame(*blocks: bytes, flags: int = 0x40, size_code: int = 4, extra: bytes = b"") -> bytes:
    return LZ4 + bytes([flags, size_code << 4]) + extra + b"\0" + b"".join(blocks) + LZ4_END


def lz4_block(content: bytes, *, stored: bool = False) -> bytes:
    return struct.pack("<I", len(content) | (0x80000000 if stored else 0)) + content


def zstd_block(kind: int, size: int, content: bytes, *, last: bool = True) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + content


@pytest.mark.parametrize(
    ("data", "bound"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(lz4_frame(lz4_block(b"abc")), 65_536, id="a_block_can_fill_its_size"),
        pytest.param(lz4_frame(lz4_block(b"abc"), size_code=7), 4 << 20, id="of_four_megabytes"),
        pytest.param(lz4_frame(lz4_block(b"abc", stored=True)), 3, id="a_stored_block_is_what_it_is"),
        pytest.param(lz4_frame(lz4_block(b"abc", stored=True), flags=0x48, extra=bytes(8)), 3, id="with_content_size"),
        pytest.param(lz4_frame(lz4_block(b"abc", stored=True) + bytes(4), flags=0x50), 3, id="with_block_checksums"),
        pytest.param(SKIPPED + lz4_frame(lz4_block(b"a", stored=True)) * 2, 2, id="all_frames_and_no_skipped_one"),
    ],
)
def test_lz4_frames_are_bounded_by_their_blocks(data: bytes, bound: int) -> None:
    assert lz4_bound(data) == bound


@pytest.mark.parametrize(
    ("data", "bound"),
    [
        pytest.param(ZSTD + b"\x20\x03" + zstd_block(0, 3, b"abc"), 3, id="raw"),
        pytest.param(ZSTD + b"\x20\x03" + zstd_block(1, 100_000, b"a"), 100_000, id="one_byte_repeated"),
        pytest.param(ZSTD + b"\x20\x03" + zstd_block(2, 3, b"abc"), 128 << 10, id="compressed"),
        pytest.param(
            ZSTD + b"\x00\x58" + zstd_block(0, 1, b"a", last=False) + zstd_block(0, 2, b"bc"), 3, id="two_blocks"
        ),
        pytest.param(SKIPPED + ZSTD + b"\x24\x01" + zstd_block(0, 1, b"a") + bytes(4), 1, id="with_a_checksum"),
    ],
)
def test_zstd_frames_are_bounded_by_their_blocks(data: bytes, bound: int) -> None:
    assert zstd_bound(data) == bound


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="no LZ4 frame"):
        lz4_bound(ZSTD)
    with pytest.raises(ValueError, match="no Zstandard frame"):
        zstd_bound(LZ4)
    with pytest.raises(ValueError, match="block size that does not exist"):
        lz4_bound(lz4_frame(size_code=3))


def test_a_frame_without_its_end_is_cut_off() -> None:
    with pytest.raises(struct.error):
        lz4_bound(lz4_frame(lz4_block(b"abc"))[:-4])
    with pytest.raises(IndexError):
        zstd_bound(ZSTD + b"\x20\x03" + zstd_block(0, 3, b"abc", last=False))
