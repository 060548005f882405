"""The executors of a Spark cluster that there are, and those that are given up because nothing on them is heard.

Spark waits for two minutes for an executor that hangs, and for ever if only the processes of its tasks do. So the worker
gives it up earlier: Spark ends it, and asks the cluster for another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.app.supervisor.spark_executors import SparkExecutor
from mirror_connect.app.supervisor.task_run import TaskRun

log = logging.getLogger(__name__)

# A process that holds a slot of Spark, and asks for nothing for so long, hangs with its executor.
HUNG_S: Final = 15.0
# The first process there imports what all tasks need: minutes, on a machine with much to do. As long as its JVM answers.
FIRST_HUNG_S: Final = 180.0
# Not more often on one host while its JVMs answer: where no process reaches the worker, a new executor does not help.
HUNG_AGAIN_S: Final = 300.0


class ClusterExecutors:
    """See the module. `runs`: those of all flows that have not ended; `clock` gives seconds. Empty with a local master."""

    def __init__(self, clock: Callable[[], float], runs: Callable[[], Iterable[TaskRun]]) -> None:
        self._clock = clock
        self._runs = runs
        self._told: dict[str, SparkExecutor] | None = None
        # When each was first reported.
        self._since: dict[str, float] = {}
        # When each was given up.
        self._given_up: dict[str, float] = {}
        # Since when each has tasks of Spark, and no process that is at work.
        self._hung_since: dict[str, float] = {}
        # Those on which a task was ever at work.
        self._worked: set[str] = set()
        # By host: when the last executor that hung there was given up.
        self._hung_given_up: dict[str, float] = {}

    def told(self, executors: Iterable[SparkExecutor]) -> None:
        """Takes the executors that the driver reports."""
        now = self._clock()
        self._told = {each.executor: each for each in executors}
        self._since = {each: self._since.get(each, now) for each in self._told}
        self._given_up = {each: since for each, since in self._given_up.items() if each in self._told}

    def spark_lost(self) -> None:
        """The application has ended. The next one begins its ids anew."""
        self._told = None
        self._since, self._given_up, self._hung_since, self._worked = {}, {}, {}, set()

    @property
    def known(self) -> Mapping[str, SparkExecutor]:
        """Those that Spark has; empty before the first report."""
        return self._told or {}

    def are_known_for(self, seconds: float) -> bool:
        """Whether the newest of them is there for longer than this."""
        now = self._clock()
        return all(now - since > seconds for since in self._since.values())

    @property
    def given_up(self) -> frozenset[str]:
        """Those that Spark is to end, and to replace."""
        return frozenset(self._given_up)

    def was_any_given_up(self, since: float) -> bool:
        """Whether one was given up after `since`, and Spark still has it.

        What Spark began between the two may be in the queue of that executor, where no process takes it.
        """
        return any(given_up > since for given_up in self._given_up.values())

    def is_lost(self, executor: str) -> bool:
        """Whether Spark knows that it has ended, and so starts its tasks again."""
        return self._told is not None and executor not in self._told

    def give_up(self, executor: str) -> bool:
        """Lets Spark end an executor of which no task is heard; returns whether that is new."""
        if executor not in self.known or executor in self._given_up or self._is_heard(executor):
            return False
        self._given_up[executor] = self._clock()
        log.error(
            "Executor %s (%s) is given up, because no task on it is heard. Spark is asked to replace it",
            executor,
            self.known[executor].host,
        )
        return True

    def _is_heard(self, executor: str) -> bool:
        now = self._clock()
        return any(run.executor == executor and run.report and now < run.granted_until for run in self._runs())

    def look_for_hung(self, *, waiting: bool) -> bool:
        """Gives up executors that have tasks of Spark, none of which asks for anything. Returns whether it gave one up.

        `waiting`: whether runs with a slot wait for a process. Spark itself would wait for two minutes. One on which no task
        was ever at work gets longer, unless its JVM does not answer either.
        """
        now, found = self._clock(), False
        at_work = {run.executor for run in self._runs()}
        self._worked |= at_work
        hung = [each for each, known in self.known.items() if waiting and known.tasks and each not in at_work]
        self._hung_since = {each: self._hung_since.get(each, now) for each in hung}
        for each, since in self._hung_since.items():
            host, hangs = self.known[each].host, self.known[each].silent_s > HUNG_S
            longest = HUNG_S if hangs or each in self._worked else FIRST_HUNG_S
            lately = not hangs and now - self._hung_given_up.get(host, -HUNG_AGAIN_S) < HUNG_AGAIN_S
            if now - since > longest and not lately:
                self._hung_given_up[host] = now
                found = self.give_up(each) or found
        return found
