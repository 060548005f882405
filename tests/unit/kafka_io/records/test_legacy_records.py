"""Messages of magic 0 and 1, written by aiokafka; compacted and damaged ones by hand."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.kafka_io.records.compression import GZIP, LZ4, compress
from mirror_connect.kafka_io.records.legacy_records import LegacyError, LegacyRecord, crc_is_right, decode
from mirror_connect.kafka_io.records.xxhash32 import xxhash32

NOW = 1_790_000_000_000
LOG_APPEND_TIME = 0x08


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = NOW,
    key: bytes | None = None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for each in (key, value):
        body += struct.pack(">i", -1) if each is None else struct.pack(">i", len(each)) + each
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def built(magic: int, codec: int) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for number in range(4):
        builder.append(number, timestamp=NOW + number, key=b"k", value=b"v%d" % number * 30)
    content = builder.build()
    if codec:
        # A broker gives the outer message the offset of its last one; a producer leaves that at 0.
        struct.pack_into(">q", content, 0, 3)
    return bytes(content)


# aiokafka writes no LZ4 in magic 0.
@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)])
def test_a_compressed_set_gives_its_records(magic: int, codec: int) -> None:
    whole = built(magic, codec)
    assert crc_is_right(whole)
    assert decode(whole) == [
        LegacyRecord(number, NOW + number if magic else -1, b"k", b"v%d" % number * 30) for number in range(4)
    ]


def test_null_and_empty_keys_and_values_stay_different() -> None:
    assert decode(message(5, None, key=b"")) == [LegacyRecord(5, NOW, b"", None)]
    assert decode(message(5, b"", key=None)) == [LegacyRecord(5, NOW, None, b"")]


def test_inner_offsets_of_magic_1_count_back_from_the_outer_one_also_after_compaction() -> None:
    inner = message(0, b"a") + message(3, b"b") + message(7, b"c")
    assert [each.offset for each in decode(message(107, compress(GZIP, inner), attributes=GZIP))] == [100, 103, 107]


def test_inner_offsets_of_magic_0_are_absolute() -> None:
    inner = message(100, b"a", magic=0) + message(103, b"b", magic=0)
    outer = message(103, compress(GZIP, inner), magic=0, attributes=GZIP)
    assert [each.offset for each in decode(outer)] == [100, 103]


def test_the_brokers_clock_in_the_outer_message_counts_for_all_inner_ones() -> None:
    inner = message(0, b"a", timestamp=1) + message(1, b"b", timestamp=2)
    outer = message(1, compress(GZIP, inner), attributes=GZIP | LOG_APPEND_TIME, timestamp=NOW)
    assert [each.timestamp for each in decode(outer)] == [NOW, NOW]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        pytest.param(
            {"attributes": GZIP | LOG_APPEND_TIME},
            [message(0, b"a", magic=0), message(2, b"b", magic=0)],
            [(10, -1), (12, -1)],
            id="magic_0_in_1",
        ),
        pytest.param(
            {"magic": 0, "attributes": GZIP},
            [message(10, b"a", timestamp=7), message(12, b"b", timestamp=8)],
            [(10, 7), (12, 8)],
            id="magic_1_in_0",
        ),
    ],
)
def test_inner_messages_of_the_other_format_are_read_as_kafka_reads_them(
    outer: dict[str, int], inner: list[bytes], expected: list[tuple[int, int]]
) -> None:
    # Expected: what AbstractLegacyRecordBatch of kafka-clients 4.3.1 gives for these bytes.
    found = decode(message(12, compress(GZIP, b"".join(inner)), **outer))
    assert [(each.offset, each.timestamp) for each in found] == expected


def test_an_lz4_header_checksum_as_producers_of_magic_0_wrote_it_is_read() -> None:
    frame = bytearray(compress(LZ4, message(0, b"value" * 50, magic=0)))
    wrong = xxhash32(bytes(frame[:6])) >> 8 & 0xFF
    assert wrong != frame[6]
    frame[6] = wrong
    assert [each.value for each in decode(message(0, bytes(frame), magic=0, attributes=LZ4))] == [b"value" * 50]


@pytest.mark.parametrize(("content", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_the_hash_has_its_published_values(content: bytes, expected: int) -> None:
    assert xxhash32(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(17), id="shorter_than_a_header"),
        pytest.param(message(0, compress(GZIP, b""), attributes=GZIP), id="empty_set"),
        pytest.param(message(0, None, attributes=GZIP), id="null_set"),
        pytest.param(message(0, b"no gzip", attributes=GZIP), id="not_compressed"),
        pytest.param(message(0, compress(GZIP, message(0, b"a")[:-1]), attributes=GZIP), id="inner_cut_off"),
        pytest.param(
            message(0, compress(GZIP, message(0, b"a", attributes=GZIP)), attributes=GZIP),
            id="compressed_within_compressed",
        ),
        pytest.param(message(0, b"a")[:-2], id="value_cut_off"),
        pytest.param(message(0, b"", magic=0, attributes=LZ4), id="empty_lz4"),
    ],
)
def test_what_is_no_message_set_is_refused(content: bytes) -> None:
    with pytest.raises(LegacyError):
        decode(content)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_damage_gives_records_or_an_error_and_nothing_else(magic: int, codec: int) -> None:
    rng = random.Random(codec)
    whole = built(magic, codec)
    outcomes: set[type] = set()
    for _ in range(500):
        damaged = bytearray(whole[: rng.randint(18, len(whole))])
        damaged[rng.randrange(min(40, len(damaged)))] = rng.randrange(256)
        try:
            outcomes.add(type(decode(bytes(damaged))))
        except LegacyError as error:
            outcomes.add(type(error))
    assert LegacyError in outcomes
