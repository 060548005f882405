"""End offsets of topics: read, and waited for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from deploy.local import LocalCluster
from tests.waiting import wait_for


def end_offsets(cluster: LocalCluster, topic: str, seconds: float = 180.0) -> dict[int, int]:
    """Partition → end offset; empty if there is no such topic. Never creates it.

    Asks on for so long where an answer is lost, or new partitions have no leader yet; then raises KafkaException.
    """
    until = time.monotonic() + seconds
    with _asking(cluster) as consumer:
        while True:
            try:
                return _present_ends(consumer, topic)
            except KafkaException:
                if time.monotonic() > until:
                    raise
            time.sleep(0.1)


@contextlib.contextmanager
def _asking(cluster: LocalCluster) -> Iterator[Consumer]:
    """One client for all that is asked: a new one for each look would cost the broker more than the answers."""
    consumer = Consumer({**cluster.librdkafka(), "group.id": "ends", "allow.auto.create.topics": False})
    try:
        yield consumer
    finally:
        consumer.close()


def _present_ends(consumer: Consumer, topic: str) -> dict[int, int]:
    known = consumer.list_topics(timeout=20).topics
    partitions = sorted(known[topic].partitions) if topic in known else []
    return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in partitions}


def wait_ends(cluster: LocalCluster, topic: str, ends: Mapping[int, int], seconds: float = 360.0) -> None:
    """Wait until the topic's end offsets are at least these, for as long as records come (tests/waiting.py)."""
    seen: dict[int, int] = {}

    def reached() -> bool:
        with contextlib.suppress(KafkaException):  # new partitions have no leader yet, or not one that knows it
            seen.update(_present_ends(consumer, topic))
        return all(seen.get(partition, -1) >= end for partition, end in ends.items())

    with _asking(cluster) as consumer:
        try:
            wait_for(reached, f"{topic} ends at {dict(ends)}", seconds, 0.2, arrived=lambda: dict(seen))
        except AssertionError as error:
            raise AssertionError(f"{error}; it ends at {seen}") from None
