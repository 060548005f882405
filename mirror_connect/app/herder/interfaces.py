"""What the herder needs of the parts around it; app/worker.py plugs the real ones in, tests plug in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mirror_connect.app.herder.last_heard import Silence
from mirror_connect.app.supervisor.interfaces import TaskEvents, WantedTask
from mirror_connect.app.worker_connectors.host import ConnectorPart, PartHost
from mirror_connect.connectors.task_protocol import TaskId


class Membership(Protocol):
    """The worker's place in its group. Its owner calls `Herder.standing_changed` whenever that changes."""

    @property
    def is_leader(self) -> bool:
        """Whether this worker runs everything and writes, for certain, now."""

    @property
    def leader_url(self) -> str | None:
        """The leader, this worker or another; None while there is none, or it is not known."""

    @property
    def generation(self) -> int:
        """The group's generation, for statuses."""

    @property
    def silence(self) -> Silence | None:
        """Since when and why there is no word from the group's cluster; None while the place in the group is certain."""


class Resolver(Protocol):
    """Config providers."""

    def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config with its references replaced. ConfigError names a reference that can't be read. May block."""

    def look(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The same of a config that is only judged: its secrets are not told to the log, which would hide them."""


class PartFactory(Protocol):
    """Makes the part of a connector that runs in the worker."""

    def __call__(self, name: str, raw: Mapping[str, str], resolved: Mapping[str, str], host: PartHost) -> ConnectorPart:
        """Not started yet. Task configs are made from `raw`, so that secrets stay references in the config topic."""


class Supervisor(Protocol):
    """The running Spark tasks."""

    def listen(self, events: TaskEvents) -> None:
        """Names who is told of states."""

    def want(self, tasks: Mapping[TaskId, WantedTask]) -> None:
        """Makes these the tasks that run."""

    def retire(self) -> None:
        """Ends what runs, because another worker may lead by now. None of it writes any more."""

    def restart(self, task: TaskId) -> None:
        """Runs a task anew."""
