"""Restarts tasks whose run ended without a failure of their own, but not for ever.

The process died, another producer fenced it, or Spark had no room for its scratch files.
"""

from __future__ import annotations

import logging
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from mirror_connect.app.supervisor.suspected_records import SuspectedRecords
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.connectors.clock import utc
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.task_protocol import MEMORY, STACK, TaskId

log = logging.getLogger(__name__)

# A task whose process dies again and again is FAILED rather than tried for ever.
DEATHS_UNTIL_FAILED: Final = 3
# Pauses before a fenced task is started again; when none is left, it is FAILED. A process that was suspended and woke too
# late fences once and ends; if it happens again and again, another group has a task with the same name.
FENCED_PAUSES_S: Final = (0.5, 2.0, 5.0, 10.0)
# A full disk is no fault of the task, and somebody may make room at any time.
NO_ROOM: Final = re.compile(r"No space left on device|Disk quota exceeded")
ROOM_RETRY_S: Final = 10.0


class TaskRestarts:
    """See the module. Counts are forgotten when a user restarts the task or it has run for long enough."""

    def __init__(self, runs: TaskRuns, clock: Callable[[], float]) -> None:
        self._runs = runs
        self._clock = clock
        self._deaths: dict[TaskId, int] = {}
        self._fences: dict[TaskId, int] = {}
        self._suspected: dict[TaskId, SuspectedRecords] = {}

    def forget(self, task: TaskId) -> None:
        """Counts from zero again."""
        self._deaths.pop(task, None)
        self._fences.pop(task, None)
        self._suspected.pop(task, None)

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets all tasks but these."""
        self._deaths = {task: deaths for task, deaths in self._deaths.items() if task in tasks}
        self._fences = {task: fences for task, fences in self._fences.items() if task in tasks}
        self._suspected = {task: suspected for task, suspected in self._suspected.items() if task in tasks}

    def suspected(self, run: TaskRun) -> SuspectedRecords:
        """The records with one among them that Spark did not survive. Another config forgets those of the one before."""
        found = self._suspected.get(run.task)
        if found is None or found.identity != run.identity:
            found = self._suspected[run.task] = SuspectedRecords(run.identity)
        return found

    def died(self, run: TaskRun, reason: str, what: str | None = None) -> None:
        """Its process died without a report, in all of Spark's own tries.

        `what` is the event that ends the run, if it is not the death of a process.
        """
        if run.is_over:
            self._runs.end(run)
            return
        if NO_ROOM.search(reason):
            self._wait_for_room(run)
            return
        self._runs.suspect(run)
        what = what or self._runs.ends.how_ended(run)
        deaths = self._deaths[run.task] = self._deaths.get(run.task, 0) + 1
        first = reason.splitlines()[0]
        log.warning("Task %s: %s (%s)", run.task, what, first)
        if deaths >= DEATHS_UNTIL_FAILED:
            self._deaths.pop(run.task)
            self._runs.fail(
                run, f"The task ended {deaths} times in a row without reporting an error: {what}.\n{reason}"
            )
            return
        self._runs.end(run)
        line = f"{what[0].upper()}{what[1:]} at {utc(time.time())} ({redact(first, run.secrets)}); it is started again"
        following = self._runs.of(run.task)
        if following is not None and following.waits_for is None:
            self._runs.wait(following, line, logged=True)

    def needed_too_much(self, run: TaskRun, reason: str, fatal: str) -> None:
        """Its query has ended, because a record needed more stack or memory than Spark has. `fatal`: which of them.

        A record that is known to need too much stack is an error from now on: the task begins again with it. Memory is
        shared with other statements, so a record may be innocent. It is never left out for that: the task is FAILED.
        """
        suspected = self.suspected(run)
        record = suspected.found()
        if record is None or run.is_over:
            had = suspected.line
            self.died(run, f"{had}: {reason}" if had else reason, "its query ended")
        elif fatal == STACK:
            suspected.refuse(record)
            log.warning("Task %s: %s needs more stack than Spark has. The task begins again", run.task, record)
            self._runs.end(run)
        else:
            self._runs.fail(run, f"TransformationError: {record}: {reason}. Then restart the task")

    def heap_filled(self, runs: Iterable[TaskRun], why: str) -> None:
        """Their Spark is about to end, as its heap is full. Whoever waits for a statement now has the suspected records.

        The others have got records back, though slowly: they begin again, and it counts for nothing.
        """
        for run in runs:
            if run.report is not None and run.report.held:
                suspected = self.suspected(run)
                suspected.lost(run.report.held)
                suspected.filled = why

    def ended_with_the_heap(self, runs: Iterable[TaskRun]) -> None:
        """Their Spark has ended. Those that `heap_filled` has found end as if a record had found no memory."""
        for run in list(runs):
            if (why := self.suspected(run).filled) is not None:
                self.needed_too_much(run, why, MEMORY)

    def silent(self, run: TaskRun, reason: str) -> None:
        """Its process is not heard, and its lease is over. That is no fault of the task, so it counts for nothing."""
        if run.is_over:
            self._runs.end(run)
            return
        log.warning("Task %s: %s", run.task, reason)
        self._runs.end(run)
        following = self._runs.of(run.task)
        if following is not None and following.waits_for is None:
            self._runs.wait(following, f"{reason[0].upper()}{reason[1:]}", logged=True)

    def fenced(self, run: TaskRun, trace: str) -> None:
        """Another producer took the task's transactional id. The next run takes it back with a newer epoch.

        It reads its source offsets after that, so it knows everything that the other producer wrote.
        """
        fences = self._fences[run.task] = self._fences.get(run.task, 0) + 1
        if run.is_over or fences > len(FENCED_PAUSES_S):
            self._fences.pop(run.task, None)
            self._runs.fail(run, trace)
            return
        pause = FENCED_PAUSES_S[fences - 1]
        line = f"{redact(trace, run.secrets).splitlines()[0]} It restarts in {pause:g} s."
        self._runs.end(run)
        if (following := self._runs.of(run.task)) is not None:
            following.not_before = self._clock() + pause
            self._runs.wait(following, line)

    def _wait_for_room(self, run: TaskRun) -> None:
        """Spark had no room for its scratch files: logged once, and tried again for as long as it takes."""
        line = (
            f"{tempfile.gettempdir()}, where Spark keeps its scratch files, is full: free some space there, or restart with "
            f"TMPDIR set to another directory; it is tried again every {ROOM_RETRY_S:g} s"
        )
        logged = run.waits_for == line
        self._runs.end(run)
        following = self._runs.of(run.task)
        if following is None:
            return
        following.not_before = self._clock() + ROOM_RETRY_S
        if logged:
            following.waits_for = line
        else:
            self._runs.wait(following, line)
