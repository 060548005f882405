"""Kafka's primitive types, read and written."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.protocol.codec import Reader, WireError, Writer


def test_an_array_longer_than_its_answer_is_refused() -> None:
    with pytest.raises(WireError, match="more than can fit"):
        Reader(memoryview(b"\x7f\xff\xff\xff")).array(lambda: None)


@pytest.mark.parametrize("flexible", [False, True])
def test_what_a_writer_writes_a_reader_reads(flexible: bool) -> None:
    writer = Writer(flexible=flexible)
    for write, number in ((writer.int8, -8), (writer.int16, -16), (writer.int32, -32), (writer.int64, -64)):
        write(number)
    writer.string("é")
    writer.string(None)
    writer.array(["a", ""], writer.string)
    writer.length(None)
    writer.tags()
    reader = Reader(memoryview(b"".join(writer.buffers())), flexible=flexible)
    assert (reader.int8(), reader.int16(), reader.int32(), reader.int64()) == (-8, -16, -32, -64)
    assert (reader.nullable_string(), reader.nullable_string()) == ("é", None)
    assert (reader.array(reader.string), reader.array(reader.string)) == (["a", ""], [])
    reader.tags()
    assert reader.at == len(reader.buffer)


@pytest.mark.parametrize(("number", "written"), [(0, "00"), (127, "7f"), (128, "8001"), (2**32 - 1, "ffffffff0f")])
def test_unsigned_varints_have_seven_bits_a_byte(number: int, written: str) -> None:
    writer = Writer(flexible=True)
    writer.unsigned_varint(number)
    assert b"".join(writer.buffers()).hex() == written
    assert Reader(memoryview(bytes.fromhex(written))).unsigned_varint() == number


def test_a_varint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(WireError, match="more than five bytes at byte 0"):
        Reader(memoryview(b"\xff" * 6)).unsigned_varint()


def test_payloads_are_kept_as_they_are_with_their_length_in_front() -> None:
    pieces = [bytearray(b"head" * 100), memoryview(b"body" * 100)]
    writer = Writer()
    writer.payload(pieces)
    writer.int8(1)
    buffers = writer.buffers()
    assert b"".join(buffers) == b"\0\0\x03\x20" + b"head" * 100 + b"body" * 100 + b"\x01"
    assert all(any(buffer is piece for buffer in buffers) for piece in pieces)


def test_small_pieces_of_a_payload_go_with_the_fields_around_them() -> None:
    writer, body = Writer(), b"body" * 100
    writer.int8(7)
    writer.payload([bytearray(b"head"), body, b"tail"])
    writer.int8(1)
    assert writer.buffers() == [b"\x07\0\0\x01\x98head", body, b"tail\x01"]
