"""Connectors as REST shows them, from this worker's copy of the topics: any worker can answer.

Without contact to its own cluster, this worker's lease ends: it has stopped its connectors and tasks, but cannot write
their status. Kafka Connect shows the last status meanwhile; here each status says since when there is no contact.
"""

from __future__ import annotations

from dataclasses import replace

from mirror_connect.app.errors import ConnectorNotFound, NoStatus
from mirror_connect.app.herder.interfaces import Membership, Silence
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.plugins import connector_type
from mirror_connect.app.herder.status_book import StatusBook
from mirror_connect.app.herder.views import Config, ConnectorInfo, ConnectorStatus, StateInfo
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import RUNNING, UNASSIGNED, Status, StatusStore
from mirror_connect.connectors.task_protocol import TaskId


class ConnectorReads:
    """See the module. `worker_id` is host:port of the advertised REST listener."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        book: StatusBook,
        leadership: Leadership,
        membership: Membership,
        worker_id: str,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._book = book
        self._leadership = leadership
        self._membership = membership
        self._worker_id = worker_id

    async def names(self) -> list[str]:
        """All connectors."""
        await self._leadership.until_ready()
        return list(self._configs.snapshot().connectors)

    async def info(self, name: str) -> ConnectorInfo:
        """One connector as configured."""
        snapshot = await self._containing(name)
        return connector_info(name, snapshot.connectors[name], snapshot)

    def has(self, name: str) -> bool:
        """Whether a connector of this name exists, as far as this worker has read."""
        return self._configs.snapshot().contains(name)

    async def config(self, name: str) -> Config:
        """One connector's config as stored."""
        return (await self._containing(name)).connectors[name]

    async def tasks(self, name: str) -> list[tuple[TaskId, Config]]:
        """The task configs in force."""
        snapshot = await self._containing(name)
        return [(TaskId(name, number), config) for number, config in enumerate(snapshot.tasks(name))]

    async def status(self, name: str) -> ConnectorStatus:
        """One connector with its tasks."""
        await self._leadership.until_ready()
        status = self.present_status(name)
        if status is None:
            raise NoStatus(name)
        return status

    def present_status(self, name: str) -> ConnectorStatus | None:
        """The same, as far as this worker has read; None if there is no status."""
        status = self._statuses.connector(name)
        if status is None:
            return None
        tasks = {
            number: self._state(self._book.shown(TaskId(name, number), task))
            for number, task in self._statuses.tasks(name).items()
        }
        kind = connector_type(self._configs.snapshot().connectors.get(name))
        return ConnectorStatus(name, self._state(status), tasks, kind)

    async def task_status(self, name: str, task: int) -> StateInfo:
        """One task."""
        await self._leadership.until_ready()
        status = self._statuses.task(TaskId(name, task))
        if status is None:
            raise NoStatus(name, task)
        return self._state(self._book.shown(TaskId(name, task), status))

    def _state(self, status: Status) -> StateInfo:
        silence = self._membership.silence
        if silence is not None:
            status = as_last_known(status, self._worker_id, silence)
        return StateInfo(status.state, status.worker_id, status.version, status.trace, status.since_ms)

    async def _containing(self, name: str) -> ConfigSnapshot:
        await self._leadership.until_ready()
        snapshot = self._configs.snapshot()
        if not snapshot.contains(name):
            raise ConnectorNotFound(name)
        return snapshot


def connector_info(name: str, config: Config, snapshot: ConfigSnapshot | None) -> ConnectorInfo:
    """A connector with its tasks in `snapshot`."""
    count = snapshot.task_count(name) if snapshot is not None and snapshot.contains(name) else 0
    return ConnectorInfo(name, config, tuple(TaskId(name, task) for task in range(count)), connector_type(config))


def as_last_known(status: Status, worker_id: str, silence: Silence) -> Status:
    """The last known state, and since when it is unchanged. Everything that this worker ran has stopped by now."""
    if status.worker_id == worker_id and status.state == RUNNING:
        trace = f"{silence}; stopped until the cluster answers again."
        return replace(status, state=UNASSIGNED, trace=trace, since_ms=None)
    line = f"{silence}; showing the last known status."
    return replace(status, trace=line if status.trace is None else f"{status.trace.rstrip()}\n{line}")
