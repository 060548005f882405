"""Makes the running Spark tasks equal the wanted ones: start, watch, stop.

The herder gives the wanted tasks (`want`); the tasks and the driver report the running ones. Reports and changes are handled
at once. The watch (task_watch.py) finds what nobody reports. Everything runs on the worker's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.storage.partition_owners import PartitionOwners
from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.interfaces import STARTING, SpecSource, TaskEvents, WantedTask
from mirror_connect.app.supervisor.lookup_keeper import LookupKeeper
from mirror_connect.app.supervisor.lookup_reads import reader
from mirror_connect.app.supervisor.other_workers import OtherWorker
from mirror_connect.app.supervisor.readiness import Readiness, SparkReadiness
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_requests import TaskRequests
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.app.supervisor.task_runs import UNASSIGNED, TaskRuns
from mirror_connect.app.supervisor.task_watch import TaskWatch
from mirror_connect.connectors.task_protocol import TaskId, TaskSpec

log = logging.getLogger(__name__)


class Supervisor:
    """See the module. `lease` gives the seconds that the worker's tasks may still write; `clock` gives seconds.

    `requests` serves the processes of tasks. `flow`: its name in a process with several flows. `metrics` takes what tasks
    measure. `carried`: see TaskRequests.
    """

    def __init__(
        self,
        spark: SparkHost,
        specs: SpecSource,
        lease: Callable[[], float],
        *,
        flow: str = "",
        clock: Callable[[], float] = time.monotonic,
        metrics: WorkerMetrics | None = None,
        carried: Callable[[TaskSpec], TaskSpec] | None = None,
    ) -> None:
        self.flow: Final = flow
        self._spark = spark
        self._specs = specs
        self._runs = TaskRuns(spark, clock, self._keep_only)
        self._restarts = TaskRestarts(self._runs, clock)
        self._readiness = SparkReadiness(lambda: spark.copying.slots, clock)
        self._lookups = LookupKeeper(clock, reader(spark.lookup_paths))
        self._watch = TaskWatch(self._runs, self._restarts, spark, clock, self._look)
        self.requests: Final = TaskRequests(
            self._runs,
            self._restarts,
            specs,
            lease,
            clock,
            metrics=metrics or WorkerMetrics(),
            lookups=self._lookups,
            carried=carried,
        )
        self._stopping = False
        spark.add(self)

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

    # The herder's side.

    def listen(self, events: TaskEvents) -> None:
        """Sets the receiver of task events; before `start`."""
        self._runs.events = events

    def start(self) -> None:
        """Begins to watch the runs, in the background."""
        self._watch.start()

    async def stop(self, patience_s: float) -> None:
        """Lets every task commit and return. What is left after that ends with Spark."""
        self._stopping = True
        self._runs.want({})
        until = time.monotonic() + patience_s
        while self._runs and time.monotonic() < until:
            await asyncio.sleep(0.02)
        self._watch.stop()
        self._lookups.close()

    def want(
        self,
        tasks: Mapping[TaskId, WantedTask],
        owners: Mapping[str, PartitionOwners] | None = None,
        read: float = float("inf"),
    ) -> None:
        """Makes these the tasks that run. A failed task stays failed until its config changes or it is restarted.

        `owners`: ConfigSnapshot.owners, as of the same record of the config topic; None: as before. `read`: its offset.
        """
        if self._stopping:
            return
        if owners is not None:
            self._runs.hand_over.owners, self._runs.hand_over.read = owners, read
        self._runs.want(tasks)

    # The group's side: see HandOver.

    def share(self, changed: Callable[[], None], steady: Callable[[], bool]) -> None:
        """Other workers may run tasks of the same connectors. Call it before `start`.

        `changed` is called when the group should hear `claimed_tasks`, `confirmed` and `readiness` again. `steady`: see
        HandOver.
        """
        self._runs.hand_over.changed, self._runs.hand_over.steady = changed, steady

    def claimed_tasks(self) -> frozenset[TaskId]:
        """Tasks that have not surely ended here. No other worker may start them."""
        return self._runs.hand_over.claimed

    def confirmed(self) -> Mapping[str, int]:
        """By connector of which anything is held here: up to which commit all is given up that is not this worker's."""
        return self._runs.hand_over.confirmed

    @property
    def readiness(self) -> Readiness:
        """Whether Spark can take tasks, for the group."""
        return self._readiness.now

    @property
    def absence(self) -> str | None:
        """Why no task that copies can begin, as a line for people; None if Spark is there."""
        return self._spark.copying.absence

    def lookup_ages(self, connector: str) -> Mapping[str, float]:
        """See LookupKeeper.ages."""
        return self._lookups.ages(connector)

    def places(self) -> list[TaskPlace]:
        """On which executors of a Spark cluster tasks run, as they have reported; none with a local master."""
        return [
            TaskPlace(run.task.connector, run.task.task, run.report.executor, run.report.host)
            for run in self._runs
            if run.is_elsewhere and run.report is not None
        ]

    def group_changed(self, others: Iterable[OtherWorker], believed: Mapping[str, int], offset: int) -> None:
        """The group has another assignment: see HandOver.group_changed. Call it before any other call about it."""
        self._runs.hand_over.group_changed(others, believed, offset)
        self._runs.reassign_all()

    def holds_elsewhere(self, connector: str) -> str:
        """Which other workers may still write anything of a connector that no task is to run any more; empty: none."""
        return self._runs.hand_over.elsewhere(connector)

    def retire(self) -> None:
        """Ends all runs, because another worker may lead by now. None of them writes any more.

        Not even if this worker leads again before they have ended: tasks of another worker may have written in between.
        """
        for run in self._runs:
            run.may_write = False
        self.want({})

    def has_failed(self, task: TaskId) -> bool:
        """Whether the task is FAILED, and neither its config has changed nor was it restarted since then."""
        return self._runs.has_failed(task)

    def restart(self, task: TaskId) -> None:
        """Restarts a task: ends its run if it has one, and forgets that it failed."""
        self._restarts.forget(task)
        self._runs.restart(task)

    # Spark's side: see RunOwner.

    def planned(self) -> Iterable[TaskRun]:
        """The runs that should have a query now."""
        return self._runs.planned()

    def spark_came(self, spark: HostedSpark) -> None:
        """An application is there, after it was absent."""
        self._look_at_spark()
        for waiting in self._runs:
            if waiting.phase is Phase.WAITING and waiting.waits_for is not None and self._spark.of(waiting) is spark:
                waiting.waits_for = None
                self._runs.report_state(waiting.task, UNASSIGNED, STARTING)

    def query_reported(self, run: TaskRun, state: str, error: str | None, fatal: str | None = None) -> None:
        """The driver has reported on a query. If it ended but its run has not, the task's process is lost."""
        self._hear_of_query(run, error or "no reason is known" if state == "UNKNOWN" else None)
        # A process may outlive its query for seconds; the next report is half a second away.
        if state == "ENDED" and self._runs.is_gone(run, "its query has ended", hangs=True):
            if fatal is not None:
                self._restarts.needed_too_much(run, error or fatal, fatal)
            else:
                self._restarts.died(run, error or "its query ended")

    def heap_filled(self, spark: HostedSpark, why: str) -> None:
        """An application is about to end, as its heap is full. Its tasks that wait for a statement are suspected."""
        self._restarts.heap_filled((run for run in self._runs if self._spark.of(run) is spark), why)

    def spark_lost(self, spark: HostedSpark) -> None:
        """An application has ended. With a local master no process of it is left; on a cluster, what runs has its lease."""
        if not self._spark.is_remote:
            self._restarts.ended_with_the_heap(run for run in self._runs if self._spark.of(run) is spark)
            self._runs.end_all(spark)
            return
        for run in self._runs:
            if run.attempt is not None and spark.absence is not None:
                self._runs.wait(run, spark.absence, logged=True)
        self._runs.finish_all()

    def _look(self) -> None:
        self._look_at_spark()
        self._lookups.look(self._runs)

    def _look_at_spark(self) -> None:
        if self._readiness.look():
            self._runs.hand_over.changed()

    def _hear_of_query(self, run: TaskRun, unknown: str | None) -> None:
        """`unknown`: why Spark does not know the state of a run's query; None if it does."""
        if unknown is not None and run.query_unknown is None:
            log.warning("Task %s: Spark does not report the state of its query: %s", run.task, unknown)
        run.query_unknown = unknown

    def _keep_only(self, tasks: Collection[TaskId]) -> None:
        self._restarts.keep(tasks)
        self._specs.keep(tasks)
