"""Watches the processes of a cluster's executors: which are silent, and who takes over.

A process that is not heard holds a lease at first, so nobody takes its place. Then Spark may know that the executor has
ended: it starts the task again by itself. Or something hangs: the process, its executor, its host, the network. Spark would
wait for two minutes, and for ever if only the process hangs. So the run ends, its query is stopped, and the task's next run
gets a query of its own. An executor of which no task is heard is given up: Spark ends and replaces it. A run that no process
has may be in Spark's queue there, so it gets another query, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mirror_connect.app.supervisor.idleness import TASK_SILENT_S
from mirror_connect.app.supervisor.process_ends import CLOCK_MARGIN_S, place_of
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.connectors.clock import utc

# How long a process may be silent after its lease. A network that comes back by then costs a pause and no restart.
SILENT_PATIENCE_S: Final = 5.0
# From its spec to its first report a process needs some ms, but a machine may have much to do.
FIRST_REPORT_S: Final = 30.0
# A run that no process has for so long waits for something.
WAITING_S: Final = 5.0
GIVEN_UP: Final = "no process has begun it since an executor was given up: the task starts in another process"


class RemoteWatch:
    """See the module."""

    def __init__(self, runs: TaskRuns, restarts: TaskRestarts, spark: SparkHost, clock: Callable[[], float]) -> None:
        self._runs = runs
        self._restarts = restarts
        self._spark = spark
        self._clock = clock

    def look(self) -> None:
        """Looks at the executors once."""
        now = self._clock()
        self._spark.placement.look(now)
        waiting = any(self._waits(run, now) for run in self._runs)
        if self._spark.executors.look_for_hung(waiting=waiting):
            self._spark.change_plan()
        self._spark.shared.leave_given_up()
        for run in self._runs:
            if self._waits(run, now) and not run.shares and self._spark.executors.was_any_given_up(run.since):
                self._restarts.silent(run, GIVEN_UP)

    def _waits(self, run: TaskRun, now: float) -> bool:
        waits = run.phase is Phase.WAITING and not run.not_before and now - run.since > WAITING_S
        return waits and not self._spark.has_no_slot(run)

    def look_after(self, run: TaskRun) -> None:
        """Looks at a run that a process has."""
        now = self._clock()
        if run.report is None:
            # It has no lease yet.
            if now - run.heard > FIRST_REPORT_S:
                self._stop_query(run)
                self._restarts.silent(run, f"no report within {FIRST_REPORT_S:g} s: the task starts in another process")
            return
        if now < run.granted_until + CLOCK_MARGIN_S:
            self._look_for_a_hang(run, now)
            return
        if run.next_attempt is not None:
            return  # which takes over in this moment
        if self._spark.executors.is_lost(run.executor) and not run.cancelled:
            self._runs.lose_attempt(run, f"Spark has lost {place_of(run)}, and starts the task again")
        elif run.withdrawn:
            self._give_up(run, self._since(run, "has copied nothing"), hung=True)
        elif now >= max(run.granted_until + CLOCK_MARGIN_S, run.heard) + SILENT_PATIENCE_S:
            self._give_up(run, self._since(run, "has not been heard"))

    def finished_by_its_lease(self, run: TaskRun) -> None:
        """A run that was to finish is over. Without its last words its executor may be frozen, and must not get others."""
        if run.report is not None and self._clock() - run.heard >= SILENT_PATIENCE_S:
            self._spark.give_up_executor(run.executor)

    def _look_for_a_hang(self, run: TaskRun, now: float) -> None:
        if now - run.heard > TASK_SILENT_S and not run.withdrawn:
            self._runs.is_gone(run, f"it has copied nothing for {TASK_SILENT_S:g} s", hangs=True)
            self._stop_query(run)

    def _give_up(self, run: TaskRun, line: str, *, hung: bool = False) -> None:
        self._spark.give_up_executor(run.executor)
        self._stop_query(run)
        if hung:
            self._restarts.died(run, line, "its process is given up")
        else:
            self._restarts.silent(run, f"{line}: the task starts in another process")

    def _stop_query(self, run: TaskRun) -> None:
        if not run.shared:
            self._runs.cancel(run)
        elif run.process is None or not self._spark.runs.is_process_heard(run.process):
            self._spark.shared.renew_of(run.process)

    def _since(self, run: TaskRun, what: str) -> str:
        since = utc(time.time() - (self._clock() - run.heard))
        return f"its process on {place_of(run)} {what} since {since}"
