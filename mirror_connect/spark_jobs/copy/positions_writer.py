"""Writes a task's positions to connect-offsets, with the task's own producer.

A position is committed after the target has acknowledged every record at or below it (acks=all): partition_flow.position
promises that, and a crash in between only repeats records. Because it is the same producer id and epoch as the data's, a
former owner of the task that still hangs somewhere is fenced here as it is there.

With each go the id of the topic that it is an offset of, and the leader epoch of the record there, in one record, so that
none is ever without the others. A position goes back where the source's log was truncated.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.connectors.records.positions import NO_EPOCH, position_headers, position_key, position_value
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import NewRecord


class Position(NamedTuple):
    """`offset`: the last one replicated, negative for none; `topic_id`: of the topic it is of, None if that isn't known.

    `leader_epoch`: of the source's record there, or of the last one below; NO_EPOCH if that isn't known.
    """

    offset: int
    topic_id: bytes | None
    leader_epoch: int = NO_EPOCH


class PositionsWriter:
    """Positions out. `failure` is set when the offsets topic refuses them: then the task can't go on."""

    def __init__(self, producer: BatchProducer, spec: TaskSpec) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commits = 0
        self._producer = producer
        self._spec = spec
        self._offsets_topic: dict[int, OwnRecords] = {}
        self._committed: dict[TaskPartition, Position] = {}
        self._noted: dict[TaskPartition, Position] = {}
        # The commit under way, and what it holds of partitions that are still this task's.
        self._writing: asyncio.Task[None] | None = None
        self._written: dict[TaskPartition, Position] = {}

    def note(self, partition: TaskPartition, position: Position) -> None:
        """Where a partition has got to, for the next commit."""
        self._noted[partition] = position

    def commit(self) -> bool:
        """Sends what has changed since the last commit; True unless an earlier commit is still under way.

        One at a time: the next one has the newer positions anyway, so a slow target gets no queue of old ones.
        """
        if self._writing is not None and not self._writing.done():
            return False
        noted, self._noted = self._noted, {}
        self._written = {p: each for p, each in noted.items() if each.offset >= 0 and self._committed.get(p) != each}
        if self._written:
            self._writing = asyncio.create_task(self._write(self._records()), name="positions")
        return True

    def _records(self) -> dict[int, list[NewRecord]]:
        """What is to be written, by the partition of the offsets topic."""
        now = int(time.time() * 1000)
        records: dict[int, list[NewRecord]] = {}
        for partition, (offset, topic_id, epoch) in self._written.items():
            key = position_key(self._spec.connector, self._spec.source_alias, partition.topic, partition.partition)
            number = partition_for(key, self._spec.offsets_partitions)
            record = NewRecord(key, position_value(offset), now, position_headers(topic_id, epoch))
            records.setdefault(number, []).append(record)
        return records

    async def _write(self, records: dict[int, list[NewRecord]]) -> None:
        try:
            await asyncio.gather(*(self._partition(number).write(each) for number, each in records.items()))
        except PartitionRefusedError as error:
            if not self.failure.done():
                self.failure.set_exception(error)
            return
        self._committed.update(self._written)
        self._written = {}
        self.commits += 1

    def _partition(self, number: int) -> OwnRecords:
        if number not in self._offsets_topic:
            self._offsets_topic[number] = OwnRecords(self._producer, self._spec.offsets_topic, number)
        return self._offsets_topic[number]

    async def flush(self, seconds: float) -> bool:
        """Commits, and waits until the target has the positions; False when time is up before."""
        deadline = time.monotonic() + seconds
        while True:
            committed = self.commit()
            if self._writing is None:
                return True
            await asyncio.wait({self._writing}, timeout=max(0.0, deadline - time.monotonic()))
            if not self._writing.done() or self.failure.done():
                return False
            if committed:
                return True

    async def withdraw(self) -> None:
        """Gives up the commit under way: after this, nothing of it arrives on the target. The next commit has it again.

        For a hand-over that did not commit in time. The new owner reads the positions and writes newer ones; one that
        came behind those would take the partition back.
        """
        if self._writing is None or self._writing.done():
            return
        self._writing.cancel()
        await asyncio.gather(self._writing, return_exceptions=True)
        await self._producer.release([each.target for each in self._offsets_topic.values()], 0.0)
        self._offsets_topic.clear()
        self._noted = {**self._written, **self._noted}
        self._written = {}

    def known(self, partition: TaskPartition, position: Position) -> None:
        """What the topic holds already need not be written again."""
        self._committed[partition] = position

    def forget(self, partition: TaskPartition) -> None:
        """Another task has the partition now; should it come back, its position is written again."""
        for kept in (self._committed, self._noted, self._written):
            kept.pop(partition, None)

    @property
    def trouble(self) -> str:
        """One line while the topic of positions doesn't take them; "" otherwise."""
        return next((each.target.trouble for each in self._offsets_topic.values() if each.target.trouble), "")

    async def close(self) -> None:
        """Nothing is written after this."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self.failure.done() and not self.failure.cancelled():
            self.failure.exception()
        self.failure.cancel()
