"""The process's Spark applications, shared by the supervisors of all its flows.

One runs the tasks that copy (`copying`). With a local master another one runs those with a statement (`computing`), from the
first of them on until there was none for a while. On a cluster both are one.

It merges the runs of all flows into a plan for each application, and gives each report of a driver to the supervisor that
owns the run. Slots and processes are shared: Spark may use a process for a task of one flow after a task of another. If an
application ends, all its runs end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.exposition.measured import JvmFigures, MeasuredSpark, together
from mirror_connect.app.supervisor.cluster_executors import ClusterExecutors
from mirror_connect.app.supervisor.executor_placement import ExecutorPlacement
from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.interfaces import Application, NewApplication
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.lookup_reads import reader
from mirror_connect.app.supervisor.preview_lookups import PreviewLookups
from mirror_connect.app.supervisor.spark_executors import MissingExecutor, SparkExecutor
from mirror_connect.app.supervisor.spark_questions import SparkQuestions
from mirror_connect.app.supervisor.task_placement import statement_of
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.log_format import log_flow
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.connectors.task_protocol import (
    LogLevels,
    SourceOffset,
    TaskOrders,
    TaskProcess,
    TaskReport,
    TaskSpec,
)

log = logging.getLogger(__name__)

# For so long the second application stays without a task and a question: a connector that is changed or restarted finds it.
IDLE_S: Final = 600.0
# How often it is looked whether that time is over.
LOOK_S: Final = 5.0
_PURPOSE: Final = " for statements"


class RunRequests(Protocol):
    """Serves the processes of tasks (task_requests.TaskRequests)."""

    async def spec(
        self, run: TaskRun, attempt: str, *, process: TaskProcess | None = None, shared: bool = False
    ) -> TaskSpec | None:
        """The spec of a run; None if the run or the attempt is over, or belongs into another process."""

    async def source_offsets(
        self, run: TaskRun, attempt: str, partitions: Sequence[TopicPartition], *, fenceable: bool
    ) -> list[SourceOffset] | None:
        """The source offsets of a run's partitions; None if its attempt is over."""

    async def lookup(self, run: TaskRun, name: str, keys: Sequence[str]) -> bytes | None:
        """The rows of a lookup of a run's statement, as a stream of Arrow's; None if the run is over."""

    async def report(self, run: TaskRun, report: TaskReport, *, hold_s: float, known_version: int) -> TaskOrders:
        """Takes a report and answers with orders."""


class RunOwner(Protocol):
    """What the host tells the supervisor of a flow, and asks it."""

    @property
    def flow(self) -> str:
        """The flow's name; empty in a process that has one."""

    @property
    def runs(self) -> Iterable[TaskRun]:
        """All runs that have not ended."""

    @property
    def requests(self) -> RunRequests:
        """Serves the processes of its runs."""

    def run_of(self, run_id: str) -> TaskRun | None:
        """A run that has not ended."""

    def planned(self) -> Iterable[TaskRun]:
        """The runs that should have a query now."""

    def spark_came(self, spark: HostedSpark) -> None:
        """An application is there, after it was absent."""

    def query_reported(self, run: TaskRun, state: str, error: str | None, fatal: str | None = None) -> None:
        """The driver has reported the state of a run's query. `fatal`: STACK or MEMORY, if a record needed too much."""

    def spark_lost(self, spark: HostedSpark) -> None:
        """An application has ended, and no process of it is left on this machine."""


@dataclass(eq=False)
class _SharedProcess:
    """The process that light tasks share, as one query of Spark. `asked`: it is there, and has asked for its runs."""

    since: float
    process_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    asked: bool = False


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
        self._owners: list[RunOwner] = []
        first = [launched.application] if launched is not None else []
        if launched is not None:
            spark, new_application = launched.spark, launched.new_application

        def hosted(token: str, *, computes: bool) -> HostedSpark:
            def runs() -> Iterator[TaskRun]:
                return (run for run in self._runs() if self.is_remote or run.computes == computes)

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
        self.executors: Final = ClusterExecutors(clock, self._runs)
        self.placement: Final = ExecutorPlacement(self._runs, self.executors)
        self.questions: Final = SparkQuestions(lambda: self.computing.absence, self._look_for_statements)
        self.preview_lookups: Final = PreviewLookups(reader(lookup_paths))
        self._shared: _SharedProcess | None = None
        # Processes that it was, which have hung on a cluster.
        self._renewed: set[TaskProcess] = set()
        self._clock = clock
        self._plan_version = 0
        # What users have set. It outlives Spark, and the next application gets it with its first plan.
        self.log_levels = LogLevels()
        self._plan_changed = asyncio.Event()
        self._url = ""
        self._used_at = 0.0
        self._idling: asyncio.Task[None] | None = None

    def add(self, owner: RunOwner) -> None:
        """From now on its runs are in the plan."""
        self._owners.append(owner)

    def remove(self, owner: RunOwner) -> None:
        """Its runs are no longer in the plan. Call it when none of them has a process."""
        if owner in self._owners:
            self._owners.remove(owner)
            self.change_plan()

    async def start(self, url: str) -> None:
        """Starts Spark in the background; `url` is where its processes reach the internal HTTP."""
        self._url = url
        self.copying.start(url)
        self._look_for_statements()

    async def end(self, patience_s: float = 1.0) -> None:
        """Ends Spark; afterwards no process of it is alive."""
        self._url = ""
        if self._idling is not None:
            self._idling.cancel()
            await asyncio.gather(self._idling, return_exceptions=True)
        await asyncio.gather(*(each.end(patience_s) for each in self.applications))
        # Answers held requests: a server that closes would cancel them, with a stack trace.
        self.change_plan()
        self.questions.end()

    # --- for supervisors --------------------------------------------------------------------------------------------

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
        if spark.slots is None or (run.shares and self._shared is not None and self._shared.asked):
            return False
        return spark.wanting > spark.slots

    def has_another_run(self, process: TaskProcess, run: TaskRun) -> bool:
        """Whether a process works on another run than this one, of any flow, and so no longer on this one."""
        return any(
            other is not run and other.process == process and not (other.shared and run.shared)
            for other in self._runs()
        )

    def give_up_executor(self, executor: str) -> None:
        """Lets Spark end and replace an executor, unless any task on it is heard."""
        if self.executors.give_up(executor):
            self.change_plan()

    def is_process_heard(self, process: TaskProcess) -> bool:
        """Whether a task in this process copies."""
        now = self._clock()
        return any(run.process == process and not run.withdrawn and now < run.granted_until for run in self._runs())

    def renew_shared_of(self, process: TaskProcess | None) -> None:
        """As `renew_shared`, but once for a process that has hung, of all its runs."""
        if process is None or process not in self._renewed:
            if process is not None:
                self._renewed.add(process)
            self.renew_shared()

    def renew_shared(self) -> None:
        """The shared process is given up. Its runs get another one."""
        self._shared = None
        self.change_plan()

    def leave_given_up(self) -> None:
        """Gives the shared process another query, if Spark may have begun it on an executor that was given up since then."""
        shared = self._shared
        if shared is not None and not shared.asked and self.executors.was_any_given_up(shared.since):
            self.renew_shared()

    def is_shared_with_others(self, run: TaskRun) -> bool:
        """Whether other runs, of any flow, belong to the shared process."""
        return any(other is not run and other.shares for other in self._runs())

    def sharing(self, run: TaskRun) -> Iterator[TaskRun]:
        """The other runs in the shared process, of any flow; none for a run that has a process of its own."""
        return (other for other in self._runs() if other is not run and other.shared and run.shared)

    def set_log_levels(self, levels: Mapping[str, int]) -> None:
        """Sets levels of loggers in Spark's processes, by name as Python's numbers, now and after each restart."""
        self.log_levels = LogLevels(self.log_levels.version + 1, {**self.log_levels.levels, **levels})
        self.change_plan()

    def change_plan(self) -> None:
        """Makes a new version of the plan, and answers requests that wait for one."""
        self._plan_version += 1
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()
        self._look_for_statements()

    # --- the application for statements ------------------------------------------------------------------------------

    def _look_for_statements(self) -> None:
        """Starts the application for statements if there are any, and the worker is not ending."""
        spark = self.computing
        if spark is self.copying or not self._url or not self._has_statements():
            return
        self._used_at = self._clock()
        if self._idling is None or self._idling.done():
            spark.start(self._url)
            self._idling = asyncio.create_task(self._end_when_idle())

    def _has_statements(self) -> bool:
        return self.questions.waiting or any(run.computes for run in self._runs())

    async def _end_when_idle(self) -> None:
        while self._clock() - self._used_at < IDLE_S:
            await asyncio.sleep(LOOK_S)
            if self._has_statements():
                self._used_at = self._clock()
        await self.computing.end(patience_s=1.0)
        # One may have come while it ended.
        asyncio.get_running_loop().call_soon(self._look_for_statements)

    # --- Spark's side -----------------------------------------------------------------------------------------------

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
            for owner, run in self._planned(shared=False)
            if self.of(run) is asking
        ]
        if asking is self.copying and (shared := self._shared_process()) is not None:
            runs.insert(0, {"run_id": shared.process_id, "token": shared.token, "shared": True})
        plan = {"version": self._plan_version, "runs": runs, "log_levels": asdict(self.log_levels)}
        return {**plan, "given_up": sorted(self.executors.given_up)} if self.is_remote else plan

    async def shared_runs(self, process_id: str, after: int, hold_s: float) -> dict[str, Any] | None:
        """Every run of the shared process; waits like `plan`. None if that process is over."""
        await self._changed_plan(after, hold_s)
        if (shared := self._shared_process()) is None or shared.process_id != process_id:
            return None
        shared.asked = True
        runs = [{"run_id": run.run_id, "token": run.token} for _, run in self._planned(shared=True)]
        return {"version": self._plan_version, "runs": runs}

    def shared_token(self, process_id: str) -> str | None:
        """The token of the shared process; None if that process is over."""
        shared = self._shared
        return shared.token if shared is not None and shared.process_id == process_id else None

    async def _changed_plan(self, after: int, hold_s: float) -> None:
        if after >= self._plan_version:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hold_s):
                    await self._plan_changed.wait()

    def _shared_process(self) -> _SharedProcess | None:
        """A new one for the first of its runs, and None as soon as there is none."""
        if not any(True for _ in self._planned(shared=True)):
            self._shared = None
        elif self._shared is None:
            self._shared = _SharedProcess(self._clock())
        return self._shared

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
            self._tell(lambda owner: owner.spark_came(reporting))
        for run_id, said in runs.items():
            state, error = said["state"] or "", said["error"]
            if (found := self.find(run_id)) is not None:
                # A run that has moved in is told of by its former query, too, which the driver stops.
                if not found[1].shares:
                    self._query_reported(*found, state, error, said.get("fatal"))
            elif self._shared is not None and self._shared.process_id == run_id:
                self._shared_reported(self._shared, state, error)

    def _shared_reported(self, shared: _SharedProcess, state: str, error: str | None) -> None:
        runs = list(self._planned(shared=True))
        if state != "ENDED":
            for owner, run in runs:
                self._query_reported(owner, run, state, error)
            return
        log.warning("The process that light tasks share has ended: %s", (error or "its query ended").splitlines()[0])
        self.renew_shared()
        # The next process takes over what this one had. One that never asked can't show which run it can't begin.
        if not shared.asked:
            for owner, run in runs:
                if run.attempt is None:
                    self._query_reported(owner, run, state, error)

    def _query_reported(
        self, owner: RunOwner, run: TaskRun, state: str, error: str | None, fatal: str | None = None
    ) -> None:
        with log_flow(owner.flow):
            try:
                owner.query_reported(run, state, error, fatal)
            except Exception:  # a bug with one run must not keep the reports from the others
                log.exception("A bug while the state of a query was reported")

    def find(self, run_id: str) -> tuple[RunOwner, TaskRun] | None:
        """A run that has not ended, and whose it is."""
        for owner in self._owners:
            if (run := owner.run_of(run_id)) is not None:
                return owner, run
        return None

    def _planned(self, *, shared: bool) -> Iterator[tuple[RunOwner, TaskRun]]:
        return ((owner, run) for owner in self._owners for run in owner.planned() if run.shares == shared)

    def _lost(self, spark: HostedSpark) -> None:
        if spark is self.copying:
            self._shared = None
            self._renewed.clear()
            self.executors.spark_lost()
        self._tell(lambda owner: owner.spark_lost(spark))

    def _tell(self, event: Callable[[RunOwner], None]) -> None:
        for owner in list(self._owners):
            with log_flow(owner.flow):
                try:
                    event(owner)
                except Exception:  # a bug with one flow must not keep the news from the others
                    log.exception("A bug while Spark came or went")

    def _runs(self) -> Iterator[TaskRun]:
        return itertools.chain.from_iterable(owner.runs for owner in self._owners)


def _statement(run: TaskRun) -> dict[str, Any]:
    """What the driver is told of the run's statement: no value of a secret."""
    sql = statement_of(run)
    return {} if sql is None else {"sql": sql.to_json()}
