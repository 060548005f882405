"""The rows of the tables about a link: ranges, checkpoints, positions, and states of connectors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.records.checkpoints import Checkpoint, CheckpointKey
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.translation.offset_ranges import NO_ID, Segment
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord, read_records
from mirror_connect.kafka_io.protocol.log_offsets import LATEST
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.query.cluster_log import ClusterLog
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import STATUSES, QueryLink
from mirror_connect.query.record_scan import Witness, fetches
from mirror_connect.query.slices import Slice
from mirror_connect.query.tables import CHECKPOINTS, POSITIONS, RANGES, STATUS

Row = tuple[Any, ...]


def rows_of(link: QueryLink, table: str, witness: Witness | None) -> Iterator[Row]:
    """The rows of a table, in the order of its columns. QueryError."""
    if table in _STORED:
        return _STORED[table](link, witness)
    return _TOLD[table](link)


def offsets_path(connector: str) -> str:
    """Where a worker tells a connector's source offsets."""
    return f"/connectors/{quote(connector, safe='')}/offsets"


def _ranges(link: QueryLink, witness: Witness | None) -> Iterator[Row]:
    segments: dict[bytes | None, Segment] = {}
    for record in _records(link, link.ranges_topic, RANGES, witness):
        # A newer record of the key stands for another segment of the ring.
        segments.pop(record.key, None)
        try:
            segments[record.key] = Segment.decode(record.key, record.value)
        except UnreadableRecord:
            continue  # as all readers of this topic do
    for each in sorted(segments.values(), key=lambda one: (one.topic, one.partition, one.number)):
        ids = tuple(None if part == NO_ID else topic_id_text(part) for part in (each.source_id, each.target_id))
        for one in each.ranges:
            yield (each.topic, each.partition, *one[:3], *one[3:], each.number, *ids)


def _checkpoints(link: QueryLink, witness: Witness | None) -> Iterator[Row]:
    newest: dict[CheckpointKey, tuple[Checkpoint, int]] = {}
    for record in _records(link, link.checkpoints_topic, CHECKPOINTS, witness):
        try:
            checkpoint = Checkpoint.decode(record.key, record.value)
        except UnreadableRecord:
            continue
        newest[checkpoint.of] = checkpoint, record.timestamp
    for key in sorted(newest):
        each, ms = newest[key]
        yield (*key, each.upstream, each.downstream, each.metadata, datetime.fromtimestamp(ms / 1000, UTC))


def _records(link: QueryLink, topic: str | None, table: str, witness: Witness | None) -> Iterator[ReadRecord]:
    """All records of a topic of MirrorMaker's, which has one partition. It need not be there."""
    if topic is None:
        raise QueryError(
            f"table {table}: the source's alias is not known; name a connector, or give source.cluster.alias"
        )

    async def extent() -> tuple[int, int] | None:
        async with ClusterLog(link, "target") as log:
            if not await log.exists(topic):
                return None
            key = TopicPartition(topic, 0)
            return (await log.extents(await log.partitions([topic])))[key]

    found = asyncio.run(extent())
    if found is None or found[0] >= found[1]:
        return
    part = Slice(topic, 0, *found)
    for fetched in fetches(link, "target", part, witness):
        try:
            yield from (each for each in read_records(fetched) if each.offset < part.end)
        except CorruptBatchError as error:
            raise QueryError(f"topic {topic} of the target cluster is damaged at {error}") from None


def _positions(link: QueryLink) -> Iterator[Row]:
    if link.rest is None or link.connector is None:
        raise QueryError(f"table {POSITIONS}: a worker tells them; name it, and its connector")
    body = link.rest.get(offsets_path(link.connector))
    if not isinstance(body, Mapping):
        raise QueryError(
            f"the worker can't report the source offsets of {link.connector}: that takes Kafka Connect 3.5"
        )
    found = sorted(_offsets_in(body))
    # The source's ends are worth having, and no reason to tell nothing.
    ends = asyncio.run(_ends(link, [key for _, key, _ in found])) if found and "source" in link.properties else {}
    for cluster, key, offset in found:
        end = ends.get(key)
        lag = None if end is None else max(0, end - offset - 1)
        yield link.connector, cluster, *key, offset, end, lag


def _offsets_in(body: Mapping[str, Any]) -> Iterator[tuple[str, TopicPartition, int]]:
    for entry in body.get("offsets", ()):
        match entry:
            case {
                "partition": {"cluster": str(cluster), "topic": str(topic), "partition": int(partition)},
                "offset": {"offset": int(offset)},
            }:
                yield cluster, TopicPartition(topic, partition), offset


async def _ends(link: QueryLink, keys: list[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The ends of those that the source still has."""
    async with ClusterLog(link, "source") as log:
        topics = [topic for topic in {key.topic for key in keys} if await log.exists(topic)]
        there = set(await log.partitions(topics)) if topics else set()
        wanted = [key for key in keys if key in there]
        return await log.offsets(dict.fromkeys(wanted, LATEST)) if wanted else {}


def _status(link: QueryLink) -> Iterator[Row]:
    if link.rest is None:
        raise QueryError(f"table {STATUS}: a worker tells it; name one")
    listed = link.rest.get(STATUSES)
    for name, entry in sorted(listed.items()) if isinstance(listed, Mapping) else ():
        status = entry.get("status", {})
        kind = status.get("type")
        yield (name, kind, None, *_state(status.get("connector", {})))
        for task in sorted(status.get("tasks", ()), key=lambda each: each.get("id", 0)):
            yield (name, kind, task.get("id"), *_state(task))


def _state(found: Mapping[str, Any]) -> Row:
    return found.get("state"), found.get("worker_id"), found.get("trace") or None


# From topics, and from the worker.
_STORED: Final = {RANGES: _ranges, CHECKPOINTS: _checkpoints}
_TOLD: Final = {POSITIONS: _positions, STATUS: _status}
