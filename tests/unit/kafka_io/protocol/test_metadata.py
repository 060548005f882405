"""Metadata and FindCoordinator as bytes: aiokafka's structs where it has the version, else written-out bytes."""

from __future__ import annotations

from aiokafka.protocol.coordination import FindCoordinatorRequest_v1, FindCoordinatorResponse_v1
from aiokafka.protocol.metadata import MetadataRequest_v5, MetadataResponse_v5

from mirror_connect.kafka_io.protocol.metadata import FindCoordinator, FindCoordinatorResponse, Metadata
from tests.fakes.request_bytes import decoded, encoded


def test_metadata_never_asks_for_creation() -> None:
    assert encoded(Metadata(["a"]), 5) == MetadataRequest_v5(["a"], False).encode()


def test_metadata_is_read_as_aiokafka_writes_it() -> None:
    partition = (0, 2, 1, [1, 2], [1], [])
    body = MetadataResponse_v5(
        0, [(1, "h", 9, None), (2, "i", 8, "r")], "cluster", 1, [(0, "a", False, [partition])]
    ).encode()
    answer = decoded(Metadata(["a"]), 5, body)
    assert answer.brokers == [(1, "h", 9, None), (2, "i", 8, "r")]
    assert answer.topics == [(0, "a", None, [(0, 2, 1, -1, [1, 2], [1])])]


def test_flexible_metadata_request_has_compact_lengths_and_tags() -> None:
    expected = b"\x02" + bytes(16) + b"\x02a\x00" + b"\x00" + b"\x00" + b"\x00"
    assert encoded(Metadata(["a"]), 12) == expected


def test_a_coordinator_is_found_as_aiokafka_finds_it() -> None:
    request = FindCoordinator("tx", 1)
    assert encoded(request, 1) == FindCoordinatorRequest_v1("tx", 1).encode()
    body = FindCoordinatorResponse_v1(4, 15, "none yet", -1, "", -1).encode()
    assert decoded(request, 1, body) == FindCoordinatorResponse(4, 15, "none yet", -1, "", -1)
