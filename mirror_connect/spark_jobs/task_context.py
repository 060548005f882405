"""The interface between a task and its worker, without HTTP: specs, source offsets, reports, orders.

spark_jobs/worker_client.py implements it; tests/fakes/worker_link.py does so in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Final, Protocol

from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.task_measures import TaskMeasures
from mirror_connect.connectors.task_protocol import SourceOffset, TaskOrders, TaskPartition, TaskSpec

# How long an epoch lasts at most.
EPOCH_SECONDS: Final = 900.0


class SparkLostError(Exception):
    """Spark gives a task no rows back any more: its JVM, or the other Python process, has ended."""


class UnderOrders:
    """Derives what a task must do from its newest orders and the end of its epoch."""

    orders: TaskOrders
    epoch_over: bool

    @property
    def finish_wanted(self) -> bool:
        """See WorkerLink."""
        return self.epoch_over or self.end_ordered

    @property
    def end_ordered(self) -> bool:
        """See WorkerLink."""
        return self.orders.finish or self.orders.abandon

    @property
    def abandon_wanted(self) -> bool:
        """See WorkerLink."""
        return self.orders.abandon


class WorkerLink(Protocol):
    """A task's connection to its task run in the worker. Use it only in the task's event loop.

    `changed` is set when orders change or the epoch's time is over; the task clears it before it checks them.
    The task writes `state`, `assignment_version`, `problems` and `counters`, and the next report contains them. The last
    report also contains `committed`: whether all that was acknowledged is committed; and `settled`: whether nothing that
    the task has sent may still be written.
    """

    changed: asyncio.Event
    state: str
    assignment_version: int
    problems: tuple[Problem, ...]
    committed: bool
    settled: bool

    @property
    def orders(self) -> TaskOrders:
        """The newest orders."""

    @property
    def counters(self) -> MutableMapping[str, int]:
        """Numbers that only grow within an attempt: records, bytes, batches … (see TaskReport)."""

    @property
    def finish_wanted(self) -> bool:
        """Whether to stop fetching, wait for acknowledgements, commit and return."""

    @property
    def end_ordered(self) -> bool:
        """Whether the worker has ordered the task's end and waits for it; False if only the epoch's time is over."""

    @property
    def abandon_wanted(self) -> bool:
        """Whether to return at once without a commit: another task may be writing already."""

    def lease_valid(self) -> bool:
        """Whether the task may write to the target now."""

    async def spec(self) -> TaskSpec:
        """The task's spec as it is now."""

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        """The last replicated source offsets. The worker reads the offsets topic to its end after this call.

        Call it before anything is written to the partitions' copies. `fenceable`: whether a transactional id fences each
        process of the task when the next one writes. If not, the answer comes when nothing of the former process can be
        written any more.
        """

    def copied(
        self, partition: TaskPartition, offset: int, topic_id: str | None = None, leader_epoch: int = NO_EPOCH
    ) -> None:
        """Reports a source offset to the worker, which stores it: the target has all records up to it.

        `topic_id`, `leader_epoch`: see SourceOffset.
        """

    def wrote_for(self, key: bytes) -> None:
        """Reports the key of a source offset that is always 0: a record of the task's own was written for it."""

    def log(self, line: str) -> None:
        """Sends one line to the worker's log."""

    def event(self, event: Problem) -> None:
        """Reports an event. Log and status show it, the status until the task is started again."""

    def wrote_to(self, topic: str) -> None:
        """Reports that a target topic got a record."""

    @property
    def measures_wanted(self) -> bool:
        """Whether the measures before are on their way to the worker. If not, what changes is told together later."""

    def measured(self, measures: TaskMeasures) -> None:
        """Sends these with the next report. Not counting the last ones of a task, only when they are wanted."""
