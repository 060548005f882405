"""Subscriptions and assignments as bytes: those that kafka-clients 3.9.1 writes (ConsumerProtocol)."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.codec import WireError
from mirror_connect.kafka_io.protocol.consumer_protocol import (
    assigned_partitions,
    assignment,
    subscribed_topics,
    subscription,
)

# Topics a and b; from version 1 on it owns a-1, from 2 on generation 5, from 3 on it has a rack.
SUBSCRIPTIONS = [
    "000000000002000161000162ffffffff",
    "000100000002000161000162ffffffff000000010001610000000100000001",
    "000200000002000161000162ffffffff00000001000161000000010000000100000005",
    "000300000002000161000162ffffffff0000000100016100000001000000010000000500047261636b",
]
ASSIGNMENT = "0000000000020001610000000200000000000000020001620000000100000001ffffffff"
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]


def test_a_subscription_is_written_as_java_writes_version_0() -> None:
    assert subscription(["b", "a"]).hex() == SUBSCRIPTIONS[0]


@pytest.mark.parametrize("version", range(4))
def test_topics_are_read_from_every_version_of_a_subscription(version: int) -> None:
    assert subscribed_topics(bytes.fromhex(SUBSCRIPTIONS[version])) == {"a", "b"}


def test_an_assignment_is_written_as_java_writes_version_0() -> None:
    assert assignment(PARTITIONS[::-1]).hex() == ASSIGNMENT


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_read_from_every_version_of_an_assignment(version: int) -> None:
    assert assigned_partitions(bytes.fromhex(f"{version:04x}{ASSIGNMENT[4:]}")) == PARTITIONS


def test_a_member_without_an_assignment_has_no_partitions() -> None:
    assert assigned_partitions(b"") == []


@pytest.mark.parametrize("content", ["0000", "00000000000200"], ids=["cut_off", "cut_in_a_topic"])
def test_what_is_cut_off_is_refused(content: str) -> None:
    with pytest.raises(WireError):
        subscribed_topics(bytes.fromhex(content))
