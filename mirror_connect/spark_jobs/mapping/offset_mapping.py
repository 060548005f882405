"""Where a source task's records came to lie on the target: heard once for each acknowledged batch, told to two others.

Offset syncs (offset_syncs_writer.py) are what Kafka's readers know, runs (offset_runs_writer.py) make translation exact.
Neither ever stops a record. `emit.offset-syncs.enabled=false` turns both off: nobody wants positions translated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.mirror.mirror_settings import client_id, source_producer, target_producer
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.offset_syncs import SyncsPlace, offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.rights import user_at
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.connectors.translation.offset_runs import offset_runs_topic
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.records.record_batch import Outgoing
from mirror_connect.spark_jobs.mapping.offset_runs_reader import read_newest
from mirror_connect.spark_jobs.mapping.offset_runs_writer import WRITE_WAIT_S, OffsetRuns, SourceId
from mirror_connect.spark_jobs.mapping.offset_syncs_writer import OffsetSyncs
from mirror_connect.spark_jobs.mapping.partition_runs import PartitionRuns
from mirror_connect.spark_jobs.task_context import WorkerLink

# A batch that the target has, and where: -1 if that isn't known, or if it may be there twice.
OnPlaced = Callable[[Outgoing, int], None]
BOOTSTRAP: Final = "bootstrap.servers"
log = logging.getLogger(__name__)


class OffsetMapping:
    """Both of one task. All in one event loop; `start` when the task has its producer id, `close` last."""

    def __init__(self, syncs: OffsetSyncs | None, runs: OffsetRuns | None, notice: Callable[[str], None]) -> None:
        self._syncs = syncs
        self._runs = runs
        self._notice = notice
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to read and to write, in the background."""
        self._working = asyncio.create_task(self._work(), name="mapping")

    def follow(self, partition: TaskPartition, reading_from: int | None) -> OnPlaced:
        """What the flow of a partition calls; `reading_from`: the source offset it begins at, None if none is known."""
        if self._syncs is None or self._runs is None:
            return lambda _outgoing, _base_offset: None
        return _PartitionMapping(partition, self._syncs, self._runs.add(partition, reading_from))

    def forget(self, partition: TaskPartition) -> None:
        """The partition is no longer this task's."""
        if self._syncs is not None:
            self._syncs.queue.forget(TopicPartition(partition.topic, partition.partition))
        if self._runs is not None:
            self._runs.forget(partition)

    def behind(self) -> Iterable[PartitionRuns]:
        """The partitions of which `PartitionRuns.passed` wants to be told."""
        return () if self._runs is None else self._runs.behind()

    async def before_commit(self, seconds: float = WRITE_WAIT_S) -> None:
        """Runs of what was acknowledged are durable after this, unless their topic is in trouble."""
        if self._runs is None:
            return
        try:
            await self._runs.write(seconds)
        except Exception as error:
            # What fences this task is told by its producer itself, so this is about runs alone.
            log.exception("Offset runs")
            self._runs.stop(f"{type(error).__name__}: {error}")

    @property
    def troubles(self) -> list[str]:
        """A line for the status of each of the two, while it is in trouble."""
        return [part.trouble for part in (self._syncs, self._runs) if part is not None and part.trouble]

    def committed(self) -> None:
        """Positions are on their way: syncs that only waited for that leave, too."""
        if self._syncs is not None:
            self._syncs.queue.committed()

    async def flush(self, seconds: float) -> None:
        """The last syncs of a task that ends."""
        if self._syncs is not None:
            await self._syncs.flush(seconds)

    async def _work(self) -> None:
        # Whatever goes wrong here is told, and the copying goes on without it.
        works = [part.run() for part in (self._syncs, self._runs) if part is not None]
        for ended in await asyncio.gather(*works, return_exceptions=True):
            if isinstance(ended, Exception):
                self._notice(f"Offset syncs or runs are no longer written, copying goes on: {ended!r}")

    async def close(self) -> None:
        """Nothing is read or written after this."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        if self._runs is not None:
            await self._runs.close()
        if self._syncs is not None:
            await self._syncs.close()


class _PartitionMapping:
    """One partition's."""

    __slots__ = ("_partition", "_queue", "_runs", "_unplaced")

    def __init__(self, partition: TaskPartition, syncs: OffsetSyncs, runs: PartitionRuns) -> None:
        self._partition = TopicPartition(partition.topic, partition.partition)
        self._queue = syncs.queue
        self._runs = runs
        self._unplaced = False

    def __call__(self, outgoing: Outgoing, base_offset: int) -> None:
        # A flow covers the source's offsets without a hole, so what no batch holds between two batches is never mirrored.
        linked, self._unplaced = not self._unplaced, base_offset < 0
        if base_offset < 0:
            return
        runs = outgoing.upstream_offsets
        if runs is None:
            self._queue.acked(self._partition, outgoing.first_offset, base_offset, outgoing.count)
            self._runs.acked(outgoing.first_offset, outgoing.count, base_offset, linked=linked)
        else:
            self._queue.acked_runs(self._partition, runs, base_offset)
            self._runs.acked_runs(runs, base_offset, linked=linked)


def offset_mapping(
    spec: TaskSpec,
    link: WorkerLink,
    producer: BatchProducer,
    source_id: SourceId,
    target: Cluster,
) -> OffsetMapping:
    """As the connector's config has it. `source_id` as for OffsetRuns; `target` is asked for topic ids only. ConfigError."""
    settings = MirrorSource().settings(spec.config)
    if not settings.boolean("emit.offset-syncs.enabled"):
        return OffsetMapping(None, None, link.notice)
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
        notice=link.notice,
        counters=link.counters,
    )
    topic, reader = offset_runs_topic(policy, spec.source_alias), _client_id(spec, "offset-runs-target-consumer", {})
    runs = OffsetRuns(
        topic,
        producer,
        lambda wanted: read_newest(spec.target_consumer, reader, topic, wanted, link.notice),
        source_id,
        target.topic_id,
        notice=link.notice,
        counters=link.counters,
    )
    return OffsetMapping(syncs, runs, link.notice)


def _syncs_producer(spec: TaskSpec, place: SyncsPlace) -> Mapping[str, str]:
    """As MirrorMaker; where it would have no address to go to, the way of the data."""
    if place.cluster == "source":
        properties = source_producer(spec.config)
        return properties if BOOTSTRAP in properties else {**properties, BOOTSTRAP: spec.source.get(BOOTSTRAP, "")}
    properties = target_producer(spec.config)
    return properties if BOOTSTRAP in properties else spec.target


def _client_id(spec: TaskSpec, role: str, properties: Mapping[str, str]) -> str:
    return client_id(spec.config, role, spec.task, properties.get("client.id"))
