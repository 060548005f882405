"""The process's Spark applications, shared by the supervisors of all its flows.

One runs the tasks that copy (`copying`). With a local master another one runs those with a statement (`computing`), from the
first of them on until there was none for a while. On a cluster both are one.

It merges the runs of all flows into a plan for each application, and gives each report of a driver to the supervisor that
owns the run. Slots are shared. If an application ends, all its runs end.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.exposition.measured import JvmFigures, MeasuredSpark, together
from mirror_connect.app.supervisor.cluster_executors import ClusterExecutors
from mirror_connect.app.supervisor.executor_placement import ExecutorPlacement
from mirror_connect.app.supervisor.flow_runs import FlowRuns, RunOwner
from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.interfaces import Application, NewApplication
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.lookup_reads import reader
from mirror_connect.app.supervisor.preview_lookups import PreviewLookups
from mirror_connect.app.supervisor.shared_process import SharedProcesses
from mirror_connect.app.supervisor.spark_executors import MissingExecutor, SparkExecutor
from mirror_connect.app.supervisor.spark_on_demand import SparkOnDemand
from mirror_connect.app.supervisor.spark_questions import SparkQuestions
from mirror_connect.app.supervisor.task_placement import statement_in, statement_of
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.connectors.task_protocol import LogLevels

_PURPOSE: Final = " for statements"


class SparkHost:
    """See the module. `spark`: the properties spark.*; `clock` gives seconds.

    `launched`: the first application, which exists already. `lookup_paths`: where files of lookups may be.
    """

    def __init__(
        self,
        spark: Mapping[str, str],
        *,
        launched: LaunchedSpark | None = None,
        new_application: NewApplication = SparkApplication,
        clock: Callable[[], float] = time.monotonic,
        lookup_paths: LookupPaths = NO_FILES,
    ) -> None:
        self.lookup_paths: Final = lookup_paths
        self.master: Final = spark.get("spark.master", "local[64,4]")
        # Whether tasks run on other machines: their processes can't be seen from here.
        self.is_remote: Final = not is_local(self.master)
        self.runs: Final = FlowRuns(clock)
        first = [launched.application] if launched is not None else []
        if launched is not None:
            spark, new_application = launched.spark, launched.new_application

        def hosted(token: str, *, computes: bool) -> HostedSpark:
            def runs() -> Iterator[TaskRun]:
                return (run for run in self.runs if self.is_remote or run.computes == computes)

            def new() -> Application:
                if first and not computes:
                    return first.pop()
                return new_application(spark, statements=computes or self.is_remote)

            purpose = _PURPOSE if computes else ""
            return HostedSpark(
                self.master, token, new_application=new, clock=clock, lost=self._lost, runs=runs, purpose=purpose
            )

        first_token = launched.token if launched is not None else secrets.token_urlsafe(32)
        self.copying: Final = hosted(first_token, computes=False)
        self.computing: Final = self.copying if self.is_remote else hosted(secrets.token_urlsafe(32), computes=True)
        self.executors: Final = ClusterExecutors(clock, lambda: self.runs)
        self.placement: Final = ExecutorPlacement(lambda: self.runs, self.executors)
        self._on_demand = SparkOnDemand(self.computing, self._needs_computing, clock)
        self.questions: Final = SparkQuestions(lambda: self.computing.absence, self._on_demand.look)
        self.preview_lookups: Final = PreviewLookups(reader(lookup_paths))
        self.shared: Final = SharedProcesses(self.runs, self.executors, self.change_plan, clock)
        self._plan_version = 0
        # What users have set. It outlives Spark, and the next application gets it with its first plan.
        self.log_levels = LogLevels()
        self._plan_changed = asyncio.Event()

    def add(self, owner: RunOwner) -> None:
        """From now on its runs are in the plan."""
        self.runs.add(owner)

    def expect(self, configs: Iterable[Mapping[str, str]]) -> None:
        """Raw configs of tasks that most likely run here soon: what starts with the first of its tasks starts now."""
        if not self.is_remote and any(statement_in(config) is not None for config in configs):
            self._on_demand.expect()

    def remove(self, owner: RunOwner) -> None:
        """Its runs are no longer in the plan. Call it when none of them has a process."""
        if self.runs.remove(owner):
            self.change_plan()

    async def start(self, url: str) -> None:
        """Starts Spark in the background; `url` is where its processes reach the internal HTTP."""
        self.copying.start(url)
        self._on_demand.open(url)

    async def end(self, patience_s: float = 1.0) -> None:
        """Ends Spark; afterwards no process of it is alive."""
        await self._on_demand.close()
        await asyncio.gather(*(each.end(patience_s) for each in self.applications))
        # Answers held requests: a server that closes would cancel them, with a stack trace.
        self.change_plan()
        self.questions.end()

    def _needs_computing(self) -> bool:
        """Whether there is something for the application for statements, if that is another one."""
        return not self.is_remote and (self.questions.waiting or any(run.computes for run in self.runs))

    # For supervisors.

    @property
    def applications(self) -> Sequence[HostedSpark]:
        """The Spark applications of this process. The one for statements may not run now."""
        return (self.copying,) if self.is_remote else (self.copying, self.computing)

    def of(self, run: TaskRun) -> HostedSpark:
        """The application that a run belongs to."""
        return self.computing if run.computes else self.copying

    def measured(self) -> MeasuredSpark:
        """What its metrics show now, of all applications together."""
        there = [each for each in self.applications if each.wanted]
        slots = [each.slots for each in there if each.slots is not None]
        return MeasuredSpark(
            up=len(slots) == len(there) > 0,
            slots=sum(slots) if slots else None,
            wanted=sum(each.wanting for each in self.applications),
            jvm=together([each.jvm for each in there if each.jvm is not None]),
        )

    def has_no_slot(self, run: TaskRun) -> bool:
        """Whether it may be for want of a slot that no process has this run."""
        spark = self.of(run)
        if spark.slots is None or (run.shares and self.shared.has_asked):
            return False
        return spark.wanting > spark.slots

    def give_up_executor(self, executor: str) -> None:
        """Lets Spark end and replace an executor, unless any task on it is heard."""
        if self.executors.give_up(executor):
            self.change_plan()

    def set_log_levels(self, levels: Mapping[str, int]) -> None:
        """Sets levels of loggers in Spark's processes, by name as Python's numbers, now and after each restart."""
        self.log_levels = LogLevels(self.log_levels.version + 1, {**self.log_levels.levels, **levels})
        self.change_plan()

    def change_plan(self) -> None:
        """Makes a new version of the plan, and answers requests that wait for one."""
        self._plan_version += 1
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()
        self._on_demand.look()

    # Spark's side.

    async def plan(self, after: int, hold_s: float, spark: HostedSpark | None = None) -> dict[str, Any]:
        """Every run that should have a query, and the shared process if it has runs; waits for a version after `after`.

        `spark`: of which application; by default the one that copies.
        """
        await self._changed_plan(after, hold_s)
        asking = spark or self.copying
        runs = [
            {
                "run_id": run.run_id,
                "token": run.token,
                "connector": f"{owner.flow}|{run.task.connector}" if owner.flow else run.task.connector,
                "task": run.task.task,
                "shared": False,
                **_statement(run),
            }
            for owner, run in self.runs.planned(shared=False)
            if self.of(run) is asking
        ]
        if asking is self.copying and (shared := self.shared.planned()) is not None:
            runs.insert(0, {"run_id": shared.process_id, "token": shared.token, "shared": True})
        plan = {"version": self._plan_version, "runs": runs, "log_levels": asdict(self.log_levels)}
        return {**plan, "given_up": sorted(self.executors.given_up)} if self.is_remote else plan

    async def shared_runs(self, process_id: str, after: int, hold_s: float) -> dict[str, Any] | None:
        """Every run of the shared process; waits like `plan`. None if that process is over."""
        await self._changed_plan(after, hold_s)
        if (shared := self.shared.planned()) is None or shared.process_id != process_id:
            return None
        shared.asked = True
        runs = [{"run_id": run.run_id, "token": run.token} for _, run in self.runs.planned(shared=True)]
        return {"version": self._plan_version, "runs": runs}

    async def _changed_plan(self, after: int, hold_s: float) -> None:
        if after >= self._plan_version:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hold_s):
                    await self._plan_changed.wait()

    def driver_report(
        self,
        slots: int,
        runs: Mapping[str, Mapping[str, str | None]],
        jvm: JvmFigures | None = None,
        executors: Sequence[SparkExecutor] | None = None,
        missing: MissingExecutor | None = None,
        *,
        spark: HostedSpark | None = None,
    ) -> None:
        """Handles a driver's report on its queries. `spark`: of which application; by default the one that copies.

        `jvm`: the newest figures; None if it has none to tell. `executors`: those of a cluster; None with a local master.
        `missing`: what one would need, told while there is none.
        """
        reporting = spark or self.copying
        if executors is not None:
            self.executors.told(executors)
        if reporting.heard(slots, jvm, executors, missing):
            self.runs.tell(lambda owner: owner.spark_came(reporting))
        for run_id, said in runs.items():
            state, error = said["state"] or "", said["error"]
            if (found := self.runs.find(run_id)) is not None:
                # A run that has moved in is told of by its former query, too, which the driver stops.
                if not found[1].shares:
                    self.runs.query_reported(*found, state, error, said.get("fatal"))
            elif (shared := self.shared.find(run_id)) is not None:
                self.shared.reported(shared, state, error)

    def heap_filled(self, spark: HostedSpark, why: str) -> None:
        """The driver of an application ends it, as its heap is full. `why`: one line, with what to do."""
        self.runs.tell(lambda owner: owner.heap_filled(spark, why))

    def _lost(self, spark: HostedSpark) -> None:
        if spark is self.copying:
            self.shared.spark_lost()
            self.executors.spark_lost()
        self.runs.tell(lambda owner: owner.spark_lost(spark))


def _statement(run: TaskRun) -> dict[str, Any]:
    """What the driver is told of the run's statement: no value of a secret."""
    sql = statement_of(run)
    return {} if sql is None else {"sql": sql.to_json()}
