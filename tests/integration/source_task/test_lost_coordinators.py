"""The broker that coordinates a task's transactions is killed under load, again and again."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from tests.fakes.source_spec import OFFSETS
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, fresh_topic, produce, read, running, spec_for
from tests.integration.source_task.copied_topics import lines
from tests.integration.source_task.test_exactly_once import SMALL_BATCHES, exactly_once

pytestmark = pytest.mark.brokers

TRANSACTION = 1
KILLS = 3
RECORDS = 20_000


async def coordinator(cluster: LocalCluster, transactional_id: str) -> int:
    """The broker that coordinates its transactions now."""
    asking = Cluster(cluster.client_properties(), "coordinator?")
    try:
        async with asyncio.timeout(180):
            await asking.connect()
            while True:
                try:
                    found = await asking.any_node(FindCoordinator(transactional_id, TRANSACTION))
                except (ClusterUnreachable, ConnectionLost):
                    found = None
                if found is not None and found.error == 0:
                    return found.node_id
                await asyncio.sleep(0.1)
    finally:
        await asking.close()


@pytest.mark.long
@pytest.mark.soak
async def test_coordinators_that_die_under_load_cost_no_record_and_repeat_none(
    source: LocalCluster, dice: Random
) -> None:
    # What was acknowledged survives each of the kills.
    properties = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}
    with LocalCluster("three", brokers=3, properties=properties, heap="256m") as target:
        target.create_topic(OFFSETS, OFFSETS_PARTITIONS, replication=3)
        topic = fresh_topic()
        source.create_topic(topic, 4)
        target.create_topic(f"A.{topic}", 4, replication=3)
        spec = exactly_once(spec_for(source, target, {topic: 4}), interval_ms=100)
        async with running(spec, target) as task:
            for _ in range(KILLS):
                producing = asyncio.create_task(
                    asyncio.to_thread(produce, source, topic, lines(RECORDS, 4), **SMALL_BATCHES)
                )
                commits = task.link.counters.get("commits", 0)
                await task.until(lambda before=commits: task.link.counters.get("commits", 0) > before)  # type: ignore[misc]
                await asyncio.sleep(dice.random() * 0.3)
                broker = target.brokers[await coordinator(target, spec.transactional_id) - 1]
                await asyncio.to_thread(broker.kill)
                await producing
                await task.copied(task.link.counters.get("records", 0) + 1)
                await asyncio.to_thread(broker.start)
                await asyncio.to_thread(target.wait_until_ready)
            await task.copied(KILLS * RECORDS, 120)
            await task.finish()
            assert task.link.committed
        assert read(target, f"A.{topic}", isolation="read_committed") == read(source, topic)
