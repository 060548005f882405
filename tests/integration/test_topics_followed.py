"""Configs and ACLs of remote topics on real brokers: at creation, followed later, and what keeps them from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from deploy.local import Listener, LocalCluster
from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.planning.plan import Plan
from mirror_connect.app.planning.planner import Planner
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.config_sync import ConfigSync
from mirror_connect.app.worker_connectors.mirror_source import ConnectorConfig, MirrorSourceConnector
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.mirror.topic_configs import ConfigChange, ConfigSource
from mirror_connect.kafka_io.admin.acl_admin import create_acls, delete_acls, topic_acls
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_config_admin import alter_topic_configs, describe_topic_configs
from mirror_connect.kafka_io.client.client_settings import librdkafka_config
from tests.fakes.config_topic import no_others, tasks_of, viewed
from tests.fakes.connector_context import FakeContext
from tests.fakes.topic_log import FakeTopicLog
from tests.waiting import wait_for, wait_for_state

pytestmark = pytest.mark.brokers

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
ADMIN, READER = "admin", "reader"
Started = Callable[..., FakeContext]


@pytest.fixture(scope="module")
def source_broker() -> Iterator[LocalCluster]:
    users = {name: f"{name}-secret" for name in (ADMIN, READER)}
    with LocalCluster(
        "given",
        listeners=[Listener.SASL_PLAINTEXT],
        users=users,
        authorizer=True,
        super_users=[ADMIN],
        # What the broker's own file says is copied to no topic.
        properties={"log.segment.bytes": "20000000"},
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target_broker() -> Iterator[LocalCluster]:
    with LocalCluster(
        "followed", listeners=[Listener.SASL_PLAINTEXT], users={ADMIN: "secret"}, authorizer=True, super_users=[ADMIN]
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def source(source_broker: LocalCluster) -> ClusterAdmin:
    return ClusterAdmin(source_broker.client_properties(ADMIN), "source cluster")


@pytest.fixture(scope="module")
def target(target_broker: LocalCluster) -> ClusterAdmin:
    return ClusterAdmin(target_broker.client_properties(ADMIN), "target cluster")


class Worker:
    offset_topic = "connect-offsets"

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def client(self, kind: str) -> dict[str, str]:
        return self.cluster.client_properties(ADMIN)

    def own_client(self) -> dict[str, str]:
        return self.cluster.client_properties(ADMIN)

    def internal_topics(self, *, own_cluster: bool) -> frozenset[str]:
        return frozenset(
            {"connect-configs", "connect-offsets", "connect-status"} if own_cluster else {"connect-offsets"}
        )


def config_of(source_broker: LocalCluster, topics: str, user: str = ADMIN, **more: str) -> dict[str, str]:
    client = source_broker.client_properties(user)
    return {
        "name": "c",
        "connector.class": CLASS,
        "source.cluster.alias": "A",
        "topics": topics,
        "replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.interval.seconds": "1",
        "emit.offset-syncs.enabled": "false",
        **{f"source.cluster.{name}": value for name, value in client.items()},
        **{name.replace("__", "."): value for name, value in more.items()},
    }


@pytest.fixture
async def start(source_broker: LocalCluster, target_broker: LocalCluster) -> AsyncIterator[Started]:
    parts: list[MirrorSourceConnector] = []
    store = OffsetStore(FakeTopicLog())
    await store.start()

    async def offsets_of(_: Mapping[str, str]) -> OffsetStore:
        return store

    def started(topics: str, user: str = ADMIN, **more: str) -> FakeContext:
        config = config_of(source_broker, topics, user, **more)
        host = FakeContext()
        settings = connector_definition(CLASS).settings(config)
        targets = TargetChooser(cast("WorkerConfig", Worker(target_broker)))
        part = MirrorSourceConnector(ConnectorConfig(config, settings, []), targets, host, offsets_of, no_others())
        parts.append(part)
        part.start()
        return host

    yield started
    for part in parts:
        await part.stop()
    await store.stop()


async def until(condition: Callable[[], Any], seconds: float = 180) -> None:
    # They are what is copied: one that is wrong is no state that comes late.
    await asyncio.to_thread(wait_for, condition, "the target's configs and ACLs are like that", seconds)


def own(admin: ClusterAdmin, topic: str) -> dict[str, str | None]:
    """What is set on the topic itself; nothing while it isn't there."""
    # It is not for a thread with an event loop, as a test's own is.
    with ThreadPoolExecutor(1) as threads:
        configs = threads.submit(describe_topic_configs, admin, [topic]).result(180).configs.get(topic, [])
    return {each.name: each.value for each in configs if each.source is ConfigSource.TOPIC}


def alter(admin: ClusterAdmin, topic: str, **values: str | None) -> None:
    steps = [ConfigChange(name.replace("_", "."), value) for name, value in values.items()]
    assert alter_topic_configs(admin, {topic: steps}) == {}


def test_configs_are_described_as_librdkafka_describes_them(
    source_broker: LocalCluster, source: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topics = [topic_name(kind) for kind in ("plain", "set")]
    for topic, configs in zip(topics, ({}, {"cleanup.policy": "compact", "retention.ms": "12345"}), strict=True):
        source.create_topic(topic, 1, 1, configs)
    wait_for_state(lambda: set(topics) <= source.topics().keys(), "the broker tells of both topics")
    client = AdminClient(librdkafka_config(source_broker.client_properties(ADMIN), "admin", None))
    for topic in topics:
        (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        theirs = {
            (each.name, each.value, each.source, each.is_read_only, each.is_sensitive)
            for each in future.result(180).values()
        }
        ours = describe_topic_configs(source, [topic]).configs[topic]
        assert {(each.name, each.value, each.source, each.read_only, each.sensitive) for each in ours} == theirs
        assert len(ours) == len(theirs) > 25


async def test_a_new_remote_topic_has_what_is_set_on_its_source_and_nothing_of_the_brokers_file(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("made")
    configs = {"cleanup.policy": "compact", "retention.ms": "12345", "min.insync.replicas": "1"}
    source.create_topic(topic, 1, 1, configs)
    host = start(topic, sync__topic__configs__enabled="false")
    await host.task_requests()
    # Brokers tell of a topic a moment after it was made.
    await until(lambda: f"A.{topic}" in target.topics())
    # min.insync.replicas is in the default config.properties.exclude.
    assert own(target, f"A.{topic}") == {"cleanup.policy": "compact", "retention.ms": "12345"}


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testSyncTopicConfigs")
async def test_a_change_and_a_removal_at_the_source_are_followed(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("followed")
    source.create_topic(topic, 1, 1, {"retention.ms": "12345", "flush.ms": "9"})
    host = start(topic)
    await host.task_requests()
    alter(source, topic, retention_ms="54321", flush_ms=None)
    await until(lambda: own(target, f"A.{topic}") == {"retention.ms": "54321"})


async def test_what_is_set_by_hand_on_the_target_is_taken_back_unless_it_is_excluded(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("hand")
    source.create_topic(topic, 1, 1)
    target.create_topic(f"A.{topic}", 1, 1, {"flush.ms": "9", "retention.ms": "7", "min.insync.replicas": "1"})
    start(topic, config__properties__exclude="retention\\..*,min.insync.replicas")
    await until(lambda: own(target, f"A.{topic}") == {"retention.ms": "7", "min.insync.replicas": "1"})


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplicateSourceDefault")
async def test_the_sources_defaults_are_set_where_they_are_asked_for(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("defaults")
    source.create_topic(topic, 1, 1)
    # 4.3.1's default of flush.ms, whatever is set on the target.
    target.create_topic(f"A.{topic}", 1, 1, {"flush.ms": "9"})
    start(topic, use__defaults__from="source")
    await until(lambda: own(target, f"A.{topic}").get("flush.ms") == "9223372036854775807")
    assert "segment.bytes" not in own(target, f"A.{topic}")


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplicateTargetDefault")
async def test_the_targets_defaults_hold_else(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("defaults")
    source.create_topic(topic, 1, 1)
    target.create_topic(f"A.{topic}", 1, 1, {"flush.ms": "9"})
    start(topic)
    await until(lambda: own(target, f"A.{topic}") == {})


async def test_nothing_is_sent_where_both_sides_agree(
    source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_name("agreed")
    for admin, name in ((source, topic), (target, f"A.{topic}")):
        admin.create_topic(name, 1, 1, {"flush.ms": "9"})
        await until(lambda admin=admin, name=name: own(admin, name) == {"flush.ms": "9"})  # type: ignore[misc]
    config = {"name": "c", "connector.class": CLASS, "source.cluster.alias": "A"}
    sent: list[Mapping[str, Any]] = []
    monkeypatch.setattr(
        "mirror_connect.app.worker_connectors.config_sync.alter_topic_configs",
        lambda admin, changes, **_: sent.append(changes) or {},
    )
    sync = ConfigSync(connector_definition(CLASS).settings(config))
    assert (await asyncio.to_thread(sync.sync, source, target, {topic: f"A.{topic}"}), sent) == ([], [])


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testMissingDescribeConfigsAcl")
async def test_a_topic_that_may_not_be_described_is_named_and_the_others_follow(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    good, bad = topic_name("good"), topic_name("bad")
    rights = [acl(topic, operation="DESCRIBE", principal=f"User:{READER}") for topic in (good, bad)]
    rights.append(acl(good, operation="DESCRIBE_CONFIGS", principal=f"User:{READER}"))
    await grant(source, rights)
    for topic in (good, bad):
        source.create_topic(topic, 1, 1, {"flush.ms": "9"})
        target.create_topic(f"A.{topic}", 1, 1)
    host = start(f"{good},{bad}", READER, sync__topic__acls__enabled="false")
    await until(lambda: own(target, f"A.{good}") == {"flush.ms": "9"})
    await host.until(lambda heard: any(bad in str(each[1]) for each in heard if each[0] == "problem"))


async def test_a_new_topic_that_may_not_be_described_waits_and_the_others_are_created(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    good, bad = topic_name("good"), topic_name("bad")
    rights = [acl(topic, operation="DESCRIBE", principal=f"User:{READER}") for topic in (good, bad)]
    rights.append(acl(good, operation="DESCRIBE_CONFIGS", principal=f"User:{READER}"))
    await grant(source, rights)
    for topic in (good, bad):
        source.create_topic(topic, 1, 1)
    host = start(f"{good},{bad}", READER, sync__topic__acls__enabled="false")
    await host.until(
        lambda heard: any(each[0] == "problem" for each in heard) and any(isinstance(each, list) for each in heard)
    )
    lines = [each[1] for each in host.heard if each[0] == "problem"]
    assert [task["task.assigned.partitions"] for task in host.tasks] == [f"{good}-0"]
    assert lines[0].startswith(f"topic {bad} is not copied: ")
    assert "grant DESCRIBE_CONFIGS" in lines[0]
    assert f"A.{bad}" not in target.topics()


def acl(
    name: str,
    *,
    pattern: str = "LITERAL",
    principal: str = "User:u",
    operation: str = "READ",
    permission: str = "ALLOW",
) -> AclBinding:
    return AclBinding("TOPIC", pattern, name, principal, "*", operation, permission)


async def grant(admin: ClusterAdmin, bindings: list[AclBinding]) -> None:
    """Creates ACLs, and waits until the broker goes by them: the controller answers before."""
    assert create_acls(admin, bindings) == {}
    await until(lambda: set(bindings) <= (topic_acls(admin) or set()))


def acls(admin: ClusterAdmin, topic: str) -> set[AclBinding]:
    return {each for each in topic_acls(admin) or () if each.name == topic}


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAclFiltering")
@pytest.mark.kafka_test("MirrorSourceConnectorTest.testAclTransformation")
async def test_acls_of_copied_topics_are_copied_by_mirrormakers_rules(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("acls")
    source.create_topic(topic, 1, 1)
    given = [
        acl(topic, principal="User:reader"),
        acl(topic, principal="User:all", operation="ALL"),
        acl(topic, principal="User:writer", operation="WRITE"),
        acl(topic, principal="User:denied", operation="WRITE", permission="DENY"),
        acl(topic, principal="User:prefix", pattern="PREFIXED"),
    ]
    assert create_acls(source, given) == {}
    remote = f"A.{topic}"
    wanted = {
        acl(remote, principal="User:reader"),
        acl(remote, principal="User:all"),
        acl(remote, principal="User:denied", operation="WRITE", permission="DENY"),
    }
    start(topic)
    await until(lambda: acls(target, remote) >= wanted)
    assert await asyncio.to_thread(acls, target, remote) == wanted


async def test_what_the_source_revokes_stays_by_default_and_goes_on_request(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    kept, revoked = topic_name("kept"), topic_name("revoked")
    for topic in (kept, revoked):
        source.create_topic(topic, 1, 1)
        assert create_acls(source, [acl(topic)]) == {}
    by_hand = acl(f"A.{revoked}", principal="User:hand")
    assert create_acls(target, [by_hand]) == {}
    start(kept)
    start(revoked, sync__topic__acls__remove__enabled="true")
    await until(lambda: acls(target, f"A.{kept}") and len(acls(target, f"A.{revoked}")) == 2)
    assert delete_acls(source, [acl(kept), acl(revoked)]) == {}
    await until(lambda: acls(target, f"A.{revoked}") == {by_hand})
    assert await asyncio.to_thread(acls, target, f"A.{kept}") == {acl(f"A.{kept}")}


async def test_prefixed_acls_are_copied_on_request(
    start: Started, source: ClusterAdmin, target: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("prefixed")
    source.create_topic(topic, 1, 1)
    assert create_acls(source, [acl(topic[:-1], pattern="PREFIXED")]) == {}
    start(topic, sync__topic__acls__prefixed__enabled="true")
    await until(lambda: acls(target, f"A.{topic[:-1]}") == {acl(f"A.{topic[:-1]}", pattern="PREFIXED")})


async def test_a_missing_right_to_acls_is_told_and_the_topics_are_copied(
    start: Started, source: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("noacls")
    source.create_topic(topic, 1, 1)
    rights = [acl(topic, operation=each, principal=f"User:{READER}") for each in ("DESCRIBE", "DESCRIBE_CONFIGS")]
    await grant(source, rights)
    host = start(topic, READER)
    await host.until(
        lambda heard: any(each[0] == "problem" for each in heard) and any(isinstance(each, list) for each in heard)
    )
    lines = [each[1] for each in host.heard if each[0] == "problem"]
    assert lines[0].startswith("topic ACLs are not synced: The source cluster A at ")
    assert "Cluster authorization failed" in lines[0]
    assert ("started" in host.heard, len(host.tasks)) == (True, 1)


def test_a_cluster_without_an_authorizer_has_no_acls_to_tell(one_broker: LocalCluster) -> None:
    assert topic_acls(ClusterAdmin(one_broker.client_properties(), "source cluster")) is None


def everything(admin: ClusterAdmin) -> tuple[dict[str, int], dict[str, dict[str, str | None]], set[AclBinding]]:
    """The topics, what is set on each of them, and the ACLs."""
    topics = admin.topics()
    return topics, {topic: own(admin, topic) for topic in topics}, topic_acls(admin) or set()


async def planned(
    target_broker: LocalCluster,
    config: Mapping[str, str],
    speed: float | None = None,
    configs: ConfigView | None = None,
) -> Plan:
    """The plan of a connector that has no source offsets yet. `configs`: with the other connectors; None: there are none."""
    store = OffsetStore(FakeTopicLog())
    await store.start()

    async def offsets_of(_: Mapping[str, str]) -> OffsetStore:
        return store

    targets = TargetChooser(cast("WorkerConfig", Worker(target_broker)))
    others = OtherCopies((configs or ConfigView()).snapshot, target_broker.bootstrap_servers)
    try:
        return await Planner(targets, offsets_of, "connect-offsets", others).plan(config, config, speed=speed)
    finally:
        await store.stop()


async def test_every_line_of_a_plan_comes_true_and_nothing_else(  # noqa: PLR0917 — both brokers and their admins
    start: Started,
    source_broker: LocalCluster,
    target_broker: LocalCluster,
    source: ClusterAdmin,
    target: ClusterAdmin,
    topic_name: Callable[[str], str],
) -> None:
    prefix = topic_name("planned")
    new, grown, equal, excluded, cycle = (f"{name}{prefix}" for name in ("new-", "grown-", "equal-", "not-", "B."))
    for topic, partitions in ((new, 3), (grown, 2), (equal, 1), (excluded, 1), (cycle, 1)):
        source.create_topic(topic, partitions, 1, {"retention.ms": "12345"} if topic == new else {})
    for topic in (grown, equal):
        target.create_topic(f"A.{topic}", 1, 1, {"flush.ms": "9"} if topic == grown else {})
    await grant(source, [acl(new), acl(new, principal="User:w", operation="WRITE"), acl(excluded)])
    producer = Producer(librdkafka_config(source_broker.client_properties(ADMIN), "producer", None))
    for number in range(200):
        producer.produce(new, bytes(1000), partition=number % 3)
    assert producer.flush(60) == 0
    await until(lambda: {new, grown, equal, excluded, cycle} <= source.topics().keys())
    await until(lambda: own(target, f"A.{grown}") == {"flush.ms": "9"})
    more = {
        "topics__exclude": "not-.*",
        "target__cluster__alias": "B",
        "tasks__max": "2",
        "emit__offset-syncs__enabled": "true",
        "replication__policy__internal__topic__separator__enabled": "false",
    }
    config = config_of(source_broker, f".*{prefix}", **more)
    before = [await asyncio.to_thread(everything, admin) for admin in (source, target)]

    plan = await planned(target_broker, config, speed=1e6)
    after = [await asyncio.to_thread(everything, admin) for admin in (source, target)]
    assert after == before
    assert {each.topic: (each.action, each.remote_partitions, each.partitions) for each in plan.topics} == {
        new: ("create", 0, 3),
        grown: ("grow", 1, 2),
        equal: ("keep", 1, 1),
    }
    assert {each.topic: each.reason for each in plan.excluded} == {excluded: "excluded", cycle: "cycle"}
    assert plan.refused == []
    (created,) = [each for each in plan.topics if each.topic == new]
    assert (created.replication_factor, created.configs, created.records) == (1, {"retention.ms": "12345"}, 200)
    logs = [source_broker.partition_directory(new, number) for number in range(3)]
    assert created.bytes == sum(log.stat().st_size for each in logs for log in each.glob("*.log"))
    amount = plan.amount
    assert amount is not None
    assert (amount.records, amount.bytes, amount.records_per_s) == (200, created.bytes, 0.0)
    assert amount.seconds == round((created.bytes or 0) / 1e6, 1)

    host = start(f".*{prefix}", **more)
    await host.task_requests()
    remote = {f"A.{new}": 3, f"A.{grown}": 2}
    made = {
        cluster: {each.topic: 1 for each in plan.internal_topics if each.cluster == cluster}
        for cluster in ("source", "target")
    }
    assert [each.action for each in plan.internal_topics] == ["create", "create"]
    await until(lambda: target.topics() == {**before[1][0], **remote, **made["target"]})
    await until(lambda: source.topics() == {**before[0][0], **made["source"]})
    changes = {(each.remote_topic, each.name): each.then for each in plan.topic_configs}
    assert changes == {(f"A.{grown}", "flush.ms"): None}
    await until(lambda: (own(target, f"A.{grown}"), own(target, f"A.{new}")) == ({}, created.configs))
    assert list(plan.acls.add) == [acl(f"A.{new}")]
    await until(lambda: topic_acls(target) == before[1][2] | set(plan.acls.add))
    assert (len(host.tasks), plan.tasks.then, plan.tasks.added) == (2, 2, 6)


async def test_a_plan_says_what_the_brokers_would_refuse(
    source_broker: LocalCluster,
    target_broker: LocalCluster,
    source: ClusterAdmin,
    target: ClusterAdmin,
    topic_name: Callable[[str], str],
) -> None:
    topic = topic_name("toomany")
    source.create_topic(topic, 1, 1)
    await until(lambda: topic in source.topics())
    before = await asyncio.to_thread(target.topics)
    config = config_of(source_broker, topic, replication__factor="7", **{"emit.offset-syncs.enabled": "true"})
    plan = await planned(target_broker, config)
    assert [each.action for each in plan.topics] == ["refused"]
    assert [each.subject for each in plan.refused] == [f"A.{topic}"]
    assert plan.refused[0].line.endswith(
        "; set replication.factor of the connector, 7, to the number of brokers or less"
    )
    assert await asyncio.to_thread(target.topics) == before


async def test_a_plan_names_the_connector_that_copies_the_same_topic(
    source_broker: LocalCluster, target_broker: LocalCluster, source: ClusterAdmin, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("shared")
    source.create_topic(topic, 1, 1)
    await until(lambda: topic in source.topics())
    config = config_of(source_broker, topic)
    configs = viewed(*tasks_of("older", config, f"{topic}-0"))
    plan = await planned(target_broker, config, configs=configs)
    assert len(plan.remarks) == 1
    assert plan.remarks[0].startswith(f"connector older copies topic {topic} into the same remote topic, too")
