"""What the reports of tasks change: the states of their runs, figures, source offsets, and what the log tells."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.supervisor.idleness import UNHEARD_S
from mirror_connect.app.supervisor.interfaces import SpecSource
from mirror_connect.app.supervisor.process_ends import place_of
from mirror_connect.app.supervisor.running_trace import running_trace
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.connectors.log_format import PROBLEM
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.task_protocol import (
    ABANDONED,
    EPOCH_ENDED,
    FAILED,
    FENCED,
    FINISHED,
    RUNNING,
    SourceOffset,
    TaskReport,
)
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

NOT_COMMITTED: Final = (
    "its last source offsets were not committed in time: what was copied since the commit before is copied again"
)
EPOCHS_END: Final = frozenset({EPOCH_ENDED, ABANDONED})


class TaskReports:
    """See the module. `metrics` takes what tasks measure; `clock` gives seconds."""

    def __init__(
        self,
        runs: TaskRuns,
        restarts: TaskRestarts,
        specs: SpecSource,
        clock: Callable[[], float],
        metrics: WorkerMetrics,
    ) -> None:
        self._runs = runs
        self._restarts = restarts
        self._specs = specs
        self._clock = clock
        self._metrics = metrics

    def take(self, run: TaskRun, report: TaskReport) -> None:
        """Takes a report of the process that works on this run."""
        if report.state == RUNNING and (stale := tuple(filter(None, run.stale.values()))):
            # The worker knows these, and not the task. They are its problems all the same, for status, links and metrics.
            report = replace(report, problems=(*report.problems, *stale))
        now = self._clock()
        # A thread reports while the task's loop hangs: the process lives, but copies nothing.
        run.heard, run.report = now - report.loop_silent_s, report
        self._metrics.take(run.task, report, run.secrets)
        self._hear(run, report)
        if report.topics and self._runs.events:
            self._runs.events.topics_written(run.task, report.topics)
        if run.may_write:
            self._take_source_offsets(run, report)
        freed = run.confirm(report.assignment_version)
        if report.state == FAILED:
            self._runs.fail(run, report.trace or "the task failed without a trace")
        elif report.state == FENCED:
            self._restarts.fenced(run, report.trace or "FencedError")
        elif report.state == FINISHED or (report.state in EPOCHS_END and run.phase is Phase.FINISHING):
            self._log_end(run, report)
            self._runs.end(run)
        elif report.state in EPOCHS_END:
            if not _committed(report):
                log.warning("Task %s: %s", run.task, NOT_COMMITTED)
            self._runs.end_attempt(run)
            freed = True
        elif report.state == RUNNING and report.loop_silent_s < UNHEARD_S:
            trace = running_trace(report, (run.late, run.withheld), run.events, run.secrets)
            changed = trace != run.shown or run.waits_for is not None
            if run.phase is Phase.STARTED or (run.phase is Phase.RUNNING and changed):
                # A task that copies some of its partitions runs; its trace shows which ones are stalled.
                run.phase, run.shown = Phase.RUNNING, trace
                run.waits_for = run.idle_since = None
                self._runs.report_state(run.task, RUNNING, trace)
            self._log_assignment(run, report.assignment_version)
            self._runs.place(run)
        if freed:
            self._runs.reassign(run.task.connector)

    def _hear(self, run: TaskRun, report: TaskReport) -> None:
        """Logs its lines and events, and keeps the events for the run's trace."""
        if report.lost:
            self._restarts.suspected(run).lost(report.lost)
        for line, code in zip_longest(report.log_lines, report.log_codes[: len(report.log_lines)], fillvalue=""):
            log.warning("Task %s: %s", run.task, redact(line, run.secrets), extra={PROBLEM: code} if code else None)
        for event in report.events:
            added = run.events.add(event, run.secrets, time.time())
            log.warning("Task %s: %s", run.task, added, extra={PROBLEM: event.code.value})

    def _take_source_offsets(self, run: TaskRun, report: TaskReport) -> None:
        if report.source_offsets:
            # Before anybody hears that the partitions are free.
            known = run.owned_up_to(report.assignment_version)
            offsets = [SourceOffset(*each) for each in report.source_offsets]
            self._specs.copied(run.task, [each for each in offsets if (each.topic, each.partition) in known])
        if report.offset_keys:
            self._specs.wrote_for(run.task, report.offset_keys)

    def _log_end(self, run: TaskRun, report: TaskReport) -> None:
        if _committed(report):
            log.info("Task %s has ended; what it copied is committed", run.task)
        else:
            log.warning("Task %s has ended; %s", run.task, NOT_COMMITTED)

    def _log_assignment(self, run: TaskRun, version: int) -> None:
        """Once when a run begins to copy, and when it copies other partitions; not after each of its epochs."""
        place = f" on {place_of(run)}" if run.is_elsewhere else ""
        known = version == run.logged_version and place == run.logged_place
        if run.is_over or version != run.version or known:
            return
        count, first = len(run.assigned), run.logged_version is None or place != run.logged_place
        run.logged_version, run.logged_place = version, place
        groups = len(run.spec.assigned_groups) if run.spec else 0
        if not count and first:
            with_groups = f" with {counted(groups, 'group')}" if groups else ""
            log.info("Task %s is RUNNING%s%s", run.task, with_groups, place)
        else:
            partitions = counted(count, "partition")
            log.info(
                "Task %s is RUNNING with %s%s" if first else "Task %s copies %s now%s", run.task, partitions, place
            )


def _committed(report: TaskReport) -> bool:
    return report.committed and report.state != ABANDONED
