"""The process that light tasks share, as one query of Spark: it is there while any of their runs is planned.

If it ends or hangs, another one takes its place.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from mirror_connect.app.supervisor.cluster_executors import ClusterExecutors
from mirror_connect.app.supervisor.flow_runs import FlowRuns
from mirror_connect.connectors.task_protocol import TaskProcess

log = logging.getLogger(__name__)


@dataclass(eq=False)
class SharedProcess:
    """One of them. `since`: when it was first planned. `asked`: it is there, and has asked for its runs."""

    since: float
    process_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    asked: bool = False


class SharedProcesses:
    """The present one, and those that it was. `changed` makes a new plan; `clock` gives seconds."""

    def __init__(
        self, runs: FlowRuns, executors: ClusterExecutors, changed: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._runs = runs
        self._executors = executors
        self._changed = changed
        self._clock = clock
        self._present: SharedProcess | None = None
        # Processes that it was, which have hung on a cluster.
        self._renewed: set[TaskProcess] = set()

    def planned(self) -> SharedProcess | None:
        """The present one: another one for the first of its runs, and None as soon as there is none."""
        if not any(True for _ in self._runs.planned(shared=True)):
            self._present = None
        elif self._present is None:
            self._present = SharedProcess(self._clock())
        return self._present

    def find(self, process_id: str) -> SharedProcess | None:
        """The present one, if it has this id; None if that one is over."""
        return self._present if self._present is not None and self._present.process_id == process_id else None

    @property
    def has_asked(self) -> bool:
        """Whether the present one is there, and has asked for its runs."""
        return self._present is not None and self._present.asked

    def renew(self) -> None:
        """The present one is given up. Its runs get another one."""
        self._present = None
        self._changed()

    def renew_of(self, process: TaskProcess | None) -> None:
        """As `renew`, but once for a process that has hung, of all its runs."""
        if process is None or process not in self._renewed:
            if process is not None:
                self._renewed.add(process)
            self.renew()

    def leave_given_up(self) -> None:
        """Gives it another query, if Spark may have begun it on an executor that was given up since then."""
        present = self._present
        if present is not None and not present.asked and self._executors.was_any_given_up(present.since):
            self.renew()

    def spark_lost(self) -> None:
        """The application has ended, and all its processes."""
        self._present = None
        self._renewed.clear()

    def reported(self, shared: SharedProcess, state: str, error: str | None) -> None:
        """The driver has reported the state of its query."""
        runs = list(self._runs.planned(shared=True))
        if state != "ENDED":
            for owner, run in runs:
                self._runs.query_reported(owner, run, state, error)
            return
        log.warning("The process that light tasks share has ended: %s", (error or "its query ended").splitlines()[0])
        self.renew()
        # The next process takes over what this one had. One that never asked can't show which run it can't begin.
        if not shared.asked:
            for owner, run in runs:
                if run.attempt is None:
                    self._runs.query_reported(owner, run, state, error)
