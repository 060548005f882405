"""Writes a task's offset ranges to their topic on the target, with the task's own producer.

When a task starts, it reads the newest segment of each assigned partition from the topic, in the background. Batches that
are acknowledged meanwhile wait. Segments are written before the source offsets that they belong to are committed. But
copying and commits never depend on them: a topic that doesn't answer delays one commit by WRITE_WAIT_S. Then there are
source offsets without ranges, as with MirrorMaker: the next task records from there on, and no translation skips a record
(offset_ranges.py). As soon as the topic answers, all waiting ranges are written.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.loop_slices import drained, in_turns, slices
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.records.binary import INT32, UnreadableRecord
from mirror_connect.connectors.rights import TARGET_USER, to_create
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_ranges import NO_ID, Segment
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.mapping.partition_ranges import PartitionRanges

# Source offsets are committed every half second. With this wait, a kill still repeats what came in about a second.
WRITE_WAIT_S: Final = 0.25
# Of some ten microseconds each, the first time three times as long; and of one microsecond.
SEGMENTS_IN_SLICE: Final = 50
WAITING_IN_SLICE: Final = 500
KNOWN_IN_SLICE: Final = 100
READ_S: Final = 120.0
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 30.0
QUIET_TRIES: Final = 3
QUIET_S: Final = 10.0
# Waiting segments of all partitions, while the topic can't be written to. Readers begin again after dropped segments.
MOST_WAITING: Final = 16_384

SourceId = Callable[[TaskPartition], bytes | None]
TopicId = Callable[[str], bytes | None]
# Maps key prefixes (without the ring's slot) to the key and value of each newest segment; None: there is no such topic.
# ClusterUnreachable, NotAuthorized, ConnectionLost.
ReadNewest = Callable[[set[bytes]], Awaitable[Mapping[bytes, tuple[bytes, bytes]] | None]]
_SLOT_BYTES: Final = INT32.size


class OffsetRangesWriter:
    """The offset ranges of one task. `run` reads and never raises; call `write` before source offsets are committed.

    `source_id` gives the id of the topic to which a partition's acknowledged records belong, `target_id` that of a remote
    topic; None if it isn't known.
    """

    def __init__(
        self,
        topic: str,
        producer: BatchProducer,
        read_newest: ReadNewest,
        source_id: SourceId,
        target_id: TopicId,
        *,
        problems: Problems,
        counters: MutableMapping[str, int],
    ) -> None:
        self._source_id = source_id
        self._target_id = target_id
        self._dirty: dict[PartitionRanges, None] = {}
        self._topic = topic
        self._producer = producer
        self._read_newest = read_newest
        self._problems = problems
        self._counters = counters
        self._partitions: dict[TaskPartition, PartitionRanges] = {}
        self._behind: dict[PartitionRanges, None] = {}
        self._unknown: dict[PartitionRanges, None] = {}
        self._added = asyncio.Event()
        self._all_known = asyncio.Event()
        self._patient = True
        self._waiting: dict[bytes, bytes] = {}
        self._records: OwnRecords | None = None
        self._writing: asyncio.Task[None] | None = None
        # Since when a write has waited for its answer; 0: none waits too long.
        self._late = 0.0
        self._off = False
        # The problem while the topic can't be read, and the one from `stop` on.
        self._unread: Problem | None = None
        self._stopped: Problem | None = None

    @property
    def problem(self) -> Problem | None:
        """The problem while ranges can't be read or written."""
        denied = None if self._records is None else self._records.target.problem
        if denied is not None:
            denied = replace(denied, text=f"Offset ranges are not recorded: {denied.text}")
        return self._stopped or self._unread or denied

    def add(self, partition: TaskPartition, reading_from: int | None) -> PartitionRanges:
        """Adds a partition of this task; `reading_from`: see RangeRecorder.resume."""
        ranges = self._partitions[partition] = PartitionRanges(partition, reading_from, self._ids, self._dirty)
        if self._off:
            ranges.stop()
        self._unknown[ranges] = self._behind[ranges] = None
        self._added.set()
        self._all_known.clear()
        return ranges

    def forget(self, partition: TaskPartition) -> None:
        """Forgets a partition: another task has it now, and writes its segments."""
        ranges = self._partitions.pop(partition, None)
        if ranges is not None:
            for kept in (self._unknown, self._behind, self._dirty):
                kept.pop(ranges, None)
            for key in [key for key in self._waiting if key[:-_SLOT_BYTES] == ranges.key]:
                del self._waiting[key]

    def behind(self) -> list[PartitionRanges]:
        """The partitions that need calls of `passed`."""
        for ranges in [ranges for ranges in self._behind if ranges.caught_up]:
            del self._behind[ranges]
        return list(self._behind)

    async def write(self, seconds: float, *, last: bool = False) -> bool:
        """Writes changed ranges. True if those of all batches acknowledged before the call are durable now.

        It waits `seconds` at most. After one wait without success it doesn't wait again until the write is done, unless this
        is the `last` one for some partitions: what is not written then is lost.
        """
        if self._off:
            return False
        deadline = time.monotonic() + (0.0 if self._late and not last else seconds)
        await self._until_known(deadline, last=last)
        began = time.monotonic()
        await drained(self._dirty, self._collect, SEGMENTS_IN_SLICE)
        if not last:
            # Of thousands of partitions that takes a while, in which nothing waits for the topic.
            deadline += time.monotonic() - began
        while self._writing is not None or self._waiting:
            # With transactions a commit may wait here while the next one begins.
            writing = self._writing = self._writing or asyncio.create_task(self._write_waiting())
            await asyncio.wait({writing}, timeout=max(0.0, deadline - time.monotonic()))
            if not writing.done():
                self._is_late()
                return False
            writing.result()
            if self._writing is writing:
                self._writing = None
            if self._off:
                return False
            if self._late:
                self._recovered()
                deadline = time.monotonic() + seconds
        return not self._unknown

    async def _until_known(self, deadline: float, *, last: bool) -> None:
        # Before its first segment is written, the next task can't know that this task mirrored the partition. After a
        # failed read `_all_known` is set, and nobody waits.
        if self._unknown and (self._patient or last):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._all_known.wait()
            self._patient = not self._unknown

    async def run(self) -> None:
        """Reads the newest segments of added partitions."""
        self._producer.expect(self._topic)
        tries = 0
        while True:
            if not self._unknown:
                self._all_known.set()
                self._patient = True
                self._added.clear()
                self._unread = None
                self._problems.resolve(self._topic, ProblemCode.OFFSET_RANGES_UNREAD)
                await self._added.wait()
                tries = 0
            unread = await self._read(list(self._unknown))
            if unread is None:
                continue
            tries += 1
            self._patient = False
            self._all_known.set()  # `write` must not wait for a topic that can't be read
            if tries == QUIET_TRIES:
                self._unread = Problem(
                    self._topic,
                    ProblemCode.OFFSET_RANGES_UNREAD,
                    f"Topic {self._topic} can't be read on the target",
                    unread,
                    "it is tried again. Copying continues. Until then committed offsets are translated by offset syncs "
                    "alone, and records repeat after a failover",
                )
                self._problems.report(self._unread)
            await asyncio.sleep(min(RETRY_S * 2.0 ** min(tries - 1, 10), RETRY_MAX_S))

    def stop(self, why: str) -> None:
        """Stops writing, until the task starts again."""
        self._off = True
        self._waiting.clear()
        self._dirty.clear()
        for ranges in self._partitions.values():
            ranges.stop()
        self._stopped = Problem(
            self._topic,
            ProblemCode.OFFSET_RANGES_STOPPED,
            "Offset ranges are not recorded until this task starts again, copying continues",
            why,
        )
        self._problems.report(self._stopped)

    async def close(self) -> None:
        """Ends the write under way."""
        self._off = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _read(self, asked: list[PartitionRanges]) -> str | None:
        """Returns None, or one line why it failed."""
        try:
            async with asyncio.timeout(READ_S):
                found = await self._read_newest({ranges.key for ranges in asked})
        except (ClusterUnreachable, ConnectionLost, NotAuthorized, ConfigError) as error:
            return str(error)
        except TimeoutError:
            return f"not read to its end within {READ_S:g} s"
        if found is None:
            return f"it doesn't exist; its connector creates it: {to_create(self._topic).grant(TARGET_USER)}"
        async for part in in_turns(asked, KNOWN_IN_SLICE):
            for ranges in part:
                if ranges in self._unknown:
                    del self._unknown[ranges]
                    ranges.known(self._decoded(found.get(ranges.key)))
        if not self._unknown:
            self._all_known.set()
        return None

    def _ids(self, partition: TaskPartition) -> tuple[bytes, bytes]:
        return self._source_id(partition) or NO_ID, self._target_id(partition.remote_topic) or NO_ID

    def _decoded(self, record: tuple[bytes, bytes] | None) -> Segment | None:
        if record is None:
            return None
        try:
            return Segment.decode(*record)
        except UnreadableRecord as error:
            self._problems.log(f"A record of topic {self._topic} is skipped: {error}")
            return None

    def _collect(self, ranges: PartitionRanges) -> None:
        if ranges.recorder is None:
            return
        waiting = self._waiting
        for key, value in ranges.recorder.changed():
            # Moved to the end: readers need segments in order.
            waiting.pop(key, None)
            waiting[key] = value
        while len(waiting) > MOST_WAITING:
            del waiting[next(iter(waiting))]

    async def _write_waiting(self) -> None:
        records = self._records
        if records is None:
            records = self._records = OwnRecords(self._producer, self._topic, 0)
        now = int(time.time() * 1000)
        batch: list[NewRecord] = []
        # A segment that changes meanwhile waits for the next write, and comes after the older one.
        waiting, self._waiting = self._waiting, {}
        for part in slices(waiting.items(), WAITING_IN_SLICE):
            if batch:
                await asyncio.sleep(0)
            batch += [NewRecord(key, value, now) for key, value in part]
        try:
            await records.write(batch)
            self._counters["runs"] = self._counters.get("runs", 0) + len(batch)
        except PartitionRefusedError as error:
            self.stop(str(error))

    def _recovered(self) -> None:
        self._late = 0.0
        again = f"Offset ranges are written again to topic {self._topic} on the target"
        self._problems.resolve(self._topic, ProblemCode.OFFSET_RANGES_LATE, line=again)

    def _is_late(self) -> None:
        now = time.monotonic()
        self._late = self._late or now
        if now - self._late > QUIET_S:
            late = Problem(
                self._topic,
                ProblemCode.OFFSET_RANGES_LATE,
                f"Topic {self._topic} on the target accepts no offset ranges at present",
                "source offsets are committed without them",
            )
            self._problems.report(late)
