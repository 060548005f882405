"""Which groups a checkpoint connector would translate, and what it would commit for them on the target.

It reads what the connector's tasks read, and decides by the same code (connectors/translation, kafka_io/admin). It only
reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.planning.plan import PlannedGroup, PlannedPosition
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_checkpoint import checkpoint_selection, sync_interval_s
from mirror_connect.connectors.mirror.settings import client_id, source_admin, source_consumer
from mirror_connect.connectors.partitions import CommittedOffsets, TopicPartition
from mirror_connect.connectors.records.checkpoints import CheckpointMemory
from mirror_connect.connectors.records.offset_syncs import offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.connectors.translation.offset_ranges import offset_ranges_topic
from mirror_connect.connectors.translation.offset_translation import OffsetTranslator, offsets_to_commit
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups
from mirror_connect.kafka_io.admin.movable_groups import obstacle_of
from mirror_connect.kafka_io.client.client_keys import Kind
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord
from mirror_connect.kafka_io.consumer.topic_reader import TopicReader

_ROLE: Final = "plan"


@dataclass(frozen=True, slots=True)
class Positions:
    """Groups with their positions, and remarks about what could not be read."""

    groups: Sequence[PlannedGroup]
    remarks: Sequence[str]


def positions(
    settings: Settings, target: Target, groups: Collection[str], running: Collection[str], timeout: float
) -> Positions:
    """Of these groups; blocking, for a thread without an event loop. `running`: those of the existing connector.

    ClusterUnreachable, NotAuthorized.
    """

    async def read() -> Positions:
        reading = _Reading(settings, target, groups, running)
        try:
            async with asyncio.timeout(timeout):
                return await reading.positions()
        finally:
            await reading.close()

    try:
        return asyncio.run(read())
    except TimeoutError:
        raise ClusterUnreachable(f"The positions of groups could not be read within {timeout:g} s") from None


class _Reading:
    def __init__(self, settings: Settings, target: Target, groups: Collection[str], running: Collection[str]) -> None:
        self._settings = settings
        self._wanted = sorted(groups)
        self._running = running
        self._remarks: list[str] = []
        self._clusters: list[Cluster] = []
        config = settings.originals
        self._alias, self._target_alias = settings.text("source.cluster.alias"), settings.text("target.cluster.alias")
        self._policy = replication_policy(config)
        self._selection = checkpoint_selection(settings)
        self._source = self._cluster(source_admin(config), "admin")
        self._target = self._cluster(target.admin, "admin")
        self._place = offset_syncs_place(
            self._policy, settings.text("offset-syncs.topic.location"), self._alias, self._target_alias
        )
        self._target_reader = self._reader(target.consumer, "target")
        self._syncs_reader = self._target_reader
        if self._place.cluster == "source":
            self._syncs_reader = self._reader(source_consumer(config), "source")

    async def close(self) -> None:
        for cluster in self._clusters:
            await cluster.close()

    async def positions(self) -> Positions:
        readers = [asyncio.ensure_future(reader.run()) for reader in {self._target_reader, self._syncs_reader}]
        work = asyncio.ensure_future(self._positions())
        try:
            await asyncio.wait([work, *readers], return_when=asyncio.FIRST_COMPLETED)
            for reader in readers:
                if reader.done():
                    reader.result()
            return Positions(await work, self._remarks)
        finally:
            for each in (work, *readers):
                each.cancel()
            await asyncio.gather(work, *readers, return_exceptions=True)

    async def _positions(self) -> list[PlannedGroup]:
        memory = CheckpointMemory(frozenset(self._wanted))
        records: list[ReadRecord] = []
        readable = await self._read(self._target_reader, self._policy.checkpoints_topic(self._alias), records.append)
        memory.load((record.key, record.value) for record in records)
        translator = OffsetTranslator(
            self._policy,
            (self._alias, self._target_alias),
            self._selection.accepts_topic,
            must_read_to_end=readable is False,
        )
        ranges = offset_ranges_topic(self._policy, self._alias)
        await self._read(self._target_reader, ranges, _skipping(translator.add_ranges))
        if await self._read(self._syncs_reader, self._place.topic, _skipping(translator.add_sync)) is None:
            self._remarks.append(
                f"topic {self._place.topic} doesn't exist on the {self._place.cluster} cluster: offsets are translated only "
                "after a MirrorSourceConnector with the same offset-syncs.topic.location has copied records"
            )
        translator.syncs_read_to_end()
        committed = (await ConsumerGroups(self._source, SOURCE_USER).read(self._wanted)).committed
        named = {topic for offsets in committed.values() for topic, _ in offsets}
        await asyncio.to_thread(translator.judge, named, self._selection.judge_topics)
        topics = {topic for offsets in committed.values() for topic in translator.accepted(offsets)}
        await self._source.refresh(topics)
        await self._target.refresh(set().union(*map(translator.remote_topics, committed.values())))
        for group, offsets in committed.items():
            memory.take(translator.checkpoints(group, offsets, self._source.topic_id, self._target.topic_id))
        there, lines = await self._on_target()
        return [
            self._group(group, memory, committed.get(group, {}), translator, there.get(group, {}), lines.get(group))
            for group in self._wanted
        ]

    async def _on_target(self) -> tuple[Mapping[str, CommittedOffsets], dict[str, str]]:
        """The groups' committed offsets on the target, and why some would not be moved."""
        groups = ConsumerGroups(self._target, TARGET_USER)
        await self._target.connect()
        listed = await groups.listed()
        read = await groups.read([group for group in self._wanted if group in listed])
        lines = {group: f"can't be read on the target: {why}" for group, why in read.problems.items()}
        for group in self._wanted:
            if (obstacle := obstacle_of(listed.get(group))) is not None:
                lines[group] = obstacle.text
        return read.committed, lines

    def _group(  # noqa: PLR0917 — all of one group
        self,
        group: str,
        memory: CheckpointMemory,
        committed: CommittedOffsets,
        translator: OffsetTranslator,
        there: CommittedOffsets,
        line: str | None,
    ) -> PlannedGroup:
        checkpoints = memory.of_group(group)
        commit = offsets_to_commit(checkpoints, there) if line is None else {}
        if sync_interval_s(self._settings) is None:
            commit = {}
        found = [
            PlannedPosition(
                *partition,
                each.upstream,
                each.downstream,
                there[partition].offset if partition in there else None,
                partition in commit,
            )
            for partition, each in sorted(checkpoints.items())
        ]
        accepted = translator.accepted(committed)
        wanted = {TopicPartition(translator.remote_topic(p), p.partition) for p in committed if p.topic in accepted}
        return PlannedGroup(group, group in self._running, found, len(wanted - checkpoints.keys()), line)

    async def _read(self, reader: TopicReader, topic: str, deliver: Callable[[ReadRecord], None]) -> bool | None:
        """Reads a topic to its end; None if it does not exist, False if the right to read it is missing."""
        return await reader.at_end(topic) if await reader.tail(topic, deliver) else None

    def _reader(self, properties: Mapping[str, str], side: str) -> TopicReader:
        return TopicReader(self._cluster(properties, "consumer"), properties, side, self._remarks.append)

    def _cluster(self, properties: Mapping[str, str], kind: Kind) -> Cluster:
        identity = client_id(self._settings.originals, _ROLE, configured=properties.get("client.id"))
        cluster = Cluster(properties, identity, kind)
        self._clusters.append(cluster)
        return cluster


def _skipping(add: Callable[[bytes | None, bytes | None], None]) -> Callable[[ReadRecord], None]:
    def deliver(record: ReadRecord) -> None:
        # As in the task: a record that can't be read is skipped.
        with contextlib.suppress(ValueError, OverflowError, struct.error):
            add(record.key, record.value)

    return deliver
