"""Groups that a checkpoint task moves on the target, and how brokers list them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.local import LocalCluster
from deploy.local.kafka_tools import run_tool
from mirror_connect.connectors.partitions import CommittedOffset
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups, GroupKind
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.spark_jobs.tasks.mirror_checkpoint import run_checkpoint_task
from tests.brokers import commit, committed
from tests.integration.mirror_rig import fresh_topic, produce, running
from tests.integration.mirror_tasks.mapped_groups import (
    CHECKPOINTS,
    MIRROR,
    PATIENCE_S,
    a_pair,
    checkpoints,
    eventually,
    mapped_by_ranges,
    mapped_by_syncs,
    member,
    spec,
)
from tests.paths import TESTS

pytestmark = pytest.mark.brokers


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithAutoOffsetSync")
async def test_a_group_that_goes_on_on_the_target_reads_the_next_record(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target, records=50), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_ranges(target, topic, (0, 50, 0))
    commit(source, group, topic, 23)
    synced = {"sync__group__offsets__enabled": "true", "sync__group__offsets__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, **synced), None, run_checkpoint_task):
        await eventually(lambda: committed(target, group, f"A.{topic}"))
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
    mapped_by_ranges(target, topic, (0, 50, 10))
    commit(source, group, topic, 23)
    config = {
        "replication__policy__class": f"{MIRROR[: MIRROR.rindex('.')]}.IdentityReplicationPolicy",
        "sync__group__offsets__enabled": "true",
        "sync__group__offsets__interval__seconds": "1",
    }
    async with running(spec(source, target, "Checkpoint", group, **config), None, run_checkpoint_task) as task:
        await eventually(lambda: committed(target, group, topic) == {0: 33})
        await task.finish()
    assert checkpoints(target, group) == [Checkpoint(group, topic, 0, 23, 33)]


async def test_a_group_on_the_target_never_goes_back(source: LocalCluster, target: LocalCluster) -> None:
    topic, group, mark = a_pair(source, target, records=50), fresh_topic("g"), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_ranges(target, topic, (0, 50, 0))
    for each in (group, mark):
        commit(source, each, topic, 23)
    commit(target, group, f"A.{topic}", 40)
    synced = {"sync__group__offsets__enabled": "true", "sync__group__offsets__interval__seconds": "1"}
    async with running(spec(source, target, "Checkpoint", group, mark, **synced), None, run_checkpoint_task):
        await eventually(lambda: committed(target, mark, f"A.{topic}") == {0: 23})
    assert committed(target, group, f"A.{topic}") == {0: 40}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_of_two_groups_the_active_one_is_left_alone_and_named_once(
    source: LocalCluster, target: LocalCluster, protocol: str
) -> None:
    topic, active, idle = a_pair(source, target, records=50), fresh_topic("g"), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_ranges(target, topic, (0, 50, 0))
    for each in (active, idle):
        commit(source, each, topic, 23)
    synced = {"sync__group__offsets__enabled": "true", "sync__group__offsets__interval__seconds": "1"}
    with member(target, active, f"A.{topic}", **{"group.protocol": protocol}):
        async with running(
            spec(source, target, "Checkpoint", active, idle, **synced), None, run_checkpoint_task
        ) as task:
            await eventually(lambda: committed(target, idle, f"A.{topic}") == {0: 23})
            await asyncio.sleep(2.5)
            assert committed(target, active, f"A.{topic}") == {}
            assert [line for line in task.link.log_lines if active in line] == [
                f"Group {active}: active on the target, left alone until idle"
            ]


async def test_a_group_of_the_new_protocol_is_translated_while_it_reads(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, group = a_pair(source, target, records=50), fresh_topic("g")
    mapped_by_syncs(source, topic, (0, 0))
    mapped_by_ranges(target, topic, (0, 50, 0))
    with member(source, group, topic, **{"group.protocol": "consumer"}) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 17)], asynchronous=False)
        async with running(spec(source, target, "Checkpoint", group), None, run_checkpoint_task) as task:
            await task.until(lambda: bool(task.link.counters.get("records")))
            await task.finish()
    assert [each.downstream for each in checkpoints(target, group)] == [17]


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
    mapped_by_ranges(target, topic, (0, 90, 100))
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
    answer = await groups.write(group, {key: CommittedOffset(*each) for key, each in wanted.items()})
    read = await groups.read([group, "of-nobody"])
    await cluster.close()
    assert (answer, read.committed) == ({(topic, 0): 0, (topic, 1): 0}, {group: dict(wanted), "of-nobody": {}})
