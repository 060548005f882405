"""Groups, mappings and specs for the tests of heartbeat and checkpoint tasks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.translation.offset_ranges import RangeRecorder
from tests.integration.mirror_rig import OFFSETS_PARTITIONS, OFFSETS_TOPIC, fresh_topic, messages, produce
from tests.waiting import wait_for_state

MIRROR = "org.apache.kafka.connect.mirror.Mirror"


CHECKPOINTS = "A.checkpoints.internal"


SYNCS = "mm2-offset-syncs.B.internal"


RANGES = "mm2-offset-runs.A.internal"


COMPACT = {"cleanup.policy": "compact"}


PATIENCE_S = 180.0


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


def mapped_by_ranges(target: LocalCluster, topic: str, *ranges: tuple[int, int, int]) -> None:
    recorder = RangeRecorder(topic, 0)
    recorder.resume(None, reading_from=0)
    for upstream, count, downstream in ranges:
        recorder.acked(upstream, count, downstream)
    produce(target, RANGES, [{"key": key, "value": value, "partition": 0} for key, value in recorder.changed()])


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
