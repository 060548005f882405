"""The executors of a Spark cluster: which there are, which are given up or drained, and which one a task should have.

Spark gives a task to any executor with a free slot, by chance. So the worker looks when a process asks for its task's spec.
If another executor with a free slot has fewer tasks of the connector, or fewer of all, the epoch ends before it has begun,
and Spark chooses again. That takes half a second, nothing is copied yet, and it is done a few times at most.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.app.supervisor.spark_executors import SparkExecutor
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

# How often a task is sent on before any executor is taken. With each second time, one more task is allowed there.
MOST_REFUSALS: Final = 6
# A process that holds a slot of Spark, and asks for nothing for so long, hangs with its executor.
MUTE_S: Final = 15.0
# The first process there imports what all tasks need: minutes, on a machine with much to do. As long as its JVM answers.
FIRST_MUTE_S: Final = 180.0
# A JVM answers within some ms. While it does not, no task is sent there.
ANSWERS_S: Final = 2.0
# Not more often on one host while its JVMs answer: where no process reaches the worker, a new executor does not help.
MUTE_AGAIN_S: Final = 300.0
# Tasks move to executors with less to do when none has come for so long: one after the other, and no task soon again.
RELOCATE_AFTER_S: Final = 20.0
RELOCATE_EVERY_S: Final = 5.0
RELOCATE_AGAIN_S: Final = 600.0


class ExecutorPlacement:
    """See the module. `runs`: those of all flows that have not ended; `clock` gives seconds. Empty with a local master."""

    def __init__(self, clock: Callable[[], float], runs: Callable[[], Iterable[TaskRun]]) -> None:
        self._clock = clock
        self._runs = runs
        self._told: dict[str, SparkExecutor] | None = None
        self._since: dict[str, float] = {}
        # Since when.
        self._given_up: dict[str, float] = {}
        self._mute_since: dict[str, float] = {}
        # Those on which a task was ever at work.
        self._worked: set[str] = set()
        self._mute_given_up: dict[str, float] = {}
        self._looked = 0.0
        self._relocated: dict[TaskId, float] = {}

    def told(self, executors: Iterable[SparkExecutor]) -> None:
        """The driver has these now."""
        now = self._clock()
        self._told = {each.executor: each for each in executors}
        self._since = {each: self._since.get(each, now) for each in self._told}
        self._given_up = {each: since for each, since in self._given_up.items() if each in self._told}

    def spark_lost(self) -> None:
        """The application has ended. The next one begins its ids anew."""
        self._told = None
        self._since, self._given_up, self._mute_since, self._worked = {}, {}, {}, set()

    @property
    def known(self) -> Mapping[str, SparkExecutor]:
        """Those that Spark has; empty before the first report."""
        return self._told or {}

    @property
    def given_up(self) -> frozenset[str]:
        """Those that Spark is to end, and to replace."""
        return frozenset(self._given_up)

    def was_any_given_up(self, since: float) -> bool:
        """Whether one was given up after `since` and Spark has it still. A task that it began in between may be there."""
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

    def look_for_mute(self, *, waiting: bool) -> bool:
        """Gives up an executor that has tasks of Spark, none of which asks for anything. Returns whether it did.

        `waiting`: whether runs with a slot wait for a process. Spark itself would wait for two minutes. One on which no task
        was ever at work gets longer, unless its JVM does not answer either.
        """
        now, found = self._clock(), False
        at_work = {run.executor for run in self._runs()}
        self._worked |= at_work
        mute = [each for each, known in self.known.items() if waiting and known.tasks and each not in at_work]
        self._mute_since = {each: self._mute_since.get(each, now) for each in mute}
        for each, since in self._mute_since.items():
            host, hangs = self.known[each].host, self.known[each].silent_s > MUTE_S
            longest = MUTE_S if hangs or each in self._worked else FIRST_MUTE_S
            lately = not hangs and now - self._mute_given_up.get(host, -MUTE_AGAIN_S) < MUTE_AGAIN_S
            if now - since > longest and not lately:
                self._mute_given_up[host] = now
                found = self.give_up(each) or found
        return found

    # --- placement --------------------------------------------------------------------------------------------------

    def refuses(self, run: TaskRun, executor: str) -> bool:
        """Whether a run should not begin on this executor, as another one with a free slot has less to do."""
        if run.refused >= MOST_REFUSALS or executor not in self.known:
            return False
        if not self._has_better(run, executor, self._loads(), run.refused // 2):
            return False
        run.refused += 1
        return True

    def look(self, now: float) -> None:
        """Lets runs leave executors that are drained; now and then one, for an executor that has less to do."""
        loads: dict[str, int] | None = None
        for run in self._runs():
            known = self.known.get(run.executor)
            if known is not None and known.draining and not run.leaving:
                loads = self._loads() if loads is None else loads
                self._leave_drained(run, loads)
        if now - self._looked > RELOCATE_EVERY_S and len(self.known) > 1:
            self._looked = now
            self._relocate_one(now)

    def _leave_drained(self, run: TaskRun, loads: Mapping[str, int]) -> None:
        """As long as there is a slot elsewhere: copying goes on until then."""
        free = sum(known.slots - loads[each] for each, known in self.known.items() if not known.draining)
        if free > sum(other.leaving for other in self._runs()):
            log.info("Task %s leaves executor %s, which is being decommissioned", run.task, run.executor)
            run.leave()

    def _relocate_one(self, now: float) -> None:
        if not all(now - since > RELOCATE_AFTER_S for since in self._since.values()):
            return
        self._relocated = {task: when for task, when in self._relocated.items() if now - when < RELOCATE_AGAIN_S}
        loads = self._loads()
        for run in self._runs():
            steady = (
                run.phase is Phase.RUNNING and now - run.since > RELOCATE_AFTER_S and run.task not in self._relocated
            )
            if steady and not run.shared and self._has_better(run, run.executor, loads, 0):
                self._relocated[run.task] = now
                log.info("Task %s leaves executor %s, which has more to do than others", run.task, run.executor)
                run.leave()
                return

    def _has_better(self, run: TaskRun, executor: str, loads: Mapping[str, int], allowed: int) -> bool:
        """Whether another executor with a free slot has fewer tasks, by more than what is allowed.

        What counts first is how many of the connector are on the host, then on the executor, then all tasks there.
        """
        if executor not in self.known:
            return False
        hosts: Counter[str] = Counter()
        same: Counter[str] = Counter()
        for other in self._runs():
            if other is not run and other.task.connector == run.task.connector and other.executor in self.known:
                hosts[self.known[other.executor].host] += 1
                same[other.executor] += 1

        def cost(each: str) -> tuple[int, int, int]:
            itself = each == run.executor and not run.shared
            return hosts[self.known[each].host], same[each], loads[each] - itself

        here = cost(executor)
        return any(
            _is_less(cost(each), here, allowed)
            for each, known in self.known.items()
            if each != executor and loads[each] < known.slots and self._takes_tasks(known)
        )

    def _takes_tasks(self, known: SparkExecutor) -> bool:
        return not known.draining and known.silent_s < ANSWERS_S and known.executor not in self._given_up

    def _loads(self) -> dict[str, int]:
        """How many processes are at work on each."""
        loads, shared = dict.fromkeys(self.known, 0), set()
        for run in self._runs():
            if run.executor not in loads or (run.shared and run.executor in shared):
                continue
            loads[run.executor] += 1
            if run.shared:
                shared.add(run.executor)
        return loads


def _is_less(cost: tuple[int, int, int], here: tuple[int, int, int], allowed: int) -> bool:
    """Whether the first number that differs is less, by more than what is allowed."""
    for there, mine in zip(cost, here, strict=True):
        if there != mine:
            return there + allowed < mine
    return False
