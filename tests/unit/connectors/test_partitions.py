"""A partition is shown as Kafka shows it, and is equal to its plain pair."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition


@pytest.mark.parametrize(("topic", "text"), [("orders", "orders-3"), ("a-1", "a-1-3")])
def test_a_partition_is_shown_with_its_topic(topic: str, text: str) -> None:
    assert f"{TopicPartition(topic, 3)}" == text


def test_partitions_are_ordered_by_topic_and_then_by_number() -> None:
    shuffled = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    assert [str(each) for each in sorted(shuffled)] == ["a-9", "a-10", "b-0"]


def test_offsets_with_another_note_are_not_equal() -> None:
    assert CommittedOffset(5) == CommittedOffset(5, "")
    assert CommittedOffset(5, "x") != CommittedOffset(5)
