"""Kafka's protocol types as bytes: written values are read back, and impossible ones are refused in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror_connect.connectors.records.binary import (
    INT16,
    INT32,
    INT64,
    Reader,
    UnreadableRecord,
    text_bytes,
    varint_bytes,
)


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**70 - 1, b"\xff" * 9 + b"\x7f"),
    ],
)
def test_a_varint_has_seven_bits_a_byte_lowest_first(number: int, data: bytes) -> None:
    assert varint_bytes(number) == data
    assert Reader(data, "record").varint() == number


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 10 + b"\x01"], ids=["empty", "cut_off", "too_long"])
def test_a_varint_without_an_end_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableRecord, match="record: a number without an end"):
        Reader(data, "record").varint()


def test_fields_are_read_in_their_order_and_bytes_behind_them_are_left_alone() -> None:
    data = INT16.pack(-1) + INT32.pack(7) + INT64.pack(-(2**63)) + text_bytes("é") + varint_bytes(500) + b"more"
    reader = Reader(data, "record")
    read = (reader.int16(), reader.int32(), reader.int64(), reader.text(), reader.varint(), reader.raw(2))
    assert read == (-1, 7, -(2**63), "é", 500, b"mo")


def test_a_texts_length_counts_bytes() -> None:
    assert text_bytes("é") == b"\x00\x02\xc3\xa9"


def test_the_longest_text_fits_and_a_longer_one_is_refused() -> None:
    assert Reader(text_bytes("x" * 32767), "record").text() == "x" * 32767
    with pytest.raises(ValueError, match="32768 bytes does not fit"):
        text_bytes("x" * 32768)


@pytest.mark.parametrize(
    ("data", "read", "problem"),
    [
        pytest.param(b"\x00", Reader.int16, "1 bytes are too few", id="a_short_number"),
        pytest.param(b"\x00" * 7, Reader.int64, "7 bytes are too few", id="a_short_long"),
        pytest.param(b"\xff\xff", Reader.text, "a length of -1 with 0 bytes left", id="a_null_text"),
        pytest.param(b"\x00\x05ab", Reader.text, "a length of 5 with 2 bytes left", id="a_text_cut_off"),
        pytest.param(b"\x00\x01\xff", Reader.text, "a text that is not UTF-8", id="no_utf_8"),
        pytest.param(
            INT32.pack(-1), Reader.partition, "no partition can have the number -1", id="a_negative_partition"
        ),
        pytest.param(text_bytes("a b"), Reader.topic, "no topic can be called 'a b'", id="a_topic_with_a_space"),
        pytest.param(text_bytes(""), Reader.topic, "no topic can be called ''", id="a_topic_without_a_name"),
        pytest.param(text_bytes(".."), Reader.topic, r"no topic can be called '\.\.'", id="a_topic_of_dots"),
    ],
)
def test_what_no_record_can_hold_names_the_record_and_the_problem(
    data: bytes, read: Callable[[Reader], object], problem: str
) -> None:
    with pytest.raises(UnreadableRecord, match=f"^offset sync: {problem}$"):
        read(Reader(data, "offset sync"))


def test_a_topic_name_ends_at_249_characters_and_a_longer_one_is_shown_cut() -> None:
    assert Reader(text_bytes("t" * 249), "record").topic() == "t" * 249
    with pytest.raises(UnreadableRecord, match=f"called '{'t' * 50}'…$"):
        Reader(text_bytes("t" * 250), "record").topic()


def test_another_version_is_unreadable() -> None:
    Reader(INT16.pack(0), "checkpoint").version(0)
    with pytest.raises(UnreadableRecord, match="checkpoint: version 1, only 0 is known"):
        Reader(INT16.pack(1), "checkpoint").version(0)


def test_a_record_without_a_value_is_unreadable() -> None:
    with pytest.raises(UnreadableRecord, match="heartbeat: null"):
        Reader(None, "heartbeat")
