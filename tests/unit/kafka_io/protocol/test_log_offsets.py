"""ListOffsets as bytes: aiokafka's structs; OffsetForLeaderEpoch: written-out bytes."""

from __future__ import annotations

import struct

from aiokafka.protocol.offset import OffsetRequest_v3, OffsetResponse_v3

from mirror_connect.kafka_io.protocol.log_offsets import (
    EARLIEST,
    EpochEnd,
    ListedOffset,
    ListOffsets,
    OffsetForLeaderEpoch,
)
from tests.fakes.request_bytes import decoded, encoded


def test_offsets_are_asked_for_as_aiokafka_asks() -> None:
    request = ListOffsets({("a", 1): (EARLIEST, 4)}, read_committed=True)
    assert encoded(request, 3) == OffsetRequest_v3(-1, 1, [("a", [(1, EARLIEST)])]).encode()


def test_offsets_are_read_as_aiokafka_writes_them() -> None:
    body = OffsetResponse_v3(0, [("a", [(1, 0, -1, 42)])]).encode()
    assert decoded(ListOffsets({}), 3, body) == [ListedOffset("a", 1, 0, -1, 42, -1)]


def test_an_epochs_end_is_asked_for_with_the_current_epoch() -> None:
    request = OffsetForLeaderEpoch({("a", 1): (5, 3)})
    wanted = struct.pack(">ih1siiii", 1, 1, b"a", 1, 1, 5, 3)
    assert encoded(request, 2) == wanted
    assert encoded(request, 3) == struct.pack(">i", -1) + wanted  # replica id: a consumer


def test_an_epochs_end_is_read_per_partition() -> None:
    body = struct.pack(">iih1sihiiq", 4, 1, 1, b"a", 1, 0, 1, 3, 120)
    assert decoded(OffsetForLeaderEpoch({}), 3, body) == {("a", 1): EpochEnd(0, 3, 120)}
