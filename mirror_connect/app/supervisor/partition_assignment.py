"""Which partitions each run of a connector may copy now: never two runs the same partition.

A partition that moves is first revoked from its old task. The new task gets it only when the old one has reported that
everything is acknowledged and committed, or has ended. So records stay in order, and source offsets never go back.

A task that ends before its last requests are answered leaves them in flight. They do not harm the task's own next run if
they have a former epoch of its transactional id. But another task has another id, and a task without the right to its id has
no fence: a broker could write these requests behind the first batch of the next owner. So until they can't land any more,
another task is not assigned the partition, and the task's own next run gets no source offset
(TaskRequests.source_offsets).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from mirror_connect.app.supervisor.other_workers import LANDING_S
from mirror_connect.app.supervisor.task_run import Partitions, TaskRun
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

# Which of these partitions a task must not get yet, and why.
Withheld = Callable[[TaskId, Partitions], tuple[Partitions, str | None]]


class Past(NamedTuple):
    """Ended processes of a task.

    `fenceable`: whether brokers refuse their requests in flight once another such process of the task writes.
    """

    task: TaskId
    fenceable: bool


class Landing:
    """The partitions for which requests of ended tasks may still be in flight. Times are in seconds."""

    def __init__(self) -> None:
        # Until when these requests may land.
        self._until: dict[Past, dict[TopicPartition, float]] = {}

    def take_over(self, run: TaskRun, now: float) -> None:
        """Takes over the partitions for which ended processes of the run left requests in flight."""
        if run.left:
            until = self._until.setdefault(Past(run.task, run.fences_left), {})
            # A process elsewhere that fell silent has sent nothing after its lease.
            left_at = now if run.left_at is None else min(now, run.left_at)
            until.update(dict.fromkeys(run.left, left_at + LANDING_S))
            run.left, run.fences_left = frozenset(), True

    def withheld_from(self, task: TaskId) -> Partitions:
        """The partitions that this task must not get yet, as another task of its connector left requests for them."""
        others = (
            left for past, left in self._until.items() if past.task != task and past.task.connector == task.connector
        )
        return frozenset[TopicPartition]().union(*others)

    def in_the_way(self, run: TaskRun, partitions: Iterable[TopicPartition]) -> bool:
        """Whether requests of the task's former processes may land on these partitions without a fence.

        There is a fence only if both processes, the former and this one, write with the transactional id.
        """
        unsafe = [
            left
            for past, left in self._until.items()
            if past.task == run.task and not (past.fenceable and run.fenceable)
        ]
        return any(each in left for left in unsafe for each in partitions)

    def left(self) -> Iterator[tuple[TaskId, Partitions]]:
        """Each task with partitions for which it left requests."""
        return ((past.task, frozenset(left)) for past, left in self._until.items())

    def unfenced_tasks(self) -> frozenset[TaskId]:
        """The tasks of this worker with requests that nothing refuses, whatever the task's next process does."""
        return frozenset(past.task for past in self._until if not past.fenceable)

    def over(self, now: float) -> set[str]:
        """Forgets requests that can't land any more; returns the connectors whose partitions that frees."""
        freed = set()
        for past, left in list(self._until.items()):
            for partition in [each for each, until in left.items() if until <= now]:
                del left[partition]
                freed.add(past.task.connector)
            if not left:
                del self._until[past]
        return freed


def nobody_else(_: TaskId, __: Partitions) -> tuple[Partitions, str | None]:
    """Withholds nothing: there are no other workers."""
    return frozenset(), None


def reassign(runs: Collection[TaskRun], landing: Landing, now: float, elsewhere: Withheld = nobody_else) -> None:
    """Revokes partitions that are no longer wanted, and assigns those that are wanted and free.

    `runs`: all runs of one connector that have not ended, also those that were asked to finish. `elsewhere` says what other
    workers may still write to (hand_over.py).
    """
    for run in runs:
        landing.take_over(run, now)
    active = [run for run in runs if not run.is_over]
    for run in active:
        if not run.assigned <= run.wanted:
            run.assign(run.assigned & run.wanted)
    for run in active:
        # What is wanted is mostly there: then nothing else of ten thousand partitions is looked at.
        missing = run.wanted - run.assigned
        landing_there = missing & landing.withheld_from(run.task) if missing else missing
        free = missing - landing_there
        for other in runs if free else ():
            if other is not run:
                free -= other.owned
        held, why = elsewhere(run.task, free)
        if free := free - held:
            run.assign(run.wanted if len(free) == len(missing) else run.assigned | free)
        _note_withheld(run, landing_there, why)


def _note_withheld(run: TaskRun, landing_there: Partitions, elsewhere: str | None) -> None:
    lines = [elsewhere] if elsewhere else []
    if landing_there:
        lines.append(
            f"Waits for {counted(len(landing_there), 'partition')}, {LANDING_S:g} s at most: another task has ended with "
            "requests under way there, which may still be written"
        )
    before, run.withheld = run.withheld, "\n".join(lines) or None
    if run.withheld is not None and run.withheld != before:
        for line in lines:
            log.info("Task %s %s", run.task, f"{line[0].lower()}{line[1:]}")
