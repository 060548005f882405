"""A worker in memory: the real herder and REST interface over fake topics, connectors, supervisor and group."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx
import uvicorn
from starlette.types import ASGIApp

from mirror_connect.app.config.config_providers import Explained
from mirror_connect.app.herder.active_topics import TopicTracking
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.interfaces import (
    OUTSIDE,
    GroupAssignment,
    GroupWork,
    LeaderClient,
    Silence,
    WorkerClient,
    sole_assignment,
)
from mirror_connect.app.herder.log_levels import LogLevels
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.metrics.rebalances import RebalanceFigures
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.rest.application import Surface, create_application
from mirror_connect.app.rest.basic_auth import Authenticator
from mirror_connect.app.rest.http_servers import server_settings
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.partition_owners import PartitionOwners
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.supervisor.interfaces import TaskEvents, WantedTask
from mirror_connect.app.supervisor.other_workers import OtherWorker
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.topic_log import FakeTopic, FakeTopicLog

WORKER_ID = "worker-1:8083"
SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def source_config(**more: str) -> dict[str, str]:
    """A config that passes validation."""
    return {
        "connector.class": SOURCE,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
        "topics": "orders",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


@dataclass
class FakeMembership:
    is_leader: bool = True
    leader_url: str | None = "http://worker-1:8083/"
    generation: int = 1
    silence: Silence | None = None
    lease_s: float = 8.0
    work: GroupWork | None = None
    # What the group has assigned; None: all that is wanted to the leader, nothing to anybody else.
    assigned: GroupAssignment | None = None
    rejoins: int = 0
    rebalanced: RebalanceFigures | None = None

    @property
    def assignment(self) -> GroupAssignment:
        if self.assigned is not None:
            return self.assigned
        if self.is_leader:
            return sole_assignment(self.generation, self.leader_url, self.work)
        return GroupAssignment(self.generation, leader_url=self.leader_url) if self.leader_url else OUTSIDE

    def share(self, work: GroupWork) -> None:
        self.work = work

    @property
    def steady(self) -> bool:
        return True

    def rebalances(self) -> RebalanceFigures | None:
        return self.rebalanced

    def rejoin(self) -> None:
        self.rejoins += 1

    def runs_for(self) -> float:
        return self.lease_s if self.assignment is not OUTSIDE else 0.0

    def leads_for(self) -> float:
        return self.lease_s if self.is_leader else 0.0


class FakeResolver:
    """Knows `${file:/secrets:NAME}`; any other file can't be read."""

    def __init__(self) -> None:
        # Configs whose secrets are reported to the log.
        self.told: list[Mapping[str, str]] = []
        self.secrets = {"password": "hunter2-hunter2", "number": "not-a-number", "address": "hunter2:9092"}

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        self.told.append(config)
        return self.explained(config).values

    def explained(self, config: Mapping[str, str]) -> Explained:
        return Explained({name: self._one(value) for name, value in config.items()}, {})

    def _one(self, value: str) -> str:
        if not value.startswith("${file:"):
            return value
        path, _, key = value.removeprefix("${file:").removesuffix("}").partition(":")
        if path != "/secrets":
            raise ConfigError(path, None, f"Could not read properties from file {path}")
        return self.secrets[key]


@dataclass
class FakeConnectors:
    """Connectors that run at once, with as many tasks as `tasks` says (or tasks.max), or fail with a trace."""

    tasks: dict[str, int] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    running: dict[str, FakeConnector] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def __call__(self, raw: Mapping[str, str], resolved: Mapping[str, str], context: ConnectorContext) -> FakeConnector:
        return FakeConnector(self, context.name, raw, resolved, context)


@dataclass
class FakeConnector:
    connectors: FakeConnectors
    name: str
    raw: Mapping[str, str]
    resolved: Mapping[str, str]
    context: ConnectorContext

    def start(self) -> None:
        self.connectors.log.append(f"start {self.name}")
        self.connectors.running[self.name] = self
        asyncio.get_running_loop().call_soon(self._run)

    async def stop(self) -> None:
        self.connectors.log.append(f"stop {self.name}")
        if self.connectors.running.get(self.name) is self:
            del self.connectors.running[self.name]
        await asyncio.sleep(0)

    def task_configs(self) -> list[dict[str, str]]:
        count = self.connectors.tasks.get(self.name, int(self.raw.get("tasks.max", "1")))
        return [{**self.raw, "task.index": str(number)} for number in range(count)]

    def _run(self) -> None:
        if self.name in self.connectors.silent:
            return
        if (trace := self.connectors.failing.get(self.name)) is not None:
            self.context.raise_error(trace)
            return
        self.context.started()
        self.context.request_task_reconfiguration(self.task_configs())


class FakeSupervisor:
    """Tasks that run as soon as they are wanted; those in `failing` fail instead, those in `silent` say nothing."""

    def __init__(self) -> None:
        self.wanted: dict[TaskId, WantedTask] = {}
        # How far the config topic was read by then.
        self.read = float("inf")
        self.failing: dict[TaskId, str] = {}
        self.silent: set[TaskId] = set()
        self.restarted: list[TaskId] = []
        self.retired = False
        self.others: tuple[OtherWorker, ...] = ()
        self.elsewhere: dict[str, str] = {}
        self.readiness = Readiness.READY
        self.absence: str | None = None
        self.on_executors: list[TaskPlace] = []
        self.ages_of_lookups: dict[str, dict[str, float]] = {}
        self.events: TaskEvents | None = None
        self._holding = False

    def listen(self, events: TaskEvents) -> None:
        self.events = events

    def share(self, changed: Callable[[], None], steady: Callable[[], bool]) -> None: ...

    def group_changed(self, others: Iterable[OtherWorker], believed: Mapping[str, int], offset: int) -> None:
        self.others = tuple(others)

    def claimed_tasks(self) -> frozenset[TaskId]:
        return frozenset(self.wanted)

    def confirmed(self) -> Mapping[str, int]:
        return {}

    def lookup_ages(self, connector: str) -> Mapping[str, float]:
        return self.ages_of_lookups.get(connector, {})

    def places(self) -> Sequence[TaskPlace]:
        return self.on_executors

    def holds_elsewhere(self, connector: str) -> str:
        return self.elsewhere.get(connector, "")

    def want(
        self,
        tasks: Mapping[TaskId, WantedTask],
        owners: Mapping[str, PartitionOwners] | None = None,
        read: float = float("inf"),
    ) -> None:
        self.read = read
        before, self.wanted = self.wanted, dict(tasks)
        for task in before.keys() - self.wanted.keys():
            self._soon(self._ended, task)
        for task, wanted in self.wanted.items():
            if before.get(task) != wanted:
                self._soon(self._run, task)

    def retire(self) -> None:
        self.retired = True
        self.want({})

    def restart(self, task: TaskId) -> None:
        self.restarted.append(task)
        self._soon(self._run, task)

    def hold_ends(self) -> TaskEvents:
        """From now on the test tells when a task has ended, to what is returned."""
        assert self.events is not None
        self._holding = True
        return self.events

    def wrote(self, task: TaskId, topics: Sequence[str]) -> None:
        assert self.events is not None
        self.events.topics_written(task, topics)

    def _soon(self, step: Callable[[TaskId], None], task: TaskId) -> None:
        asyncio.get_running_loop().call_later(0.005, step, task)

    def _run(self, task: TaskId) -> None:
        assert self.events is not None
        if task in self.wanted and task not in self.silent:
            trace = self.failing.get(task)
            self.events.task_state(task, "FAILED" if trace else "RUNNING", trace)

    def _ended(self, task: TaskId) -> None:
        assert self.events is not None
        if task not in self.wanted and not self._holding:
            self.events.task_ended(task)


class FakeWorker:
    """A worker over two fake topics; several on the same topics see each other's records."""

    def __init__(
        self,
        configs: FakeTopic | None = None,
        statuses: FakeTopic | None = None,
        *,
        membership: FakeMembership | None = None,
        tracking: TopicTracking | None = None,
        log_levels: LogLevels | None = None,
        metrics: WorkerMetrics | None = None,
        worker_id: str = WORKER_ID,
        worker_client: WorkerClient | None = None,
        rules: ConfigRules | None = None,
        leader: LeaderClient | None = None,
        link: WorkersLink | None = None,
    ) -> None:
        self.worker_id = worker_id
        self.metrics = metrics or WorkerMetrics()
        # The tasks of each connector that were fenced, and the transactions in the offset topic.
        self.fenced: list[tuple[str, tuple[int, ...]]] = []
        self.transactions: list[str] = []
        self.config_topic, self.status_topic = configs or FakeTopic(), statuses or FakeTopic()
        self.link = link or WorkersLink()
        self.configs = ConfigStore(FakeTopicLog(self.config_topic), inter_worker=self.link.inter_worker)
        self.statuses = StatusStore(FakeTopicLog(self.status_topic))
        self.offset_topic = FakeTopic()
        self.offsets = OffsetStore(FakeTopicLog(self.offset_topic), in_transaction=self._in_transaction)
        # Of finding the store of a connector: what is raised instead, what it waits for, how often it was asked for.
        self.offsets_failure: Exception | None = None
        self.offsets_gate: asyncio.Event | None = None
        self.offsets_asked = 0
        self.membership = membership or FakeMembership()
        self.connectors, self.supervisor, self.resolver = FakeConnectors(), FakeSupervisor(), FakeResolver()
        self.herder = Herder(
            configs=self.configs,
            statuses=self.statuses,
            membership=self.membership,
            supervisor=self.supervisor,
            new_connector=self.connectors,
            resolver=self.resolver,
            offsets_of=self._offsets_of,
            worker_id=worker_id,
            worker_client=worker_client,
            leader=leader,
            topic_tracking=tracking or TopicTracking(),
            log_levels=log_levels,
            metrics=self.metrics,
            rules=rules,
            fence_tasks=self._fence,
            transactional_id=lambda task: f"group-{task}",
            link=self.link,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FakeWorker]:
        await self.configs.start()
        await self.statuses.start()
        await self.offsets.start()
        self.herder.start("cluster-id")
        try:
            yield self
        finally:
            await self.herder.stop_connectors()
            await self.herder.stop()
            await self.configs.stop()
            await self.statuses.stop()
            await self.offsets.stop()

    async def _fence(self, connector: str, resolved: Mapping[str, str], tasks: Collection[int]) -> None:
        self.fenced.append((connector, tuple(tasks)))

    async def _in_transaction(self, transactional_id: str, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.transactions.append(transactional_id)
        for key, value in entries:
            self.offset_topic.add(key, value)

    async def _offsets_of(self, resolved: Mapping[str, str]) -> OffsetStore:
        self.offsets_asked += 1
        if self.offsets_gate is not None:
            await self.offsets_gate.wait()
        if self.offsets_failure is not None:
            raise self.offsets_failure
        return self.offsets

    def written(self) -> list[str]:
        """What is in the config topic, without session keys: `key=value`, or `key` for a tombstone."""
        return [_shown(key, value) for key, value in self.config_topic.entries() if key != b"session-key"]

    def states(self, subject: str) -> list[str]:
        """The states of a connector or task in the order written; `gone` for a tombstone."""
        keys = {f"status-connector-{subject}".encode(), f"status-task-{subject}".encode()}
        return [
            "gone" if value is None else value.partition(b'"state":"')[2].partition(b'"')[0].decode()
            for key, value in self.status_topic.entries()
            if key in keys
        ]

    def trace(self, subject: str) -> str | None:
        """The trace of the newest status written of a connector or task."""
        keys = {f"status-connector-{subject}".encode(), f"status-task-{subject}".encode()}
        newest = [value for key, value in self.status_topic.entries() if key in keys and value is not None][-1]
        trace: str | None = json.loads(newest)["trace"]
        return trace

    async def state(self, name: str, wanted: str, tasks: Sequence[str] | None = None) -> None:
        """Waits for a connector's state, and its tasks' if given."""
        await eventually(lambda: self._is(name, wanted, tasks))

    def _is(self, name: str, wanted: str, tasks: Sequence[str] | None) -> bool:
        status = self.statuses.connector(name)
        found = [task.state for task in self.statuses.tasks(name).values()]
        return status is not None and status.state == wanted and (tasks is None or found == list(tasks))


async def eventually(holds: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Returns when it holds; fails the test if that takes too long."""
    async with asyncio.timeout(patience_s):
        while not holds():
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def serving(
    herder: Herder, authenticators: Sequence[Authenticator] = (), surface: Surface | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """The REST interface on a real socket, and a client of it."""
    async with served(create_application(herder, authenticators, surface or Surface())) as client:
        yield client


@contextlib.asynccontextmanager
async def served(
    application: ASGIApp, listener: socket.socket | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """An application on a real socket, and a client of it. `tls`: it speaks https."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    config = server_settings(application, tls)
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Without its main loop, which looks at its own end ten times a second only.
    await server.startup(sockets=[listener])
    try:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=30, verify=False) as client:
            yield client
    finally:
        # What its shutdown() does, which sleeps for a tenth of a second whatever there is to wait for.
        for each in (*server.servers, listener):
            each.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        await eventually(lambda: not server.server_state.connections and not server.server_state.tasks)
        await server.lifespan.shutdown()


def _shown(key: bytes | None, value: bytes | None) -> str:
    name = (key or b"").decode()
    return name if value is None else f"{name}={value.decode()}"
