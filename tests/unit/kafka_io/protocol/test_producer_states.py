"""DescribeProducers as written-out bytes: no other client in Python has it."""

from __future__ import annotations

import struct

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.producer_states import DescribeProducers, ProducersOfPartition, ProducerState
from tests.fakes.request_bytes import decoded, encoded

PARTITIONS = (TopicPartition("a", 0), TopicPartition("b", 3), TopicPartition("a", 7))


def test_partitions_are_asked_for_by_topic() -> None:
    wanted = (
        b"\x03" + b"\x02a\x03" + struct.pack(">ii", 0, 7) + b"\0" + b"\x02b\x02" + struct.pack(">i", 3) + b"\0" + b"\0"
    )
    assert encoded(DescribeProducers(PARTITIONS), 0) == wanted


def test_producers_are_read_and_errors_kept() -> None:
    mine = struct.pack(">qiiqiq", 4000, 7, 41, 1_790_000_000_000, 0, -1) + b"\0"
    other = struct.pack(">qiiqiq", 4001, 0, -1, 1_790_000_000_000, 3, 17) + b"\0"
    known = struct.pack(">ih", 0, 0) + b"\0" + b"\x03" + mine + other + b"\0"
    refused = struct.pack(">ih", 7, 29) + b"\x03no" + b"\x01" + b"\0"
    body = bytes(4) + b"\x02" + b"\x02a\x03" + known + refused + b"\0" + b"\0"
    assert decoded(DescribeProducers(()), 0, body) == {
        PARTITIONS[0]: ProducersOfPartition(0, [ProducerState(4000, 7, 41), ProducerState(4001, 0, -1)]),
        PARTITIONS[2]: ProducersOfPartition(29, []),
    }
