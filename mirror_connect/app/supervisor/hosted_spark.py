"""One of the Spark applications of a process: kept alive, with its slots, and what its driver has told last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mirror_connect.app.exposition.measured import JvmFigures
from mirror_connect.app.supervisor.interfaces import Application
from mirror_connect.app.supervisor.spark_executors import MissingExecutor, SparkExecutor, no_executor_line
from mirror_connect.app.supervisor.spark_keeper import SparkKeeper
from mirror_connect.app.supervisor.task_run import TaskRun


class HostedSpark:
    """See the module. `token`: its driver shows it. `runs`: those that belong to it and have not ended.

    `lost` is called when an application has ended, with all its processes. `purpose`: behind its name in lines for people.
    """

    def __init__(
        self,
        master: str,
        token: str,
        *,
        new_application: Callable[[], Application],
        clock: Callable[[], float],
        lost: Callable[[HostedSpark], None],
        runs: Callable[[], Iterable[TaskRun]],
        purpose: str = "",
    ) -> None:
        self.token = token
        # Whether it is started and not ended.
        self.wanted = False
        self._master = master
        self._new_application = new_application
        self._clock = clock
        self._lost = lost
        self._runs = runs
        self._purpose = purpose
        self._missing: MissingExecutor | None = None
        self._keeper = self._new_keeper()

    def _new_keeper(self) -> SparkKeeper:
        return SparkKeeper(self._new_application, self._clock, lambda: self._lost(self), self._purpose, self._master)

    def start(self, url: str) -> None:
        """Starts it in the background, as often as it was ended before."""
        self.wanted = True
        self._keeper.start(url, self.token)

    async def end(self, patience_s: float) -> None:
        """Ends it; afterwards no process of it is alive."""
        await self._keeper.end(patience_s)
        if self.wanted:
            self.wanted = False
            self._keeper = self._new_keeper()

    def heard(
        self,
        slots: int,
        jvm: JvmFigures | None,
        executors: Sequence[SparkExecutor] | None,
        missing: MissingExecutor | None,
    ) -> bool:
        """Its driver has reported. Returns whether tasks can run now, and could not before."""
        self._missing = missing
        was_absent = self.absence is not None
        self._keeper.heard(slots, jvm, executors)
        return was_absent and self.absence is None

    @property
    def application(self) -> Application | None:
        """The application that runs now, as a process tree; None while there is none."""
        return self._keeper.application

    @property
    def slots(self) -> int | None:
        """How many tasks of all flows can run at a time; None until the driver has reported."""
        return self._keeper.slots

    @property
    def slots_since(self) -> float:
        """Since when there are slots, by the clock."""
        return self._keeper.slots_since

    @property
    def jvm(self) -> JvmFigures | None:
        """The newest figures of its JVM."""
        return self._keeper.jvm

    @property
    def problem(self) -> str | None:
        """Why there is no Spark now; None if Spark runs, or at the first start."""
        return self._keeper.problem

    @property
    def absence(self) -> str | None:
        """Why no task can run now, as a line for people; None when Spark is there, with an executor."""
        if self._keeper.executors == ():
            # New executors come from the master alone.
            return self._keeper.unreachable or no_executor_line(
                self._master, self._keeper.without_executor_since, self._missing
            )
        return self._keeper.absence

    @property
    def executors(self) -> Sequence[SparkExecutor]:
        """The executors of a cluster that are there now; none with a local master."""
        return self._keeper.executors or ()

    @property
    def wanting(self) -> int:
        """How many processes of all flows need a slot: one for each run, and one for all that share one."""
        sharing = [run.shares for run in self._runs()]
        return sharing.count(False) + any(sharing)

    @property
    def free_slots(self) -> int:
        """How many more processes have a slot."""
        return 0 if self.slots is None else max(0, self.slots - self.wanting)
