"""The dead letter topic of a source task: records that no transformation could take, as the source has them.

A letter is sent when everything before its record is on the target, and not before. The source offset passes the record when
the target has acknowledged the letter. So a crash repeats letters as it repeats records, and loses none. With exactly-once
letters are in the transaction of the records around them: it is committed when the target has all of both. If it is aborted,
its partitions are read again, and so are the letters made again.

A partition with many letters under way is not read on until the target has some of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.in_flight import InFlight
from mirror_connect.kafka_io.producer.produce_outcome import OversizeRecordError, PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.producer.transaction_errors import TransactionAbortedError
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.batch_builder import of_records
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.spark_jobs.copy.record_failures import ErrorCounts

# Of letters that are not acknowledged: of one partition, and of the task's that were sent.
PARTITION_BYTES: Final = 1 << 20
TASK_BYTES: Final = 8 << 20
# A batch is made in the event loop: a letter takes some microseconds.
BATCH_RECORDS: Final = 200
BATCH_BYTES: Final = 400_000
_POLL_S: Final = 0.2

# What a letter holds: the record's bytes behind its deltas, perhaps with more headers.
Written = Callable[[TopicPartition, RecordError], bytes]


class FlowLetters:
    """The letters of one partition: those that wait for what is before them, and those that were sent.

    `on_sent(bytes)`: some were sent. `on_acked()`: the target has some more. `on_committed()`, `on_aborted(error)`: what
    became of the transaction in which some were sent. `on_room()`: it was full, and is not any more.
    """

    __slots__ = (
        "_letters",
        "_sent",
        "_waiting",
        "bytes",
        "on_aborted",
        "on_acked",
        "on_committed",
        "on_room",
        "on_sent",
        "partition",
    )  # fmt: skip

    def __init__(self, letters: DeadLetters, partition: TopicPartition) -> None:
        self.partition = partition
        self._letters = letters
        self._waiting: deque[RecordError] = deque()
        self._sent: deque[_Group] = deque()
        self.bytes = 0
        self.on_sent: Callable[[int], None] = _nothing
        self.on_acked: Callable[[], None] = _nothing
        self.on_room: Callable[[], None] = _nothing
        self.on_committed: Callable[[], None] = _nothing
        self.on_aborted: Callable[[TransactionAbortedError], None] = _nothing

    def __bool__(self) -> bool:
        """Whether the target misses any."""
        return bool(self._waiting or self._sent)

    @property
    def sent(self) -> bool:
        """Whether some were sent that the target has not acknowledged."""
        return bool(self._sent)

    @property
    def oldest(self) -> int | None:
        """The lowest offset whose letter the target may miss; None if it has all."""
        if self._sent:
            return self._sent[0].offset
        return self._waiting[0].offset if self._waiting else None

    @property
    def oldest_ms(self) -> int | None:
        """The timestamp of the record there."""
        if self._sent:
            return self._sent[0].timestamp
        return _original(self._waiting[0]).timestamp if self._waiting else None

    def full(self) -> bool:
        """Whether nothing more may be added. Then `on_room` is called later."""
        return self.bytes >= PARTITION_BYTES or self._letters.full(self)

    def add(self, errors: Sequence[RecordError]) -> None:
        """Letters of the next offsets. They wait for `release`."""
        self._waiting.extend(errors)
        self.bytes += sum(_size(each) for each in errors)

    def release(self, below: int) -> None:
        """Sends those of offsets below this one: everything before it is on the target, or was dropped."""
        released: list[RecordError] = []
        while self._waiting and self._waiting[0].offset < below:
            released.append(self._waiting.popleft())
        if released:
            group = _Group(self, released[0].offset, _original(released[0]).timestamp, len(released))
            self._sent.append(group)
            self._letters.send(group, released)

    def cut(self, offset: int) -> None:
        """Forgets those that wait, from this offset on: their records are read again."""
        while self._waiting and self._waiting[-1].offset >= offset:
            self.bytes -= _size(self._waiting.pop())

    def drop(self) -> None:
        """Forgets all. Those that were sent may be on the target all the same."""
        self._waiting.clear()
        for group in self._sent:
            group.dropped = True
        self._sent.clear()
        self.bytes = 0
        self._letters.dropped(self)

    def acked(self, group: _Group, count: int, size: int) -> None:
        """The target has so many more letters of a group."""
        if group.dropped:
            return
        was_full = self.bytes >= PARTITION_BYTES
        group.left -= count
        self.bytes -= size
        while self._sent and not self._sent[0].left:
            self._sent.popleft()
        self.on_acked()
        if was_full and self.bytes < PARTITION_BYTES:
            self.on_room()


class _Group:
    """Letters that were sent together. `offset`, `timestamp`: of the first; `left`: how many the target misses."""

    __slots__ = ("dropped", "flow", "left", "offset", "timestamp")

    def __init__(self, flow: FlowLetters, offset: int, timestamp: int, left: int) -> None:
        self.flow = flow
        self.offset = offset
        self.timestamp = timestamp
        self.left = left
        self.dropped = False


class DeadLetters:
    """Of one task. `failure` is set when the topic refuses a letter for good: then the task must end.

    `written`: makes what a letter holds. `counts`: gets how many there were.
    """

    def __init__(self, producer: BatchProducer, topic: str, written: Written, counts: ErrorCounts) -> None:
        self.topic = topic
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.written = written
        self.counts = counts
        # Sent, and not acknowledged.
        self.bytes = 0
        self._partitions = 1
        self._producer = producer
        self._feeds: dict[int, _LetterFeed] = {}
        self._blocked: dict[FlowLetters, None] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()

    def of(self, partition: TopicPartition) -> FlowLetters:
        """Those of a source partition."""
        return FlowLetters(self, partition)

    def know_partitions(self, count: int | None) -> None:
        """How many the topic has; None: as many as the worker creates."""
        self._partitions = count or 1

    def full(self, flow: FlowLetters) -> bool:
        """Whether the task has enough letters under way. Then the partition's `on_room` is called later."""
        if self.bytes < TASK_BYTES:
            return False
        self._blocked[flow] = None
        return True

    def send(self, group: _Group, errors: Sequence[RecordError]) -> None:
        """Sends these letters."""
        self.counts.letters += len(errors)
        size = sum(_size(each) for each in errors)
        self.bytes += size
        self._quiet.clear()
        woken: dict[_LetterFeed, None] = {}
        for each in errors:
            feed = self._feed(each)
            feed.put(group, each)
            woken[feed] = None
        group.flow.on_sent(size)
        for feed in woken:
            self._producer.wake(feed.target)

    def acked(self, size: int) -> None:
        """The target has so many bytes more, or nobody waits for them any more."""
        before, self.bytes = self.bytes, self.bytes - size
        if before >= TASK_BYTES > self.bytes:
            blocked, self._blocked = self._blocked, {}
            for flow in blocked:
                flow.on_room()
        if not any(self._feeds.values()):
            self._quiet.set()

    def dropped(self, flow: FlowLetters) -> None:
        """Nothing of this partition is to be sent any more."""
        for feed in self._feeds.values():
            feed.forget(flow)
        self.acked(0)

    @property
    def stalled(self) -> bool:
        """Whether the target does not accept letters at present."""
        return any(feed and self._producer.stalled(feed.target) for feed in self._feeds.values())

    @property
    def problem(self) -> Problem | None:
        """The problem while the topic doesn't accept letters."""
        return next((feed.target.problem for feed in self._feeds.values() if feed.target.problem), None)

    async def all_acked(self) -> None:
        """Waits until the target has all that were sent."""
        await self._quiet.wait()

    async def settle(self) -> None:
        """The same, but it doesn't wait for a topic that the target doesn't accept at present: that may last long."""
        while not self._quiet.is_set() and not self.stalled:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._quiet.wait()

    def fail(self, error: PartitionRefusedError, records: int) -> None:
        """The topic refuses a letter. `records`: how many are lost for now; they are read again."""
        self.counts.failed_letters += records
        if not self.failure.done():
            self.failure.set_exception(error)

    async def close(self) -> None:
        """Nothing more is asked of it."""
        if self.failure.done() and not self.failure.cancelled():
            self.failure.exception()
        self.failure.cancel()

    def _feed(self, error: RecordError) -> _LetterFeed:
        number = 0
        if self._partitions > 1:
            key = _key(_original(error).rest)
            # A producer spreads records without a key as it likes. Here a repeated letter meets its former self.
            number = (error.offset if key is None else partition_for(key, self._partitions)) % self._partitions
        if number not in self._feeds:
            self._feeds[number] = _LetterFeed(self, self._producer, self.topic, number)
        return self._feeds[number]


class _LetterFeed:
    """The feed of one partition of the topic (target_partition.Feed, TransactionalFeed)."""

    def __init__(self, letters: DeadLetters, producer: BatchProducer, topic: str, partition: int) -> None:
        self._letters = letters
        self._queue: deque[tuple[_Group, RecordError]] = deque()
        self._in_flight = InFlight()
        # The number of its first letter, and the letters, of each batch in flight.
        self._given: deque[tuple[int, list[tuple[_Group, RecordError]]]] = deque()
        self._next_number = 0
        # With letters in the open transaction.
        self._touched: dict[FlowLetters, None] = {}
        self.target: TargetPartition = producer.partition(topic, partition, self, ahead=True)

    def __bool__(self) -> bool:
        """Whether the target misses any."""
        return bool(self._queue or self._given)

    def put(self, group: _Group, error: RecordError) -> None:
        """One more letter. The caller wakes the producer."""
        self._queue.append((group, error))
        self._touched[group.flow] = None

    def forget(self, flow: FlowLetters) -> None:
        """Letters of this partition that were not given to the producer are not sent."""
        self._touched.pop(flow, None)
        left = [each for each in self._queue if each[0].flow is not flow]
        gone = [error for group, error in self._queue if group.flow is flow]
        if gone:
            self._queue = deque(left)
            self._letters.acked(sum(_size(each) for each in gone))

    def waiting(self) -> bool:
        """See Feed."""
        return bool(self._queue)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        """See Feed."""
        first, size = self._next_number, 0
        records: list[tuple[int, int, bytes]] = []
        given: list[tuple[_Group, RecordError]] = []
        while self._queue and len(records) < BATCH_RECORDS and size < BATCH_BYTES:
            group, error = self._queue.popleft()
            rest = self._letters.written(group.flow.partition, error)
            records.append((first + len(records), _original(error).timestamp, rest))
            given.append((group, error))
            size += len(rest)
        if not records:
            return None
        self._next_number += len(records)
        batch = of_records(records)
        self._in_flight.given(batch)
        self._given.append((first, given))
        return batch

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """See Feed. A batch that was split comes in pieces."""
        if not self._in_flight.acked(batch):
            return
        _, given = self._given.popleft()
        groups: dict[_Group, tuple[int, int]] = {}
        for group, error in given:
            count, size = groups.get(group, (0, 0))
            groups[group] = count + 1, size + _size(error)
        for group, (count, size) in groups.items():
            group.flow.acked(group, count, size)
        self._letters.acked(sum(size for _, size in groups.values()))

    def failed(self, error: PartitionRefusedError) -> None:
        """See Feed."""
        number = error.record if isinstance(error, OversizeRecordError) else error.offset
        first, given = self._given[0] if self._given else (number, [])
        at = number - first
        if not 0 <= at < len(given):
            self._letters.fail(error, max(1, len(given)))
            return
        group, letter = given[at]
        where = f"{group.flow.partition.topic}, partition {group.flow.partition.partition}, offset {letter.offset}"
        what = f"{where}: the dead letter topic {self._letters.topic} refuses the record"
        refused = len(given)
        if isinstance(error, OversizeRecordError):
            refused = 1
            what += f", which has {error.size} bytes there: {error.remedy(None)}"
        else:
            what += f": {error}"
        self._letters.fail(PartitionRefusedError(f"{what}. Then restart the task", error.offset), refused)

    def committed(self) -> None:
        """See TransactionalFeed."""
        touched, self._touched = self._touched, {}
        for flow in touched:
            flow.on_committed()

    def aborted(self, error: TransactionAbortedError) -> None:
        """See TransactionalFeed. The partitions are read again, and make these letters again."""
        lost = [letter for _, given in self._given for _, letter in given]
        lost += [letter for _, letter in self._queue]
        self._queue.clear()
        self._given.clear()
        self._in_flight.clear()
        touched, self._touched = self._touched, {}
        self._letters.acked(sum(_size(each) for each in lost))
        for flow in touched:
            flow.on_aborted(error)


def _nothing(*_: object) -> None: ...


def _original(error: RecordError) -> OriginalRecord:
    assert error.original is not None, "whoever found the error did not keep the record"
    return error.original


def _size(error: RecordError) -> int:
    return len(_original(error).rest)


def _key(rest: bytes) -> bytes | None:
    length, at = varint.decode(rest, 0)
    return None if length < 0 else rest[at : at + length]
