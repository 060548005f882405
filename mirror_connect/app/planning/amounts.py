"""How much is to be copied: records and bytes from where a connector begins to the source's end, and how fast that grows.

Kafka does not tell the bytes between two offsets. They are estimated by the size of the log at its leader, as if all its
records had the same size.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from mirror_connect.app.planning.plan import Amount
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.topic_ids import parse_topic_id
from mirror_connect.connectors.task_protocol import SourceOffset
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.consumer.start_offsets import listed_offsets, start_offsets
from mirror_connect.kafka_io.protocol.error_codes import error_name
from mirror_connect.kafka_io.protocol.log_dirs import DescribeLogDirs, LogDirs
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST

SAMPLE_S: Final = 3.0
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class PartitionAmount:
    """Of one partition. `records`: offsets to copy, also those of records that compaction removed; `bytes`: of these.

    The rates are per second. None is unknown.
    """

    records: int | None = None
    bytes: int | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Amounts:
    """The amounts of all partitions, and why sizes are unknown. `sampled_s`: the time between the two looks at the ends."""

    partitions: Mapping[TopicPartition, PartitionAmount]
    sampled_s: float
    no_sizes: str | None = None


def amounts(properties: Mapping[str, str], client_id: str, stored: Sequence[SourceOffset], timeout: float) -> Amounts:
    """Of these partitions with their stored source offsets; blocking, for a thread without an event loop. It only reads.

    `properties`: of the source's consumer. ClusterUnreachable, NotAuthorized.
    """

    async def measured() -> Amounts:
        cluster = Cluster(properties, client_id)
        try:
            async with asyncio.timeout(timeout + SAMPLE_S):
                return await _amounts(cluster, FetchSettings.of(properties), stored)
        finally:
            await cluster.close()

    try:
        return asyncio.run(measured())
    except TimeoutError:
        raise ClusterUnreachable(f"The source cluster did not tell its offsets within {timeout:g} s") from None


def total(found: Amounts, speed: float | None) -> Amount:
    """All partitions together, and the time to catch up at `speed` bytes per second."""
    each = found.partitions.values()
    records = _sum([one.records for one in each])
    size = _sum([one.bytes for one in each])
    growth = _sum([one.records_per_s for one in each])
    grown = _sum([one.bytes_per_s for one in each])
    seconds, line = _time(size, grown, speed)
    if size is None and found.no_sizes is not None:
        line = f"bytes are unknown: {found.no_sizes}"
    return Amount(records, size, growth, grown, found.sampled_s, speed, seconds, line)


def of_topic(found: Amounts, topic: str) -> tuple[int | None, int | None]:
    """Records and bytes of one topic."""
    mine = [amount for partition, amount in found.partitions.items() if partition.topic == topic]
    return _sum([one.records for one in mine]), _sum([one.bytes for one in mine])


def _time(size: float | None, growth: float | None, speed: float | None) -> tuple[float | None, str | None]:
    if size is None or growth is None:
        return None, "the time is unknown, because not all leaders told offsets and sizes"
    if size == 0 and growth == 0:
        return 0.0, None
    if speed is None:
        return None, "the time is unknown: it depends on the speed of the copy (plan --speed)"
    if speed <= growth:
        return None, f"at {speed:.0f} bytes/s the copy never catches up: the source grows by {growth:.0f} bytes/s"
    return round(size / (speed - growth), 1), None


def _sum(numbers: Sequence[Number | None]) -> Number | None:
    known = [number for number in numbers if number is not None]
    return cast(Number, sum(known)) if len(known) == len(numbers) else None


async def _amounts(cluster: Cluster, settings: FetchSettings, stored: Sequence[SourceOffset]) -> Amounts:
    partitions = [TopicPartition(each.topic, each.partition) for each in stored]
    await cluster.refresh({partition.topic for partition in partitions})
    first = await listed_offsets(cluster, partitions, EARLIEST, settings)
    begin = {partition: _next(cluster, each, first) for partition, each in zip(partitions, stored, strict=True)}
    without = [partition for partition, offset in begin.items() if offset is None]
    begin |= await start_offsets(cluster, without, settings)
    before_at = time.monotonic()
    before = await listed_offsets(cluster, partitions, LATEST, settings)
    sizes, no_sizes = await _sizes(cluster, partitions)
    await asyncio.sleep(max(0.0, SAMPLE_S - (time.monotonic() - before_at)))
    sampled_s = time.monotonic() - before_at
    end = await listed_offsets(cluster, partitions, LATEST, settings)
    found = {}
    for partition in partitions:
        start, low, former, high = (each.get(partition) for each in (begin, first, before, end))
        records = None if start is None or high is None else max(0, high - max(start, low or 0))
        growth = None if former is None or high is None else max(0, high - former) / sampled_s
        mean = _mean(sizes.get(partition), low, high)
        found[partition] = PartitionAmount(
            records,
            None if records is None or mean is None else round(records * mean),
            growth,
            None if growth is None or mean is None else growth * mean,
        )
    return Amounts(found, round(sampled_s, 1), no_sizes)


def _next(cluster: Cluster, stored: SourceOffset, first: Mapping[TopicPartition, int]) -> int | None:
    """The offset to copy next; None if auto.offset.reset decides."""
    if stored.offset is None:
        return None
    known, now = parse_topic_id(stored.topic_id), cluster.topic_id(stored.topic)
    if known is not None and now is not None and known != now:
        # Another topic has the name now, which is read from its beginning.
        return first.get(TopicPartition(stored.topic, stored.partition))
    return stored.offset + 1


def _mean(size: int | None, low: int | None, high: int | None) -> float | None:
    """Bytes for one offset of the log."""
    if size is None or low is None or high is None:
        return None
    return size / (high - low) if high > low else 0.0


async def _sizes(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], str | None]:
    """The sizes of the logs at their leaders, and why some are unknown."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for partition in partitions:
        if (leader := cluster.leader(*partition)) is not None:
            by_leader.setdefault(leader.node_id, {}).setdefault(partition.topic, []).append(partition.partition)

    async def ask(node: int, topics: Mapping[str, Sequence[int]]) -> LogDirs | str:
        try:
            return await cluster.send(node, DescribeLogDirs(topics))
        except (ConnectionLost, ClusterUnreachable, UnsupportedByBroker) as error:
            return str(error)

    answers = await asyncio.gather(*(ask(*each) for each in by_leader.items()))
    sizes: dict[TopicPartition, int] = {}
    why = None
    for answer in answers:
        if isinstance(answer, str):
            why = answer
        else:
            sizes |= answer.sizes
            why = error_name(answer.error) if answer.error else why
    if why is None and any(partition not in sizes for partition in partitions):
        why = "the brokers do not show them; the user of the source needs DESCRIBE on the cluster"
    return sizes, why
