"""Zigzag varints, against aiokafka's."""

from __future__ import annotations

import random

import pytest
from aiokafka.record.util import decode_varint_py, encode_varint_py

from mirror_connect.kafka_io.records import varint

EDGES = [0, -1, 1, 63, -64, 64, -65, varint.SMALL_LIMIT - 1, varint.SMALL_LIMIT, (1 << 31) - 1, -(1 << 31)]
WIDEST = [(1 << 63) - 1, -(1 << 63)]


@pytest.mark.parametrize(
    "number", [*EDGES, *WIDEST, *(random.Random(1).randint(-(1 << 62), 1 << 62) for _ in range(20))]
)
def test_a_number_is_written_as_kafka_writes_it(number: int) -> None:
    expected = bytearray()
    encode_varint_py(number, expected.append)
    assert varint.encode(number) == varint.encoded(number) == bytes(expected)


@pytest.mark.parametrize("number", [*EDGES, *WIDEST])
def test_a_number_is_read_back_with_the_position_behind_it(number: int) -> None:
    data = b"x" + varint.encode(number) + b"y"
    assert varint.decode(data, 1) == (number, len(data) - 1)
    assert decode_varint_py(bytearray(data), 1) == (number, len(data) - 1)


def test_a_number_beyond_64_bits_wraps_as_in_java() -> None:
    assert varint.decode(varint.encode((1 << 63) + 5), 0)[0] == varint.wrapped((1 << 63) + 5) == -(1 << 63) + 5


def test_a_number_longer_than_ten_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than ten"):
        varint.decode(b"\xff" * 11, 0)


def test_a_number_that_is_cut_off_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        varint.decode(b"\xff", 0)
