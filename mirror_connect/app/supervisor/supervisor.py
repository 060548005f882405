"""Makes the running Spark tasks equal the wanted ones: start, watch, stop.

The herder gives the wanted tasks (`want`); the tasks and the driver report the running ones. Reports and changes are handled
at once. The watch (task_watch.py) finds what nobody reports. Everything runs on the worker's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from mirror_connect.app.supervisor.interfaces import STARTING, Application, SpecSource, TaskEvents, WantedTask
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.spark_keeper import SparkKeeper
from mirror_connect.app.supervisor.task_requests import TaskRequests
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.app.supervisor.task_runs import UNASSIGNED, TaskRuns
from mirror_connect.app.supervisor.task_watch import TaskWatch
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)


class Supervisor:
    """See the module. `lease` gives the seconds that the worker's tasks may still write; `clock` gives seconds.

    `requests` serves the processes of tasks.
    """

    def __init__(
        self,
        spark: Mapping[str, str],
        specs: SpecSource,
        lease: Callable[[], float],
        *,
        new_application: Callable[[Mapping[str, str]], Application] = SparkApplication,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.driver_token = secrets.token_urlsafe(32)
        self._specs = specs
        self._keeper = SparkKeeper(lambda: new_application(spark), clock, self._spark_lost)
        self._runs = TaskRuns(self._keeper, clock, self._keep_only)
        self._restarts = TaskRestarts(self._runs, clock)
        master = spark.get("spark.master", "local[64,4]")
        self._watch = TaskWatch(self._runs, self._restarts, self._keeper, clock, master)
        self.requests = TaskRequests(self._runs, self._restarts, specs, lease, clock)
        self._stopping = False

    @property
    def runs(self) -> Iterable[TaskRun]:
        """All runs that have not ended."""
        return self._runs

    def run_of(self, run_id: str) -> TaskRun | None:
        """A run that has not ended."""
        return self._runs.by_id(run_id)

    def secrets(self) -> frozenset[str]:
        """The secrets of all runs that have not ended."""
        return frozenset().union(*(run.secrets for run in self._runs))

    # --- the herder's side ------------------------------------------------------------------------------------------

    def listen(self, events: TaskEvents) -> None:
        """Sets the receiver of task events; before `start`."""
        self._runs.events = events

    async def start(self, url: str) -> None:
        """Starts Spark in the background; `url` is where tasks reach the internal HTTP."""
        self._keeper.start(url, self.driver_token)
        self._watch.start()

    async def stop(self, patience_s: float) -> None:
        """Lets every task commit and return, then ends Spark; afterwards no process of it is alive."""
        self._stopping = True
        self._runs.want({})
        until = time.monotonic() + patience_s
        while self._runs and time.monotonic() < until:
            await asyncio.sleep(0.02)
        self._watch.stop()
        await self._keeper.end(patience_s=1.0)
        # Answers a held plan request: a server that closes would cancel it, with a stack trace.
        self._runs.change_plan()

    def want(self, tasks: Mapping[TaskId, WantedTask]) -> None:
        """Makes these the tasks that run. A failed task stays failed until its config changes or it is restarted."""
        if not self._stopping:
            self._runs.want(tasks)

    def retire(self) -> None:
        """Ends all runs, because another worker may lead by now. None of them writes any more.

        Not even if this worker leads again before they have ended: tasks of another worker may have written in between.
        """
        for run in self._runs:
            run.may_write = False
        self.want({})

    def restart(self, task: TaskId) -> None:
        """Restarts a task: ends its run if it has one, and forgets that it failed."""
        self._restarts.forget(task)
        self._runs.restart(task)

    # --- Spark's side -----------------------------------------------------------------------------------------------

    async def plan(self, after: int, hold_s: float) -> dict[str, Any]:
        """Every run that should have a query; waits up to `hold_s` for a version newer than `after`."""
        return await self._runs.plan(after, hold_s)

    def driver_report(self, slots: int, runs: Mapping[str, Mapping[str, str | None]]) -> None:
        """Handles the driver's report on its queries. If a query ended but its run has not, the task's process is lost."""
        was_absent = self._keeper.absence is not None
        self._keeper.heard(slots)
        if was_absent:
            for waiting in self._runs:
                if waiting.phase is Phase.WAITING and waiting.waits_for is not None:
                    waiting.waits_for = None
                    self._runs.report_state(waiting.task, UNASSIGNED, STARTING)
        for run_id, said in runs.items():
            run = self._runs.by_id(run_id)
            if run is None:
                continue
            self._hear_of_query(run, said["error"] or "no reason is known" if said["state"] == "UNKNOWN" else None)
            # A process may outlive its query for seconds; the next report is half a second away.
            if said["state"] == "ENDED" and self._runs.is_gone(run, "its query has ended"):
                self._restarts.died(run, said["error"] or "its query ended")

    def _hear_of_query(self, run: TaskRun, unknown: str | None) -> None:
        """`unknown`: why Spark does not know the state of a run's query; None if it does."""
        if unknown is not None and run.query_unknown is None:
            log.warning("Task %s: Spark does not report the state of its query: %s", run.task, unknown)
        run.query_unknown = unknown

    def _spark_lost(self) -> None:
        self._runs.end_all()

    def _keep_only(self, tasks: Collection[TaskId]) -> None:
        self._restarts.keep(tasks)
        self._specs.keep(tasks)
