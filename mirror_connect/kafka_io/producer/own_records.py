"""Writes a task's own records to one target partition: heartbeats, checkpoints, source offsets."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from mirror_connect.connectors.loop_slices import slices
from mirror_connect.kafka_io.producer.batch_producer import RECORDS_IN_SLICE, BatchProducer
from mirror_connect.kafka_io.producer.in_flight import InFlight
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.producer.transaction_errors import TransactionAbortedError
from mirror_connect.kafka_io.records.batch_builder import BatchBuilder
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch

# A batch may be twice as large as this before a broker with default settings refuses it.
BATCH_BYTES: Final = 400_000


class OwnRecords:
    """Writes to one target partition. If it refuses a record for good, all waiting and later writes fail.

    With a transactional producer it writes in the open transaction, or waits for the next one.

    Many records are made into batches in slices of the event loop (loop_slices.py). The producer gets the batches of a write
    together, when all are there.
    """

    def __init__(self, producer: BatchProducer, topic: str, partition: int) -> None:
        self.target: TargetPartition = producer.partition(topic, partition, self, ahead=True)
        self._producer = producer
        self._waiting: deque[ProducerBatch] = deque()
        self._in_flight = InFlight()
        # One for each batch that waits or is in flight.
        self._acks: deque[asyncio.Future[None]] = deque()
        # The records are numbered, so that offsets rise from batch to batch.
        self._next_number = 0
        self._error: PartitionRefusedError | None = None
        # How often what waited was dropped, and why the last time.
        self._drops = 0
        self._dropped: Exception | None = None

    async def write(self, records: Sequence[NewRecord]) -> None:
        """Writes these records in order, and waits until all in-sync replicas have them.

        PartitionRefusedError. TransactionAbortedError: readers will not see them, and nothing of them is written later.
        """
        if self._error is not None:
            raise self._error
        drops = self._drops
        async with self._producer.building.one:
            batches = await self._batches(records)
            # Nothing is awaited from here on: an abort in between would not be noticed.
            if self._drops != drops and self._dropped is not None:
                raise self._dropped
            acks = [self._wait_for(batch) for batch in batches]
        if acks:
            self._producer.wake(self.target)
            await asyncio.gather(*acks)

    async def _batches(self, records: Sequence[NewRecord]) -> list[ProducerBatch]:
        batches: list[ProducerBatch] = []
        builder = BatchBuilder(self._next_number)
        for part in slices(records, RECORDS_IN_SLICE):
            await self._producer.building.room(len(part))
            for record in part:
                builder.add(record)
                if builder.size >= BATCH_BYTES:
                    batches.append(builder.batch())
                    builder = BatchBuilder(batches[-1].last_offset + 1)
        if builder.count:
            batches.append(builder.batch())
        if batches:
            self._next_number = batches[-1].last_offset + 1
        return batches

    def _wait_for(self, batch: ProducerBatch) -> asyncio.Future[None]:
        ack: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(batch)
        self._acks.append(ack)
        return ack

    # The feed (target_partition.Feed).

    def waiting(self) -> bool:
        """See Feed."""
        return bool(self._waiting)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        """See Feed."""
        if not self._waiting:
            return None
        batch = self._waiting.popleft()
        self._in_flight.given(batch)
        return batch

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """See Feed. A batch that was split comes in pieces."""
        if self._in_flight.acked(batch):
            ack = self._acks.popleft()
            if not ack.done():
                ack.set_result(None)

    def failed(self, error: PartitionRefusedError) -> None:
        """See Feed."""
        self._error = error
        self._drop(error)

    def committed(self) -> None:
        """See TransactionalFeed."""

    def aborted(self, error: TransactionAbortedError) -> None:
        """See TransactionalFeed. Who wrote them writes them again, or newer ones."""
        self._drop(error)

    def _drop(self, error: Exception) -> None:
        self._drops += 1
        self._dropped = error
        self._waiting.clear()
        self._in_flight.clear()
        while self._acks:
            ack = self._acks.popleft()
            if not ack.done():
                ack.set_exception(error)
