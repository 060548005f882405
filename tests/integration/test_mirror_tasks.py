"""The heartbeat and the checkpoint task between two real clusters, read back by librdkafka and by Kafka's own formats."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local import LocalCluster, start_all
from deploy.local.kafka_tools import run_tool
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.translation.offset_runs import RunRecorder
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups, GroupKind, Position
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.spark_jobs.tasks.mirror_checkpoint import run_checkpoint_task
from mirror_connect.spark_jobs.tasks.mirror_heartbeat import run_heartbeat_task
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, OFFSETS_TOPIC, fresh_topic, messages, produce, running
from tests.paths import TESTS
from tests.waiting import wait_for_state

pytestmark = pytest.mark.brokers
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
CHECKPOINTS = "A.checkpoints.internal"
SYNCS = "mm2-offset-syncs.B.internal"
RUNS = "mm2-offset-runs.A.internal"
COMPACT = {"cleanup.policy": "compact"}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    source, target = LocalCluster("source"), LocalCluster("target")
    start_all(source, target)
    target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, COMPACT)
    for cluster, topic in ((target, "heartbeats"), (target, CHECKPOINTS), (target, RUNS), (source, SYNCS)):
        cluster.create_topic(topic, 1, COMPACT)
    yield source, target
    source.close()
    target.close()


@pytest.fixture
def source(clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    return clusters[0]


@pytest.fixture
def target(clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    return clusters[1]


def spec(source: LocalCluster, target: LocalCluster, kind: str, *groups: str, **config: str) -> TaskSpec:
    name = fresh_topic(kind.lower())
    given = {key.replace("__", "."): value for key, value in config.items()}
    return TaskSpec(
        run_id=uuid.uuid4().hex,
        connector=name,
        task=0,
        connector_class=f"{MIRROR}{kind}Connector",
        config={
            "name": name,
            "connector.class": f"{MIRROR}{kind}Connector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            **given,
        },
        source=source.client_properties(),
        target=target.client_properties(),
        source_alias="A",
        target_alias="B",
        assigned=(),
        assignment_version=1,
        transactional_id=f"connect-{name}-0",
        offsets_topic=OFFSETS_TOPIC,
        offsets_partitions=OFFSETS_PARTITIONS,
        commit_interval_ms=60_000,
        assigned_groups=groups,
        source_admin=source.client_properties(),
        target_admin=target.client_properties(),
        target_consumer=target.client_properties(),
    )


def a_pair(source: LocalCluster, target: LocalCluster, records: int = 0) -> str:
    """A topic of one partition on both sides."""
    topic = fresh_topic("orders")
    source.create_topic(topic, 1)
    target.create_topic(f"A.{topic}", 1)
    for cluster, name in ((source, topic), (target, f"A.{topic}")):
        produce(cluster, name, [{"value": b"%d" % number, "partition": 0} for number in range(records)])
    return topic


def mapped_by_syncs(source: LocalCluster, topic: str, *syncs: tuple[int, int]) -> None:
    written = [OffsetSync(topic, 0, *sync) for sync in syncs]
    produce(source, SYNCS, [{"key": each.key(), "value": each.value(), "partition": 0} for each in written])


def mapped_by_runs(target: LocalCluster, topic: str, *runs: tuple[int, int, int]) -> None:
    recorder = RunRecorder(topic, 0)
    recorder.resume(None, reading_from=0)
    for upstream, count, downstream in runs:
        recorder.acked(upstream, count, downstream)
    produce(target, RUNS, [{"key": key, "value": value, "partition": 0} for key, value in recorder.changed()])


def commit(cluster: LocalCluster, group: str, topic: str, offset: int, metadata: str = "") -> None:
    position = TopicPartition(topic, 0, offset, metadata) if metadata else TopicPartition(topic, 0, offset)
    asked = [ConsumerGroupTopicPartitions(group, [position])]
    admin = AdminClient(cluster.librdkafka())  # its answers come only while it lives

    def taken() -> bool:
        (future,) = admin.alter_consumer_group_offsets(asked).values()
        # What a coordinator that is still loading refuses is no error of the call.
        return not any(each.error for each in future.result(60).topic_partitions)

    wait_for_state(taken, "the group's coordinator takes a position")


def committed(cluster: LocalCluster, group: str, topic: str) -> int | None:
    asked = [ConsumerGroupTopicPartitions(group)]
    admin = AdminClient(cluster.librdkafka())
    (future,) = admin.list_consumer_group_offsets(asked).values()
    return next((each.offset for each in future.result(60).topic_partitions if each.topic == topic), None)


def checkpoints(target: LocalCluster, group: str) -> list[Checkpoint]:
    found = [Checkpoint.decode(message.key(), message.value()) for message in messages(target, CHECKPOINTS)]
    return [each for each in found if each.group == group]


def places(target: LocalCluster, connector: str) -> list[tuple[str, bytes | None]]:
    found = [(bytes(message.key() or b"").decode(), message.value()) for message in messages(target, OFFSETS_TOPIC)]
    return [each for each in found if json.loads(each[0])[0] == connector]


async def eventually(condition: Any, seconds: float = PATIENCE_S) -> Any:
    async with asyncio.timeout(seconds):
        while not (result := await asyncio.to_thread(condition)):
            await asyncio.sleep(0.05)
    return result


@contextlib.contextmanager
def member(cluster: LocalCluster, group: str, topic: str, **settings: Any) -> Iterator[Consumer]:
    """A living member of a group, with all partitions of a topic."""
    consumer = Consumer(
        {
            **cluster.librdkafka(),
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            **settings,
        }
    )
    try:
        consumer.subscribe([topic])

        def settled() -> bool:
            consumer.poll(0.2)
            return bool(consumer.assignment())

        wait_for_state(settled, "the group has settled", PATIENCE_S, 0)
        yield consumer
    finally:
        consumer.close()


# --- heartbeats ---------------------------------------------------------------------------------------------------------


async def test_heartbeats_are_written_at_each_interval_until_it_is_told_to_end(
    source: LocalCluster, target: LocalCluster
) -> None:
    async with running(spec(source, target, "Heartbeat"), None, run_heartbeat_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) >= 2)
        await task.finish()
    beats = [
        (Heartbeat.decode(m.key(), m.value()), m.partition(), m.timestamp()[1]) for m in messages(target, "heartbeats")
    ]
    assert beats == [(Heartbeat("A", "B", when), 0, when) for _, _, when in beats]
    assert len(beats) >= 2


async def test_a_heartbeat_task_keeps_its_place_in_connect_offsets_as_java_does(
    source: LocalCluster, target: LocalCluster
) -> None:
    of = spec(source, target, "Heartbeat")
    async with running(of, None, run_heartbeat_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) >= 1)
        await task.finish()
    assert (places(target, of.connector)[0], task.link.topics) == (
        (f'["{of.connector}",{{"sourceClusterAlias":"A","targetClusterAlias":"B"}}]', b'{"offset":0}'),
        {"heartbeats"},
    )


# --- checkpoints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("with_runs", "upstream", "downstream"),
    [
        pytest.param(True, 57, 157, id="to_the_very_record_by_runs"),
        pytest.param(False, 57, 101, id="to_one_past_the_sync_without_them"),
        pytest.param(False, 0, 100, id="to_the_synced_record_itself"),
    ],
)
async def test_a_position_in_the_middle_of_a_topic_is_translated(
    source: LocalCluster, target: LocalCluster, with_runs: bool, upstream: int, downstream: int
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 100))
    if with_runs:
        mapped_by_runs(target, topic, (0, 90, 100))
    commit(source, group, topic, upstream, "a note")
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    # librdkafka sends its terminating NUL along.
    assert checkpoints(target, group) == [Checkpoint(group, f"A.{topic}", 0, upstream, downstream, "a note\0")]


async def test_a_checkpoint_keeps_its_place_in_connect_offsets_as_java_does(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    commit(source, group, topic, 0)
    of = spec(source, target, "Checkpoint", group)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    key = f'["{of.connector}",{{"partition":0,"topic":"A.{topic}","group":"{group}"}}]'
    assert places(target, of.connector) == [(key, b'{"offset":0}')]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testNoCheckpointsIfNoRecordsAreMirrored")
async def test_a_topic_of_which_nothing_was_mirrored_has_no_checkpoint(
    source: LocalCluster, target: LocalCluster
) -> None:
    (topic, other), group = (a_pair(source, target) for _ in range(2)), fresh_topic("g")
    mapped_by_syncs(source, other, (0, 0))
    for each in (topic, other):
        commit(source, group, each, 5)
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    assert [each.topic for each in checkpoints(target, group)] == [f"A.{other}"]


async def test_without_a_topic_of_offset_syncs_the_status_says_so_until_there_is_one(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group, alias = a_pair(source, target), fresh_topic("g"), fresh_topic("B")
    commit(source, group, topic, 5)
    syncs = f"mm2-offset-syncs.{alias}.internal"
    # Other tests' topics have runs.
    config = {"topics": topic, "emit__checkpoints__interval__seconds": "1"}
    of = replace(spec(source, target, "Checkpoint", group, **config), target_alias=alias)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.standing))
        (line,) = task.link.standing
        assert line.startswith("Translating by offset syncs has to wait since 2")
        assert f"topic {syncs} doesn't exist on the source cluster: nothing can be translated before a " in line
        assert sum(syncs in notice for notice in task.link.notices) == 1
        await asyncio.to_thread(source.create_topic, syncs, 1, COMPACT)
        await task.until(lambda: task.link.standing == ())
        sync = OffsetSync(topic, 0, 5, 5)
        await asyncio.to_thread(produce, source, syncs, [{"key": sync.key(), "value": sync.value(), "partition": 0}])
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [5]


async def test_without_a_topic_of_offset_syncs_runs_translate_and_that_is_no_trouble(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group, alias = a_pair(source, target, records=50), fresh_topic("g"), fresh_topic("B")
    mapped_by_runs(target, topic, (0, 50, 0))
    commit(source, group, topic, 23)
    of = replace(spec(source, target, "Checkpoint", group, topics=topic), target_alias=alias)
    async with running(of, None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        assert task.link.standing == ()
        assert [line for line in task.link.notices if alias in line] == [
            f"Topic mm2-offset-syncs.{alias}.internal doesn't exist on the source cluster: positions are translated by runs "
            "alone, what no run covers is not"
        ]
        await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [23]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testRestartReplication")
async def test_after_a_restart_only_news_is_written(source: LocalCluster, target: LocalCluster) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0), (10, 10))
    commit(source, group, topic, 10)
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    other = fresh_topic("g")
    commit(source, other, topic, 10)
    async with running(spec(source, target, "Checkpoint", group, other), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    assert (len(checkpoints(target, group)), len(checkpoints(target, other))) == (1, 1)


async def test_a_sync_that_comes_while_the_task_runs_moves_the_checkpoint_on(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    commit(source, group, topic, 20)
    paced = {"emit__checkpoints__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, **paced), None, run_checkpoint_task) as task:
        await task.until(lambda: task.link.counters.get("records", 0) == 1)
        mapped_by_syncs(source, topic, (20, 20))
        await task.until(lambda: task.link.counters.get("records", 0) == 2)
        await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [1, 20]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testOffsetTranslationBehindReplicationFlow")
async def test_checkpoints_go_on_and_back_with_a_group_far_behind_what_is_mirrored(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    # All that a store of 64 syncs may have kept of 20,000 records that were mirrored in one go.
    mapped_by_syncs(source, topic, *((upstream, upstream) for upstream in range(0, 20_001, 100)))
    paced = {"emit__checkpoints__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, **paced), None, run_checkpoint_task) as task:
        for number, position in enumerate((200, 18_000, 2_000), start=1):
            await asyncio.to_thread(commit, source, group, topic, position)
            await task.until(lambda number=number: task.link.counters.get("records", 0) == number)  # type: ignore[misc]
        await task.finish()
    first, on, back = (each.downstream for each in checkpoints(target, group))
    assert (first <= 200, first < on <= 18_000, back < on, back <= 2_000) == (True, True, True, True)


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithAutoOffsetSync")
async def test_a_group_that_goes_on_on_the_target_reads_the_next_record(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target, records=50), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_runs(target, topic, (0, 50, 0))
    commit(source, group, topic, 23)
    synced = {"sync__group__offsets__enabled": "true", "sync__group__offsets__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, **synced), None, run_checkpoint_task):
        await eventually(lambda: committed(target, group, f"A.{topic}") is not None)
    consumer = Consumer({**target.librdkafka(), "group.id": group, "auto.offset.reset": "error"})
    consumer.subscribe([f"A.{topic}"])
    message = await asyncio.to_thread(consumer.poll, PATIENCE_S)
    consumer.close()
    assert message is not None
    assert message.value() == b"23"


@pytest.mark.kafka_test("IdentityReplicationIntegrationTest.testReplication")
async def test_under_the_identity_policy_a_group_goes_on_in_the_topic_of_the_same_name(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = fresh_topic("orders"), fresh_topic("g")
    for cluster, before in ((source, 0), (target, 10)):
        cluster.create_topic(topic, 1)
        produce(cluster, topic, [{"value": b"%d" % number, "partition": 0} for number in range(-before, 50)])
    mapped_by_runs(target, topic, (0, 50, 10))
    commit(source, group, topic, 23)
    config = {
        "replication__policy__class": f"{MIRROR[: MIRROR.rindex('.')]}.IdentityReplicationPolicy",
        "sync__group__offsets__enabled": "true",
        "sync__group__offsets__interval__seconds": "1",
    }
    async with running(spec(source, target, "Checkpoint", group, **config), None, run_checkpoint_task) as task:
        await eventually(lambda: committed(target, group, topic) == 33)
        await task.finish()
    assert checkpoints(target, group) == [Checkpoint(group, topic, 0, 23, 33)]


async def test_a_group_on_the_target_never_goes_back(source: LocalCluster, target: LocalCluster) -> None:
    topic, group, mark = a_pair(source, target, records=50), fresh_topic("g"), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_runs(target, topic, (0, 50, 0))
    for each in (group, mark):
        commit(source, each, topic, 23)
    commit(target, group, f"A.{topic}", 40)
    synced = {"sync__group__offsets__enabled": "true", "sync__group__offsets__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, mark, **synced), None, run_checkpoint_task):
        await eventually(lambda: committed(target, mark, f"A.{topic}") == 23)
    assert committed(target, group, f"A.{topic}") == 40


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_of_two_groups_the_active_one_is_left_alone_and_named_once(
    source: LocalCluster, target: LocalCluster, protocol: str
) -> None:
    topic, active, idle = a_pair(source, target, records=50), fresh_topic("g"), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_runs(target, topic, (0, 50, 0))
    for each in (active, idle):
        commit(source, each, topic, 23)
    synced = {"sync__group__offsets__enabled": "true", "sync__group__offsets__interval__seconds": "1"}
    with member(target, active, f"A.{topic}", **{"group.protocol": protocol}):
        async with running(
            spec(source, target, "Checkpoint", active, idle, **synced), None, run_checkpoint_task
        ) as task:
            await eventually(lambda: committed(target, idle, f"A.{topic}") == 23)
            await asyncio.sleep(2.5)
            assert committed(target, active, f"A.{topic}") is None
            assert [line for line in task.link.notices if active in line] == [
                f"Group {active} is active on the target: its positions there are its own, and are left alone until it "
                "is idle"
            ]


async def test_a_group_of_the_new_protocol_is_translated_while_it_reads(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target, records=50), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_runs(target, topic, (0, 50, 0))
    with member(source, group, topic, **{"group.protocol": "consumer"}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 17)], asynchronous=False)
        async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
            await task.until(lambda: bool(task.link.counters.get("records")))
            await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [17]


# --- Kafka's own readers --------------------------------------------------------------------------------------------------


@pytest.mark.kafka_test("MirrorClientTest.replicationHopsTest")
@pytest.mark.kafka_test("MirrorClientTest.upstreamClustersTest")
@pytest.mark.kafka_test("MirrorClientTest.checkpointsTopicsTest")
async def test_kafkas_own_client_reads_checkpoints_and_heartbeats(
    source: LocalCluster, target: LocalCluster, tmp_path: Path
) -> None:
    topic, group = a_pair(source, target), fresh_topic("g")
    # A link's heartbeats are emitted at its source and copied along with the rest.
    target.create_topic("A.heartbeats", 1)
    mapped_by_syncs(source, topic, (0, 100))
    mapped_by_runs(target, topic, (0, 90, 100))
    commit(source, group, topic, 57)
    async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
        await task.until(lambda: bool(task.link.counters.get("records")))
        await task.finish()
    told = await asyncio.to_thread(
        run_tool,
        str(TESTS / "java" / "ReadByMirrorClient.java"),
        ["{config}", "A", group],
        properties=target.client_properties(),
        directory=tmp_path,
    )
    assert told.splitlines() == [
        "upstream [A]",
        "hops 1",
        f"checkpoints [{CHECKPOINTS}]",
        f"offsets {{A.{topic}-0=157 }}",
    ]


# --- groups -------------------------------------------------------------------------------------------------------------


async def test_groups_are_listed_with_what_they_are_and_whether_they_are_active(source: LocalCluster) -> None:
    topic = fresh_topic()
    source.create_topic(topic, 1)
    idle, classic, new = (fresh_topic("g") for _ in range(3))
    commit(source, idle, topic, 1)
    with (
        member(source, classic, topic, **{"group.protocol": "classic"}),
        member(source, new, topic, **{"group.protocol": "consumer"}),
    ):
        cluster = Cluster(source.client_properties(), "test", "admin")
        listed = await ConsumerGroups(cluster, TARGET_USER).listed()
        await cluster.close()
    assert {group: (listed[group].kind, listed[group].active) for group in (idle, classic, new)} == {
        idle: (GroupKind.CONSUMER, False),
        classic: (GroupKind.CONSUMER, True),
        new: (GroupKind.CONSUMER, True),
    }


async def test_a_share_group_is_told_from_those_of_consumers(source: LocalCluster) -> None:
    topic, group = fresh_topic(), fresh_topic("share")
    source.create_topic(topic, 1)
    to = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}"]
    cluster = Cluster(source.client_properties(), "test", "admin")
    try:
        listed = await ConsumerGroups(cluster, TARGET_USER).listed()
        # It ends when nothing came for so long, whether it is a member by then or not.
        for timeout_ms in (3_000, 30_000):
            if group not in listed:
                arguments = [*to, "--topic", topic, "--group", group, "--timeout-ms", str(timeout_ms)]
                tool = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
                await asyncio.to_thread(source.run_tool, tool, arguments)
                listed = await ConsumerGroups(cluster, TARGET_USER).listed()
    finally:
        await cluster.close()
    assert listed[group].kind is GroupKind.SHARE


@pytest.mark.parametrize("metadata", ["", "a note", "méta-x"])
async def test_positions_written_are_read_with_their_notes(source: LocalCluster, metadata: str) -> None:
    topic, group = fresh_topic(), fresh_topic("g")
    source.create_topic(topic, 2)
    wanted: Mapping[tuple[str, int], Any] = {(topic, 0): (3, metadata), (topic, 1): (5, metadata)}
    cluster = Cluster(source.client_properties(), "test", "admin")
    await cluster.connect()
    groups = ConsumerGroups(cluster, TARGET_USER)
    answer = await groups.write(group, {key: Position(*each) for key, each in wanted.items()})
    read = await groups.read([group, "of-nobody"])
    await cluster.close()
    assert (answer, read.positions) == ({(topic, 0): 0, (topic, 1): 0}, {group: dict(wanted), "of-nobody": {}})
