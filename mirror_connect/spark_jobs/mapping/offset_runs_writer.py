"""Records a task's runs (connectors/translation/offset_runs.py) in their topic on the target, with the task's own producer.

At a task's start the topic is read in the background for the newest segment of each assigned partition; what is
acknowledged meanwhile waits. Segments are written before the positions that they belong to are committed. But copying and
commits never depend on it: a topic that doesn't answer holds up one commit for WRITE_WAIT_S. Positions that go on
without their runs are what MirrorMaker would leave: the next task records from there on, and no translation skips a
record (offset_runs.py). As soon as the topic answers everything is recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.records.binary_records import INT32, UnreadableRecord
from mirror_connect.connectors.rights import TARGET_USER, to_create
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_runs import NO_ID, Segment
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.mapping.partition_runs import PartitionRuns

WRITE_WAIT_S: Final = 2.0
READ_S: Final = 120.0
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 30.0
QUIET_TRIES: Final = 3
QUIET_S: Final = 10.0
# Of all, while the topic can't be written to; segments that are forgotten make readers begin anew behind them.
MOST_WAITING: Final = 16_384

SourceId = Callable[[TaskPartition], bytes | None]
TopicId = Callable[[str], bytes | None]
# Key prefixes (all but the ring's slot) in, the newest segment's key and value of each out; None: there is no such topic.
# ClusterUnreachable, NotAuthorized, ConnectionLost.
ReadNewest = Callable[[set[bytes]], Awaitable[Mapping[bytes, tuple[bytes, bytes]] | None]]
_SLOT_BYTES: Final = INT32.size


class OffsetRuns:
    """The runs of one task. `run` reads and never raises; `write` is called before positions are committed.

    `source_id` gives the id of the topic that a partition's acknowledged records are of, `target_id` that of a remote topic;
    None where it isn't known.
    """

    def __init__(
        self,
        topic: str,
        producer: BatchProducer,
        read_newest: ReadNewest,
        source_id: SourceId,
        target_id: TopicId,
        *,
        notice: Callable[[str], None],
        counters: MutableMapping[str, int],
    ) -> None:
        self._source_id = source_id
        self._target_id = target_id
        self._dirty: dict[PartitionRuns, None] = {}
        self._topic = topic
        self._producer = producer
        self._read_newest = read_newest
        self._notice = notice
        self._counters = counters
        self._partitions: dict[TaskPartition, PartitionRuns] = {}
        self._behind: dict[PartitionRuns, None] = {}
        self._unknown: dict[PartitionRuns, None] = {}
        self._news = asyncio.Event()
        self._all_known = asyncio.Event()
        self._patient = True
        self._waiting: dict[bytes, bytes] = {}
        self._records: OwnRecords | None = None
        self._writing: asyncio.Task[None] | None = None
        # Since when a write has been under way in vain; 0: none is.
        self._late = 0.0
        self._told = False
        self._off = False
        # Lines for the status: while it can't be read, and from `stop` on.
        self._unread = ""
        self._stopped = ""

    @property
    def trouble(self) -> str:
        """One line for the status, while runs can't be read or written; "" otherwise."""
        denied = "" if self._records is None else self._records.target.trouble
        return self._stopped or self._unread or (denied and f"Offset runs are not recorded: {denied}")

    def add(self, partition: TaskPartition, reading_from: int | None) -> PartitionRuns:
        """A partition that is now this task's; `reading_from` as in RunRecorder.resume."""
        runs = self._partitions[partition] = PartitionRuns(partition, reading_from, self._ids, self._dirty)
        if self._off:
            runs.stop()
        self._unknown[runs] = self._behind[runs] = None
        self._news.set()
        self._all_known.clear()
        return runs

    def forget(self, partition: TaskPartition) -> None:
        """Another task has it now, and writes its segments."""
        runs = self._partitions.pop(partition, None)
        if runs is not None:
            for kept in (self._unknown, self._behind, self._dirty):
                kept.pop(runs, None)
            for key in [key for key in self._waiting if key[:-_SLOT_BYTES] == runs.key]:
                del self._waiting[key]

    def behind(self) -> list[PartitionRuns]:
        """The partitions of which `passed` has to be told."""
        for runs in [runs for runs in self._behind if runs.caught_up]:
            del self._behind[runs]
        return list(self._behind)

    async def write(self, seconds: float) -> bool:
        """Writes what has changed; whether all that was acknowledged before the call is durable now.

        Waits so long for it; not again once that was in vain, until it is done.
        """
        if self._off:
            return False
        deadline = time.monotonic() + (0.0 if self._late else seconds)
        await self._until_known(deadline)
        self._collect()
        while self._writing is not None or self._waiting:
            if self._writing is None:
                self._writing = asyncio.create_task(self._write_waiting())
            await asyncio.wait({self._writing}, timeout=max(0.0, deadline - time.monotonic()))
            if not self._writing.done():
                self._is_late()
                return False
            self._writing.result()
            self._writing = None
            if self._off:
                return False
            if self._late:
                self._recovered()
                deadline = time.monotonic() + seconds
        return not self._unknown

    async def _until_known(self, deadline: float) -> None:
        # Before the first segment of a partition nothing tells the next task that it was ours to mirror.
        if self._unknown and self._patient:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._all_known.wait()
            self._patient = not self._unknown

    async def run(self) -> None:
        """Reads what is known of partitions as they come."""
        tries = 0
        while True:
            if not self._unknown:
                self._all_known.set()
                self._patient = True
                self._news.clear()
                self._unread = ""
                await self._news.wait()
                tries = 0
            trouble = await self._read(list(self._unknown))
            if trouble is None:
                continue
            tries += 1
            self._patient = False
            self._all_known.set()  # nobody waits for what can't be read
            if tries == QUIET_TRIES:
                self._unread = (
                    f"Topic {self._topic} can't be read on the target: {trouble}. Copying goes on; groups' positions are "
                    "translated by offset syncs alone, and records repeat after a failover, until it can be"
                )
                self._notice(self._unread)
            await asyncio.sleep(min(RETRY_S * 2.0 ** min(tries - 1, 10), RETRY_MAX_S))

    def stop(self, why: str) -> None:
        """None is written from now on."""
        self._off = True
        self._waiting.clear()
        self._dirty.clear()
        for runs in self._partitions.values():
            runs.stop()
        self._stopped = f"Offset runs are not recorded until this task starts again, copying goes on: {why}"
        self._notice(self._stopped)

    async def close(self) -> None:
        """Nothing is written after this."""
        self._off = True
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _read(self, asked: list[PartitionRuns]) -> str | None:
        """None, or one line why it didn't work."""
        try:
            async with asyncio.timeout(READ_S):
                found = await self._read_newest({runs.key for runs in asked})
        except (ClusterUnreachable, ConnectionLost, NotAuthorized, ConfigError) as error:
            return str(error)
        except TimeoutError:
            return f"not read to its end within {READ_S:g} s"
        if found is None:
            return f"it doesn't exist; its connector makes it: {to_create(self._topic).grant(TARGET_USER)}"
        for runs in asked:
            if runs in self._unknown:
                del self._unknown[runs]
                runs.known(self._decoded(found.get(runs.key)))
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
            self._notice(f"A record of topic {self._topic} is passed over: {error}")
            return None

    def _collect(self) -> None:
        dirty = list(self._dirty)
        self._dirty.clear()
        waiting = self._waiting
        for runs in dirty:
            if runs.recorder is not None:
                for key, value in runs.recorder.changed():
                    # To the end: readers need segments in their order.
                    waiting.pop(key, None)
                    waiting[key] = value
        while len(waiting) > MOST_WAITING:
            del waiting[next(iter(waiting))]

    async def _write_waiting(self) -> None:
        records = self._records
        if records is None:
            records = self._records = OwnRecords(self._producer, self._topic, 0)
        now = int(time.time() * 1000)
        batch = [NewRecord(key, value, now) for key, value in self._waiting.items()]
        self._waiting.clear()
        try:
            await records.write(batch)
            self._counters["runs"] = self._counters.get("runs", 0) + len(batch)
        except PartitionRefusedError as error:
            self.stop(str(error))

    def _recovered(self) -> None:
        self._late = 0.0
        if self._told:
            self._told = False
            self._notice(f"Offset runs are written again to topic {self._topic} on the target")

    def _is_late(self) -> None:
        now = time.monotonic()
        self._late = self._late or now
        if not self._told and now - self._late > QUIET_S:
            self._told = True
            self._notice(
                f"Topic {self._topic} on the target takes no offset runs at present: positions are committed without them"
            )
