"""The supervisor's interfaces: what the herder wants to run, and what the supervisor needs from other parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mirror_connect.app.supervisor.task_run import Partitions
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import SourceOffset, TaskId, TaskSpec

# The trace of a task that waits for nothing but its start, usually a second or two.
STARTING: Final = "It is being started on Spark."


class TaskEvents(Protocol):
    """The events that the supervisor reports to the herder."""

    def task_state(self, task: TaskId, state: str, trace: str | None, *, waits: bool = False) -> None:
        """The task is RUNNING, FAILED or UNASSIGNED; `trace` is the text to show, if any.

        `waits`: it is UNASSIGNED for a reason that may last, and not just until Spark has started.
        """

    def task_ended(self, task: TaskId) -> None:
        """The task is no longer wanted, and it has committed and returned, or was killed after its time to finish."""

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        """The task has written to these target topics."""


class SpecSource(Protocol):
    """Provides the spec and the source offsets of a run."""

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        """A raw task config with the values of config providers. Same errors as `build`."""

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        """The spec of a raw task config, which names the partitions assigned in `version`, and of what it resolves to.

        ClusterUnreachable is retried, any other exception fails the task. Its texts may show resolved values.
        """

    async def source_offsets(self, spec: TaskSpec, partitions: Sequence[TopicPartition]) -> list[SourceOffset]:
        """The source offsets, read to the end of the offsets topic after this call."""

    def copied(self, task: TaskId, offsets: Sequence[SourceOffset]) -> None:
        """Takes the source offsets that a task has reported (TaskSpec.reports_offsets): the target has all up to them.

        Only those of partitions that the run still owns, and none of a run that may not write any more.
        """

    def wrote_for(self, task: TaskId, keys: Sequence[str]) -> None:
        """Takes the keys that a task has reported (TaskReport.offset_keys); none of a run that may not write any more."""

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets the data of all other tasks, above all their resolved secrets."""


class Application(Protocol):
    """One Spark application as a process tree (launcher.SparkApplication)."""

    @property
    def last_words(self) -> str:
        """The last line of its log that is no stack frame; empty if there was none."""

    async def start(self, url: str, token: str) -> None:
        """Starts it; OSError if that fails."""

    async def exited(self) -> int:
        """Waits for its end and the end of all its processes; returns the exit code."""

    async def end(self, patience_s: float) -> None:
        """Asks it to end, waits, kills the rest. When this returns, none of its processes is alive."""

    def kill_task(self, pid: int) -> bool:
        """Kills one task's process if it belongs to the tree; returns whether it was there."""

    def signal_of(self, pid: int) -> int | None:
        """The signal that ended a task's process of the tree; None if it lives, or ended otherwise."""

    def owns(self, pid: int) -> bool:
        """Whether a living process with this id belongs to the tree."""


@dataclass(frozen=True, slots=True)
class WantedTask:
    """A task that should run, with its raw config from the config topic. `read`: the partitions in it, if they are known."""

    config: Mapping[str, str] = field(repr=False)
    read: Partitions | None = field(default=None, repr=False, compare=False)

    @property
    def identity(self) -> dict[str, str]:
        """The config without the partitions: if it changes, the task needs a new run; for new partitions it does not."""
        return {name: value for name, value in self.config.items() if name != ASSIGNED_PARTITIONS}

    @property
    def partitions(self) -> Partitions:
        """The assigned partitions as (topic, partition)."""
        # Ten thousand take the loop 10 ms, and whatever changes in the config topic asks for them.
        if self.read is not None:
            return self.read
        return frozenset(stored_partitions(self.config.get(ASSIGNED_PARTITIONS, "")))


class NewApplication(Protocol):
    """Makes a Spark application, which is started later."""

    def __call__(self, spark: Mapping[str, str], *, statements: bool) -> Application:
        """`spark`: the worker's properties. `statements`: whether it reads and applies the statements of connectors."""
