"""A source connector in the worker, between two clusters in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from mirror_connect.app.storage.config_view import ConfigSnapshot, ConfigView
from mirror_connect.app.worker_connectors.mirror_source import ConnectorConfig, MirrorSourceConnector
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.mirror.assignment import Assignment
from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig
from mirror_connect.kafka_io.admin.topic_config_admin import Described
from tests.fakes.config_topic import tasks_of
from tests.fakes.connector_context import FakeContext, no_offsets
from tests.fakes.topic_requests import TopicRequests

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


REFUSED = "replication factor 2 is larger than 1 brokers"


class FakeCluster(TopicRequests):
    """The topics of a cluster. `failures`: raised by the next calls that list topics, one each, the last one for good."""

    def __init__(self, topics: Mapping[str, int], identity: str = "one") -> None:
        self.id = identity
        self.existing = dict(topics)
        self.not_told_yet: set[str] = set()
        self.looks = 0
        self.failures: list[Exception] = []
        self.refusals: dict[str, Exception] = {}
        self.unreadable: dict[str, str] = {}
        self.configs: dict[str, Mapping[str, str] | None] = {}

    def cluster_id(self) -> str:
        return self.id

    def topics(self) -> dict[str, int]:
        if self.failures:
            raise self.failures.pop(0)
        self.looks += 1
        return {topic: count for topic, count in self.existing.items() if topic not in self.not_told_yet}

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        del replication_factor
        if topic in self.refusals:
            raise self.refusals[topic]
        self.existing[topic] = partitions
        self.configs[topic] = configs

    def grow_topic(self, topic: str, total: int) -> None:
        self.create_topic(topic, total, 0)


class Targets:
    def choose(self, config: Mapping[str, str], timeout: float = 30.0) -> Target:
        return Target(
            True, {}, {"bootstrap.servers": "b:9092"}, reserved=frozenset({"connect-configs", "connect-status"})
        )


class Context(FakeContext):
    """Of task configs it keeps the partitions alone."""

    def task_configs_changed(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        self.heard.append([task["task.assigned.partitions"] for task in task_configs])


class GatedCopies(OtherCopies):
    """Other connectors' tasks are stored when `settles` is set."""

    def __init__(self, snapshot: Callable[[], ConfigSnapshot], settles: asyncio.Event) -> None:
        super().__init__(snapshot, "b:9092")
        self._settles = settles

    async def settled(self) -> None:
        await self._settles.wait()


class World:
    """`settled`: set, if tasks are stored as soon as they are assigned."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.settled.set()
        self.source, self.target = FakeCluster({"orders": 2, "other": 1}), FakeCluster({}, "another")
        self.host = Context()
        # The config topic, with other connectors.
        self.configs = ConfigView()
        self.connectors: list[MirrorSourceConnector] = []

    def admin(self, _: Mapping[str, str], what: str, __: float, **___: str) -> FakeCluster:
        return self.source if what.startswith("source cluster") else self.target

    def store(self, name: str, assigned: str) -> None:
        """Another connector of the same source, with a task."""
        config = {
            "connector.class": CLASS,
            "source.cluster.alias": "A",
            "source.cluster.bootstrap.servers": "a:9092",
        }
        for key, value in tasks_of(name, config, assigned):
            self.configs.apply(key, value)

    def start(self, previous: Assignment | None = None, **more: str) -> None:
        config = {
            "name": "c",
            "connector.class": CLASS,
            "source.cluster.alias": "A",
            "source.cluster.bootstrap.servers": "a:9092",
            "topics": "orders",
            "refresh.topics.interval.seconds": "1",
            "emit.offset-syncs.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        settings = connector_definition(CLASS).settings(config)
        targets: Any = Targets()
        others = GatedCopies(self.configs.snapshot, self.settled)
        connector = MirrorSourceConnector(
            ConnectorConfig(config, settings, previous or []), targets, self.host, no_offsets, others
        )
        self.connectors.append(connector)
        connector.start()

    async def until(self, condition: Callable[[list[Any]], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition(self.host.heard):
                await asyncio.sleep(0.005)


def described(admin: FakeCluster, topics: Collection[str]) -> Described:
    configs = {topic: [TopicConfig("flush.ms", "9", ConfigSource.TOPIC)] for topic in topics}
    lines = {topic: admin.unreadable[topic] for topic in topics if topic in admin.unreadable}
    return Described({topic: each for topic, each in configs.items() if topic not in lines}, lines)
