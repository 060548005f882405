"""Watches runs for what nobody reports: silence, a slow end, missing slots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.idleness import TASK_SILENT_S, why_idle
from mirror_connect.app.supervisor.remote_watch import RemoteWatch
from mirror_connect.app.supervisor.spark_executors import named
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.connectors.clock import utc
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

# Short enough to end a task that does not finish within two seconds of its order.
TICK_S: Final = 0.1
NO_SLOT_S: Final = 5.0
# After a tick that is so late, this worker was suspended, and has not read the tasks' reports yet.
SUSPENDED_S: Final = 5.0
STEADY_S: Final = 120.0


class TaskWatch:
    """See the module. `look` is called with each tick."""

    def __init__(
        self,
        runs: TaskRuns,
        restarts: TaskRestarts,
        spark: SparkHost,
        clock: Callable[[], float],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._look = look
        self._runs = runs
        self._restarts = restarts
        self._spark = spark
        self._clock = clock
        self._remote = RemoteWatch(runs, restarts, spark, clock) if spark.is_remote else None
        self._ticked = clock()
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        self._ticking = asyncio.create_task(self._tick_for_ever())

    def stop(self) -> None:
        """Ends it."""
        if self._ticking is not None:
            self._ticking.cancel()

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Checks all runs once."""
        now = self._clock()
        pause, self._ticked = now - self._ticked, now
        self._look()
        for connector in self._runs.landing.over(now) | self._runs.hand_over.others.over():
            self._runs.reassign(connector)
        if self._remote is not None:
            self._remote.look()
        for run in self._runs:
            if pause > SUSPENDED_S:
                run.heard, run.since = now, run.since + pause
                if run.abandon_since is not None:
                    run.abandon_since, run.abandon_told = now, None
            try:
                self._look_after(run, now)
            except Exception:  # a bug with one run must not stop the watch over the others
                log.exception("Watching task %s failed", run.task)

    def _look_after(self, run: TaskRun, now: float) -> None:
        match run.phase:
            case Phase.FINISHING:
                # Too slow: what the target has not acknowledged is abandoned, its source offsets stay.
                if (
                    run.finish_by is not None
                    and now > run.finish_by
                    and self._runs.is_gone(run, "it did not finish in time")
                ):
                    if self._remote is not None:
                        self._remote.finished_by_its_lease(run)
                    self._runs.end(run)
                elif self._remote is not None and run.withdrawn:
                    self._runs.cancel(run)
            case Phase.WAITING if run.not_before:
                if now >= run.not_before:
                    run.not_before, run.since = 0.0, now
                    self._spark.change_plan()
                return
            case Phase.WAITING:
                if self._waits_for_good_reason(run, now):
                    return
            case Phase.STARTED | Phase.RUNNING if self._remote is not None:
                self._remote.look_after(run)
                self._forget_if_steady(run, now)
            case Phase.STARTED | Phase.RUNNING:
                if now - max(run.heard, run.silence_judged) > TASK_SILENT_S:
                    run.silence_judged = now
                    if run.pid is None:
                        # It may not write without a lease, which comes with the answer to a first report.
                        self._restarts.died(run, f"no report within {TASK_SILENT_S:g} s", "its process is given up")
                        return
                    self._runs.is_gone(
                        run, f"it was stalled for {TASK_SILENT_S:g} s; Spark starts the task again", hangs=True
                    )
                self._forget_if_steady(run, now)
        self._report_if_idle(run, now)

    def _waits_for_good_reason(self, run: TaskRun, now: float) -> bool:
        """Whether it is known why no process has this run; reports it, or gives its query up."""
        spark = self._spark.of(run)
        absence = spark.absence if spark.slots is None or now - run.since > NO_SLOT_S else None
        if absence is not None and not run.missing:
            # Why may be known, or another reason, only seconds after the run has begun to wait.
            self._runs.wait(run, absence, logged=True)
        waited = now - max(run.since, spark.slots_since)
        if spark.slots is not None and self._spark.has_no_slot(run):
            if waited > NO_SLOT_S and not self._runs.shares_for_want_of_a_slot(run) and not run.missing:
                self._runs.wait(run, self._no_slot(run.task, spark, spark.slots))
            return True
        if run.query_unknown is not None and waited > TASK_SILENT_S:
            self._give_up(run, run.query_unknown)
            return True
        return False

    def _forget_if_steady(self, run: TaskRun, now: float) -> None:
        if run.phase is Phase.RUNNING and now - run.since > STEADY_S:
            self._restarts.forget(run.task)

    def _give_up(self, run: TaskRun, unknown: str) -> None:
        if run.shares:
            self._spark.shared.renew()
        self._restarts.died(run, unknown, "its query is given up, because Spark does not report its state")

    def _no_slot(self, task: TaskId, spark: HostedSpark, slots: int) -> str:
        if (absence := spark.absence) is not None:
            return absence
        executors = spark.executors
        of_them = f" ({named(executors)})" if executors else ""
        return (
            f"Task {task} has no Spark slot: {spark.wanting} tasks want to run and spark.master={self._spark.master} has "
            f"{counted(slots, 'slot')}{of_them}. Raise the slots or lower tasks.max."
        )

    def _report_if_idle(self, run: TaskRun, now: float) -> None:
        """Reports a run that stopped copying without a report, or its status would stay RUNNING."""
        spark = self._spark.of(run)
        idle = why_idle(run, now, spark.slots_since) if spark.slots is not None else None
        if idle is None:
            if run.idle_since is not None and run.phase is not Phase.RUNNING:
                run.waits_for = None  # this reason is over, and the next one may be reported
            run.idle_since = None
            return
        if run.missing:
            # No process begins before Spark has the lookups: their lines are the reason.
            run.idle_since = None
            return
        if run.waits_for is not None and run.idle_since is None and not idle.foremost:
            return
        # The time is made a text once: a difference of a second would be written as another status.
        if run.idle_since is None or abs(idle.since - run.idle_since[0]) > 1:
            run.idle_since = (idle.since, utc(time.time() - (now - idle.since)))
        self._runs.wait(run, redact(idle.line.format(since=run.idle_since[1]), run.secrets))
