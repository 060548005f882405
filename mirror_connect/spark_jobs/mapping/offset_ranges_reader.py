"""Reads the newest segment of each partition, which earlier tasks have left, from the topic of offset ranges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from mirror_connect.connectors.records.binary import INT32
from mirror_connect.connectors.rights import TARGET_USER, MissingRight, on_topic
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord
from mirror_connect.kafka_io.consumer.topic_reader import TopicReader

SLOT_BYTES: Final = INT32.size
# A broker shows the end of an empty topic only when the fetch's wait is over, and a task's first commit waits for it.
_WAITS_SHORTLY: Final = {"fetch.max.wait.ms": "20"}


async def read_newest(
    properties: Mapping[str, str],
    client_id: str,
    topic: str,
    wanted: Collection[bytes],
    log: Callable[[str], None],
) -> Mapping[bytes, tuple[bytes, bytes]] | None:
    """Reads the topic to its end. Returns key prefix (without slot) → key and value of the newest segment; None: no topic.

    `properties`: of a Java consumer of the target. ClusterUnreachable, NotAuthorized (also without the right to read the
    topic), ConfigError.
    """
    newest: dict[bytes, tuple[bytes, bytes]] = {}

    def keep(record: ReadRecord) -> None:
        if record.key is not None and record.value is not None and record.key[:-SLOT_BYTES] in wanted:
            newest[record.key[:-SLOT_BYTES]] = (record.key, record.value)

    cluster = Cluster(properties, client_id)
    reader = TopicReader(cluster, {**properties, **_WAITS_SHORTLY}, "target", log)
    reading = asyncio.create_task(reader.run())
    ended: asyncio.Task[bool] | None = None
    try:
        if not await reader.tail(topic, keep):
            return None
        ended = asyncio.create_task(reader.at_end(topic))
        await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        if not await ended:
            raise MissingRight("not authorized to read it", on_topic("READ", topic), TARGET_USER)
        return newest
    finally:
        tasks = [task for task in (reading, ended) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
