"""The runs of all flows on the process's Spark applications: whose each is, and which work in one process.

Spark may use a process for a task of one flow after a task of another.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.log_format import log_flow
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import SourceOffset, TaskOrders, TaskProcess, TaskReport, TaskSpec

log = logging.getLogger(__name__)


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

    def heap_filled(self, spark: HostedSpark, why: str) -> None:
        """An application is about to end, as its heap is full. `why`: one line, with what to do."""

    def spark_lost(self, spark: HostedSpark) -> None:
        """An application has ended, and no process of it is left on this machine."""


class FlowRuns:
    """See the module. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._owners: list[RunOwner] = []

    def add(self, owner: RunOwner) -> None:
        """From now on its runs are among them."""
        self._owners.append(owner)

    def remove(self, owner: RunOwner) -> bool:
        """Its runs are no longer among them. Returns whether they were."""
        known = owner in self._owners
        if known:
            self._owners.remove(owner)
        return known

    def __iter__(self) -> Iterator[TaskRun]:
        """Those that have not ended."""
        return itertools.chain.from_iterable(owner.runs for owner in self._owners)

    def planned(self, *, shared: bool) -> Iterator[tuple[RunOwner, TaskRun]]:
        """Those that should have a query now: in the process that light tasks share, or in one of their own."""
        return ((owner, run) for owner in self._owners for run in owner.planned() if run.shares == shared)

    def find(self, run_id: str) -> tuple[RunOwner, TaskRun] | None:
        """A run that has not ended, and whose it is."""
        for owner in self._owners:
            if (run := owner.run_of(run_id)) is not None:
                return owner, run
        return None

    def has_another_run(self, process: TaskProcess, run: TaskRun) -> bool:
        """Whether a process works on another run than this one, of any flow, and so no longer on this one."""
        return any(
            other is not run and other.process == process and not (other.shared and run.shared) for other in self
        )

    def is_process_heard(self, process: TaskProcess) -> bool:
        """Whether a task in this process copies."""
        now = self._clock()
        return any(run.process == process and not run.withdrawn and now < run.granted_until for run in self)

    def is_shared_with_others(self, run: TaskRun) -> bool:
        """Whether other runs, of any flow, belong to the shared process."""
        return any(other is not run and other.shares for other in self)

    def sharing(self, run: TaskRun) -> Iterator[TaskRun]:
        """The other runs in the shared process, of any flow; none for a run that has a process of its own."""
        return (other for other in self if other is not run and other.shared and run.shared)

    def query_reported(
        self, owner: RunOwner, run: TaskRun, state: str, error: str | None, fatal: str | None = None
    ) -> None:
        """Tells the owner of a run what state the driver has reported of its query."""
        with log_flow(owner.flow):
            try:
                owner.query_reported(run, state, error, fatal)
            except Exception:  # a bug with one run must not keep the reports from the others
                log.exception("A bug while the state of a query was reported")

    def tell(self, event: Callable[[RunOwner], None]) -> None:
        """Tells each owner that Spark came or went."""
        for owner in list(self._owners):
            with log_flow(owner.flow):
                try:
                    event(owner)
                except Exception:  # a bug with one flow must not keep the news from the others
                    log.exception("A bug while Spark came or went")
