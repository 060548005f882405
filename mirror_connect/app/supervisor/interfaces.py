"""What the supervisor is asked for, and what it needs of the parts around it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mirror_connect.app.supervisor.run import Partitions
from mirror_connect.connectors.mirror.assignment import stored_partitions
from mirror_connect.connectors.task_protocol import PartitionPosition, TaskId, TaskSpec

# What is shown of a task that nothing keeps from running: a second or two, as a rule.
STARTING: Final = "It is being started on Spark."
ASSIGNED: Final = "task.assigned.partitions"


class TaskEvents(Protocol):
    """What the supervisor tells the herder."""

    def task_state(self, task: TaskId, state: str, trace: str | None) -> None:
        """RUNNING, FAILED or UNASSIGNED, each with the text to show, if there is one."""

    def task_ended(self, task: TaskId) -> None:
        """The task is no longer wanted and has returned: committed, or abandoned after the patience was over."""

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        """The task has written to these target topics."""


class SpecSource(Protocol):
    """Where a run's spec and positions come from."""

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        """A raw task config with the values of config providers. Errors as of `build`."""

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        """The spec of a raw task config, which names the partitions granted in `version`, and of what it resolves to.

        ClusterUnreachable is retried, any other exception fails the task. Its texts may show resolved values.
        """

    async def positions(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[PartitionPosition]:
        """The positions, read to the end of the offsets topic after this call."""

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets what it remembers of tasks that are not among these; resolved secrets above all."""


class Application(Protocol):
    """One Spark application as a process tree (launcher.SparkApplication)."""

    @property
    def last_words(self) -> str:
        """The last line of its log that is no stack frame; empty if there was none."""

    async def start(self, url: str, token: str) -> None:
        """Starts it; OSError if that is impossible."""

    async def exited(self) -> int:
        """Waits for its end, and for that of all its processes; returns the exit code."""

    async def end(self, patience_s: float) -> None:
        """Asks it to end, waits, kills what is left. When this returns, none of it is alive."""

    def kill_task(self, pid: int) -> bool:
        """Kills one task's process if it belongs to the tree; returns whether it was there."""

    def owns(self, pid: int) -> bool:
        """Whether a living process with this id belongs to the tree."""


@dataclass(frozen=True, slots=True)
class WantedTask:
    """A task that should run: its raw config as the config topic has it."""

    config: Mapping[str, str] = field(repr=False)

    @property
    def identity(self) -> dict[str, str]:
        """All but the partitions: a change of it needs a new run, a change of partitions does not."""
        return {name: value for name, value in self.config.items() if name != ASSIGNED}

    @property
    def partitions(self) -> Partitions:
        """The assigned partitions as (topic, partition)."""
        return frozenset(stored_partitions(self.config.get(ASSIGNED, "")))
