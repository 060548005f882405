"""How the supervisor knows that a task's process has ended, and what it does to end one.

With a local master the processes are this machine's: they are found by their ids, and killed (LocalEnds). On a cluster
nobody sees them: the host may be frozen, or its network cut. A process there has ended when it has said its last words, or
when its last lease is over (RemoteEnds). Nothing of it is written after that, whatever becomes of it:
docs/worker-and-tasks.md says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.ended_process import signal_named
from mirror_connect.connectors.task_protocol import TaskReport
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

# What a task has to return when it is ordered to abandon, before the process that it shares with others is killed.
ABANDON_PATIENCE_S: Final = 2.0
# The longest lease on a cluster. Reports come twice a second; a host that is lost costs this time.
REMOTE_LEASE_S: Final = 6.0
# Two clocks may differ in rate: NTP's programs change a clock by a twelfth at most, so two differ by a sixth.
CLOCK_MARGIN_S: Final = 1.0


class ProcessEnds(Protocol):
    """See the module."""

    def is_gone(self, run: TaskRun, why: str, *, hangs: bool = False) -> bool:
        """Whether no process works on the run any more; ends the one that does, which may take a while.

        `hangs`: nothing in the process obeys orders.
        """

    def how_ended(self, run: TaskRun) -> str:
        """How the last process of a run ended, as far as it is known."""

    def longest_lease(self, run: TaskRun) -> float:
        """For how many seconds the present attempt may be allowed to write now."""

    def granted(self, run: TaskRun, lease_s: float) -> None:
        """The present attempt is about to be told that it may write for so long."""


class LocalEnds:
    """Ends processes of this machine, by their ids. One that is killed is gone a moment later."""

    def __init__(self, spark: SparkHost, clock: Callable[[], float]) -> None:
        self._spark = spark
        self._clock = clock

    def is_gone(self, run: TaskRun, why: str, *, hangs: bool = False) -> bool:
        """See ProcessEnds. A process with other tasks is killed only if this one doesn't return when told to abandon."""
        application, process = self._spark.of(run).application, run.process
        # Spark reuses processes: one that reports for another run no longer works on this one.
        if process is None or application is None or self._spark.runs.has_another_run(process, run):
            return True
        pid = process.pid
        others = [other for other in self._spark.runs.sharing(run) if other.process == process]
        if others and not hangs and application.owns(pid):
            run.abandon(self._clock())
            if run.is_abandoning(self._clock(), ABANDON_PATIENCE_S):
                return False
        if run.killed != process and application.kill_task(pid):
            for each in (run, *others):
                each.killed = process
            with_others = f" with {counted(len(others), 'other task')}" if others else ""
            log.warning("Task %s: its process %d%s was killed, as %s", run.task, pid, with_others, why)
        return not application.owns(pid)

    def how_ended(self, run: TaskRun) -> str:
        """See ProcessEnds."""
        application, pid = self._spark.of(run).application, run.pid
        number = None if application is None or pid is None else application.signal_of(pid)
        return "its process died" if number is None else f"its process {pid} was ended by {signal_named(number)}"

    def longest_lease(self, run: TaskRun) -> float:
        """See ProcessEnds. No limit: a process that can be killed need not wait for the end of its lease."""
        return float("inf")

    def granted(self, run: TaskRun, lease_s: float) -> None:
        """See ProcessEnds. Nothing to do: nobody waits for the end of a lease here."""


class RemoteEnds:
    """Ends processes of other machines, by their leases. Nobody can kill them from here.

    A process gets no further lease, and the one that it has is waited out.

    The task counts its lease from before it sent the report that got it, so it is over there no later than `granted_until`
    here, but for the rates of two clocks (CLOCK_MARGIN_S). A host that sleeps counts that time, too (boot_clock). A request
    that left before may still land: who owns the partitions next is protected as from any process that was killed
    (partition_assignment.py).
    """

    def __init__(self, spark: SparkHost, clock: Callable[[], float]) -> None:
        self._spark = spark
        self._clock = clock

    def is_gone(self, run: TaskRun, why: str, *, hangs: bool = False) -> bool:
        """See ProcessEnds."""
        process = run.process
        # Without a report there was no lease.
        if process is None or self.is_lease_over(run):
            return True
        # Of a Spark that has ended, another one may have processes by the same names: then the lease alone counts.
        if not run.is_over and self._spark.runs.has_another_run(process, run):
            return True
        if not run.withdrawn:
            log.warning("Task %s: its process on %s gets no more time to write, as %s", run.task, place_of(run), why)
            run.withdraw()
        if run.phase is Phase.FINISHING:
            # It has had its time to commit.
            run.abandon(self._clock())
        return False

    def is_lease_over(self, run: TaskRun) -> bool:
        """Whether nothing of the present attempt can be sent any more. It is if it never had a lease."""
        return self._clock() >= run.granted_until + CLOCK_MARGIN_S

    def how_ended(self, run: TaskRun) -> str:
        """See ProcessEnds."""
        return f"its process on {place_of(run)} ended without a word" if run.report else "its process died"

    def longest_lease(self, run: TaskRun) -> float:
        """See ProcessEnds."""
        if run.withdrawn:
            return max(0.0, run.granted_until - self._clock())
        return REMOTE_LEASE_S

    def granted(self, run: TaskRun, lease_s: float) -> None:
        """See ProcessEnds."""
        if lease_s > 0:
            run.granted_until = max(run.granted_until, self._clock() + lease_s)


def place_of(run: TaskRun) -> str:
    """Where the present attempt runs, for people; on a cluster, after its first report."""
    return described_place(run.report) if run.report is not None else "an unknown executor"


def described_place(report: TaskReport) -> str:
    """The executor that a report came from, and its host, for people."""
    return f"executor {report.executor} ({report.host})"
