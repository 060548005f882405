"""The runs of the wanted tasks: at most one for each task. A run ends when none of its processes writes any more."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from mirror_connect.app.supervisor.hand_over import HandOver
from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.interfaces import TaskEvents, WantedTask
from mirror_connect.app.supervisor.partition_assignment import Landing, reassign
from mirror_connect.app.supervisor.process_ends import LocalEnds, ProcessEnds, RemoteEnds
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_placement import TaskPlacement
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.task_protocol import FAILED, TaskId

log = logging.getLogger(__name__)

UNASSIGNED: Final = "UNASSIGNED"
FINISH_PATIENCE_S: Final = 1.8


class TaskRuns:
    """See the module. `keep_only` gets the tasks that are wanted or still ending, whenever that may have changed."""

    def __init__(
        self, spark: SparkHost, clock: Callable[[], float], keep_only: Callable[[Collection[TaskId]], None]
    ) -> None:
        self.events: TaskEvents | None = None
        self.landing: Final = Landing()
        self.hand_over: Final = HandOver(clock)
        self.ends: Final[ProcessEnds] = RemoteEnds(spark, clock) if spark.is_remote else LocalEnds(spark, clock)
        self._spark = spark
        self._clock = clock
        self._keep_only = keep_only
        self._placement = TaskPlacement(clock)
        self._wanted: dict[TaskId, WantedTask] = {}
        self._failed: dict[TaskId, WantedTask] = {}
        # Tasks that have begun here. What a lost worker may have left of them was waited for, or it came from another one.
        self._at_home: set[TaskId] = set()
        self._runs: dict[str, TaskRun] = {}

    def __iter__(self) -> Iterator[TaskRun]:
        """All that have not ended, as of now."""
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def by_id(self, run_id: str) -> TaskRun | None:
        """A run that has not ended."""
        return self._runs.get(run_id)

    def of(self, task: TaskId) -> TaskRun | None:
        """The run of a task; there is never more than one."""
        return next((run for run in self._runs.values() if run.task == task), None)

    def has_failed(self, task: TaskId) -> bool:
        """Whether the task is FAILED, and neither its config has changed nor was it restarted since then."""
        return task in self._failed

    def planned(self) -> Iterator[TaskRun]:
        """Those that should have a query now."""
        return (run for run in self if run.not_before <= self._clock() and not run.cancelled)

    # Runs follow what is wanted.

    def want(self, tasks: Mapping[TaskId, WantedTask]) -> None:
        """Makes these the tasks that run. A failed task stays failed until its config changes or it is restarted."""
        self._wanted = dict(tasks)
        self._at_home &= tasks.keys()
        self._failed = {task: failed for task, failed in self._failed.items() if self._wanted.get(task) == failed}
        self._reconcile()

    def restart(self, task: TaskId) -> None:
        """Restarts a task: ends its run if it has one, and forgets that it failed."""
        self._failed.pop(task, None)
        if (run := self.of(task)) is not None:
            run.ask_to_finish(self._clock() + FINISH_PATIENCE_S)
        self._reconcile()

    def end(self, run: TaskRun) -> None:
        """Forgets a run that no longer writes; the task's next run may begin."""
        run.end()
        self._reconcile()

    def end_all(self, spark: HostedSpark) -> None:
        """Ends all runs of an application, when no process of them is left. Wanted tasks begin again with the next one."""
        for run in self._runs.values():
            if self._spark.of(run) is spark:
                run.end()
        self._reconcile()

    def end_attempt(self, run: TaskRun) -> None:
        """The process of a run has returned. The next one begins, in another process if the run moves."""
        moves = run.moves
        run.end_attempt(self._clock())
        if moves:
            shown = "in the process that tasks with little to copy share" if run.light else "in a process of its own"
            log.info("Task %s continues %s", run.task, shown)
            self._spark.change_plan()

    def finish_all(self) -> None:
        """Ends all runs, as far as they have ended: the others follow when their leases are over."""
        for run in self._runs.values():
            run.cancelled = True
            run.ask_to_finish(self._clock())
        self._reconcile()

    def lose_attempt(self, run: TaskRun, line: str) -> None:
        """The process of a run has ended without a word, and Spark begins the next one in the same query."""
        self._placement.lost_process(run, self._spark.of(run).free_slots)
        run.end_attempt(self._clock())
        self.wait(run, line)
        self.reassign(run.task.connector)

    def fail(self, run: TaskRun, trace: str) -> None:
        """Ends a run. Its task is FAILED, and stays so."""
        trace = "\n".join((redact(trace, run.secrets), *run.events.lines))
        first = trace.splitlines()[0] if trace else ""
        if run.is_over:
            # It was ending anyway, for a restart or another config: the task must not become FAILED.
            log.warning("Task %s failed while it was ending: %s", run.task, first)
        elif run.task in self._wanted:
            log.error("Task %s is FAILED: %s", run.task, first)
            self._failed[run.task] = self._wanted[run.task]
            self.report_state(run.task, FAILED, trace)
        self.end(run)

    def refuses(self, run: TaskRun, executor: str) -> bool:
        """Whether a run should not begin on this executor, because another one has less to do."""
        return self._spark.placement.refuses(run, executor)

    def cancel(self, run: TaskRun) -> None:
        """Lets Spark stop the query of a run, whose process can't be killed from here."""
        if not run.cancelled:
            run.cancelled = True
            self._spark.change_plan()

    def place(self, run: TaskRun) -> None:
        """Decides by what it copies whether it shares a process."""
        self._placement.look(run, self._spark.runs.is_shared_with_others)

    def reassign(self, connector: str) -> None:
        """Gives the runs of a connector the partitions that have become free."""
        self._reassign([run for run in self._runs.values() if run.task.connector == connector])
        self._look_at_claims()

    def reassign_all(self) -> None:
        """The same for all connectors."""
        of_connector: dict[str, list[TaskRun]] = {}
        for run in self._runs.values():
            of_connector.setdefault(run.task.connector, []).append(run)
        for runs in of_connector.values():
            self._reassign(runs)
        self._look_at_claims()

    def _reassign(self, runs: Collection[TaskRun]) -> None:
        reassign(runs, self.landing, self._clock(), self.hand_over.withheld)

    def _look_at_claims(self) -> None:
        self.hand_over.look(self._runs.values(), self.landing, self._wanted)

    # What tasks of other workers may have left.

    def begins_unfenced(self, task: TaskId) -> str:
        """Which lost workers a task waits for if it can't fence them off; empty if for none.

        It can't without the right to its transactional id. See `_at_home`.
        """
        return "" if task in self._at_home else self.hand_over.others.lost(task.connector)

    def begins(self, task: TaskId) -> None:
        """The task gets its source offsets, so it waits for no lost worker any more."""
        self._at_home.add(task)

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
        self._placement.keep(busy | self._wanted.keys())
        self._keep_only(busy | self._wanted.keys())
        for task, wanted in self._wanted.items():
            # A task's next run waits for the end of the one before: two never write at once.
            if task not in busy and task not in self._failed:
                self._begin(task, wanted)
        self.reassign_all()

    def _begin(self, task: TaskId, wanted: WantedTask) -> None:
        run = TaskRun(task, wanted.identity, wanted.partitions, since=self._clock())
        self._runs[run.run_id] = run
        self._placement.begin(run)
        self._spark.change_plan()
        spark = self._spark.of(run)
        run.waits_for = spark.absence
        if run.waits_for is not None:
            if spark.problem is None:  # else one line about Spark is logged already
                log.info("Task %s is UNASSIGNED: %s", task, run.waits_for)
            self.report_state(task, UNASSIGNED, run.waits_for, waits=spark.problem is not None)

    def _forget_ended(self) -> None:
        for run in [each for each in self._runs.values() if each.phase is Phase.ENDED]:
            del self._runs[run.run_id]
            self.landing.take_over(run, self._clock())
            self._spark.change_plan()
            if run.task not in self._wanted and self.events:
                self.events.task_ended(run.task)

    # Processes and statuses.

    def is_gone(self, run: TaskRun, why: str, *, hangs: bool = False) -> bool:
        """Whether no process works on the run any more; ends the one that does. See ProcessEnds."""
        return self.ends.is_gone(run, why, hangs=hangs)

    def shares_for_want_of_a_slot(self, run: TaskRun) -> bool:
        """Lets a run that no process has join the shared one, if it is one of those that begin there."""
        if run.light or not self._placement.return_to_shared(run):
            return False
        self._spark.change_plan()
        return True

    def suspect(self, run: TaskRun) -> None:
        """The process of a run has died: if others shared it, nobody knows which task was the cause."""
        self._placement.lost_process(run, self._spark.of(run).free_slots)

    def tell_of_lost_process(self, run: TaskRun) -> None:
        """Tells, also in the status, that Spark has begun the run again: its process ended without a word."""
        # Of one that was killed here the log says why.
        if run.process is not None and run.killed != run.process:
            line = f"{self.ends.how_ended(run)}; Spark has started it again"
            run.events.keep(f"{line[0].upper()}{line[1:]}", time.time())
            log.warning("Task %s: %s", run.task, line)

    def wait(self, run: TaskRun, line: str, *, logged: bool = False) -> None:
        """Reports once what a run waits for; `logged`: the log has it already."""
        if run.phase is Phase.ENDED or run.waits_for == line:
            return
        run.waits_for, run.logged_version = line, None
        if run.task not in self._wanted:
            return
        if not logged:
            log.warning("Task %s is UNASSIGNED: %s", run.task, line)
        self.report_state(run.task, UNASSIGNED, line, waits=True)

    def lacks(self, run: TaskRun, lookup: tuple[str, ...], line: str | None) -> None:
        """Reports why a run waits for a lookup, which is named with the columns that join it; None: it has that one.

        Spark asks for all of them in turn. One report with a line for each is changed only when one of them is.
        """
        if line is not None:
            run.missing[lookup] = line
        elif run.missing.pop(lookup, None) is None:
            return
        if run.missing:
            self.wait(run, "\n".join(dict.fromkeys(run.missing[each] for each in sorted(run.missing))))
        else:
            run.waits_for = None  # this reason is over, and the next one may be reported

    def report_state(self, task: TaskId, state: str, trace: str | None, *, waits: bool = False) -> None:
        """Reports the state of a task to the herder. `waits`: see TaskEvents."""
        if self.events:
            self.events.task_state(task, state, trace, waits=waits)
