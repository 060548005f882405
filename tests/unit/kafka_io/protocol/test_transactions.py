"""AddPartitionsToTxn and EndTxn as bytes: aiokafka's structs, and the flexible versions that it does not have."""

from __future__ import annotations

import struct

import pytest
from aiokafka.protocol.transaction import (
    AddPartitionsToTxnRequest_v0,
    AddPartitionsToTxnResponse_v0,
    EndTxnRequest_v0,
    EndTxnResponse_v0,
)

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from tests.fakes.request_bytes import decoded, encoded

PARTITIONS = (TopicPartition("a", 0), TopicPartition("b", 3), TopicPartition("a", 7))


def test_partitions_are_added_as_aiokafka_adds_them() -> None:
    request = AddPartitionsToTxn("tx", 4000, 7, PARTITIONS)
    assert encoded(request, 0) == AddPartitionsToTxnRequest_v0("tx", 4000, 7, [("a", [0, 7]), ("b", [3])]).encode()
    body = AddPartitionsToTxnResponse_v0(5, [("a", [(0, 0), (7, 29)]), ("b", [(3, 55)])]).encode()
    assert decoded(request, 0, body) == (5, {PARTITIONS[0]: 0, PARTITIONS[2]: 29, PARTITIONS[1]: 55})


def test_partitions_are_added_in_the_flexible_version() -> None:
    request = AddPartitionsToTxn("tx", 4000, 7, PARTITIONS[:1])
    assert encoded(request, 3) == b"\x03tx" + struct.pack(">qh", 4000, 7) + b"\x02\x02a\x02" + bytes(4) + b"\0\0"
    body = bytes(4) + b"\x02\x02a\x02" + struct.pack(">ih", 0, 51) + b"\0\0\0"
    assert decoded(request, 3, body).errors == {PARTITIONS[0]: 51}


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_ended_as_aiokafka_ends_it(committed: bool) -> None:
    request = EndTxn("tx", 4000, 7, committed)
    assert encoded(request, 0) == EndTxnRequest_v0("tx", 4000, 7, committed).encode()
    assert decoded(request, 0, EndTxnResponse_v0(5, 48).encode()) == (5, 48, -1, -1)


def test_an_end_that_gives_an_epoch_is_asked_for_in_no_version_that_does_not() -> None:
    old, new = EndTxn("tx", 1, 2, True), EndTxn("tx", 1, 2, True, gives_epoch=True)
    assert ((old.lowest, old.highest), (new.lowest, new.highest)) == ((0, 4), (5, 5))
    assert encoded(new, 5) == b"\x03tx" + struct.pack(">qhb", 1, 2, 1) + b"\0"
    assert decoded(new, 5, struct.pack(">ihqh", 0, 0, 1, 3) + b"\0") == (0, 0, 1, 3)


def test_what_before_write_raises_prevents_the_request() -> None:
    def refuse() -> None:
        raise RuntimeError("no lease")

    with pytest.raises(RuntimeError, match="no lease"):
        encoded(EndTxn("tx", 1, 2, True, before_write=refuse), 0)
    with pytest.raises(RuntimeError, match="no lease"):
        encoded(AddPartitionsToTxn("tx", 1, 2, PARTITIONS, before_write=refuse), 0)
