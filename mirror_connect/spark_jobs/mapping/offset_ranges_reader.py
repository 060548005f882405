"""Reads the newest segment of each partition, which earlier tasks have left, from the topic of offset ranges.

All tasks of a process share what was read, in later epochs, too: each reading only continues the one before it, to the
topic's present end. Nothing is believed because it was read once. The broker is asked by topic id, offset and leader epoch.
If its log has no such place any more, the topic is read from its beginning.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mirror_connect.connectors.records.binary import INT32
from mirror_connect.connectors.rights import TARGET_USER, MissingRight, on_topic
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord
from mirror_connect.kafka_io.consumer.topic_reader import LogPlace, TopicReader
from mirror_connect.spark_jobs.mapping.shared_work import SharedWork
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

SLOT_BYTES: Final = INT32.size
# A broker shows the end of an empty topic only when the fetch's wait is over, and a task's first commit waits for it.
_WAITS_SHORTLY: Final = {"fetch.max.wait.ms": "20"}
# What no task of this process has asked for so long is forgotten: its connector is deleted, or has other settings.
_KEPT_S: Final = 2 * EPOCH_SECONDS

# Key prefix (without slot) → key and value of the newest segment.
Newest: TypeAlias = dict[bytes, tuple[bytes, bytes]]


@dataclass(slots=True)
class _Shared:
    """What this process knows of one topic: all before `place`, nothing without one. `used`: by time.monotonic()."""

    work: SharedWork[Newest | None] = field(default_factory=SharedWork)
    newest: Newest = field(default_factory=dict)
    place: LogPlace | None = None
    used: float = 0.0


# By topic and client properties: who logs in otherwise may not be allowed to read it.
_topics: Final[dict[tuple[str, frozenset[tuple[str, str]]], _Shared]] = {}


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
    now = time.monotonic()
    for key in [key for key, each in _topics.items() if each.used < now - _KEPT_S]:
        del _topics[key]
    shared = _topics.setdefault((topic, frozenset(properties.items())), _Shared())
    shared.used = now
    newest = await shared.work.result(lambda: _read_on(shared, properties, client_id, topic, log))
    return None if newest is None else {prefix: newest[prefix] for prefix in wanted if prefix in newest}


async def _read_on(
    shared: _Shared, properties: Mapping[str, str], client_id: str, topic: str, log: Callable[[str], None]
) -> Newest | None:
    """Reads what is new since the last reading; None if there is no such topic."""
    begin = shared.place
    # Also if this reading is cancelled: what it delivers is not complete before its end.
    shared.place = None
    if begin is None:
        # Another one: tasks may still look into what an earlier reading gave them.
        shared.newest = {}
    newest, complete = shared.newest, True

    def keep(record: ReadRecord) -> None:
        nonlocal complete
        if record.key is None:
            return
        prefix = record.key[:-SLOT_BYTES]
        if record.value is not None:
            newest[prefix] = (record.key, record.value)
        elif begin is not None and prefix in newest and newest[prefix][0] == record.key:
            # Somebody deleted the newest segment. Which one is the newest now, only the whole log shows.
            complete = False

    cluster = Cluster(properties, client_id)
    reader = TopicReader(cluster, {**properties, **_WAITS_SHORTLY}, "target", log)
    reading = asyncio.create_task(reader.run())
    ended: asyncio.Task[bool] | None = None
    try:
        if not await reader.tail(topic, keep, begin):
            return None
        ended = asyncio.create_task(reader.at_end(topic))
        await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
        if not await ended:
            raise MissingRight("not authorized to read it", on_topic("READ", topic), TARGET_USER)
        shared.place = reader.place(topic) if complete else None
    finally:
        tasks = [task for task in (reading, ended) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await cluster.close()
    if shared.place is None and begin is not None:
        return await _read_on(shared, properties, client_id, topic, log)
    return newest
