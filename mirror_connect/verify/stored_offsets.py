"""A link's source offsets from its offsets topic, for workers whose REST interface does not report them."""

from __future__ import annotations

import asyncio
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.source_offsets import parse_source_offset_key, parse_source_offset_value
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.verify.cluster_logs import ClusterLogs
from mirror_connect.verify.clusters import EARLIEST, LATEST
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Client, Positions
from mirror_connect.verify.rate import Rate

_ADMIN_S: Final = 30.0


async def stored_offsets(client: Client, topic: str, source_alias: str, connector: str | None) -> Positions:
    """The source offsets in `topic` of a connector; without one, the lowest of all connectors of `source_alias`.

    `client`: of the cluster with the topic. CannotCompareError if the topic doesn't exist or can't be read.
    """
    try:
        admin = ClusterAdmin(client.admin, "the target cluster", _ADMIN_S, user=TARGET_USER)
        partitions = await asyncio.to_thread(admin.topics)
    except AdminError as error:
        raise CannotCompareError(str(error)) from None
    if topic not in partitions:
        raise CannotCompareError(f"the target cluster has no topic {topic}: positions can't be read from it")
    cluster = ClusterLogs("target", client.consumer, committed=True, rate=Rate(None))
    latest: dict[bytes, bytes | None] = {}
    try:
        keys = [TopicPartition(topic, number) for number in range(partitions[topic])]
        first = await cluster.offsets(dict.fromkeys(keys, EARLIEST))
        last = await cluster.offsets(dict.fromkeys(keys, LATEST))
        for key in keys:
            log = cluster.log(key, first[key] or 0, last[key] or 0)
            while (piece := await log.read()) is not None:
                for at, reason in piece.damaged:
                    raise CannotCompareError(f"topic {topic} is damaged at offset {at}: {reason}")
                for _, _, (stored, value, _) in piece.records:
                    if stored is not None:
                        latest[stored] = value
            await log.close()
    finally:
        await cluster.close()
    found: dict[TopicPartition, int] = {}
    for stored, value in latest.items():
        position, offset = parse_source_offset_key(stored), parse_source_offset_value(value)
        if position is None or offset is None or position.cluster != source_alias:
            continue
        if connector not in (None, position.connector):
            continue
        key = TopicPartition(position.topic, position.partition)
        found[key] = min(offset, found.get(key, offset))
    return found
