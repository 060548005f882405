"""Records where a source task's records lie on the target: passes each acknowledged batch to two writers.

Offset syncs (offset_syncs_writer.py) are for Kafka's own readers; offset ranges (offset_ranges_writer.py) make translation
exact. Neither ever stops a record. Both are asked a few times a second, and get all batches of that time that continue each
other as one. `emit.offset-syncs.enabled=false` turns both off, as then no offsets are translated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.loop_slices import drained
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.settings import client_id, source_producer, target_producer
from mirror_connect.connectors.problems import Problem, Problems
from mirror_connect.connectors.records.offset_syncs import SyncsPlace, offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.rights import user_at
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.connectors.translation.offset_ranges import offset_ranges_topic
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.records.placed_records import Placed
from mirror_connect.spark_jobs.mapping.offset_ranges_reader import read_newest
from mirror_connect.spark_jobs.mapping.offset_ranges_writer import WRITE_WAIT_S, OffsetRangesWriter, SourceId
from mirror_connect.spark_jobs.mapping.offset_syncs_writer import OffsetSyncs
from mirror_connect.spark_jobs.mapping.partition_ranges import PartitionRanges
from mirror_connect.spark_jobs.task_context import WorkerLink

# Gets a batch that the target has, and its offset there: -1 if that isn't known or it may be there twice.
OnPlaced = Callable[[Placed, int], None]
# Of some seven microseconds each.
NOTED_IN_SLICE: Final = 100
SYNCS_IN_SLICE: Final = 1_000
BOOTSTRAP: Final = "bootstrap.servers"
log = logging.getLogger(__name__)


class OffsetMapping:
    """Both writers of one task, in one event loop; `start` when the task has its producer id, `close` last."""

    def __init__(
        self, syncs: OffsetSyncs | None, ranges: OffsetRangesWriter | None, log_line: Callable[[str], None]
    ) -> None:
        self._syncs = syncs
        self._ranges = ranges
        self._log = log_line
        self._working: asyncio.Task[None] | None = None
        self._partitions: dict[TaskPartition, _PartitionMapping] = {}
        # Those of which no source offset was committed yet.
        self._starting: dict[TaskPartition, PartitionRanges] = {}
        # Whether the next `before_commit` has to write where copying began.
        self.start_waits = False
        # Those that have noted batches which neither writer knows yet.
        self._noted: dict[_PartitionMapping, None] = {}
        if syncs is not None:
            syncs.before_write = self._pass_on

    def start(self) -> None:
        """Starts both writers in the background."""
        self._working = asyncio.create_task(self._work(), name="mapping")

    def on_placed(self, partition: TaskPartition, reading_from: int | None) -> OnPlaced:
        """The callback for a partition's flow; `reading_from`: the source offset at which it begins, None if not known."""
        if self._syncs is None or self._ranges is None:
            return lambda _batch, _base_offset: None
        ranges = self._ranges.add(partition, reading_from)
        mapping = self._partitions[partition] = _PartitionMapping(partition, self._syncs, ranges, self._noted)
        self._starting[partition] = ranges
        return mapping

    def begins(self, partition: TaskPartition, offset: int) -> None:
        """The partition's flow begins at an offset that no source offset told, see PartitionFlow."""
        mapping = self._partitions.get(partition)
        if mapping is not None:
            mapping.begins(offset)
            self._starting[partition] = mapping.ranges

    def passes(self, partition: TaskPartition, offset: int) -> None:
        """This source offset is about to be committed. The start of copying must be known before, see offset_ranges.py."""
        if self._starting and partition in self._starting and self._starting[partition].passes(offset):
            del self._starting[partition]
            self.start_waits = True

    def forget(self, partition: TaskPartition) -> None:
        """The partition does not belong to this task any more."""
        self._starting.pop(partition, None)
        mapping = self._partitions.pop(partition, None)
        if mapping is not None:
            self._noted.pop(mapping, None)
        if self._syncs is not None:
            self._syncs.queue.forget(partition.source)
        if self._ranges is not None:
            self._ranges.forget(partition)

    def behind(self) -> Iterable[PartitionRanges]:
        """The partitions that need calls of `passed`."""
        return () if self._ranges is None else self._ranges.behind()

    def passed(self, ranges: PartitionRanges, position: int, source_end: int) -> None:
        """See PartitionRanges.passed."""
        mapping = self._partitions.get(ranges.partition)
        if mapping is None or mapping.ranges is not ranges:
            return  # another task has the partition now, and writes its segments
        if mapping in self._noted:
            del self._noted[mapping]
            mapping.pass_on()
        ranges.passed(position, source_end)

    async def before_commit(self, seconds: float = WRITE_WAIT_S, *, last: bool = False) -> None:
        """Makes the ranges of all acknowledged batches durable, unless their topic has a problem.

        `last`: of partitions that leave this task. See OffsetRangesWriter.write.
        """
        if self._ranges is None:
            return
        await self._pass_on()
        try:
            await self._ranges.write(seconds, last=last)
        except Exception as error:
            # The producer itself reports errors that end the task, so this error concerns ranges alone.
            log.exception("Offset ranges")
            self._ranges.stop(f"{type(error).__name__}: {error}")

    @property
    def problems(self) -> list[Problem]:
        """The present problems of the two writers."""
        found = [part.problem for part in (self._syncs, self._ranges) if part is not None]
        return [problem for problem in found if problem is not None]

    async def committed(self) -> None:
        """Source offsets are being committed: syncs that waited for that are sent."""
        if self._syncs is not None:
            await self._pass_on()
            queue = self._syncs.queue
            await drained(queue.delayed, queue.committed_one, SYNCS_IN_SLICE)

    async def flush(self, seconds: float) -> None:
        """Writes the last syncs of a task that ends."""
        if self._syncs is not None:
            await self._syncs.flush(seconds)

    async def _pass_on(self) -> None:
        """Tells both writers of all batches that were acknowledged before this call."""
        await drained(self._noted, _PartitionMapping.pass_on, NOTED_IN_SLICE)

    async def _work(self) -> None:
        # Any error here is logged, and copying continues without syncs or ranges.
        works = [part.run() for part in (self._syncs, self._ranges) if part is not None]
        for ended in await asyncio.gather(*works, return_exceptions=True):
            if isinstance(ended, Exception):
                self._log(f"Offset syncs or ranges are no longer written, copying continues: {ended!r}")

    async def close(self) -> None:
        """Ends both writers."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        if self._ranges is not None:
            await self._ranges.close()
        if self._syncs is not None:
            await self._syncs.close()


class _PartitionMapping:
    """The callback of one partition.

    Nearly all batches continue the one before them on both sides. Of these only the number of records is noted, in
    `noted`. The writers, which are asked several times a second, get many of them as one.
    """

    __slots__ = ("_count", "_downstream", "_noted", "_partition", "_queue", "_unplaced", "_upstream", "ranges")

    def __init__(
        self,
        partition: TaskPartition,
        syncs: OffsetSyncs,
        ranges: PartitionRanges,
        noted: dict[_PartitionMapping, None],
    ) -> None:
        self._partition = partition.source
        self._queue = syncs.queue
        self.ranges = ranges
        self._noted = noted
        self._unplaced = False
        # Behind all that was acknowledged, on both sides; -1: nothing can continue it. `_count` records before are noted.
        self._upstream = self._downstream = -1
        self._count = 0

    def __call__(self, batch: Placed, base_offset: int) -> None:
        if (
            base_offset == self._downstream
            and batch.first_offset == self._upstream
            and batch.upstream_offsets is None
            and not self._unplaced
        ):
            if not self._count:
                self._noted[self] = None
            count = batch.count
            self._count += count
            self._upstream += count
            self._downstream = base_offset + count
            return
        self.pass_on()
        # A flow covers the source's offsets without a hole. So offsets between two batches are never mirrored.
        linked, self._unplaced = not self._unplaced, base_offset < 0
        if base_offset < 0:
            return
        # Not noted: the writers may have to ask for the topics' ids, which may soon be others.
        ranges = batch.upstream_offsets
        if ranges is None:
            self._queue.acked(self._partition, batch.first_offset, base_offset, batch.count)
            self.ranges.acked(batch.first_offset, batch.count, base_offset, linked=linked)
            self._upstream = batch.first_offset + batch.count
        else:
            self._queue.acked_ranges(self._partition, ranges, base_offset)
            self.ranges.acked_ranges(ranges, base_offset, linked=linked)
            self._upstream = sum(ranges[-1])
        self._downstream = base_offset + batch.count

    def begins(self, offset: int) -> None:
        """See OffsetMapping.begins."""
        self.pass_on()
        self._upstream = self._downstream = -1
        self._unplaced = False
        self.ranges.begins(offset)

    def pass_on(self) -> None:
        """Tells the writers of the noted records."""
        count, self._count = self._count, 0
        if count:
            upstream, downstream = self._upstream - count, self._downstream - count
            self._queue.continued(self._partition, upstream, downstream, count)
            self.ranges.acked(upstream, count, downstream, linked=True)


def offset_mapping(
    spec: TaskSpec,
    link: WorkerLink,
    producer: BatchProducer,
    source_id: SourceId,
    target: Cluster,
    *,
    problems: Problems,
) -> OffsetMapping:
    """Creates it from the connector's config. `source_id`: see OffsetRangesWriter; `target`: for topic ids. ConfigError."""
    settings = MirrorSource().settings(spec.config)
    if not settings.boolean("emit.offset-syncs.enabled"):
        return OffsetMapping(None, None, problems.log)
    policy = replication_policy(spec.config)
    place = offset_syncs_place(
        policy, settings.text("offset-syncs.topic.location"), spec.source_alias, spec.target_alias
    )
    properties = _syncs_producer(spec, place)
    syncs = OffsetSyncs(
        properties,
        _client_id(spec, f"offset-syncs-{place.cluster}-producer", properties),
        place.topic,
        f"{place.cluster} cluster {spec.source_alias if place.cluster == 'source' else spec.target_alias}",
        settings.integer("offset.lag.max"),
        user=user_at(place.cluster),
        lease=link.lease_valid,
        problems=problems,
        counters=link.counters,
    )
    topic, reader = offset_ranges_topic(policy, spec.source_alias), _client_id(spec, "offset-runs-target-consumer", {})
    ranges = OffsetRangesWriter(
        topic,
        producer,
        lambda wanted: read_newest(spec.target_consumer, reader, topic, wanted, problems.log),
        source_id,
        target.topic_id,
        problems=problems,
        counters=link.counters,
    )
    return OffsetMapping(syncs, ranges, problems.log)


def _syncs_producer(spec: TaskSpec, place: SyncsPlace) -> Mapping[str, str]:
    """The producer properties as in MirrorMaker. If they lack an address, the data's own is used."""
    if place.cluster == "source":
        properties = source_producer(spec.config)
        return properties if BOOTSTRAP in properties else {**properties, BOOTSTRAP: spec.source.get(BOOTSTRAP, "")}
    properties = target_producer(spec.config)
    return properties if BOOTSTRAP in properties else spec.target


def _client_id(spec: TaskSpec, role: str, properties: Mapping[str, str]) -> str:
    return client_id(spec.config, role, spec.task, properties.get("client.id"))
