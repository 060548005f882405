"""Where a consumer group without a committed offset begins: the offsets that `auto.offset.reset` leads to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.log_offsets import LATEST, ListedOffset, ListOffsets

UNKNOWN: Final = -1


async def start_offsets(
    cluster: Cluster, partitions: Collection[TopicPartition], settings: FetchSettings
) -> dict[TopicPartition, int]:
    """Asks the leaders once. Partitions without a leader, or whose leader does not answer, are left out: ask again.

    Nothing for auto.offset.reset=none. ClusterUnreachable, NotAuthorized.
    """
    reset = settings.reset
    if reset.timestamp is None or not partitions:
        return {}
    await cluster.refresh({partition.topic for partition in partitions})
    timestamp = reset.timestamp if reset.ago_ms is None else int(time.time() * 1000) - reset.ago_ms
    found = await listed_offsets(cluster, partitions, timestamp, settings)
    # No record is so young: the end, as Java's consumer takes it.
    late = [partition for partition, offset in found.items() if offset == UNKNOWN]
    found |= await listed_offsets(cluster, late, LATEST, settings)
    return {partition: offset for partition, offset in found.items() if offset != UNKNOWN}


async def listed_offsets(
    cluster: Cluster, partitions: Collection[TopicPartition], timestamp: int, settings: FetchSettings
) -> dict[TopicPartition, int]:
    """The offsets at a timestamp, EARLIEST or LATEST, by the leaders in the last metadata. Others are left out."""
    by_leader: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    for partition in partitions:
        if (leader := cluster.leader(*partition)) is not None:
            by_leader.setdefault(leader.node_id, {})[partition] = (timestamp, leader.epoch)

    async def ask(node_id: int, wanted: dict[TopicPartition, tuple[int, int]]) -> list[ListedOffset]:
        try:
            return await cluster.send(node_id, ListOffsets(wanted, settings.read_committed))
        except (ConnectionLost, ClusterUnreachable):
            return []

    answers = await asyncio.gather(*(ask(node_id, wanted) for node_id, wanted in by_leader.items()))
    return {
        TopicPartition(each.topic, each.partition): each.offset
        for answer in answers
        for each in answer
        if each.error == ErrorCode.NONE
    }
