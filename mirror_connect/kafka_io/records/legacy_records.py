"""Reads messages in the formats before Kafka 0.11 (magic 0 and 1). Brokers before 4.0 still serve such logs.

The value of a compressed message is a set of messages. In magic 1, inner offsets are relative to the first one, and the
outer offset is that of the last message; in magic 0 all are absolute. Layout: Kafka's protocol guide, "Old Message Formats".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mirror_connect.kafka_io.records.compression import LZ4, CodecError, decompress
from mirror_connect.kafka_io.records.xxhash32 import xxhash32

NO_TIMESTAMP = -1

_HEAD: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_FROM: Final = 12
_CRC_AT: Final = 12
_CRC_FROM: Final = 16
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_LZ4_FLAGS_AT: Final = 4


@dataclass(frozen=True, slots=True)
class LegacyRecord:
    """One record; `timestamp` in ms, NO_TIMESTAMP for magic 0, which has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class LegacyError(Exception):
    """A message set that can't be decoded."""


@dataclass(frozen=True, slots=True)
class _Message:
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def crc_is_right(message: bytes) -> bool:
    """Whether the CRC-32 in the message is right."""
    return len(message) >= _HEAD.size and zlib.crc32(message[_CRC_FROM:]) == int.from_bytes(
        message[_CRC_AT:_CRC_FROM], "big"
    )


def decode(message: bytes) -> list[LegacyRecord]:
    """The records of one message; a compressed one has several. LegacyError if it is not valid."""
    try:
        outer = next(_messages(message))
        codec = outer.attributes & _CODEC_MASK
        if codec == 0:
            return [LegacyRecord(outer.offset, outer.timestamp, outer.key, outer.value)]
        if outer.value is None:
            raise LegacyError("its compressed message is empty")
        data = outer.value
        if codec == LZ4 and outer.magic == 0:
            data = _with_right_lz4_checksum(data)
        inner = list(_messages(decompress(codec, data)))
    except CodecError as error:
        raise LegacyError(str(error)) from None
    except (struct.error, IndexError, StopIteration):
        raise LegacyError("a message in it is cut off") from None
    if not inner:
        raise LegacyError("its compressed message is empty")
    return _inner_records(outer, inner)


def _inner_records(outer: _Message, inner: list[_Message]) -> list[LegacyRecord]:
    for each in inner:
        if each.attributes & _CODEC_MASK:
            raise LegacyError("a message in its compressed message is compressed itself")
    # The outer message's format decides; like Kafka's reader, this accepts inner messages of the other format.
    base = outer.offset - inner[-1].offset if outer.magic == 1 else 0
    # With LogAppendTime, only the outer message has the broker's timestamp.
    by_broker = outer.magic == 1 and bool(outer.attributes & _LOG_APPEND_TIME)
    return [
        LegacyRecord(
            base + each.offset,
            outer.timestamp if by_broker and each.magic == 1 else each.timestamp,
            each.key,
            each.value,
        )
        for each in inner
    ]


def _messages(data: bytes) -> Iterator[_Message]:
    at = 0
    while at < len(data):
        offset, length, _, magic, attributes = _HEAD.unpack_from(data, at)
        end = at + _LENGTH_FROM + length
        if magic not in {0, 1} or not at + _HEAD.size < end <= len(data):
            raise LegacyError("a message in it has an impossible length or format")
        at += _HEAD.size
        timestamp = NO_TIMESTAMP
        if magic == 1:
            timestamp = _TIMESTAMP.unpack_from(data, at)[0]
            at += _TIMESTAMP.size
        key, at = _bytes(data, at, end)
        value, at = _bytes(data, at, end)
        yield _Message(offset, magic, attributes, timestamp, key, value)
        at = end


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length = _LENGTH.unpack_from(data, at)[0]
    at += _LENGTH.size
    if length < 0:
        return None, at
    if at + length > end:
        raise LegacyError("a key or value in it has an impossible length")
    return data[at : at + length], at + length


def _with_right_lz4_checksum(data: bytes) -> bytes:
    # Producers of magic 0 hashed the frame's magic number too (KAFKA-3160); other decoders refuse that.
    checksum_at = _LZ4_FLAGS_AT + (10 if data[_LZ4_FLAGS_AT] & 0x08 else 2)
    checksum = xxhash32(data[_LZ4_FLAGS_AT:checksum_at]) >> 8 & 0xFF
    return data[:checksum_at] + bytes((checksum,)) + data[checksum_at + 1 :]
