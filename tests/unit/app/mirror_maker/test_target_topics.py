"""Where records go on the target: to the same partition, and all records of one partition to one place."""

from __future__ import annotations

import pytest

from mirror_connect.app.mirror_maker.target_topics import task_partitions, tasks_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.partitioner import partition_for

SIX = [TopicPartition("t", number) for number in range(6)]


def targets(count: int) -> list[int]:
    return [each.target.partition for each in task_partitions(SIX, {"t": count})]


@pytest.mark.parametrize(
    ("count", "there"),
    [
        pytest.param(6, [0, 1, 2, 3, 4, 5], id="as_many"),
        pytest.param(9, [0, 1, 2, 3, 4, 5], id="more"),
        pytest.param(4, [0, 1, 2, 3, 0, 1], id="fewer"),
        pytest.param(1, [0, 0, 0, 0, 0, 0], id="one"),
    ],
)
def test_a_partition_goes_to_its_number_modulo_those_on_the_target(count: int, there: list[int]) -> None:
    assert targets(count) == there


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_key_lies_where_javas_partitioner_puts_it_if_the_counts_divide(count: int) -> None:
    keys = [str(number).encode() for number in range(200)]
    there = targets(count)
    assert [there[partition_for(key, len(SIX))] for key in keys] == [partition_for(key, count) for key in keys]


@pytest.mark.parametrize("count", [1, 2, 4, 6, 9])
def test_no_task_has_two_partitions_that_go_to_the_same_one(count: int) -> None:
    tasks = tasks_of(SIX, {"t": count})
    assert sorted(each for partitions in tasks.values() for each in partitions) == SIX
    for partitions in tasks.values():
        there = [each.target for each in task_partitions(partitions, {"t": count})]
        assert len(there) == len(set(there))


def test_there_is_one_task_also_without_partitions_and_if_the_target_has_enough() -> None:
    assert tasks_of([], {}) == {0: []}
    assert tasks_of(SIX, {"t": 6}) == {0: SIX}


def test_partitions_of_topics_that_the_target_lacks_wait() -> None:
    assert (tasks_of(SIX, {}), task_partitions(SIX, {})) == ({0: []}, ())
