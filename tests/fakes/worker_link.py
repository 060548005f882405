"""A worker link in memory: a test gives orders, and reads what the task reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.task_measures import TaskMeasures
from mirror_connect.connectors.task_protocol import (
    STARTING,
    SourceOffset,
    TaskOrders,
    TaskPartition,
    TaskSpec,
)
from mirror_connect.spark_jobs.task_context import UnderOrders

Stored = int | None | tuple[int | None, str | None] | tuple[int | None, str | None, int]


class FakeWorkerLink(UnderOrders):
    """Orders as a test sets them; `stored` gives the last replicated offset of a partition, alone or with its origin.

    It is called in a thread. Without it there is no thread, so that time may be simulated (tests/fakes/simulated_time.py).
    """

    def __init__(self, spec: TaskSpec, stored: Callable[[str, int], Stored] | None = None) -> None:
        self.changed = asyncio.Event()
        self.state = STARTING
        self.assignment_version = 0
        self.problems: tuple[Problem, ...] = ()
        self.committed = self.settled = True
        self.orders = TaskOrders(lease_ms=10_000, assignment_version=spec.assignment_version)
        self.counters: dict[str, int] = {}
        self.log_lines: list[str] = []
        self.events: list[Problem] = []
        self.measures: list[TaskMeasures] = []
        self.measures_wanted = True
        self.topics: set[str] = set()
        self.copied_to: dict[TopicPartition, int] = {}
        self.origins: dict[TopicPartition, tuple[str | None, int]] = {}
        self.offset_keys: list[bytes] = []
        self.lease = True
        self.epoch_over = False
        self._spec = spec
        self._stored = stored

    def lease_valid(self) -> bool:
        return self.lease

    async def spec(self) -> TaskSpec:
        return self._spec

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        stored = self._stored
        if stored is None:
            return [SourceOffset(each.topic, each.partition, None) for each in partitions]

        def read() -> list[SourceOffset]:
            found = [(p.topic, p.partition, stored(p.topic, p.partition)) for p in partitions]
            return [SourceOffset(t, p, *(each if isinstance(each, tuple) else (each,))) for t, p, each in found]

        return await asyncio.to_thread(read)

    def copied(
        self, partition: TaskPartition, offset: int, topic_id: str | None = None, leader_epoch: int = NO_EPOCH
    ) -> None:
        self.copied_to[partition.source] = offset
        self.origins[partition.source] = (topic_id, leader_epoch)

    def wrote_for(self, key: bytes) -> None:
        self.offset_keys.append(key)

    def log(self, line: str) -> None:
        self.log_lines.append(line)

    def event(self, event: Problem) -> None:
        self.events.append(event)
        self.log_lines.append(event.line)

    def wrote_to(self, topic: str) -> None:
        self.topics.add(topic)

    def measured(self, measures: TaskMeasures) -> None:
        self.measures.append(measures)

    @property
    def problem_lines(self) -> tuple[str, ...]:
        """What is wrong at present, as people read it."""
        return tuple(problem.line for problem in self.problems)

    @property
    def event_lines(self) -> list[str]:
        """What has happened, as people read it."""
        return [event.line for event in self.events]

    # What a test does.

    def finish(self) -> None:
        """Orders the task to commit and return."""
        self.orders = TaskOrders(lease_ms=10_000, finish=True, assignment_version=self.orders.assignment_version)
        self.changed.set()

    def end_epoch(self) -> None:
        """The epoch's time is over, nobody waits for the task."""
        self.epoch_over = True
        self.changed.set()

    def abandon(self) -> None:
        """Orders the task to return uncommitted."""
        self.orders = TaskOrders(lease_ms=0, finish=True, abandon=True)
        self.changed.set()

    def assign(self, spec: TaskSpec) -> None:
        """Changes the assignment; the spec needs a higher version."""
        self._spec = spec
        self.orders = TaskOrders(lease_ms=10_000, assignment_version=spec.assignment_version)
        self.changed.set()
