"""What the herder needs from the rest of the worker: app/worker.py passes the real parts, tests pass fakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirror_connect.app.supervisor.interfaces import TaskEvents, WantedTask
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, WorkerConnector
from mirror_connect.connectors.clock import utc
from mirror_connect.connectors.task_protocol import TaskId


@dataclass(frozen=True, slots=True)
class Silence:
    """The worker's cluster does not answer. `since`: the last answer, in seconds since 1970; `why`: one line."""

    since: float
    why: str

    def __str__(self) -> str:
        return f"This worker has had no contact with its own cluster since {utc(self.since)}: {self.why}"


class Membership(Protocol):
    """The worker's place in its group. Its owner calls `Herder.membership_changed` whenever that changes."""

    @property
    def is_leader(self) -> bool:
        """Whether this worker runs everything and writes, for certain, now."""

    @property
    def leader_url(self) -> str | None:
        """The leader, this worker or another; None while there is no leader or it is unknown."""

    @property
    def generation(self) -> int:
        """The group's generation, for statuses."""

    @property
    def silence(self) -> Silence | None:
        """Since when and why the group's cluster does not answer; None while the group assignment is certain."""


class LeaderClient(Protocol):
    """Requests to the group's leader, for a worker that does not lead. They are signed with the session key."""

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """`POST /connectors/X/tasks`. Returns when the leader has written them; to repeat it does no harm.

        NotLeader: nobody leads now, or the leader has changed. WorkerUnreachable: it is unknown whether they are written.
        BadRequest: the connector is stopped. ConnectorNotFound. Forbidden: another worker runs the connector.
        """


class Resolver(Protocol):
    """Config providers."""

    def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config with its references replaced. ConfigError names a reference that can't be read. May block."""

    def preview(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The same for a config that is only validated: the log does not hide its secrets."""


class ConnectorFactory(Protocol):
    """Makes a connector that runs in the worker."""

    def __call__(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], context: ConnectorContext
    ) -> WorkerConnector:
        """A connector, not started yet. Task configs come from `raw`, so that secrets stay references in the topic."""


class Supervisor(Protocol):
    """The running Spark tasks."""

    def listen(self, events: TaskEvents) -> None:
        """Sets the receiver of task events."""

    def want(self, tasks: Mapping[TaskId, WantedTask]) -> None:
        """Makes these the tasks that run."""

    def retire(self) -> None:
        """Ends all tasks, because another worker may lead by now. None of them writes any more."""

    def restart(self, task: TaskId) -> None:
        """Starts a task again."""
