"""All that the tasks of a process have measured. It belongs to the process, and stays when a worker in it starts again."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.link_history import LinkHistory
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_protocol import (
    ABANDONED,
    EPOCH_ENDED,
    FAILED,
    FENCED,
    FINISHED,
    RUNNING,
    TaskId,
    TaskReport,
)
from mirror_connect.connectors.verified_records import VerifiedRecords

log = logging.getLogger(__name__)

# After these states a task does nothing until it is started again, so its problems are over.
_OVER: Final = frozenset({FINISHED, FAILED, FENCED, ABANDONED})


class WorkerMetrics:
    """That of one worker, which is a flow of dedicated mode, or a source of MirrorMaker 1.

    `connectors` are those that have told something, and are not deleted; `links` their histories. `clock` gives seconds,
    `wall_clock` seconds since 1970. `process` names the process: counts begin at 0 with it.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.connectors: Final[dict[str, ConnectorMetrics]] = {}
        self.links: Final[dict[str, LinkHistory]] = {}
        self.process: Final = secrets.token_hex(8)
        self._clock = clock
        self._wall_clock = wall_clock
        self._failed = False

    def now(self) -> float:
        """Seconds of the clock of reports."""
        return self._clock()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self._wall_clock() * 1000)

    def connector(self, name: str) -> ConnectorMetrics:
        """That of a connector, new if there is none."""
        found = self.connectors.get(name)
        if found is None:
            found = self.connectors[name] = ConnectorMetrics(name, self._clock())
        return found

    def history(self, link: str) -> LinkHistory:
        """That of a link, new if there is none."""
        return self.links.setdefault(link, LinkHistory())

    # What comes in.

    def take(self, task: TaskId, report: TaskReport, secrets: Iterable[str]) -> None:
        """Takes the report of a task's present attempt. Never raises: a task's lease must not depend on its figures."""
        try:
            self._take(task, report, secrets)
        except Exception:
            if not self._failed:
                log.exception("A bug: the figures of task %s can't be taken. Copying goes on", task)
            self._failed = True

    def _take(self, task: TaskId, report: TaskReport, secrets: Iterable[str]) -> None:
        now, now_ms = self._clock(), self.now_ms()
        connector = self.connector(task.connector)
        of_task = connector.task(task.task)
        # A thread goes on to report while the task's loop hangs.
        of_task.hear(
            report.attempt,
            now - report.loop_silent_s,
            now_ms,
            report.counters.get("skipped", 0),
            epoch_ended=report.state == EPOCH_ENDED,
        )
        if report.measures is not None:
            connector.take(task.task, report.measures, now)
        if report.state == RUNNING:
            of_task.problems.replace(report.problems, report.more_problems, secrets, now_ms, task.task)
        elif report.state in _OVER:
            of_task.problems.clear()

    def connector_problems(self, name: str, problems: Sequence[Problem], secrets: Iterable[str]) -> None:
        """The present problems of a connector itself."""
        self.connector(name).problems.replace(problems, 0, secrets, self.now_ms())

    def connector_verified(self, name: str, verified: VerifiedRecords | None) -> None:
        """What sampling verification has counted of a connector's copy; None: it has ended."""
        self.connector(name).verification.take(verified, self._clock())

    # What is forgotten.

    def keep(self, names: Collection[str], links: Collection[str]) -> None:
        """Forgets all others."""
        for name in [each for each in self.connectors if each not in names]:
            del self.connectors[name]
        for link in [each for each in self.links if each not in links]:
            del self.links[link]


class ProcessMetrics:
    """That of all workers of a process, by the names of their flows; the name is empty in a process that has one."""

    def __init__(self) -> None:
        self.flows: Final[dict[str, WorkerMetrics]] = {}

    def of_flow(self, name: str) -> WorkerMetrics:
        """That of a flow, the same in all its starts."""
        return self.flows.setdefault(name, WorkerMetrics())
