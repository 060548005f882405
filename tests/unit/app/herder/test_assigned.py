"""What task configs assign."""

from __future__ import annotations

from mirror_connect.app.herder.assigned import Assigned, AssignedByConnector
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.partitions import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_partitions_and_groups_have_the_number_of_their_task() -> None:
    found = Assigned.by(
        [{ASSIGNED_PARTITIONS: "a-0,b-0"}, {ASSIGNED_PARTITIONS: "a-1"}, {"task.assigned.groups": "g,h"}]
    )
    assert found.partitions == {A0: 0, B0: 0, A1: 1}
    assert found.topics == {"a": [A0, A1], "b": [B0]}
    assert found.groups == {"g": 2, "h": 2}


def test_a_config_that_anyone_may_have_written_is_no_error() -> None:
    found = Assigned.by(
        [{ASSIGNED_PARTITIONS: None}, {ASSIGNED_PARTITIONS: "x,-,y-z", "task.assigned.groups.json": "{"}]
    )
    assert (found.partitions, found.groups) == ({}, {})


def test_it_is_read_again_only_when_a_config_changes() -> None:
    kept = AssignedByConnector()
    one = {ASSIGNED_PARTITIONS: "a-0"}
    first = kept.of("c", [one])
    assert kept.of("c", [one]) is first
    assert kept.of("c", [{ASSIGNED_PARTITIONS: "a-0,a-1"}]).partitions == {A0: 0, A1: 0}
    assert kept.of("c", []).partitions == {}
    kept.keep({})
    assert kept.of("c", [one]) is not first
