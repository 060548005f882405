"""Which tasks share one process: those that do little. A process of its own takes some 30 MB, and a slot of Spark.

Tasks of heartbeat and checkpoint connectors begin in the shared process. A source task begins in its own. It moves in when
it has copied little for a while, and out as soon as it copies more. A move is an epoch's end: everything is committed, and
the next epoch begins in the other process.

If the shared process dies, some of its tasks have processes of their own for a while, as far as there are slots. So a task
that makes its process die ends alone sooner or later, as any task does. Not all at once: memory may have been the reason.

A task with a user's policy never shares a process, because it waits for that user's code. Nor does one whose records Spark
transforms: all that it copies goes through a query of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.known_connectors import CONNECTORS
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.record_transform import RecordTransform, transform_of
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.user_code.user_class import is_user_class

# A task is light if it copies less than this many bytes a second, over so many seconds.
LIGHT_BYTES: Final = 100_000
LIGHT_AFTER_S: Final = 60.0
# It moves out if it copies more than this many, over so many seconds.
HEAVY_BYTES: Final = 1_000_000
HEAVY_AFTER_S: Final = 5.0
# What all tasks in the shared process may copy together. Above that, those move out that are not light any more.
HEAVY_TOGETHER: Final = 10 * HEAVY_BYTES
# After a move out, or a death of the shared process. It must not move to and fro.
ALONE_S: Final = 600.0
# So many tasks get processes of their own after a death of the shared one.
MOST_SUSPECTS: Final = 8
# As long as it takes until all of its tasks have been noticed.
DEATH_S: Final = 30.0


class _Window(NamedTuple):
    """Since when an attempt's rate is measured, and how many bytes it had copied then."""

    attempt: str | None
    since: float
    copied: int


class TaskPlacement:
    """See the module. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._alone_until: dict[TaskId, float] = {}
        # When each was last in a shared process that died, and got its own.
        self._suspected: dict[TaskId, float] = {}
        # Bytes a second of those in the shared process.
        self._rates: dict[TaskId, float] = {}
        self._windows: dict[TaskId, _Window] = {}
        # Those in processes of their own that have copied little.
        self._quiet: set[TaskId] = set()

    def begin(self, run: TaskRun) -> None:
        """Decides where a run begins."""
        run.computes = statement_of(run) is not None
        definition = _definition(run)
        run.place(light=definition is not None and definition.light and not self._alone(run))

    def lost_process(self, run: TaskRun, free_slots: int) -> None:
        """The process of the run's present attempt has died. Of a shared one nobody knows which task was the cause."""
        if not run.shared:
            return
        now = self._clock()
        suspects = sum(1 for when in self._suspected.values() if now - when < DEATH_S)
        if suspects < min(MOST_SUSPECTS, free_slots):
            self._suspected[run.task] = now
            self._alone_until[run.task] = now + ALONE_S
            run.place(light=False)

    def return_to_shared(self, run: TaskRun) -> bool:
        """Ends the time in which a run that begins in the shared process has its own; returns whether it is one."""
        definition = _definition(run)
        if definition is None or not definition.light:
            return False
        self._alone_until.pop(run.task, None)
        run.place(light=True)
        return True

    def look(self, run: TaskRun, others_share: Callable[[TaskRun], bool]) -> None:
        """Decides by what a run's task has copied by now whether it is to move.

        `others_share`: whether other runs belong to the shared process.
        """
        definition = _definition(run)
        if definition is None or run.phase is not Phase.RUNNING or run.moves or run.report is None:
            self._windows.pop(run.task, None)
            return
        now, copied = self._clock(), run.report.counters.get("bytes", 0)
        window = self._windows.get(run.task)
        if window is not None and window.attempt == run.attempt:
            seconds = now - window.since
            if seconds < (HEAVY_AFTER_S if run.shared else LIGHT_AFTER_S):
                return
            self._judge(run, (copied - window.copied) / seconds, others_share)
        self._windows[run.task] = _Window(run.attempt, now, copied)

    def _judge(self, run: TaskRun, rate: float, others_share: Callable[[TaskRun], bool]) -> None:
        if run.shared:
            self._rates[run.task] = rate
            together = sum(self._rates.values())
            if rate > HEAVY_BYTES or (together > HEAVY_TOGETHER and rate > LIGHT_BYTES):
                del self._rates[run.task]
                self._alone_until[run.task] = self._clock() + ALONE_S
                run.place(light=False)
            return
        self._rates.pop(run.task, None)
        if rate < LIGHT_BYTES:
            self._quiet.add(run.task)
        else:
            self._quiet.discard(run.task)
        # Alone in the shared process it would take what it takes now.
        if run.task in self._quiet and not self._alone(run) and (len(self._quiet) > 1 or others_share(run)):
            run.place(light=True)

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets all tasks but these."""
        self._alone_until = {task: until for task, until in self._alone_until.items() if task in tasks}
        self._windows = {task: window for task, window in self._windows.items() if task in tasks}
        self._quiet &= set(tasks)
        self._suspected = {task: when for task, when in self._suspected.items() if task in tasks}
        self._rates = {task: rate for task, rate in self._rates.items() if task in tasks}

    def _alone(self, run: TaskRun) -> bool:
        return self._clock() < self._alone_until.get(run.task, 0.0)


def statement_of(run: TaskRun) -> RecordTransform | None:
    """What Spark does with the records of the run's task; None: nothing."""
    return statement_in(run.identity)


def statement_in(config: Mapping[str, str]) -> RecordTransform | None:
    """What Spark does with the records of a task with this raw config; None: nothing."""
    if not isinstance(CONNECTORS.get(config.get("connector.class", "")), MirrorSource):
        return None
    try:
        return transform_of(config)
    except ConfigError:
        return None  # the task says so, and copies nothing


def _definition(run: TaskRun) -> ConnectorDefinition | None:
    """None if it never shares a process: its class comes from a config provider, or a user's code or Spark is asked."""
    if is_user_class(run.identity.get("replication.policy.class", "")) or statement_of(run) is not None:
        return None
    return CONNECTORS.get(run.identity.get("connector.class", ""))
