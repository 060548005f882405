"""The records that a task of the fence's model copies: numbered, so many a second since the beginning of the world."""

from __future__ import annotations

from typing import Final

from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from tests.fakes.simulated import World

# When the world begins.
NOW_MS: Final = 1_795_000_000_000


class Feed:
    """Numbered records, so many a second since the beginning of the world."""

    def __init__(self, world: World, rate: float, first: int) -> None:
        self.next = self.acknowledged = first
        self._world, self._rate = world, rate

    def _there(self) -> int:
        return int(self._world.now * self._rate)

    def waiting(self) -> bool:
        return self.next < self._there()

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        # A part of what waits, so that several batches are in flight behind a pause.
        count = -(-(self._there() - self.next) // 3)
        if count <= 0:
            return None
        numbers = range(self.next, self.next + count)
        self.next += count
        return build([NewRecord(b"k", b"%d" % number, NOW_MS) for number in numbers], numbers[0])

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        self.acknowledged = batch.last_offset + 1

    def failed(self, error: PartitionRefusedError) -> None:
        raise error
