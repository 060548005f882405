"""Assigns partitions to tasks, and makes the task configs that show this in REST and in the config topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition

MAX_PARTITION: Final = 2**31 - 1
_MOST_DIGITS: Final = len(str(MAX_PARTITION))
SOURCE_TASK_CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceTask"
# The setting of a task config.
ASSIGNED_PARTITIONS: Final = "task.assigned.partitions"

Assignment = list[list[TopicPartition]]


def assign(partitions: Sequence[TopicPartition], max_tasks: int) -> Assignment:
    """Assigns round robin as MirrorMaker does: task i gets elements i, i + n, … with n = min(max_tasks, partitions).

    Without partitions there are no tasks. The given order is kept within a task.
    """
    count = min(max_tasks, len(partitions))
    return [list(partitions[task::count]) for task in range(count)]


def reassign(
    previous: Sequence[Collection[TopicPartition]], now: Sequence[TopicPartition], max_tasks: int
) -> Assignment:
    """An assignment of `now` that moves as little as possible, so that running partitions aren't interrupted.

    With the same number of tasks every partition keeps its task. New ones go to the task with the fewest (the lowest number
    among equals), and vanished ones are dropped. With another number all are assigned again. A task without partitions gets
    one from the fullest, because Java's task can't read an empty task.assigned.partitions.
    """
    count = min(max_tasks, len(now))
    if count != len(previous):
        return assign(now, max_tasks)
    wanted = dict.fromkeys(now)
    taken: set[TopicPartition] = set()
    assignment: Assignment = []
    for task in previous:
        kept = [partition for partition in task if partition in wanted and partition not in taken]
        taken.update(kept)
        assignment.append(kept)
    for partition in wanted:
        if partition not in taken:
            min(assignment, key=len).append(partition)
    for task in assignment:
        if not task:
            task.append(max(assignment, key=len).pop())
    return assignment


def assigned_partitions_text(partitions: Sequence[TopicPartition]) -> str:
    """As in ASSIGNED_PARTITIONS: `orders-0,payments.eu-3`."""
    return ",".join(map(str, partitions))


def parse_assigned_partitions(text: str) -> list[TopicPartition]:
    """The inverse; the partition's number follows the last hyphen. ValueError for an entry without one."""
    partitions = []
    for entry in filter(None, text.split(",")):
        topic, hyphen, partition = entry.rpartition("-")
        if not hyphen or not partition.isdecimal():
            raise ValueError(f"{entry} in task.assigned.partitions isn't topic-partition")
        partitions.append(TopicPartition(topic, int(partition)))
    return partitions


def stored_partitions(text: str) -> list[TopicPartition]:
    """The same for a task config from the config topic, where anyone may have written it. Wrong entries are left out."""
    found = []
    topics: dict[str, str] = {}
    only_ascii = text.isascii()
    for entry in text.split(","):
        topic, _, digits = entry.rpartition("-")
        if topic and digits.isdigit() and len(digits) <= _MOST_DIGITS and (only_ascii or digits.isascii()):
            number = int(digits)
            if number <= MAX_PARTITION:
                # One text for each topic: its hash is computed once, and it takes its room once.
                found.append(TopicPartition(topics.setdefault(topic, topic), number))
    return found


def task_configs(
    config: Mapping[str, str], assignment: Sequence[Sequence[TopicPartition]], task_class: str = SOURCE_TASK_CLASS
) -> list[dict[str, str]]:
    """One config for each task: the connector's (with references of config providers) and the task's own settings."""
    return [
        {
            **config,
            "task.class": task_class,
            "task.index": str(index),
            ASSIGNED_PARTITIONS: assigned_partitions_text(partitions),
        }
        for index, partitions in enumerate(assignment)
    ]
