"""The codecs, compared with those of aiokafka, gzip and cramjam, and with malicious data."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import time
import tracemalloc

import cramjam
import pytest
from aiokafka import codec as other

from mirror_connect.kafka_io.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecError, compress, decompress
from mirror_connect.kafka_io.records.decompressed_size import lz4_bound, zstd_bound

CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
NOISE = random.Random(1).randbytes(300_000)
CONTENTS = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"a", id="one_byte"),
    pytest.param(NOISE, id="noise"),
    pytest.param(b"some text " * 100_000, id="text"),
    pytest.param(NOISE[:70_000] + bytes(200_000) + NOISE, id="mixed"),
]


@every_codec
@pytest.mark.parametrize("content", CONTENTS)
def test_decompressing_gives_back_the_compressed_bytes(codec: int, content: bytes) -> None:
    assert decompress(codec, compress(codec, content)) == content


@pytest.mark.parametrize(
    ("codec", "encode"),
    [
        pytest.param(GZIP, gzip.compress, id="gzip"),
        pytest.param(SNAPPY, lambda data: other.snappy_encode(data, xerial_compatible=True), id="snappy_as_java"),
        pytest.param(
            SNAPPY, lambda data: other.snappy_encode(data, xerial_compatible=False), id="snappy_as_librdkafka"
        ),
        pytest.param(LZ4, other.lz4_encode, id="lz4_of_independent_blocks"),
        pytest.param(LZ4, cramjam.lz4.compress, id="lz4_of_linked_blocks"),
        pytest.param(LZ4, lambda data: cramjam.lz4.compress(data, level=9), id="lz4_high_compression"),
        pytest.param(ZSTD, lambda data: cramjam.zstd.compress(data, level=1), id="zstd_fast"),
        pytest.param(ZSTD, lambda data: cramjam.zstd.compress(data, level=19), id="zstd_slow"),
    ],
)
@pytest.mark.parametrize("content", CONTENTS)
def test_data_that_other_libraries_compressed_are_read(codec: int, encode: object, content: bytes) -> None:
    assert callable(encode)
    assert decompress(codec, bytes(encode(content))) == content


@pytest.mark.parametrize(
    ("codec", "decode"),
    [
        pytest.param(GZIP, gzip.decompress, id="gzip"),
        pytest.param(SNAPPY, other.snappy_decode, id="snappy"),
        pytest.param(LZ4, other.lz4_decode, id="lz4"),
        pytest.param(ZSTD, other.zstd_decode, id="zstd"),
    ],
)
@pytest.mark.parametrize("content", CONTENTS[1:])
def test_other_libraries_read_compressed_data(codec: int, decode: object, content: bytes) -> None:
    assert callable(decode)
    assert bytes(decode(compress(codec, content))) == content


@every_codec
def test_several_streams_behind_each_other_are_read_to_the_end(codec: int) -> None:
    assert decompress(codec, compress(codec, b"first") + compress(codec, b"second")) == b"firstsecond"


def test_many_gzip_members_are_refused_in_no_time() -> None:
    members = gzip.compress(b"") * 100_000
    began = time.process_time()
    with pytest.raises(CodecError, match="have more than 1000 gzip members"):
        decompress(GZIP, members)
    assert time.process_time() - began < 0.5


def test_gzip_members_of_all_sizes_are_read_in_one_go() -> None:
    # Also data that end before, at and after each position where the decoder needs more.
    contents = [NOISE[:size] for size in (0, 1, 100, 486, 487, 488, 489, 490, 2_000, 5_000, 70_000)]
    members = [gzip.compress(content) for content in contents]
    assert decompress(GZIP, b"".join(members * 50)) == b"".join(contents * 50)


def test_bytes_after_the_last_gzip_member_are_ignored() -> None:
    assert decompress(GZIP, gzip.compress(b"first") + gzip.compress(b"second") + b"padding") == b"firstsecond"


@pytest.mark.parametrize("count", [1, 2])
def test_a_gzip_member_that_is_cut_off_is_an_error(count: int) -> None:
    with pytest.raises(CodecError, match="are cut off"):
        decompress(GZIP, (gzip.compress(NOISE) * count)[:-1])


def test_uncompressed_bytes_are_not_even_copied() -> None:
    assert decompress(NONE, NOISE) is NOISE
    assert compress(NONE, NOISE) is NOISE


def test_lz4_blocks_are_independent_because_kafkas_reader_takes_no_others() -> None:
    assert compress(LZ4, NOISE)[4] & 0x20


@pytest.mark.parametrize(
    ("size", "head"),
    [
        pytest.param(1, "04224d18604082", id="as_java"),
        pytest.param(64 << 10, "04224d18604082", id="as_java_up_to_its_block"),
        pytest.param((64 << 10) + 1, "04224d186050fb", id="with_larger_blocks"),
    ],
)
def test_an_lz4_frame_says_how_large_its_blocks_are(size: int, head: str) -> None:
    assert compress(LZ4, NOISE[:size])[:7].hex() == head


@pytest.mark.parametrize("size", [64 << 10, 256 << 10, (256 << 10) + 1, 600_000])
@pytest.mark.parametrize("content", [pytest.param(NOISE * 2, id="noise"), pytest.param(b"text " * 200_000, id="text")])
def test_lz4_blocks_are_full_and_none_is_larger_than_its_content(size: int, content: bytes) -> None:
    packed = compress(LZ4, content[:size])
    blocks = -(-size // (256 << 10))
    assert bytes(other.lz4_decode(packed)) == content[:size]
    assert len(packed) <= size + 7 + 4 * blocks + 4
    assert lz4_bound(packed) <= max(64 << 10, blocks * (256 << 10))


def test_snappy_is_framed_as_javas_reader_wants_it() -> None:
    assert compress(SNAPPY, NOISE).startswith(b"\x82SNAPPY\x00")


@every_codec
def test_exactly_the_limit_is_let_through(codec: int) -> None:
    content = bytes(1 << 20)
    assert decompress(codec, compress(codec, content), limit=1 << 20) == content


@every_codec
def test_more_than_the_limit_is_refused_before_it_takes_memory(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="decompress to more than 1048576 bytes"):
            decompress(codec, bomb, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("codec", "most"), [(LZ4, 65_536), (ZSTD, 131_072)], ids=["lz4", "zstd"])
def test_blocks_that_their_encoder_did_not_fill_count_by_their_content(codec: int, most: int) -> None:
    # Like an encoder that flushes after each record.
    content = b"a record that repeats itself " * 10
    flushed = compress(codec, content) * 50
    assert (lz4_bound if codec == LZ4 else zstd_bound)(flushed) >= most
    assert decompress(codec, flushed, limit=len(content) * 50) == content * 50
    with pytest.raises(CodecError, match="decompress to more than 14499 bytes"):
        decompress(codec, flushed, limit=len(content) * 50 - 1)


def test_a_snappy_block_that_claims_four_gigabytes_is_refused() -> None:
    with pytest.raises(CodecError, match="decompress"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00")


@pytest.mark.parametrize("size", [-1, 0, 1 << 30, -(1 << 31)])
def test_a_snappy_frame_with_an_impossible_block_size_is_refused(size: int) -> None:
    header = compress(SNAPPY, b"")[:16]
    with pytest.raises(CodecError, match="cut off"):
        decompress(SNAPPY, header + struct.pack(">i", size) + b"some bytes")


@every_codec
def test_data_cut_off_anywhere_is_refused_or_whole_blocks_of_it_read(codec: int) -> None:
    content = b"".join(b"line %d\n" % number for number in range(10_000))
    whole = compress(codec, content)
    for cut in range(0, len(whole) - 1, 37):
        try:
            got = decompress(codec, whole[:cut])
        except CodecError:
            continue
        # A xerial stream has no end mark, so it may end after any block. Then the batch's record count shows the error.
        assert codec == SNAPPY
        assert content.startswith(got)


@every_codec
@pytest.mark.parametrize("seed", range(5))
def test_damaged_data_gives_bytes_within_the_limit_or_an_error(codec: int, seed: int) -> None:
    rng = random.Random(seed)
    whole = compress(codec, b"".join(b"line %d\n" % number for number in range(2_000)) + NOISE[:500])
    sizes = []
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(min(len(damaged), rng.choice([20, 1 << 20])))] = rng.randrange(256)
        with contextlib.suppress(CodecError):
            sizes.append(len(decompress(codec, bytes(damaged), limit=1 << 20)))
    assert max(sizes, default=0) <= 1 << 20
    assert len(sizes) < 300


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(CodecError, match="no compression codec 6"):
        decompress(6, b"")


@pytest.mark.parametrize("content", CONTENTS)
def test_the_bound_of_a_frame_is_its_size_or_up_to_one_block_more(content: bytes) -> None:
    for encoded in (compress(LZ4, content), bytes(cramjam.lz4.compress(content))):
        assert len(content) <= lz4_bound(encoded) <= len(content) + (4 << 20)
    assert len(content) <= zstd_bound(compress(ZSTD, content)) <= len(content) + (128 << 10)
