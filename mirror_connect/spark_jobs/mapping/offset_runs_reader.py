"""Reads from the topic of runs what earlier tasks have left: of each partition the newest segment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from mirror_connect.connectors.records.binary_records import INT32
from mirror_connect.connectors.rights import TARGET_USER, MissingRight, on_topic
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord
from mirror_connect.kafka_io.consumer.topic_reader import TopicReader

SLOT_BYTES: Final = INT32.size


async def read_newest(
    properties: Mapping[str, str],
    client_id: str,
    topic: str,
    wanted: Collection[bytes],
    notice: Callable[[str], None],
) -> Mapping[bytes, tuple[bytes, bytes]] | None:
    """Key prefix (all but the slot) → key and value of the newest segment; None if there is no such topic.

    `properties`: those of a Java consumer of the target. ClusterUnreachable, NotAuthorized (also without the right to read
    it), ConfigError.
    """
    newest: dict[bytes, tuple[bytes, bytes]] = {}

    def keep(record: ReadRecord) -> None:
        if record.key is not None and record.value is not None and record.key[:-SLOT_BYTES] in wanted:
            newest[record.key[:-SLOT_BYTES]] = (record.key, record.value)

    cluster = Cluster(properties, client_id)
    reader = TopicReader(cluster, properties, "target", notice)
    reading = asyncio.create_task(reader.run())
    ended: asyncio.Task[bool] | None = None
    try:
        if not await reader.follow(topic, keep):
            return None
        ended = asyncio.create_task(reader.at_end(topic))
        await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        if not await ended:
            raise MissingRight("it may not be read", on_topic("READ", topic), TARGET_USER)
        return newest
    finally:
        tasks = [task for task in (reading, ended) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
