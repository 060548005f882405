"""Which partitions each run of a connector may copy now: never two runs the same one.

A partition that moves is taken from its old task first, and given to the new one only when the old one has reported that
all of it is acknowledged and committed (or has ended). So it is copied in order, and no position is overtaken.

A task that ended before its last requests were answered leaves them on their way. Its own next run is safe from them if
they carry a former epoch of its transactional id. Another task has another id, and one without the right to it has none: a
broker would write them behind the first batch of the next owner. So another task is not granted the partition, and its own
next run is not told the position (Supervisor.positions), until they can't land any more.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from mirror_connect.app.supervisor.run import Partitions, Run
from mirror_connect.connectors.counted import counted
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)
# As long as a client of Kafka's waits for an answer by default. What a process had sent has landed then, or never will.
LANDING_S: Final = 30.0


class Past(NamedTuple):
    """Processes of a task that are at their end.

    `fenceable`: whether brokers refuse what they have left once another such process of the task writes.
    """

    task: TaskId
    fenceable: bool


class Landing:
    """The partitions to which requests of tasks that have ended may still be on their way. Times are in seconds."""

    def __init__(self) -> None:
        # Until when what they left may land.
        self._until: dict[Past, dict[tuple[str, int], float]] = {}

    def take_over(self, run: Run, now: float) -> None:
        """Notes what processes of the run have left behind that are at their end."""
        if run.left:
            until = self._until.setdefault(Past(run.task, run.fences_left), {})
            until.update(dict.fromkeys(run.left, now + LANDING_S))
            run.left, run.fences_left = frozenset(), True

    def held_against(self, task: TaskId) -> Partitions:
        """What this task may not have yet, as another one of its connector left requests for it."""
        others = (
            left for past, left in self._until.items() if past.task != task and past.task.connector == task.connector
        )
        return frozenset[tuple[str, int]]().union(*others)

    def in_the_way(self, run: Run, partitions: Iterable[tuple[str, int]]) -> bool:
        """Whether requests of the task's own past may land on these, and nothing would fence them off: it takes both of
        them, the one that left them and this one, to write by the transactional id.
        """
        unsafe = [
            left
            for past, left in self._until.items()
            if past.task == run.task and not (past.fenceable and run.fenceable)
        ]
        return any(each in left for left in unsafe for each in partitions)

    def over(self, now: float) -> set[str]:
        """Forgets what can't land any more; the connectors that have partitions free by that."""
        freed = set()
        for past, left in list(self._until.items()):
            for partition in [each for each, until in left.items() if until <= now]:
                del left[partition]
                freed.add(past.task.connector)
            if not left:
                del self._until[past]
        return freed


def regrant(runs: Collection[Run], landing: Landing, now: float) -> None:
    """Revokes what is no longer wanted, and grants what is wanted and free.

    `runs`: all runs of one connector that have not ended, also those told to finish.
    """
    for run in runs:
        landing.take_over(run, now)
    active = [run for run in runs if not run.is_over]
    for run in active:
        run.grant(run.granted & run.wanted)
    for run in active:
        taken = frozenset[tuple[str, int]]().union(*(other.held for other in runs if other is not run))
        landing_there = landing.held_against(run.task)
        run.grant(run.granted | (run.wanted - taken - landing_there))
        _tell(run, (run.wanted - run.granted) & landing_there)


def _tell(run: Run, withheld: Partitions) -> None:
    if withheld - run.withheld:
        log.info(
            "Task %s waits for %s, %g s at most: another task has ended with requests under way there, which may still be "
            "written",
            run.task,
            counted(len(withheld), "partition"),
            LANDING_S,
        )
    run.withheld = withheld
