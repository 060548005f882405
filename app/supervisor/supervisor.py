"""Makes the running Spark tasks equal the wanted ones: start, watch, back off, stop.

What is wanted comes from the herder (`want`), what is comes from the tasks' reports and the driver's. One loop of half a
second compares them; reports and changes are handled at once. Everything runs on the worker's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mirror_connect.app.supervisor.grants import regrant
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.run import Partitions, Phase, Run
from mirror_connect.connectors.assignment import TopicPartition, assigned_partitions_text, parse_assigned_partitions
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.job_contract import (
    EPOCH_ENDED,
    FAILED,
    FINISHED,
    RUNNING,
    PartitionPosition,
    TaskId,
    TaskOrders,
    TaskReport,
    TaskSpec,
)

log = logging.getLogger(__name__)

ASSIGNED: Final = "task.assigned.partitions"
TICK_S: Final = 0.5
FINISH_PATIENCE_S: Final = 1.9
NO_SLOT_S: Final = 5.0
TASK_SILENT_S: Final = 30.0
DRIVER_SILENT_S: Final = 90.0
BACK_OFF_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S: Final = 120.0
# A task whose process dies again and again is FAILED rather than tried for ever.
DEATHS_UNTIL_FAILED: Final = 3


class TaskEvents(Protocol):
    """What the supervisor tells the herder."""

    def task_state(self, task: TaskId, state: str, trace: str | None) -> None:
        """RUNNING, FAILED or UNASSIGNED, each with the text to show, if there is one."""

    def task_ended(self, task: TaskId) -> None:
        """The task is no longer wanted and has returned: committed, or abandoned after the patience was over."""

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        """The task has written to these target topics."""


class SpecSource(Protocol):
    """Where a run's spec and positions come from."""

    async def build(self, run_id: str, task: TaskId, config: Mapping[str, str], version: int) -> TaskSpec:
        """Resolves a raw task config, which names the partitions granted in `version`.

        ClusterUnreachable is retried, any other exception fails the task.
        """

    async def positions(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[PartitionPosition]:
        """The positions, read to the end of the offsets topic after this call."""


@dataclass(frozen=True, slots=True)
class WantedTask:
    """A task that should run: its raw config as the config topic has it."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def identity(self) -> dict[str, str]:
        """All but the partitions: a change of it needs a new run, a change of partitions does not."""
        return {name: value for name, value in self.config.items() if name != ASSIGNED}

    @property
    def partitions(self) -> Partitions:
        """The assigned partitions as (topic, partition)."""
        return frozenset(parse_assigned_partitions(self.config.get(ASSIGNED, "")))


class Supervisor:
    """See the module. `lease` tells how many seconds the worker's tasks may still write."""

    def __init__(
        self,
        spark: Mapping[str, str],
        specs: SpecSource,
        lease: Callable[[], float],
        new_application: Callable[[Mapping[str, str]], SparkApplication] = SparkApplication,
    ) -> None:
        self.driver_token = secrets.token_urlsafe(32)
        self._spark = spark
        self._specs = specs
        self._lease = lease
        self._new_application = new_application
        self._events: TaskEvents | None = None
        self._wanted: dict[TaskId, WantedTask] = {}
        self._failed: dict[TaskId, WantedTask] = {}
        self._deaths: dict[TaskId, int] = {}
        self._runs: dict[str, Run] = {}
        self._plan_version = 0
        self._plan_changed = asyncio.Event()
        self._slots: int | None = None
        self._driver_heard = 0.0
        self._application: SparkApplication | None = None
        self._background: list[asyncio.Task[None]] = []
        self._stopping = False

    # --- the herder's side ------------------------------------------------------------------------------------------

    def listen(self, events: TaskEvents) -> None:
        """Names who is told of states; before `start`."""
        self._events = events

    async def start(self, url: str) -> None:
        """Starts Spark in the background; `url` is where tasks reach the internal HTTP."""
        self._background = [asyncio.create_task(self._keep_driver(url)), asyncio.create_task(self._tick_for_ever())]

    async def stop(self, patience_s: float) -> None:
        """Lets every task commit and return, then ends Spark; afterwards no process of it is alive."""
        self._stopping = True
        self._wanted = {}
        self._reconcile()
        until = time.monotonic() + patience_s
        while any(run.phase is not Phase.ENDED for run in self._runs.values()) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        for task in self._background:
            task.cancel()
        if self._application:
            await self._application.end(patience_s=1.0)
        await asyncio.gather(*self._background, return_exceptions=True)

    def want(self, tasks: Mapping[TaskId, WantedTask]) -> None:
        """Makes these the tasks that run. A failed task stays failed until its config changes or it is restarted."""
        if self._stopping:
            return
        self._wanted = dict(tasks)
        self._failed = {task: failed for task, failed in self._failed.items() if self._wanted.get(task) == failed}
        self._reconcile()

    def restart(self, task: TaskId) -> None:
        """Runs a task anew: ends its run if it has one, forgets that it failed."""
        self._failed.pop(task, None)
        self._deaths.pop(task, None)
        for run in self._runs.values():
            if run.task == task:
                run.ask_to_finish(FINISH_PATIENCE_S)
        self._reconcile()

    # --- the tasks' side (internal HTTP) ----------------------------------------------------------------------------

    async def plan(self, after: int, hold_s: float) -> dict[str, Any]:
        """Every run that should have a query; waits up to `hold_s` for a version newer than `after`."""
        if after >= self._plan_version:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._plan_changed.wait(), hold_s)
        self._driver_heard = time.monotonic()
        runs = [
            {"run_id": run.run_id, "token": run.token, "connector": run.task.connector, "task": run.task.task}
            for run in self._runs.values()
            if run.phase is not Phase.ENDED
        ]
        return {"version": self._plan_version, "runs": runs}

    def driver_report(self, slots: int, runs: Mapping[str, Mapping[str, str | None]]) -> None:
        """What the driver says of its queries; one that ended although its run has not, has lost its task's process."""
        self._slots = slots
        self._driver_heard = time.monotonic()
        for run_id, said in runs.items():
            run = self._runs.get(run_id)
            if run is not None and said["state"] == "ENDED" and run.phase is not Phase.ENDED:
                self._died(run, said["error"] or "its query ended")

    def run_of(self, run_id: str) -> Run | None:
        """A run that has not ended."""
        run = self._runs.get(run_id)
        return run if run is not None and run.phase is not Phase.ENDED else None

    async def spec(self, run: Run, attempt: str) -> TaskSpec | None:
        """The spec of a run at its newest version; None when the run is over."""
        if run.attempt != attempt:
            await self._end_predecessor(run)
            if run.phase in (Phase.FINISHING, Phase.ENDED):
                self._end(run)
                return None
            run.begin_attempt(attempt)
        assigned = assigned_partitions_text(sorted(map(TopicPartition._make, run.granted)))
        version = run.version
        try:
            spec = await self._specs.build(run.run_id, run.task, {**run.identity, ASSIGNED: assigned}, version)
        except ClusterUnreachable as error:
            log.warning("Task %s waits: %s", run.task, error)
            raise
        except Exception as error:
            log.exception("Task %s can't be started", run.task)
            self._fail(run, f"{type(error).__name__}: {error}")
            return None
        run.spec = spec
        return spec

    async def positions(self, run: Run, partitions: Sequence[tuple[str, int]]) -> list[PartitionPosition]:
        """Positions of a run's partitions."""
        if run.spec is None:
            raise RuntimeError("a task asked for positions before its spec")
        return await self._specs.positions(run.spec, partitions)

    async def report(self, run: Run, report: TaskReport, *, hold_s: float, known_version: int) -> TaskOrders:
        """Takes a report and answers with orders, at once if there are new ones, else after `hold_s`."""
        if run.attempt != report.attempt:
            return TaskOrders(lease_ms=0, finish=True, abandon=True)
        self._take(run, report)
        news = run.phase in (Phase.FINISHING, Phase.ENDED) or run.version > known_version
        if hold_s and not news:
            run.changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(run.changed.wait(), hold_s)
        return TaskOrders(
            lease_ms=max(0, int(self._lease() * 1000)),
            finish=run.phase in (Phase.FINISHING, Phase.ENDED),
            abandon=run.phase is Phase.ENDED,
            assignment_version=run.version,
        )

    def _take(self, run: Run, report: TaskReport) -> None:
        run.heard = time.monotonic()
        first_running = report.state == RUNNING and run.phase is Phase.STARTED
        run.report = report
        for notice in report.notices:
            log.warning("Task %s: %s", run.task, notice)
        if report.topics and self._events:
            self._events.topics_written(run.task, report.topics)
        if run.confirmed(report.assignment_version):
            self._regrant(run.task.connector)
        if first_running:
            run.phase = Phase.RUNNING
            self._say(run.task, RUNNING, None)
        elif report.state == FAILED:
            self._fail(run, report.trace or "the task failed without a trace")
        elif report.state == FINISHED:
            self._end(run)

    async def _end_predecessor(self, run: Run) -> None:
        """A new process has taken the run; the one before must be gone before the new one may write."""
        last = run.report
        if last is None or last.state in (EPOCH_ENDED, FINISHED, FAILED) or self._application is None:
            return
        shared = any(other.report and other.report.pid == last.pid for other in self._runs.values() if other is not run)
        if not shared and self._application.owns(last.pid):
            log.warning("Task %s: its process %d was replaced and is killed", run.task, last.pid)
            self._application.kill_task(last.pid)
            while self._application.owns(last.pid):
                await asyncio.sleep(0.01)

    # --- making is equal to wanted ----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        current = {run.task: run for run in self._runs.values() if run.phase not in (Phase.FINISHING, Phase.ENDED)}
        for task, run in current.items():
            wanted = self._wanted.get(task)
            if wanted is None or wanted.identity != run.identity:
                run.ask_to_finish(FINISH_PATIENCE_S)
            else:
                run.wanted = wanted.partitions
        for run in [each for each in self._runs.values() if each.phase is Phase.ENDED]:
            self._end(run)
        busy = {run.task for run in self._runs.values()}
        for task, wanted in self._wanted.items():
            # A task's next run waits for the end of the one before: two never write at once.
            if task not in busy and task not in self._failed:
                run = Run(task, wanted.identity, wanted.partitions)
                self._runs[run.run_id] = run
                self._plan_moved()
        for connector in {run.task.connector for run in self._runs.values()}:
            self._regrant(connector)

    def _regrant(self, connector: str) -> None:
        regrant([run for run in self._runs.values() if run.task.connector == connector])

    def _plan_moved(self) -> None:
        self._plan_version += 1
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()

    def _end(self, run: Run) -> None:
        """Forgets a run that writes no more, and lets what waited for it go on."""
        run.end()
        if self._runs.pop(run.run_id, None) is None:
            return
        self._plan_moved()
        if run.task not in self._wanted and self._events:
            self._events.task_ended(run.task)
        self._reconcile()

    def _fail(self, run: Run, trace: str) -> None:
        if run.task in self._wanted:
            self._failed[run.task] = self._wanted[run.task]
            self._say(run.task, FAILED, trace)
        self._end(run)

    def _died(self, run: Run, reason: str) -> None:
        """Its process died without a word, four times (Spark's own retries): tried again, but not for ever."""
        deaths = self._deaths[run.task] = self._deaths.get(run.task, 0) + 1
        log.warning("Task %s: its process died (%s)", run.task, reason.splitlines()[0])
        if deaths >= DEATHS_UNTIL_FAILED:
            self._deaths.pop(run.task)
            self._fail(run, f"The task's process died {deaths} times in a row without reporting an error.\n{reason}")
        else:
            self._end(run)

    def _say(self, task: TaskId, state: str, trace: str | None) -> None:
        if self._events:
            self._events.task_state(task, state, trace)

    # --- time -------------------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for run in list(self._runs.values()):
                try:
                    self._tick(run, now)
                except Exception:  # one run's trouble must not stop the watch over the others
                    log.exception("watching task %s", run.task)

    def _tick(self, run: Run, now: float) -> None:
        application = self._application
        pid = run.report.pid if run.report else None
        if run.phase is Phase.FINISHING and run.finish_by is not None and now > run.finish_by:
            # Too slow to finish: what the target has not acknowledged is abandoned, its positions stay.
            if pid is not None and application and application.kill_task(pid):
                log.warning("Task %s did not return in time and was killed", run.task)
            if pid is None or not application or not application.owns(pid):
                self._end(run)
        elif run.phase is Phase.WAITING and now - run.waiting_since > NO_SLOT_S and self._slots is not None:
            wanting = len(self._runs)
            if not run.said_unassigned and wanting > self._slots:
                run.said_unassigned = True
                self._say(run.task, "UNASSIGNED", self._no_slot(run.task, wanting, self._slots))
        elif run.phase in (Phase.STARTED, Phase.RUNNING) and now - run.heard > TASK_SILENT_S:
            run.heard = now
            between_epochs = run.report is not None and run.report.state == EPOCH_ENDED
            if not between_epochs and pid is not None and application and application.kill_task(pid):
                log.warning("Task %s was silent for %d s and was killed; Spark tries again", run.task, TASK_SILENT_S)
        if run.phase is Phase.RUNNING and now - run.waiting_since > STEADY_S:
            self._deaths.pop(run.task, None)

    def _no_slot(self, task: TaskId, wanting: int, slots: int) -> str:
        return (
            f"Task {task} has no Spark slot: {wanting} tasks want to run and spark.master="
            f"{self._spark.get('spark.master', 'local[64,4]')} has {slots} slots. Raise the slots or lower tasks.max."
        )

    async def _keep_driver(self, url: str) -> None:
        """Starts Spark, and starts it again whenever it has died; the tasks of a dead one begin new runs."""
        deaths = 0
        while True:
            application = self._new_application(self._spark)
            started = time.monotonic()
            try:
                await application.start(url, self.driver_token)
                self._application, self._driver_heard, self._slots = application, started, None
                code = await self._until_exit_or_silence(application)
            except OSError as error:
                log.error("Spark could not be started: %s", error)
                code = -1
            self._application = None
            if time.monotonic() - started > STEADY_S:
                deaths = 0
            pause = BACK_OFF_S[min(deaths, len(BACK_OFF_S) - 1)]
            deaths += 1
            log.error("Spark ended with code %d; its tasks start again with a new one in %.0f s", code, pause)
            for run in list(self._runs.values()):
                self._say(run.task, "UNASSIGNED", None)
                run.end()
            for run in list(self._runs.values()):
                self._end(run)
            await asyncio.sleep(pause)

    async def _until_exit_or_silence(self, application: SparkApplication) -> int:
        exited = asyncio.create_task(application.exited())
        try:
            while True:
                done, _ = await asyncio.wait([exited], timeout=5.0)
                if done:
                    return exited.result()
                if time.monotonic() - self._driver_heard > DRIVER_SILENT_S:
                    log.error("Spark's driver was silent for %d s and is killed", DRIVER_SILENT_S)
                    await application.end(patience_s=0.0)
                    return await exited
        finally:
            exited.cancel()
