"""A batch producer on a target in memory, feeds of batches, and the error codes that tests have it answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque

from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from tests.fakes.target_cluster import FakeTarget

SETTINGS = ProducerSettings(retry_backoff_s=0.001)

NOT_LEADER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT, UNKNOWN_TOPIC, NO_LEADER = 6, 19, 7, 3, 5

OUT_OF_ORDER, UNKNOWN_PRODUCER_ID, INVALID_EPOCH, INVALID_RECORD, TOPIC_DENIED = 45, 59, 47, 87, 29


def batch(first: int, sizes: list[int]) -> ProducerBatch:
    """A batch of records whose values have these sizes, from source offset `first`."""
    batch = build([NewRecord(b"k", random.randbytes(size), int(time.time() * 1000)) for size in sizes])
    batch.first_offset, batch.last_offset = first, first + len(sizes) - 1
    return batch


class Feed:
    """Batches in a row; remembers what was acknowledged. `misplaced`: told to lie elsewhere than behind the one before.

    `unplaced`: batches of which it isn't known where they lie.
    """

    def __init__(self, batches: list[ProducerBatch] | None = None) -> None:
        self.batches = deque(batches or [])
        self.acknowledged: list[int] = []
        self.misplaced: list[int] = []
        self.unplaced = 0
        self.error: PartitionRefusedError | None = None

    def waiting(self) -> bool:
        return bool(self.batches)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        return self.batches.popleft() if self.batches else None

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        self.unplaced += base_offset == -1
        if base_offset not in (-1, len(self.acknowledged)):
            self.misplaced.append(base_offset)
        self.acknowledged += range(batch.first_offset, batch.last_offset + 1)

    def failed(self, error: PartitionRefusedError) -> None:
        self.error = error


class Rig:
    """A started producer on a fake target."""

    def __init__(self, target: FakeTarget, settings: ProducerSettings = SETTINGS) -> None:
        self.target = target
        self.leased = True
        self.notices: list[str] = []
        self.producer = BatchProducer(
            target,  # type: ignore[arg-type]
            settings,
            "group-connector-0",
            lambda: self.leased,
            Problems(self.notices.append),
        )

    def feed(self, feed: Feed, partition: int = 0, topic: str = "a.orders") -> TargetPartition:
        side = self.producer.partition(topic, partition, feed)
        self.producer.wake(side)
        return side


async def until(condition: object, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


def batches(count: int, records: int = 3, size: int = 50) -> list[ProducerBatch]:
    return [batch(number * records, [size] * records) for number in range(count)]


def sequences(target: FakeTarget, partition: int = 0) -> list[int]:
    return [b.sequence for b in target.log("a.orders", partition).batches]
