"""What a task function may ask of its worker and must obey: the frame around every task, without its HTTP.

spark_jobs/worker_client.py is the real one; tests/fakes/worker_link.py is an in-memory one.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Protocol

from mirror_connect.connectors.task_protocol import PartitionPosition, TaskOrders, TaskPartition, TaskSpec


class UnderOrders:
    """What a task obeys, as its newest orders and the end of its epoch's time say it."""

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
    """A task's side of its run. Everything happens in the task's event loop.

    `changed` is set whenever orders changed or the epoch's time is over; the task clears it before it looks.
    `state`, `assignment_version`, `standing` and `counters` are written by the task and travel with the next report;
    `committed`, whether all that was acknowledged is committed at its end, with the last one; so does `settled`, whether
    nothing that it has sent may still be written.
    """

    changed: asyncio.Event
    state: str
    assignment_version: int
    standing: tuple[str, ...]
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
        """Stop fetching, let what is in flight be acknowledged, commit, return."""

    @property
    def end_ordered(self) -> bool:
        """Whether somebody waits for the task's end: the worker has ordered it, and not only the epoch's time is over."""

    @property
    def abandon_wanted(self) -> bool:
        """Return at once without committing: another may be writing already."""

    def lease_valid(self) -> bool:
        """Whether the target may be written to at this moment."""

    async def spec(self) -> TaskSpec:
        """The task's spec as it is now."""

    async def positions(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[PartitionPosition]:
        """The last replicated source offsets, from an offsets topic read to its end after this call was made.

        Before anything is written to their copies. `fenceable`: whether brokers refuse what is left of this process as soon
        as the task's next one writes, and of the one before as soon as this one does: both by a transactional id. Otherwise
        it is answered when nothing of the one before can be written any more.
        """

    def notice(self, line: str) -> None:
        """One line for the worker's log."""

    def incident(self, line: str) -> None:
        """One line for the log about what has happened and stays so; the status keeps it until the task is started anew."""

    def wrote_to(self, topic: str) -> None:
        """A target topic got a record."""
