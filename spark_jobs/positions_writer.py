"""Writes a task's positions to connect-offsets, with the task's own producer.

A position is committed after the target has acknowledged every record at or below it (acks=all): partition_flow.position
promises that, and a crash in between only repeats records. Because it is the same producer id and epoch as the data's, a
former owner of the task that still hangs somewhere is fenced here as it is there.

With each go the id of the topic that it is an offset of, and the leader epoch of the record there, in one record, so that
none is ever without the others. A position goes back where the source's log was truncated.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import NamedTuple

from mirror_connect.connectors.job_contract import TaskPartition, TaskSpec
from mirror_connect.connectors.partitioner import partition_for
from mirror_connect.connectors.positions import NO_EPOCH, position_headers, position_key, position_value
from mirror_connect.spark_jobs.batch_producer import BatchProducer
from mirror_connect.spark_jobs.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.record_batch import NewRecord, Outgoing
from mirror_connect.spark_jobs.record_rewrite import build
from mirror_connect.spark_jobs.target_partition import TargetPartition


class Position(NamedTuple):
    """`offset`: the last one replicated, negative for none; `topic_id`: of the topic it is of, None if that isn't known.

    `leader_epoch`: of the source's record there, or of the last one below; NO_EPOCH if that isn't known.
    """

    offset: int
    topic_id: bytes | None
    leader_epoch: int = NO_EPOCH


class _OffsetsFeed:
    """One partition of the offsets topic: the batches of positions that wait for it."""

    def __init__(self, writer: PositionsWriter) -> None:
        self._writer = writer
        self.batches: deque[Outgoing] = deque()

    def waiting(self) -> bool:
        return bool(self.batches)

    def take(self, limit: int, *, slow_link: bool) -> Outgoing | None:
        return self.batches.popleft() if self.batches else None

    def acked(self, outgoing: Outgoing, base_offset: int) -> None:
        self._writer.one_acked()

    def failed(self, error: PartitionRefusedError) -> None:
        self._writer.failed(error)


class PositionsWriter:
    """Positions out. `failure` is set when the offsets topic refuses them: then the task can't go on."""

    def __init__(self, producer: BatchProducer, spec: TaskSpec) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commits = 0
        self._producer = producer
        self._spec = spec
        self._targets: dict[int, tuple[TargetPartition, _OffsetsFeed]] = {}
        self._committed: dict[TaskPartition, Position] = {}
        self._noted: dict[TaskPartition, Position] = {}
        self._pending = 0
        self._settled = asyncio.Event()
        self._settled.set()

    def note(self, partition: TaskPartition, position: Position) -> None:
        """Where a partition has got to, for the next commit."""
        self._noted[partition] = position

    def commit(self) -> bool:
        """Sends what has changed since the last commit; True unless an earlier commit is still under way.

        One at a time: the next one has the newer positions anyway, so a slow target gets no queue of old ones.
        """
        if self._pending:
            return False
        noted, self._noted = self._noted, {}
        changed = {p: each for p, each in noted.items() if each.offset >= 0 and self._committed.get(p) != each}
        now = int(time.time() * 1000)
        records: dict[int, list[NewRecord]] = {}
        for partition, (offset, topic_id, epoch) in changed.items():
            key = position_key(self._spec.connector, self._spec.source_alias, partition.topic, partition.partition)
            number = partition_for(key, self._spec.offsets_partitions)
            record = NewRecord(key, position_value(offset), now, position_headers(topic_id, epoch))
            records.setdefault(number, []).append(record)
        for number, batch in records.items():
            target, feed = self._target(number)
            feed.batches.append(build(batch))
            self._pending += 1
            self._settled.clear()
            self._producer.wake(target)
        self._committed.update(changed)
        return True

    async def flush(self, seconds: float) -> bool:
        """Commits, and waits until the target has the positions; False when time is up before."""
        deadline = time.monotonic() + seconds
        committed = False
        while True:
            if not committed:
                committed = self.commit()
            if committed and not self._pending:
                return True
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._settled.wait()

    def known(self, partition: TaskPartition, position: Position) -> None:
        """What the topic holds already need not be written again."""
        self._committed[partition] = position

    def forget(self, partition: TaskPartition) -> None:
        """Another task has the partition now; should it come back, its position is written again."""
        self._committed.pop(partition, None)
        self._noted.pop(partition, None)

    @property
    def trouble(self) -> str:
        """One line while the topic of positions doesn't take them; "" otherwise."""
        return next((target.trouble for target, _ in self._targets.values() if target.trouble), "")

    def close(self) -> None:
        """Nothing is written after this."""
        if self.failure.done() and not self.failure.cancelled():
            self.failure.exception()
        self.failure.cancel()

    def _target(self, number: int) -> tuple[TargetPartition, _OffsetsFeed]:
        if number not in self._targets:
            feed = _OffsetsFeed(self)
            self._targets[number] = (self._producer.partition(self._spec.offsets_topic, number, feed, ahead=True), feed)
        return self._targets[number]

    def one_acked(self) -> None:
        """One batch of positions is on the target."""
        self._pending -= 1
        if not self._pending:
            self.commits += 1
            self._settled.set()

    def failed(self, error: PartitionRefusedError) -> None:
        """The offsets topic refuses positions."""
        if not self.failure.done():
            self.failure.set_exception(error)
