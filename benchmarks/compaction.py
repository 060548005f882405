"""Makes the compaction of internal topics happen now, where it would take hours to become worth a broker's while."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from benchmarks.group_reading import CALL_S, count, read_all
from deploy.local import LocalCluster

# Of the broker: how long its cleaner sleeps when nothing is dirty enough.
CLEANER: Final = {"log.cleaner.backoff.ms": "500"}
# Of a topic: each second's records are a segment, and one record that is superseded is enough.
HASTE: Final = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.0001",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "0",
}
WORTH: Final = 0.75
# Of a topic that `compact` compacts: the newest segment is never compacted, so it is to be a small part.
SMALL_SEGMENTS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
}
# Of a topic that nothing else is to be compacted in; remote topics get its configs.
_AS_IS: Final = {"cleanup.policy": "delete", "segment.bytes": str(1 << 30)}
# What is left when all keys that are there more than once are gone, but for the newest segments.
_HALF: Final = 0.55


def hasten(cluster: LocalCluster, topics: Sequence[str]) -> None:
    """From now on the cluster compacts these topics as soon as it can; its brokers have the settings `CLEANER`."""
    alter_configs(cluster, topics, HASTE)


def alter_configs(cluster: LocalCluster, topics: Sequence[str], configs: Mapping[str, str]) -> None:
    """Sets these configs of topics and leaves the others as they are."""
    changes = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
            ],
        )
        for topic in topics
    ]
    for future in cluster.admin().incremental_alter_configs(changes, request_timeout=CALL_S).values():
        future.result(CALL_S)


def wait_compacted(cluster: LocalCluster, topic: str, seconds: float) -> tuple[int, int]:
    """Until at most three quarters of what was written to its one partition are left: (left, written). RuntimeError if not.

    The newest segment is never compacted, so somebody has to go on writing.
    """
    until = time.monotonic() + seconds
    while True:
        left = read_all(cluster, topic)
        written = (left[-1].offset() or 0) + 1 if left else 0
        if left and len(left) <= written * WORTH:
            return len(left), written
        if time.monotonic() > until:
            raise RuntimeError(
                f"{topic} is not compacted after {seconds:g} s: {len(left)} of {written} records are left"
            )
        time.sleep(0.5)


def compact(cluster: LocalCluster, topic: str, partitions: int, written: int, seconds: float) -> int:
    """How many records are left of a topic with SMALL_SEGMENTS of which every other record is superseded.

    Returns when it is compacted; it is not compacted again. RuntimeError if that takes longer.
    """
    until = time.monotonic() + seconds
    before = written
    while True:
        left = count(cluster, topic, partitions)
        if left == before and left <= written * _HALF:
            alter_configs(cluster, [topic], _AS_IS)
            return left
        if time.monotonic() > until:
            raise RuntimeError(f"{topic} is not compacted after {seconds:g} s: {left} of {written} records are left")
        before = left
        time.sleep(3.0)
