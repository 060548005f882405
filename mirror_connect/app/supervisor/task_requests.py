"""What the processes of tasks ask for: their specs, source offsets and lookups; and the orders that answer a report."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.supervisor.interfaces import SpecSource
from mirror_connect.app.supervisor.lookup_keeper import LookupKeeper, LookupMissingError
from mirror_connect.app.supervisor.other_workers import LANDING_S
from mirror_connect.app.supervisor.task_reports import TaskReports
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, assigned_partitions_text
from mirror_connect.connectors.mirror.lookups import REFRESH
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.transform_sql import SQL, transform_sql_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.secrets import redact, resolved_secrets, secrets_of
from mirror_connect.connectors.task_protocol import (
    DRIVER,
    SourceOffset,
    TaskOrders,
    TaskProcess,
    TaskReport,
    TaskSpec,
)

log = logging.getLogger(__name__)

UNFENCED: Final = (
    f"Waits up to {LANDING_S:g} s: its last process ended with requests under way, which may still be written"
)
UNFENCED_ADVICE: Final = "Grant WRITE on its transactional id to avoid this"
ABANDON: Final = TaskOrders(lease_ms=0, finish=True, abandon=True)


class TaskRequests:
    """See the module. `lease` gives the seconds that the worker's tasks may still write; `metrics` takes what they tell.

    `carried` makes of a spec what a task gets that is on another machine, without the worker's files; it may block and raise
    ConfigError. None: tasks are on this one.
    """

    def __init__(
        self,
        runs: TaskRuns,
        restarts: TaskRestarts,
        specs: SpecSource,
        lease: Callable[[], float],
        clock: Callable[[], float],
        *,
        metrics: WorkerMetrics,
        lookups: LookupKeeper,
        carried: Callable[[TaskSpec], TaskSpec] | None = None,
    ) -> None:
        self._runs = runs
        self._restarts = restarts
        self._specs = specs
        self._lease = lease
        self._clock = clock
        self._reports = TaskReports(runs, restarts, specs, clock, metrics)
        self._lookups = lookups
        self._carried = carried

    async def spec(
        self, run: TaskRun, attempt: str, *, process: TaskProcess | None = None, shared: bool = False
    ) -> TaskSpec | None:
        """The spec of a run at its newest version; None if the run or the attempt is over, or the run belongs elsewhere.

        `process`: the one that asks, None if it did not tell; `shared`: whether it is the one that light tasks share.
        ClusterUnreachable: the task should ask again.
        """
        if run.attempt != attempt and run.shares != shared:
            return None
        if run.attempt is None and process is not None and not shared and self._runs.refuses(run, process.executor):
            return None
        if not await self._takes_over(run, attempt, process, shared=shared):
            return None
        run.heard = self._clock()
        assigned = assigned_partitions_text(sorted(run.assigned))
        config, version = {**run.identity, ASSIGNED_PARTITIONS: assigned}, run.version
        try:
            resolved = await self._specs.resolve(run.run_id, run.task, config)
            # Before any error can show it: providers may give another value than for the spec before.
            found = resolved_secrets(config, resolved)
            run.secrets |= found
            spec = await self._specs.build(run.run_id, run.task, config, resolved, version)
            suspected = self._restarts.suspected(run)
            suspected.begins()
            spec = replace(spec, suspects=suspected.ranges, too_much=suspected.too_much)
            # In a thread: it opens key stores.
            sent = spec if self._carried is None else await asyncio.to_thread(self._carried, spec)
        except Exception as error:
            if run.is_work_of(attempt):
                self._has_no_spec(run, error)
                if isinstance(error, ClusterUnreachable):
                    raise
            return None
        if not run.is_work_of(attempt):
            return None
        clients = (spec.source, spec.target, spec.source_admin, spec.target_admin, spec.target_consumer)
        run.spec, run.secrets, run.late = spec, found.union(*map(secrets_of, clients)), None
        return sent

    def _has_no_spec(self, run: TaskRun, error: Exception) -> None:
        """Reports why, and ends the run unless the task can ask again."""
        if not isinstance(error, ClusterUnreachable):
            if not isinstance(error, (ConfigError, NotAuthorized)):
                # The stack trace ends with the error's text, which may show a value of the config.
                stack = redact(traceback.format_exc(), run.secrets)
                log.error("Task %s can't be started\n%s", run.task, stack)
            self._runs.fail(run, f"{type(error).__name__}: {error}")
        elif run.phase is not Phase.RUNNING:
            self._runs.wait(run, redact(str(error), run.secrets))
        else:  # a running task continues with its present partitions
            run.late = f"Its new partitions are not copied yet: {error}"

    async def _takes_over(self, run: TaskRun, attempt: str, process: TaskProcess | None, *, shared: bool) -> bool:
        """Waits until this attempt owns the run; False if it never will.

        The process before it must be gone: two must never write at once. Spark may start another one meanwhile. Of all that
        wait, the one that asked last is the newest, and gets the run.
        """
        if attempt not in {run.attempt, run.next_attempt, *run.past_attempts}:
            run.expect(attempt)
        while run.attempt != attempt:
            if run.phase is Phase.ENDED or attempt in run.past_attempts:
                return False
            # A process begins an attempt when its last one at this run is over. Where another one is shared now, nothing
            # that the former one does counts any more.
            in_turn = process is not None and run.process == process
            if not in_turn and not self._runs.is_gone(run, "it was replaced", hangs=shared):
                await asyncio.sleep(0.01)
                continue
            if run.is_over:
                self._runs.end(run)
                return False
            if run.attempt is not None and not in_turn:
                self._runs.tell_of_lost_process(run)
                self._runs.suspect(run)
            # This frees the partitions that its predecessor had not released. Before the new attempt begins, or that would
            # have to confirm the loss of partitions that it never had.
            run.end_attempt(self._clock())
            self._runs.reassign(run.task.connector)
            executor = process.executor if process is not None else DRIVER
            run.begin_attempt(attempt, self._clock(), shared=shared, executor=executor)
            log.debug("Task %s: a process has asked for its spec", run.task)
        return True

    async def source_offsets(
        self, run: TaskRun, attempt: str, partitions: Sequence[TopicPartition], *, fenceable: bool
    ) -> list[SourceOffset] | None:
        """The source offsets of a run's partitions, before it writes to any of their copies; None if its attempt is over.

        `fenceable`: see WorkerLink. ClusterUnreachable, NotAuthorized: the task should ask again.
        """
        if not run.is_work_of(attempt):
            return None
        if run.spec is None:
            raise RuntimeError("a task asked for source offsets before its spec")
        run.fenceable = fenceable
        if self._runs.landing.in_the_way(run, partitions):
            advised = f"{UNFENCED}. {UNFENCED_ADVICE}" if run.spec.transactional_id else UNFENCED
            self._has_no_source_offsets(run, advised)
            raise ClusterUnreachable(UNFENCED)
        if not fenceable and (lost := self._runs.begins_unfenced(run.task)):
            line = f"Waits: {lost}"
            self._has_no_source_offsets(run, f"{line}. {UNFENCED_ADVICE}" if run.spec.transactional_id else line)
            raise ClusterUnreachable(line)
        try:
            found = await self._specs.source_offsets(run.spec, partitions)
        except (ClusterUnreachable, NotAuthorized) as error:
            if not run.is_work_of(attempt):
                return None
            self._has_no_source_offsets(run, redact(f"Its source offsets cannot be read: {error}", run.secrets))
            raise
        if not run.is_work_of(attempt):
            return None
        run.late = None
        self._runs.begins(run.task)
        log.debug("Task %s gets its source offsets", run.task)
        return found

    def _has_no_source_offsets(self, run: TaskRun, line: str) -> None:
        if run.phase is Phase.RUNNING:
            run.late = f"Its new partitions are not copied yet. {line}"
        else:
            self._runs.wait(run, line)

    async def lookup(self, run: TaskRun, name: str, keys: Sequence[str]) -> bytes | None:
        """The rows of a lookup that the run's statement joins by these columns; None if the run is over.

        ClusterUnreachable: they can't be read now, and the process should ask again. No record is copied meanwhile.
        """
        try:
            resolved = await self._specs.resolve(run.run_id, run.task, run.identity)
            run.secrets |= resolved_secrets(run.identity, resolved)
            sql = transform_sql_of(resolved)
            found = next((each for each in sql.lookups if each.name == name), None) if sql is not None else None
            if found is None or not set(keys) <= {each.name for each in found.columns}:
                raise ConfigError(SQL, None, f"Spark asks for another lookup than it has: {name}. Restart the task")
            interval = MirrorSource().settings(resolved).integer(REFRESH)
            rows = await self._lookups.rows(run, found, resolved, tuple(keys), interval)
        except (ClusterUnreachable, LookupMissingError) as error:
            if run.phase is Phase.ENDED:
                return None
            # The process before may still run, if only Spark's JVM has died.
            if run.phase is Phase.WAITING:
                self._runs.lacks(run, (name, *keys), redact(str(error), run.secrets))
            raise ClusterUnreachable(str(error)) from None
        except (ConfigError, NotAuthorized) as error:
            self._runs.fail(run, f"{type(error).__name__}: {error}")
            return None
        self._runs.lacks(run, (name, *keys), None)
        return None if run.phase is Phase.ENDED else rows

    async def report(self, run: TaskRun, report: TaskReport, *, hold_s: float, known_version: int) -> TaskOrders:
        """Takes a report and answers with orders, at once if there are new ones, else after `hold_s`."""
        if run.attempt != report.attempt:
            return ABANDON
        self._reports.take(run, report)
        ends = run.is_over or run.is_to_end_its_epoch or run.abandon_since is not None
        if hold_s and run.version <= known_version and not ends:
            run.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hold_s):
                    await run.changed.wait()
            if run.attempt != report.attempt:  # another process has taken its place meanwhile
                return ABANDON
        if run.abandon_since is not None and run.abandon_told is None:
            run.abandon_told = self._clock()
        if run.phase is Phase.ENDED or run.abandon_since is not None:
            return ABANDON
        lease_ms = int(min(self._lease(), self._runs.ends.longest_lease(run)) * 1000) if run.may_write else 0
        self._runs.ends.granted(run, lease_ms / 1000)
        return TaskOrders(
            lease_ms=max(0, lease_ms),
            finish=run.is_over,
            end_epoch=run.is_to_end_its_epoch,
            assignment_version=run.version,
        )
