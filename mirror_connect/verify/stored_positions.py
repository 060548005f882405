"""How far a link has come, read from its offsets topic: for workers whose REST interface does not tell."""

from __future__ import annotations

import asyncio
from typing import Final

from mirror_connect.connectors.records.positions import parse_position_key, parse_position_value
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.admin.admin import AdminError, ClusterAdmin
from mirror_connect.verify.cluster_logs import ClusterLogs
from mirror_connect.verify.link import Client, Positions
from mirror_connect.verify.place import EARLIEST, LATEST, CannotCompareError, Partition
from mirror_connect.verify.rate import Rate

_ADMIN_S: Final = 30.0


async def stored_positions(client: Client, topic: str, source_alias: str, connector: str | None) -> Positions:
    """The positions that `topic` holds for a connector, or for any that copies from `source_alias`: then the lowest.

    `client`: of the cluster that has the topic. CannotCompareError if it isn't there or can't be read.
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
        keys = [Partition(topic, number) for number in range(partitions[topic])]
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
    found: dict[tuple[str, int], int] = {}
    for stored, value in latest.items():
        position, offset = parse_position_key(stored), parse_position_value(value)
        if position is None or offset is None or position.cluster != source_alias:
            continue
        if connector not in (None, position.connector):
            continue
        place = position.topic, position.partition
        found[place] = min(offset, found.get(place, offset))
    return found
