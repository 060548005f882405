"""What would become of each group if its consumers failed over to the target now, for a checkpoint task's reports.

A group continues where the target has it; if its offsets aren't synced there, at its newest checkpoint. Its exact place is
where its committed offset at the source leads. Records in between are read again, or skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint, CheckpointKey, CheckpointMemory
from mirror_connect.connectors.task_measures import MOST_ROWS, GroupMeasures, GroupPartition
from mirror_connect.connectors.translation.offset_translation import TranslatedPlace
from mirror_connect.spark_jobs.copy.flow_measures import DurationSum
from mirror_connect.spark_jobs.tasks.group_sync import FoundAtTarget


class GroupFigures:
    """Of one task, by its newest checkpoints."""

    def __init__(self, memory: CheckpointMemory) -> None:
        self._memory = memory
        self._places: dict[str, Sequence[TranslatedPlace]] = {}
        self._checked_ms = 0
        self._latencies: dict[CheckpointKey, DurationSum] = {}
        self._pending: dict[str, None] = {}

    def checked(self, places: Mapping[str, Sequence[TranslatedPlace]], now_ms: int) -> None:
        """Where the groups' committed offsets lead, read from the source at this time."""
        self._pending |= dict.fromkeys((*self._places, *places))
        self._places, self._checked_ms = dict(places), now_ms

    def wrote(self, checkpoints: Sequence[Checkpoint], took_ms: int) -> None:
        """The target has acknowledged these checkpoints, so long after their time."""
        for checkpoint in checkpoints:
            self._latencies.setdefault(checkpoint.of, DurationSum()).add(took_ms, took_ms, 1)
            self._pending[checkpoint.group] = None

    def synced(self) -> None:
        """Groups may have other offsets on the target now."""
        self._pending |= dict.fromkeys(self._places)

    def take(self, found: Mapping[str, FoundAtTarget]) -> tuple[tuple[GroupMeasures, ...], int]:
        """Groups with news, about MOST_ROWS partitions of them, and how many more there are. `found`: see GroupSync."""
        groups: list[GroupMeasures] = []
        rows = 0
        for group in list(islice(self._pending, MOST_ROWS)):
            if rows >= MOST_ROWS:
                break
            del self._pending[group]
            at_target = found.get(group)
            partitions = tuple(self._row(group, place, at_target) for place in self._places.get(group, ()))
            rows += len(partitions) + 1
            groups.append(
                GroupMeasures(group, self._checked_ms, None if at_target is None else at_target.at_ms, partitions)
            )
        return tuple(groups), len(self._pending)

    def _row(self, group: str, place: TranslatedPlace, at_target: FoundAtTarget | None) -> GroupPartition:
        (topic, number), remote, now = place.partition, place.remote_topic, place.checkpoint
        there = TopicPartition(remote, number)
        durations = self._latencies.get(CheckpointKey(group, *there))
        latency = None if durations is None else durations.take()
        newest = self._memory.newest(group, there)
        begins = newest.downstream if newest is not None else None
        if at_target is not None:
            begins = at_target.offsets.get(there)
        if now is None or begins is None:
            return GroupPartition(topic, number, remote, None, None, latency)
        exact = now.downstream + place.repeats
        return GroupPartition(topic, number, remote, max(0, exact - begins), max(0, begins - exact), latency)
