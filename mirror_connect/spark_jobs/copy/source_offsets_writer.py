"""Writes a task's source offsets to connect-offsets, with the task's own producer.

A source offset is committed after the target has acknowledged every record at or below it (acks=all): PartitionFlow
guarantees that. A crash in between only repeats records. The producer id and epoch are those of the data, so brokers fence
a former owner of the task here, too.

One record holds the offset, the id of its topic, and the leader epoch of the record there, so these never get separated. A
source offset goes back where the source's log was truncated.

A commit may have the offsets of thousands of partitions, so it is made in slices of the event loop. Its offsets are those
that were noted when it began. Each record stands for itself: nobody relies on those of one commit being written together.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple

from mirror_connect.connectors.loop_slices import SharedSlices, slices
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.connectors.records.source_offsets import (
    NO_EPOCH,
    source_offset_headers,
    source_offset_key,
    source_offset_value,
)
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures

# Of some two microseconds each. To make a key and find its partition takes ten times as long.
OFFSETS_IN_SLICE: Final = 200
NEW_KEY: Final = 10


class LastOffset(NamedTuple):
    """The last source offset that is replicated, negative for none. `topic_id`: of its topic, None if not known.

    `leader_epoch`: of the source's record there, or of the last one below; NO_EPOCH if not known.
    """

    offset: int
    topic_id: bytes | None
    leader_epoch: int = NO_EPOCH


class SourceOffsetsWriter:
    """The source offsets of one task. `failure` is set when the offsets topic refuses them: then the task must end."""

    def __init__(self, producer: BatchProducer, spec: TaskSpec) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commits = 0
        self.measures = CommitMeasures()
        self._producer = producer
        self._spec = spec
        # The first commit must not wait for the leaders: until it is done, a kill repeats everything.
        producer.expect(spec.offsets_topic)
        self._offsets_topic: dict[int, OwnRecords] = {}
        # Where the records of a partition go in the offsets topic, and their key: both always are the same.
        self._places: dict[TaskPartition, tuple[int, bytes]] = {}
        self._committed: dict[TaskPartition, LastOffset] = {}
        self._noted: dict[TaskPartition, LastOffset] = {}
        # The commit under way, and its offsets of partitions that this task still has.
        self._writing: asyncio.Task[None] | None = None
        self._written: dict[TaskPartition, LastOffset] = {}
        self._slices = SharedSlices(OFFSETS_IN_SLICE)

    def note(self, partition: TaskPartition, position: LastOffset) -> None:
        """Notes up to where a partition is copied, for the next commit."""
        self._noted[partition] = position

    def commit(self) -> bool:
        """Sends the offsets that changed since the last commit; False if an earlier commit is still under way.

        There is one commit at a time. The next one has newer offsets, so a slow target gets no queue of old ones.
        """
        if self._writing is not None and not self._writing.done():
            return False
        self._begin()
        if self._written:
            self._writing = asyncio.create_task(self._write(), name="positions")
        else:
            self.measures.done(self.measures.noted_ms, None)
        return True

    def _begin(self) -> None:
        self._written, self._noted = self._noted, {}

    async def _records(self) -> dict[int, list[NewRecord]]:
        """The records to write, by partition of the offsets topic. What is committed already is taken out of `_written`."""
        now = int(time.time() * 1000)
        records: dict[int, list[NewRecord]] = {}
        headers_of: dict[tuple[bytes | None, int], tuple[tuple[str, bytes], ...]] = {}
        written, places = self._written, self._places
        for part in slices(list(written.items()), OFFSETS_IN_SLICE // NEW_KEY):
            await self._slices.room(sum(1 if partition in places else NEW_KEY for partition, _ in part))
            for partition, position in part:
                if written.get(partition) is not position:
                    continue  # forgotten meanwhile, or taken back
                if position.offset < 0 or self._committed.get(partition) == position:
                    del written[partition]
                    continue
                offset, topic_id, epoch = position
                headers = headers_of.get((topic_id, epoch))
                if headers is None:
                    headers = headers_of[topic_id, epoch] = source_offset_headers(topic_id, epoch)
                number, key = places.get(partition) or self._place(partition)
                records.setdefault(number, []).append(NewRecord(key, source_offset_value(offset), now, headers))
        return records

    def _place(self, partition: TaskPartition) -> tuple[int, bytes]:
        spec = self._spec
        key = source_offset_key(spec.connector, spec.source_alias, partition.topic, partition.partition)
        place = self._places[partition] = partition_for(key, spec.offsets_partitions), key
        return place

    async def _write(self) -> None:
        noted_ms, began = self.measures.noted_ms, time.monotonic()
        try:
            await self._send(await self._records())
        except PartitionRefusedError:
            return  # `failure` has it
        took = time.monotonic() - began if self._written else None
        self._committed.update(self._written)
        self.commits += bool(self._written)
        self._written = {}
        self.measures.done(noted_ms, took)

    async def _send(self, records: dict[int, list[NewRecord]]) -> None:
        """Returns when the target has them. PartitionRefusedError, which `failure` gets, too."""
        try:
            await asyncio.gather(*(self._partition(number).write(each) for number, each in records.items()))
        except PartitionRefusedError as error:
            self.measures.failed += 1
            if not self.failure.done():
                self.failure.set_exception(error)
            raise

    def _partition(self, number: int) -> OwnRecords:
        if number not in self._offsets_topic:
            self._offsets_topic[number] = OwnRecords(self._producer, self._spec.offsets_topic, number)
        return self._offsets_topic[number]

    async def flush(self, seconds: float) -> bool:
        """Commits, and waits until the target has the offsets; False if that takes longer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            committed = self.commit()
            if self._writing is None:
                return True
            await asyncio.wait({self._writing}, timeout=max(0.0, deadline - loop.time()))
            if not self._writing.done() or self.failure.done():
                return False
            if committed:
                return True

    async def withdraw(self) -> None:
        """Cancels the commit under way: after this, nothing of it arrives on the target. The next commit repeats it.

        For partitions that were taken away and not committed in time. The new owner reads the offsets and writes newer ones.
        If an older offset arrived after those, the partition would go back.
        """
        if self._writing is None or self._writing.done():
            return
        self._writing.cancel()
        self.measures.failed += 1
        await asyncio.gather(self._writing, return_exceptions=True)
        await self._producer.release([each.target for each in self._offsets_topic.values()], 0.0)
        self._offsets_topic.clear()
        self._noted = {**self._written, **self._noted}
        self._written = {}

    def known(self, partition: TaskPartition, position: LastOffset) -> None:
        """Notes what the topic already has, which need not be written again."""
        self._committed[partition] = position

    def forget(self, partition: TaskPartition) -> None:
        """Forgets a partition that another task has now. If it comes back, its source offset is written again."""
        for kept in (self._committed, self._noted, self._written, self._places):
            kept.pop(partition, None)

    @property
    def problem(self) -> Problem | None:
        """The problem while the offsets topic doesn't accept them."""
        return next((each.target.problem for each in self._offsets_topic.values() if each.target.problem), None)

    async def close(self) -> None:
        """Cancels the commit under way."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        if self.failure.done() and not self.failure.cancelled():
            self.failure.exception()
        self.failure.cancel()
