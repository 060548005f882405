"""The connector of a source connector against real brokers: topics, growth, filters, refusals, and where data goes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, cast

import pytest

from deploy.local import Listener, LocalCluster, free_port
from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, WorkerConnector
from mirror_connect.app.worker_connectors.mirror_source import ConnectorConfig, MirrorSourceConnector
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.verified_records import VerifiedRecords
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_admin import grow_topics
from tests.fakes.config_topic import no_others
from tests.fakes.connector_context import no_offsets
from tests.waiting import state_reached

pytestmark = pytest.mark.brokers

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
Started = Callable[..., "Host"]


class Host:
    """What the herder would hear."""

    def __init__(self) -> None:
        self.running = False
        self.failure: str | None = None
        self.trouble: str | None = None
        self.tasks: list[str] | None = None

    def connector_started(self, name: str) -> None:
        self.running = True

    def connector_failed(self, name: str, trace: str) -> None:
        self.failure = trace

    def connector_problem(self, name: str, line: str | None) -> None:
        self.trouble = line

    def connector_problems(self, name: str, problems: Sequence[Problem], secrets: Collection[str]) -> None: ...
    def connector_verified(self, name: str, verified: VerifiedRecords | None) -> None: ...

    def task_configs_changed(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        self.tasks = [task["task.assigned.partitions"] for task in task_configs]

    async def until(self, condition: Callable[[Host], Any], seconds: float = 180) -> None:
        await state_reached(lambda: condition(self), "what the connector's connector was to tell", seconds, 0.02)


class Worker:
    """The properties of a worker on one cluster."""

    offset_topic = "connect-offsets"

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def client(self, kind: str) -> dict[str, str]:
        return {**self.cluster.client_properties(), "from": "worker"}

    def own_client(self) -> dict[str, str]:
        return self.cluster.client_properties()

    def internal_topics(self, *, own_cluster: bool) -> frozenset[str]:
        return frozenset(
            {"connect-configs", "connect-offsets", "connect-status"} if own_cluster else {"connect-offsets"}
        )


def chooser(cluster: LocalCluster) -> TargetChooser:
    return TargetChooser(cast("WorkerConfig", Worker(cluster)))


@pytest.fixture
async def start(source_cluster: LocalCluster, target_cluster: LocalCluster) -> AsyncIterator[Started]:
    connectors: list[WorkerConnector] = []

    def started(alias: str, topics: str, **more: str) -> Host:
        config = {
            "name": "c",
            "connector.class": CLASS,
            "source.cluster.alias": alias,
            "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
            "topics": topics,
            "replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        host = Host()
        settings = connector_definition(CLASS).settings(config)
        connector = MirrorSourceConnector(
            ConnectorConfig(config, settings, []),
            chooser(target_cluster),
            ConnectorContext("c", host),
            no_offsets,
            no_others(),
        )
        connectors.append(connector)
        connector.start()
        return host

    yield started
    for connector in connectors:
        await connector.stop()


@pytest.fixture
def source(source_cluster: LocalCluster) -> ClusterAdmin:
    return ClusterAdmin(source_cluster.client_properties(), "source cluster")


@pytest.fixture
def target(target_cluster: LocalCluster) -> ClusterAdmin:
    return ClusterAdmin(target_cluster.client_properties(), "target cluster")


async def told(admin: ClusterAdmin, topic: str, partitions: int) -> None:
    """Waits until the broker tells of them: the controller is ahead of it."""
    await state_reached(lambda: admin.topics().get(topic) == partitions, f"{topic} has {partitions} partitions")


async def test_a_remote_topic_is_created_with_its_sources_partitions(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("part")
    source.create_topic(topic, 3, 1)
    host = start("A", topic)
    await host.until(lambda host: host.tasks)
    assert host.tasks == [f"{topic}-0,{topic}-1,{topic}-2"]
    await told(target, f"A.{topic}", 3)


async def test_a_source_topic_that_grows_takes_its_remote_topic_along(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("part")
    source.create_topic(topic, 1, 1)
    host = start("A", topic)
    await host.until(lambda host: host.tasks)
    assert host.tasks == [f"{topic}-0"]
    assert not grow_topics(source, {topic: 2})
    await host.until(lambda host: host.tasks != [f"{topic}-0"])
    assert host.tasks == [f"{topic}-0,{topic}-1"]
    await told(target, f"A.{topic}", 2)


@pytest.mark.kafka_test("DedicatedMirrorIntegrationTest.testClusterWithEmitOffsetDisabled")
@pytest.mark.kafka_test(
    "MirrorConnectorsIntegrationBaseTest.testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic"
)
@pytest.mark.parametrize("emitted", [True, False])
async def test_topics_of_offset_syncs_and_runs_are_made_unless_they_are_switched_off(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str], emitted: bool
) -> None:
    topic, alias, other = topic_name("part"), topic_name("from"), topic_name("to")
    source.create_topic(topic, 1, 1)
    host = start(alias, topic, target__cluster__alias=other, **{"emit.offset-syncs.enabled": str(emitted).lower()})
    await host.until(lambda host: host.tasks)
    assert host.tasks == [f"{topic}-0"]
    syncs, runs = f"mm2-offset-syncs.{other}.internal", f"mm2-offset-runs.{alias}.internal"
    await state_reached(
        lambda: (syncs in source.topics(), runs in target.topics()) == (emitted, emitted), "the topics of mappings"
    )


async def test_filters_choose_among_the_topics_there_are(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("filtered")
    for name in (f"{topic}.in", f"{topic}.out", f"{topic}.internal", f"B.{topic}.in"):
        source.create_topic(name, 1, 1)
    host = start("A", f"(B\\.)?{topic}\\..*", topics__exclude=".*\\.out,.*\\.internal", target__cluster__alias="B")
    await host.until(lambda host: host.tasks)
    # What came from B is never sent back to it.
    assert host.tasks == [f"{topic}.in-0"]
    await told(target, f"A.{topic}.in", 1)
    assert {name for name in target.topics() if topic in name} == {f"A.{topic}.in"}


async def test_a_replication_factor_that_is_too_large_is_told_and_existing_topics_go_on(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    there, missing = topic_name("there"), topic_name("missing")
    for topic in (there, missing):
        source.create_topic(topic, 1, 1)
        await told(source, topic, 1)
    target.create_topic(f"A.{there}", 1, 1)
    await told(target, f"A.{there}", 1)
    host = start("A", f"{there},{missing}", replication__factor="3")
    await host.until(lambda host: host.tasks is not None and host.trouble is not None)
    assert host.tasks == [f"{there}-0"]
    assert host.trouble is not None
    assert f"topic A.{missing} was not created" in host.trouble


async def test_a_source_that_is_down_is_told_and_leaves_the_connector_running(start: Started) -> None:
    address = f"127.0.0.1:{free_port()}"
    host = start("A", "t", source__cluster__bootstrap__servers=address)
    await host.until(lambda host: host.trouble)
    assert (host.running, host.failure, host.tasks) == (True, None, None)
    assert (host.trouble or "").startswith(f"The source cluster A at {address} can't be reached since 2")


async def test_a_source_whose_name_has_no_address_fails_the_connector_with_kafkas_sentence(start: Started) -> None:
    host = start("A", "t", source__cluster__bootstrap__servers="no-such-host.invalid:9092")
    # It is asked for several times, and on a busy machine a name server may take ten seconds for each answer.
    await host.until(lambda host: host.failure, 200)
    assert "No resolvable bootstrap urls" in (host.failure or "")
    assert not host.running


async def test_a_wrong_password_fails_the_connector_with_one_line(start: Started, one_broker: LocalCluster) -> None:
    properties = one_broker.client_properties("worker", Listener.SASL_PLAINTEXT)
    wrong = {
        f"source.cluster.{name}".replace(".", "__"): value.replace("right-password", "wrong-password")
        for name, value in properties.items()
    }
    host = start("A", "t", **wrong)
    await host.until(lambda host: host.failure)
    assert len((host.failure or "").splitlines()) == 1
    assert "refused the credentials" in (host.failure or "")
    assert "wrong-password" not in (host.failure or "")


def test_the_workers_cluster_by_another_address_is_its_own(target_cluster: LocalCluster) -> None:
    address = target_cluster.bootstrap_servers.replace("127.0.0.1", "localhost")
    found = chooser(target_cluster).choose({"target.cluster.bootstrap.servers": address})
    assert (found.own, found.producer["from"]) == (True, "worker")


def test_another_cluster_is_not_the_workers_own(source_cluster: LocalCluster, target_cluster: LocalCluster) -> None:
    address = source_cluster.bootstrap_servers
    found = chooser(target_cluster).choose({"target.cluster.bootstrap.servers": address})
    assert (found.own, found.producer["bootstrap.servers"]) == (False, address)
