"""The finalized features of a cluster, as bytes."""

from __future__ import annotations

import struct

from mirror_connect.kafka_io.protocol.features import TRANSACTION_VERSION, FinalizedFeatures
from tests.fakes.request_bytes import decoded, encoded


def feature(name: str, highest: int, lowest: int) -> bytes:
    return bytes([len(name) + 1]) + name.encode() + struct.pack(">hh", highest, lowest) + b"\0"


def answer(*tags: tuple[int, bytes]) -> bytes:
    """One request that the broker knows, and these tagged fields."""
    body = bytes(2) + b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\0" + bytes(4) + bytes([len(tags)])
    return body + b"".join(bytes([tag, len(value)]) + value for tag, value in tags)


def test_the_request_has_the_flexible_header_and_names_the_client() -> None:
    assert encoded(FinalizedFeatures(), 3) == b"\0" + b"\x0fmirror-connect" + b"\x020" + b"\0"


def test_levels_are_read_whatever_other_tags_there_are() -> None:
    supported = b"\x02" + feature(TRANSACTION_VERSION, 2, 0)
    finalized = b"\x03" + feature("metadata.version", 25, 1) + feature(TRANSACTION_VERSION, 2, 2)
    body = answer((0, supported), (1, struct.pack(">q", 77)), (2, finalized), (3, b"\1"))
    assert decoded(FinalizedFeatures(), 3, body) == {"metadata.version": 25, TRANSACTION_VERSION: 2}


def test_an_old_broker_has_finalized_nothing() -> None:
    assert decoded(FinalizedFeatures(), 3, answer()) == {}
