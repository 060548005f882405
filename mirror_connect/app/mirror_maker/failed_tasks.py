"""Tasks of MirrorMaker 1 that fail: they are started again, as nobody would do it by REST, or they end the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import FAILED, TaskId

log = logging.getLogger(__name__)

WATCH_S: Final = 0.5
FAILED_AGAIN_S: Final = 30.0
# What MirrorMaker counts as a failed send: trying again doesn't help.
SEND_FAILURES: Final = frozenset(
    {
        ProblemCode.PARTITION_STALLED_RECORD_TOO_LARGE,
        ProblemCode.PARTITION_STALLED_BATCH_REFUSED,
        ProblemCode.PARTITION_WRITE_DENIED,
    }
)
# What ends it where a task can copy nothing else.
REFUSALS: Final = SEND_FAILURES | {ProblemCode.PARTITION_READ_DENIED}
GIVE_UP: Final = "raise max.message.bytes of the topic, or give such records up with --abort.on.send.failure false"


class FailedTasks:
    """The TaskEvents of a supervisor.

    `aborted(line)` is called when records are refused; it ends the process if the user wants that, and says whether it does.
    """

    def __init__(self, supervisor: Supervisor, aborted: Callable[[str], bool]) -> None:
        self._supervisor = supervisor
        self._aborted = aborted
        self._restarts: dict[TaskId, asyncio.TimerHandle] = {}
        supervisor.listen(self)

    def task_state(self, task: TaskId, state: str, trace: str | None, *, waits: bool = False) -> None:
        """See TaskEvents."""
        if state != FAILED:
            return
        if self._end_at(REFUSALS, [run for run in self._supervisor.runs if run.task == task]):
            return
        log.warning("Task %s is started again in %g s", task, FAILED_AGAIN_S)
        self._cancel(task)
        self._restarts[task] = asyncio.get_running_loop().call_later(FAILED_AGAIN_S, self._start_again, task)

    def task_ended(self, task: TaskId) -> None:
        """See TaskEvents."""
        self._cancel(task)

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        """See TaskEvents."""

    async def watch(self) -> None:
        """For ever: ends the process when the target refuses records of a task that copies others."""
        while True:
            await asyncio.sleep(WATCH_S)
            self._end_at(SEND_FAILURES, self._supervisor.runs)

    def stop(self) -> None:
        """Starts no task again from now on."""
        for task in list(self._restarts):
            self._cancel(task)

    def _start_again(self, task: TaskId) -> None:
        del self._restarts[task]
        # A rebalance may have started it meanwhile, with other partitions.
        if self._supervisor.has_failed(task):
            self._supervisor.restart(task)

    def _cancel(self, task: TaskId) -> None:
        if (timer := self._restarts.pop(task, None)) is not None:
            timer.cancel()

    def _end_at(self, codes: Collection[ProblemCode], runs: Iterable[TaskRun]) -> bool:
        """Ends the process if one of these runs has such a problem and the user wants that; whether it ends."""
        problems = (problem for run in runs if run.report is not None for problem in run.report.problems)
        refused = next((problem for problem in problems if problem.code in codes), None)
        return refused is not None and self._aborted(_line(refused))


def _line(problem: Problem) -> str:
    advice = GIVE_UP if problem.code is ProblemCode.PARTITION_STALLED_RECORD_TOO_LARGE else problem.advice
    return "; ".join(filter(None, (f"{problem.text}: {problem.cause}", advice)))
