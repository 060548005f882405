"""Makes the running Spark tasks equal the wanted ones: start, watch, stop.

What is wanted comes from the herder (`want`), what is comes from the tasks' reports and the driver's. Reports and changes
are handled at once, and `tick` looks for what nobody reports. Everything runs on the worker's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mirror_connect.app.supervisor.grants import LANDING_S, Landing, regrant
from mirror_connect.app.supervisor.idleness import TASK_SILENT_S, UNHEARD_S, why_idle
from mirror_connect.app.supervisor.incidents import LONGEST_LINE
from mirror_connect.app.supervisor.interfaces import ASSIGNED, STARTING, Application, SpecSource, TaskEvents, WantedTask
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.run import Phase, Run
from mirror_connect.app.supervisor.spark_keeper import SparkKeeper
from mirror_connect.connectors.counted import counted
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.mirror.assignment import assigned_partitions_text
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.secrets import redact, resolved_secrets, secrets_of
from mirror_connect.connectors.task_protocol import (
    EPOCH_ENDED,
    FAILED,
    FENCED,
    FINISHED,
    RUNNING,
    PartitionPosition,
    TaskId,
    TaskOrders,
    TaskReport,
    TaskSpec,
)
from mirror_connect.connectors.utc_time import utc

log = logging.getLogger(__name__)

UNASSIGNED: Final = "UNASSIGNED"
# Fine enough that a task which does not finish in time is gone within two seconds of being told to.
TICK_S: Final = 0.1
FINISH_PATIENCE_S: Final = 1.8
NO_SLOT_S: Final = 5.0
# A tick that comes so late says that this worker was suspended: what tasks said meanwhile is still to be read.
SUSPENDED_S: Final = 5.0
STEADY_S: Final = 120.0
# A task whose process dies again and again is FAILED rather than tried for ever.
DEATHS_UNTIL_FAILED: Final = 3
# Pauses before a task that was fenced is started anew; when none is left, it is FAILED. A process that was suspended and
# woke too late fences once and ends; who goes on doing it is a task of another group with the same name.
FENCED_PAUSES_S: Final = (0.5, 2.0, 5.0, 10.0)
# A full disk is nobody's mistake in the task, and is made room on without anyone's telling us.
NO_ROOM: Final = re.compile(r"No space left on device|Disk quota exceeded")
ROOM_RETRY_S: Final = 10.0
NOT_COMMITTED: Final = (
    "its last positions were not committed in time: what was copied since the commit before is copied again"
)
UNFENCED: Final = (
    f"Waits for {LANDING_S:g} s at most: its last process ended with requests under way, which may still be written. With "
    "the right to its transactional id it would not have to"
)
ABANDON: Final = TaskOrders(lease_ms=0, finish=True, abandon=True)


class Supervisor:
    """See the module. `lease` tells how many seconds the worker's tasks may still write; `clock` gives seconds."""

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
        self._spark = spark
        self._specs = specs
        self._lease = lease
        self._clock = clock
        self._keeper = SparkKeeper(lambda: new_application(spark), clock, self._spark_lost)
        self._events: TaskEvents | None = None
        self._wanted: dict[TaskId, WantedTask] = {}
        self._failed: dict[TaskId, WantedTask] = {}
        self._deaths: dict[TaskId, int] = {}
        self._fences: dict[TaskId, int] = {}
        self._runs: dict[str, Run] = {}
        self._landing = Landing()
        self._plan_version = 0
        self._plan_changed = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None
        self._ticked = clock()
        self._stopping = False

    # --- the herder's side ------------------------------------------------------------------------------------------

    def listen(self, events: TaskEvents) -> None:
        """Names who is told of states; before `start`."""
        self._events = events

    async def start(self, url: str) -> None:
        """Starts Spark in the background; `url` is where tasks reach the internal HTTP."""
        self._keeper.start(url, self.driver_token)
        self._ticking = asyncio.create_task(self._tick_for_ever())

    async def stop(self, patience_s: float) -> None:
        """Lets every task commit and return, then ends Spark; afterwards no process of it is alive."""
        self._stopping = True
        self._wanted = {}
        self._reconcile()
        until = time.monotonic() + patience_s
        while self._runs and time.monotonic() < until:
            await asyncio.sleep(0.02)
        if self._ticking is not None:
            self._ticking.cancel()
        await self._keeper.end(patience_s=1.0)
        # Answers a held plan request: a server that closes would cancel it, with a stack trace.
        self._plan_moved()

    def want(self, tasks: Mapping[TaskId, WantedTask]) -> None:
        """Makes these the tasks that run. A failed task stays failed until its config changes or it is restarted."""
        if self._stopping:
            return
        self._wanted = dict(tasks)
        self._failed = {task: failed for task, failed in self._failed.items() if self._wanted.get(task) == failed}
        self._reconcile()

    def retire(self) -> None:
        """Ends what runs, because another worker may lead by now. None of it writes any more.

        Not even if this worker leads again before it has ended: another one's tasks may have been there in between.
        """
        for run in self._runs.values():
            run.may_write = False
        self.want({})

    def restart(self, task: TaskId) -> None:
        """Runs a task anew: ends its run if it has one, forgets that it failed."""
        self._failed.pop(task, None)
        self._deaths.pop(task, None)
        self._fences.pop(task, None)
        for run in self._runs.values():
            if run.task == task:
                run.ask_to_finish(self._clock() + FINISH_PATIENCE_S)
        self._reconcile()

    # --- the driver's side (internal HTTP) --------------------------------------------------------------------------

    async def plan(self, after: int, hold_s: float) -> dict[str, Any]:
        """Every run that should have a query; waits up to `hold_s` for a version newer than `after`."""
        if after >= self._plan_version:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hold_s):
                    await self._plan_changed.wait()
        runs = [
            {"run_id": run.run_id, "token": run.token, "connector": run.task.connector, "task": run.task.task}
            for run in self._runs.values()
            if run.not_before <= self._clock()
        ]
        return {"version": self._plan_version, "runs": runs}

    def driver_report(self, slots: int, runs: Mapping[str, Mapping[str, str | None]]) -> None:
        """What the driver says of its queries; one that ended although its run has not, has lost its task's process."""
        was_absent = self._keeper.absence is not None
        self._keeper.heard(slots)
        if was_absent:
            for waiting in self._runs.values():
                if waiting.phase is Phase.WAITING and waiting.waits_for is not None:
                    waiting.waits_for = None
                    self._say(waiting.task, UNASSIGNED, STARTING)
        for run_id, said in runs.items():
            run = self._runs.get(run_id)
            if run is None:
                continue
            self._hear_of_query(run, said["error"] or "no reason is known" if said["state"] == "UNKNOWN" else None)
            # A process may outlive its query for seconds; the next report is half a second away.
            if said["state"] == "ENDED" and self._gone(run, "its query has ended"):
                self._died(run, said["error"] or "its query ended")

    def _hear_of_query(self, run: Run, unknown: str | None) -> None:
        """`unknown`: why Spark can't tell of a run's query; None: it can."""
        if unknown is not None and run.query_unknown is None:
            log.warning("Task %s: Spark does not tell the state of its query: %s", run.task, unknown)
        run.query_unknown = unknown

    def secrets(self) -> frozenset[str]:
        """The secrets of all runs that have not ended."""
        return frozenset().union(*(run.secrets for run in self._runs.values()))

    # --- the tasks' side (internal HTTP) ----------------------------------------------------------------------------

    def run_of(self, run_id: str) -> Run | None:
        """A run that has not ended."""
        return self._runs.get(run_id)

    async def spec(self, run: Run, attempt: str) -> TaskSpec | None:
        """The spec of a run at its newest version; None when the run is over, or that attempt at it.

        ClusterUnreachable: not now, ask again.
        """
        if not await self._takes_over(run, attempt):
            return None
        run.heard = self._clock()
        assigned = assigned_partitions_text(sorted(map(TopicPartition._make, run.granted)))
        config, version = {**run.identity, ASSIGNED: assigned}, run.version
        try:
            resolved = await self._specs.resolve(run.run_id, run.task, config)
            # Before anything can fail at it: providers may give another value than to the spec before, and errors show it.
            found = resolved_secrets(config, resolved)
            run.secrets |= found
            spec = await self._specs.build(run.run_id, run.task, config, resolved, version)
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
        return spec

    def _has_no_spec(self, run: Run, error: Exception) -> None:
        """Says why; and ends the run unless it is enough to ask again."""
        if not isinstance(error, ClusterUnreachable):
            if not isinstance(error, (ConfigError, NotAuthorized)):
                # The trace ends with what the error says, which may be a value of the config.
                told = redact(traceback.format_exc(), run.secrets)
                log.error("Task %s can't be started\n%s", run.task, told)
            self._fail(run, f"{type(error).__name__}: {error}")
        elif run.phase is not Phase.RUNNING:
            self._waits(run, redact(str(error), run.secrets))
        else:  # one that copies goes on with what it has
            run.late = f"Its new partitions are not copied yet: {error}"

    async def _takes_over(self, run: Run, attempt: str) -> bool:
        """Waits until this attempt is the one at work on the run; False when it never will be.

        The process before it must be gone: two never write at once. Spark may start yet another one meanwhile. Of those
        that wait, the one that asked last is the newest, and gets the run.
        """
        if attempt not in {run.attempt, run.next_attempt, *run.past_attempts}:
            run.expect(attempt)
        while run.attempt != attempt:
            if run.phase is Phase.ENDED or attempt in run.past_attempts:
                return False
            if not self._gone(run, "it was replaced"):
                await asyncio.sleep(0.01)
                continue
            if run.is_over:
                self._end(run)
                return False
            # What its predecessor had not given up yet is free, or will be. Before the new one begins, which would have
            # to confirm the loss of what it never had.
            run.end_attempt(self._clock())
            self._regrant(run.task.connector)
            run.begin_attempt(attempt, self._clock())
        return True

    async def positions(
        self, run: Run, attempt: str, partitions: Sequence[tuple[str, int]], *, fenceable: bool
    ) -> list[PartitionPosition] | None:
        """Positions of a run's partitions, before it writes to any of their copies; None when the attempt at it is over.

        `fenceable`: see WorkerLink. ClusterUnreachable, NotAuthorized: not now, ask again.
        """
        if not run.is_work_of(attempt):
            return None
        if run.spec is None:
            raise RuntimeError("a task asked for positions before its spec")
        run.fenceable = fenceable
        if self._landing.in_the_way(run, partitions):
            self._has_no_positions(run, UNFENCED)
            raise ClusterUnreachable(UNFENCED)
        try:
            found = await self._specs.positions(run.spec, partitions)
        except (ClusterUnreachable, NotAuthorized) as error:
            if not run.is_work_of(attempt):
                return None
            self._has_no_positions(run, redact(f"Its positions can't be read: {error}", run.secrets))
            raise
        if not run.is_work_of(attempt):
            return None
        run.late = None
        return found

    def _has_no_positions(self, run: Run, line: str) -> None:
        if run.phase is Phase.RUNNING:
            run.late = f"Its new partitions are not copied yet. {line}"
        else:
            self._waits(run, line)

    async def report(self, run: Run, report: TaskReport, *, hold_s: float, known_version: int) -> TaskOrders:
        """Takes a report and answers with orders, at once if there are new ones, else after `hold_s`."""
        if run.attempt != report.attempt:
            return ABANDON
        self._take(run, report)
        if hold_s and not run.is_over and run.version <= known_version:
            run.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(hold_s):
                    await run.changed.wait()
            if run.attempt != report.attempt:  # another process has taken its place meanwhile
                return ABANDON
        if run.phase is Phase.ENDED:
            return ABANDON
        return TaskOrders(
            lease_ms=max(0, int(self._lease() * 1000)) if run.may_write else 0,
            finish=run.is_over,
            assignment_version=run.version,
        )

    def _take(self, run: Run, report: TaskReport) -> None:
        now = self._clock()
        # Who reports for a loop that hangs is heard, and still nothing is copied.
        run.heard, run.report = now - report.loop_silent_s, report
        notices, incidents = (
            [redact(line, run.secrets) for line in lines] for lines in (report.notices, report.incidents)
        )
        for line in (*notices, *incidents):
            log.warning("Task %s: %s", run.task, line)
        for line in incidents:
            run.incidents.add(line, time.time())
        if report.topics and self._events:
            self._events.topics_written(run.task, report.topics)
        freed = run.confirm(report.assignment_version)
        if report.state == FAILED:
            self._fail(run, report.trace or "the task failed without a trace")
        elif report.state == FENCED:
            self._fenced(run, report.trace or "FencedError")
        elif report.state == FINISHED or (report.state == EPOCH_ENDED and run.phase is Phase.FINISHING):
            self._log_end(run, report)
            self._end(run)
        elif report.state == EPOCH_ENDED:
            if not report.committed:
                log.warning("Task %s: %s", run.task, NOT_COMMITTED)
            run.end_attempt(now)
            freed = True
        elif report.state == RUNNING and report.loop_silent_s < UNHEARD_S:
            standing = redact(
                "\n".join((*report.standing, *([run.late] if run.late else ()))), run.secrets
            ).splitlines()
            # Cut here and not by the task: nothing finds half a secret any more.
            told = "\n".join((*(line[:LONGEST_LINE] for line in standing), *run.incidents.lines)) or None
            news = told != run.told or run.waits_for is not None
            if run.phase is Phase.STARTED or (run.phase is Phase.RUNNING and news):
                # A task that copies some of its partitions runs; which ones stand still is its trace for so long.
                run.phase, run.told = Phase.RUNNING, told
                run.waits_for = run.idle_since = None
                self._say(run.task, RUNNING, told)
            self._log_assignment(run, report.assignment_version)
        if freed:
            self._regrant(run.task.connector)

    def _log_end(self, run: Run, report: TaskReport) -> None:
        if report.committed:
            log.info("Task %s has ended; what it copied is committed", run.task)
        else:
            log.warning("Task %s has ended; %s", run.task, NOT_COMMITTED)

    def _log_assignment(self, run: Run, version: int) -> None:
        """Once when a run begins to copy, and when it copies other partitions; not after each of its epochs."""
        if run.is_over or version != run.version or version == run.told_version:
            return
        count, first = len(run.granted), run.told_version is None
        run.told_version = version
        groups = len(run.spec.assigned_groups) if run.spec else 0
        if not count and first:
            log.info("Task %s is RUNNING%s", run.task, f" with {counted(groups, 'group')}" if groups else "")
        else:
            partitions = counted(count, "partition")
            log.info("Task %s is RUNNING with %s" if first else "Task %s copies %s now", run.task, partitions)

    # --- making is equal to wanted ----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        finish_by = self._clock() + FINISH_PATIENCE_S
        for run in self._runs.values():
            wanted = self._wanted.get(run.task)
            if wanted is None or wanted.identity != run.identity:
                run.ask_to_finish(finish_by)
            else:
                run.wanted = wanted.partitions
        self._forget_ended()
        busy = {run.task for run in self._runs.values()}
        known = busy | self._wanted.keys()
        self._deaths = {task: deaths for task, deaths in self._deaths.items() if task in known}
        self._fences = {task: fences for task, fences in self._fences.items() if task in known}
        self._specs.keep(known)
        for task, wanted in self._wanted.items():
            # A task's next run waits for the end of the one before: two never write at once.
            if task not in busy and task not in self._failed:
                run = Run(task, wanted.identity, wanted.partitions, since=self._clock())
                self._runs[run.run_id] = run
                self._plan_moved()
                run.waits_for = self._keeper.absence
                if run.waits_for is not None:
                    if self._keeper.trouble is None:  # else it is logged already, once for all
                        log.info("Task %s is UNASSIGNED: %s", task, run.waits_for)
                    self._say(task, UNASSIGNED, run.waits_for)
        for connector in {run.task.connector for run in self._runs.values()}:
            self._regrant(connector)

    def _forget_ended(self) -> None:
        for run in [each for each in self._runs.values() if each.phase is Phase.ENDED]:
            del self._runs[run.run_id]
            self._landing.take_over(run, self._clock())
            self._plan_moved()
            if run.task not in self._wanted and self._events:
                self._events.task_ended(run.task)

    def _regrant(self, connector: str) -> None:
        runs = [run for run in self._runs.values() if run.task.connector == connector]
        regrant(runs, self._landing, self._clock())

    def _plan_moved(self) -> None:
        self._plan_version += 1
        self._plan_changed.set()
        self._plan_changed = asyncio.Event()

    def _end(self, run: Run) -> None:
        """Forgets a run that writes no more, and lets what waited for it go on."""
        run.end()
        self._reconcile()

    def _fail(self, run: Run, trace: str) -> None:
        trace = "\n".join((redact(trace, run.secrets), *run.incidents.lines))
        first = trace.splitlines()[0] if trace else ""
        if run.is_over:
            # It was ending anyway, for a restart or another config: these must not be taken for failed.
            log.warning("Task %s failed while it was ending: %s", run.task, first)
        elif run.task in self._wanted:
            log.error("Task %s is FAILED: %s", run.task, first)
            self._failed[run.task] = self._wanted[run.task]
            self._say(run.task, FAILED, trace)
        self._end(run)

    def _died(self, run: Run, reason: str, what: str = "its process died") -> None:
        """Its process died without a word, in all of Spark's own tries: tried again, but not for ever.

        `what` says so where it is not the death of a process that ends the run.
        """
        if run.is_over:
            self._end(run)
            return
        if NO_ROOM.search(reason):
            self._wait_for_room(run)
            return
        deaths = self._deaths[run.task] = self._deaths.get(run.task, 0) + 1
        first = reason.splitlines()[0]
        log.warning("Task %s: %s (%s)", run.task, what, first)
        if deaths >= DEATHS_UNTIL_FAILED:
            self._deaths.pop(run.task)
            self._fail(run, f"The task ended {deaths} times in a row without reporting an error: {what}.\n{reason}")
        else:
            self._end(run)
            line = (
                f"{what[0].upper()}{what[1:]} at {utc(time.time())} ({redact(first, run.secrets)}); it is started again"
            )
            for following in self._runs.values():
                if following.task == run.task and following.waits_for is None:
                    self._waits(following, line, logged=True)

    def _fenced(self, run: Run, trace: str) -> None:
        """Another producer took its transactional id. As this worker runs the task, it has it anew, with a newer epoch.

        The new run reads its positions behind that, so whatever the other one wrote meanwhile is known to it.
        """
        fences = self._fences[run.task] = self._fences.get(run.task, 0) + 1
        if run.is_over or fences > len(FENCED_PAUSES_S):
            self._fences.pop(run.task, None)
            self._fail(run, trace)
            return
        pause = FENCED_PAUSES_S[fences - 1]
        line = f"{redact(trace, run.secrets).splitlines()[0]} It is started anew in {pause:g} s."
        self._end(run)
        for following in self._runs.values():
            if following.task == run.task:
                following.not_before = self._clock() + pause
                self._waits(following, line)

    def _wait_for_room(self, run: Run) -> None:
        """Spark's scratch files found no room: said once, and tried again for as long as it takes."""
        line = (
            f"{tempfile.gettempdir()}, where Spark keeps its scratch files, is full: free some space there, or restart with "
            f"TMPDIR set to another directory; it is tried again every {ROOM_RETRY_S:g} s"
        )
        told = run.waits_for == line
        self._end(run)
        for following in self._runs.values():
            if following.task == run.task and following is not run:
                following.not_before = self._clock() + ROOM_RETRY_S
                if told:
                    following.waits_for = line
                else:
                    self._waits(following, line)

    def _gone(self, run: Run, why: str) -> bool:
        """Whether no process works on the run any more; kills the one that does. A killed one is gone a moment later."""
        application, pid = self._keeper.application, run.pid
        # Spark reuses processes: one that reports for another run has long left this one.
        if pid is None or application is None or any(r is not run and r.pid == pid for r in self._runs.values()):
            return True
        if run.killed != pid and application.kill_task(pid):
            run.killed = pid
            log.warning("Task %s: its process %d was killed, as %s", run.task, pid, why)
        return not application.owns(pid)

    def _spark_lost(self) -> None:
        """No process of any run is left; all that is wanted begins anew with the next application, and says so."""
        for run in self._runs.values():
            run.end()
        self._reconcile()

    def _waits(self, run: Run, line: str, *, logged: bool = False) -> None:
        """Says once why a run does not get on; `logged`: the log has it already."""
        if run.phase is Phase.ENDED or run.waits_for == line:
            return
        run.waits_for, run.told_version = line, None
        if run.task not in self._wanted:
            return
        if not logged:
            log.warning("Task %s is UNASSIGNED: %s", run.task, line)
        self._say(run.task, UNASSIGNED, line)

    def _tell_if_idle(self, run: Run, now: float) -> None:
        """A status says RUNNING until something else is said: who has stopped copying without a word is told of here."""
        idle = why_idle(run, now, self._keeper.slots_since) if self._keeper.slots is not None else None
        if idle is None:
            if run.idle_since is not None and run.phase is not Phase.RUNNING:
                run.waits_for = None  # what was told is over, and the next reason may be told
            run.idle_since = None
            return
        if run.waits_for is not None and run.idle_since is None and not idle.foremost:
            return
        # The time is made a text once: a second's difference in it would be news in the status.
        if run.idle_since is None or abs(idle.since - run.idle_since[0]) > 1:
            run.idle_since = (idle.since, utc(time.time() - (now - idle.since)))
        self._waits(run, redact(idle.line.format(since=run.idle_since[1]), run.secrets))

    def _say(self, task: TaskId, state: str, trace: str | None) -> None:
        if self._events:
            self._events.task_state(task, state, trace)

    # --- time -------------------------------------------------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tick()

    def tick(self) -> None:
        """Looks after what nobody reports: silence, lateness, missing slots."""
        now = self._clock()
        pause, self._ticked = now - self._ticked, now
        for connector in self._landing.over(now):
            self._regrant(connector)
        for run in list(self._runs.values()):
            if pause > SUSPENDED_S:
                run.heard, run.since = now, run.since + pause
            try:
                self._look_after(run, now)
            except Exception:  # one run's trouble must not stop the watch over the others
                log.exception("Watching task %s", run.task)

    def _look_after(self, run: Run, now: float) -> None:
        match run.phase:
            case Phase.FINISHING:
                # Too slow: what the target has not acknowledged is abandoned, its positions stay.
                if run.finish_by is not None and now > run.finish_by and self._gone(run, "it did not finish in time"):
                    self._end(run)
            case Phase.WAITING if run.not_before:
                if now >= run.not_before:
                    run.not_before, run.since = 0.0, now
                    self._plan_moved()
                return
            case Phase.WAITING:
                slots, wanting = self._keeper.slots, len(self._runs)
                waited = now - max(run.since, self._keeper.slots_since)
                if slots is not None and wanting > slots:
                    if waited > NO_SLOT_S:
                        self._waits(run, self._no_slot(run.task, wanting, slots))
                    return
                if run.query_unknown is not None and waited > TASK_SILENT_S:
                    self._died(run, run.query_unknown, "its query is given up, as Spark does not tell its state")
                    return
            case Phase.STARTED | Phase.RUNNING:
                if now - max(run.heard, run.silence_judged) > TASK_SILENT_S:
                    run.silence_judged = now
                    if run.pid is None:
                        # It may not write without a lease, which comes with the answer to a first report.
                        self._died(run, f"no report within {TASK_SILENT_S:g} s", "its process is given up")
                        return
                    self._gone(run, f"it stood still for {TASK_SILENT_S:g} s; Spark starts the task again")
                if run.phase is Phase.RUNNING and now - run.since > STEADY_S:
                    self._deaths.pop(run.task, None)
                    self._fences.pop(run.task, None)
        self._tell_if_idle(run, now)

    def _no_slot(self, task: TaskId, wanting: int, slots: int) -> str:
        return (
            f"Task {task} has no Spark slot: {wanting} tasks want to run and spark.master="
            f"{self._spark.get('spark.master', 'local[64,4]')} has {counted(slots, 'slot')}. "
            "Raise the slots or lower tasks.max."
        )
