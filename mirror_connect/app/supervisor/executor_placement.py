"""Which executor of a Spark cluster a task should have, and which tasks leave an executor for another one.

Spark gives a task to any executor with a free slot, by chance. So the worker looks when a process asks for its task's spec.
If another executor with a free slot has fewer tasks of the connector, or fewer of all, the epoch ends before it has begun,
and Spark chooses again. That takes half a second, nothing is copied yet, and it is done a few times at most.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.app.supervisor.cluster_executors import ClusterExecutors
from mirror_connect.app.supervisor.spark_executors import SparkExecutor
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

# How often a task is sent on before any executor is taken. With each second time, one more task is allowed there.
MOST_REFUSALS: Final = 6
# A JVM answers within some ms. While it does not, no task is sent there.
ANSWERS_S: Final = 2.0
# Tasks move to executors with less to do when none has come for so long: one after the other, and no task soon again.
RELOCATE_AFTER_S: Final = 20.0
RELOCATE_EVERY_S: Final = 5.0
RELOCATE_AGAIN_S: Final = 600.0


class ExecutorPlacement:
    """See the module. `runs`: those of all flows that have not ended. It does nothing with a local master."""

    def __init__(self, runs: Callable[[], Iterable[TaskRun]], executors: ClusterExecutors) -> None:
        self._runs = runs
        self._executors = executors
        # When it was last looked for a task that should have another executor.
        self._looked = 0.0
        # When each task was last moved to another executor.
        self._relocated: dict[TaskId, float] = {}

    def refuses(self, run: TaskRun, executor: str) -> bool:
        """Whether a run should not begin on this executor, as another one with a free slot has less to do."""
        if run.refused >= MOST_REFUSALS or executor not in self._executors.known:
            return False
        if not self._has_better(run, executor, self._loads(), run.refused // 2):
            return False
        run.refused += 1
        return True

    def look(self, now: float) -> None:
        """Lets runs leave executors that are being decommissioned; now and then one, for an executor with less to do."""
        loads: dict[str, int] | None = None
        for run in self._runs():
            known = self._executors.known.get(run.executor)
            if known is not None and known.draining and not run.leaving:
                loads = self._loads() if loads is None else loads
                self._leave_drained(run, loads)
        if now - self._looked > RELOCATE_EVERY_S and len(self._executors.known) > 1:
            self._looked = now
            self._relocate_one(now)

    def _leave_drained(self, run: TaskRun, loads: Mapping[str, int]) -> None:
        """Lets the run leave if there is a slot elsewhere. Until then it goes on copying."""
        free = sum(known.slots - loads[each] for each, known in self._executors.known.items() if not known.draining)
        if free > sum(other.leaving for other in self._runs()):
            log.info("Task %s leaves executor %s, which is being decommissioned", run.task, run.executor)
            run.leave()

    def _relocate_one(self, now: float) -> None:
        if not self._executors.are_known_for(RELOCATE_AFTER_S):
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
        """Whether another executor with a free slot has fewer tasks, by more than `allowed`.

        What counts first is how many of the connector are on the host, then on the executor, then all tasks there.
        """
        executors = self._executors.known
        if executor not in executors:
            return False
        hosts: Counter[str] = Counter()
        same: Counter[str] = Counter()
        for other in self._runs():
            if other is not run and other.task.connector == run.task.connector and other.executor in executors:
                hosts[executors[other.executor].host] += 1
                same[other.executor] += 1

        def cost(each: str) -> tuple[int, int, int]:
            itself = each == run.executor and not run.shared
            return hosts[executors[each].host], same[each], loads[each] - itself

        here = cost(executor)
        return any(
            _is_less(cost(each), here, allowed)
            for each, known in executors.items()
            if each != executor and loads[each] < known.slots and self._takes_tasks(known)
        )

    def _takes_tasks(self, known: SparkExecutor) -> bool:
        return not known.draining and known.silent_s < ANSWERS_S and known.executor not in self._executors.given_up

    def _loads(self) -> dict[str, int]:
        """How many processes are at work on each executor."""
        loads, shared = dict.fromkeys(self._executors.known, 0), set()
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
