"""DescribeLogDirs as bytes: aiokafka has none, so they are written out."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.log_dirs import DescribeLogDirs, LogDirs
from tests.fakes.request_bytes import decoded, encoded

ASKED = DescribeLogDirs({"orders": [0, 2]})


def test_the_request_of_version_one() -> None:
    topic = bytes.fromhex("00000001 0006") + b"orders"
    assert encoded(ASKED, 1) == topic + bytes.fromhex("00000002 00000000 00000002")


def test_the_flexible_request_has_compact_lengths_and_tags() -> None:
    assert encoded(ASKED, 4) == bytes.fromhex("02 07") + b"orders" + bytes.fromhex("03 00000000 00000002 00 00")


def test_the_answer_of_version_one() -> None:
    body = bytes.fromhex("00000000 00000001 0000 0002") + b"/d" + bytes.fromhex("00000001 0006") + b"orders"
    partitions = bytes.fromhex("00000001 00000002 0000000000000400 0000000000000000 00")
    assert decoded(ASKED, 1, body + partitions) == LogDirs(0, {TopicPartition("orders", 2): 1024})


@pytest.mark.parametrize(
    ("future", "sizes"),
    [pytest.param("00", {TopicPartition("orders", 2): 1024}, id="present"), pytest.param("01", {}, id="moving_in")],
)
def test_the_answer_of_version_four_counts_a_replica_that_moves_once(
    future: str, sizes: dict[TopicPartition, int]
) -> None:
    body = bytes.fromhex("00000000 0000 02 0000 03") + b"/d" + bytes.fromhex("02 07") + b"orders"
    partitions = bytes.fromhex(f"02 00000002 0000000000000400 0000000000000000 {future} 00 00")
    volume = bytes.fromhex("0000000000100000 0000000000080000 00 00")
    assert decoded(ASKED, 4, body + partitions + volume) == LogDirs(0, sizes)


def test_a_missing_right_is_told_from_version_three_on() -> None:
    assert decoded(ASKED, 3, bytes.fromhex("00000000 001f 01 00")) == LogDirs(31, {})
