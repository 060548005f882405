"""What is in the logs and positions of the clusters of group_load.py, read by librdkafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from benchmarks.group_truth import Log, PartitionTruth
from deploy.local import LocalCluster

PARTITIONS: Final = 12
CALL_S: Final = 30.0
PATIENCE_S: Final = 90.0


def end_offsets(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """Partition → end offset; KafkaException while there is none to be had."""
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    found = cluster.admin().list_offsets(asked, request_timeout=CALL_S)
    return {each.partition: future.result(CALL_S).offset for each, future in found.items()}


def committed(cluster: LocalCluster, groups: list[str], topic: str) -> dict[str, dict[int, int]]:
    """What groups have committed for `topic`; a partition without is missing."""
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = {}
    for group in groups:
        # Not the admin client: librdkafka's may crash where a coordinator that is still loading refuses the request.
        with (
            contextlib.closing(Consumer({**cluster.internal_librdkafka(), "group.id": group})) as consumer,
            contextlib.suppress(KafkaException),
        ):
            positions = consumer.committed(asked, timeout=CALL_S)
            found[group] = {each.partition: each.offset for each in positions if each.offset >= 0}
    return {group: found.get(group, {}) for group in groups}


def truths(source: LocalCluster, target: LocalCluster, topic: str, remote: str) -> list[PartitionTruth]:
    """Both logs of each partition as they are now, the source's first: what is copied is in both."""
    upstream, downstream = read_numbers(source, topic), read_numbers(target, remote)
    return [PartitionTruth(upstream[partition], downstream[partition]) for partition in range(PARTITIONS)]


def read_numbers(cluster: LocalCluster, topic: str, isolation: str = "read_uncommitted") -> list[Log]:
    """Offsets and numbers of all data records of each partition, aborted ones too unless `isolation` says read_committed."""
    logs: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
    for message in _messages(cluster, topic, range(PARTITIONS), isolation):
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        logs[partition].append((offset, int(message.value() or b"")))
    return [*logs]


def read_all(cluster: LocalCluster, topic: str) -> list[Message]:
    """Every record that is left in partition 0 of a topic."""
    return [*_messages(cluster, topic, range(1), "read_uncommitted")]


def count(cluster: LocalCluster, topic: str, partitions: int) -> int:
    """How many records are left in a topic; offsets don't say that of a compacted one."""
    return sum(1 for _ in _messages(cluster, topic, range(partitions), "read_uncommitted"))


def _messages(cluster: LocalCluster, topic: str, partitions: range, isolation: str) -> Iterator[Message]:
    settings: dict[str, Any] = {
        **cluster.librdkafka(),
        "group.id": "truth",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 50,
        "allow.auto.create.topics": False,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unread = set(partitions)
        until = time.monotonic() + PATIENCE_S
        while unread:
            if time.monotonic() > until:
                raise RuntimeError(f"{topic} can't be read to its end within {PATIENCE_S:g} s")
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    # Beyond the first end that was seen it may go on for ever.
                    if message.partition() in unread:
                        yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
