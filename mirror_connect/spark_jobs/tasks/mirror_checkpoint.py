"""The task of a MirrorCheckpointConnector: reads what its groups have committed at the source, translates, writes the news.

Before the first round everything that was known is read: the checkpoints topic (after the producer id, so that no former
owner adds to it), then offset syncs and runs, each to its end. The first round comes at once, where MirrorMaker waits for
an interval. Groups on the target are moved by group_sync.py, also while the source is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from mirror_connect.connectors.counted import counted
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_checkpoint import (
    MirrorCheckpoint,
    checkpoint_selection,
    emission_interval_s,
    sync_interval_s,
)
from mirror_connect.connectors.records.checkpoints import Checkpoint, CheckpointMemory, checkpoint_position_key
from mirror_connect.connectors.records.offset_syncs import offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER, on_topic
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.translation.offset_runs import offset_runs_topic
from mirror_connect.connectors.translation.position_translation import PositionTranslator
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups
from mirror_connect.kafka_io.client.client_keys import Kind
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord
from mirror_connect.kafka_io.consumer.topic_reader import TopicReader
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.group_sync import GroupSync
from mirror_connect.spark_jobs.tasks.writing_task import WritingTask, every, together

RETRY_S: Final = 1.0
RUNS_PATIENCE_S: Final = 30.0
BY_SYNCS: Final = "translating by offset syncs"
# What the groups of a run are known for, so that an epoch that follows in this process doesn't say it again.
_told: dict[str, dict[str, str]] = {}
# Runs that have said that there are too many partitions to keep, likewise.
_crowded: set[str] = set()


async def run_checkpoint_task(spec: TaskSpec, link: WorkerLink) -> None:
    """Translates until the link wants it to end. Raises ConfigError, NotAuthorized, FencedError, PartitionRefusedError."""
    task = CheckpointTask(spec, link)
    try:
        await task.run()
    finally:
        await task.close()


class CheckpointTask:
    """One run of a checkpoint task, in one event loop."""

    def __init__(self, spec: TaskSpec, link: WorkerLink) -> None:
        self._spec = spec
        self._link = link
        self._frame = WritingTask(spec, link)
        self._settings = MirrorCheckpoint().settings(spec.config)
        self._policy = replication_policy(spec.config)
        self._selection = checkpoint_selection(self._settings)
        self._clusters: list[Cluster] = []
        self._source = self._cluster(spec.source_admin, "checkpoint-source-admin", "admin")
        self._target = self._cluster(spec.target_admin, "checkpoint-target-admin", "admin")
        self._target_reader = self._reader(spec.target_consumer, "target", "checkpoints-target-consumer")
        self._place = offset_syncs_place(
            self._policy, self._settings.text("offset-syncs.topic.location"), spec.source_alias, spec.target_alias
        )
        self._syncs_reader = (
            self._reader(spec.source, "source", "offset-syncs-source-consumer")
            if self._place.cluster == "source"
            else self._target_reader
        )
        self._groups = ConsumerGroups(self._source, SOURCE_USER)
        self._memory = CheckpointMemory(frozenset(spec.assigned_groups))
        self._translated = asyncio.Event()
        # What is tried in vain at present.
        self._vain: set[str] = set()
        self._unreadable: dict[str, str] = {}
        self._syncs_exist = True
        self._syncs_missed = False
        self._translator = self._new_translator(must_read_to_end=False)
        self._group_sync: GroupSync | None = None
        self._frame.troubles = self._troubles

    async def run(self) -> None:
        """From the first connection to the end."""
        await self._frame.run(self._work)

    async def close(self) -> None:
        """Ends connections."""
        await self._frame.close()
        for cluster in self._clusters:
            await cluster.close()

    # --- the whole --------------------------------------------------------------------------------------------------

    def _troubles(self) -> list[str]:
        readers = {self._target_reader: None, self._syncs_reader: None}
        stuck = [] if self._group_sync is None else self._group_sync.stuck
        return [*(line for reader in readers for line in reader.troubles), *stuck]

    async def _work(self) -> None:
        readers = {self._target_reader, self._syncs_reader}
        await together(self._translate_and_sync(), *(reader.run() for reader in readers))

    async def _translate_and_sync(self) -> None:
        spec = self._spec
        bootstrap = spec.target_admin.get("bootstrap.servers")
        await self._frame.connected(self._target, f"target cluster {spec.target_alias}", bootstrap)
        await self._load_checkpoints()
        works = [self._translate_for_ever()]
        pace_s = sync_interval_s(self._settings)
        if pace_s is not None:
            works.append(self._sync_for_ever(pace_s))
        await together(*works)

    async def _translate_for_ever(self) -> None:
        bootstrap = self._spec.source_admin.get("bootstrap.servers")
        await self._frame.connected(self._source, f"source cluster {self._spec.source_alias}", bootstrap)
        while not await self._follow_mappings():
            await asyncio.sleep(RETRY_S)
        self._translator.syncs_read_to_end()
        await every(emission_interval_s(self._settings), self._round)

    async def _sync_for_ever(self, pace_s: float) -> None:
        told = _told.setdefault(self._spec.run_id, {})
        target_groups = ConsumerGroups(self._target, TARGET_USER)
        sync = self._group_sync = GroupSync(target_groups, self._link.lease_valid, self._link.notice, told)
        # The first round may know more than what was told before. But a source that is gone for good is when it counts
        # that groups get to where they were told to go on.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pace_s):
                await self._translated.wait()
        await every(pace_s, lambda: self._unless_away("moving groups", lambda: sync.run(self._memory)))

    # --- what was known ---------------------------------------------------------------------------------------------

    async def _load_checkpoints(self) -> None:
        checkpoints = self._policy.checkpoints_topic(self._spec.source_alias)
        records: list[ReadRecord] = []
        readable = True
        if await self._begin(self._target_reader, checkpoints, records.append):
            readable = await self._target_reader.at_end(checkpoints)
        problems = self._memory.load((record.key, record.value) for record in records)
        if problems:
            self._link.notice(
                f"{counted(len(problems), 'record')} of topic {checkpoints} skipped, the first: {problems[0]}"
            )
        if not readable:
            may_read = on_topic("READ", checkpoints).grant(TARGET_USER)
            self._link.notice(
                f"Topic {checkpoints} can't be read on the target, so what was translated before isn't known: only offset "
                f"syncs from now on are used, as older ones might take groups back: {may_read}"
            )
        self._translator = self._new_translator(must_read_to_end=not readable)

    async def _follow_mappings(self) -> bool:
        """Begins to read offset syncs and runs as soon as they exist; True when what exists is read to its end."""
        runs = offset_runs_topic(self._policy, self._spec.source_alias)
        translator = self._translator
        if await self._begin(self._target_reader, runs, self._skipping(runs, translator.add_runs)):
            # Whatever was read of the runs is true; without the rest translations are coarser, not wrong.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RUNS_PATIENCE_S):
                    await self._target_reader.at_end(runs)
        syncs = self._place.topic
        self._syncs_exist = await self._begin(self._syncs_reader, syncs, self._skipping(syncs, translator.add_sync))
        return not self._syncs_exist or await self._syncs_reader.at_end(syncs)

    def _tell_of_missing_syncs(self, topics: Collection[str]) -> None:
        """`topics`: where groups are, of those that are translated."""
        if self._syncs_exist:
            self._goes(BY_SYNCS)
            return
        missing = f"topic {self._place.topic} doesn't exist on the {self._place.cluster} cluster"
        if not self._translator.has_runs(topics):
            # In the status, too: who has set another place than the source connector's would see a task that does nothing.
            self._say(
                BY_SYNCS,
                f"{missing}: nothing can be translated before a MirrorSourceConnector with the same "
                "offset-syncs.topic.location has written to it",
            )
            return
        self._goes(BY_SYNCS)
        if not self._syncs_missed:
            self._syncs_missed = True
            self._link.notice(f"T{missing[1:]}: positions are translated by runs alone, what no run covers is not")

    async def _begin(self, reader: TopicReader, topic: str, deliver: Callable[[ReadRecord], None]) -> bool:
        while True:
            try:
                following = await reader.follow(topic, deliver)
                self._goes(f"reading topic {topic}")
                return following
            except ClusterUnreachable as error:
                self._say(f"reading topic {topic}", str(error))
            await asyncio.sleep(RETRY_S)

    def _skipping(self, topic: str, add: Callable[[bytes | None, bytes | None], None]) -> Callable[[ReadRecord], None]:
        said = False

        def deliver(record: ReadRecord) -> None:
            nonlocal said
            try:
                add(record.key, record.value)
            # Mostly UnreadableRecord. Whatever numbers a record holds, it must not end the task at each of its starts.
            except (ValueError, OverflowError, struct.error) as error:
                if not said:
                    said = True
                    self._link.notice(f"Records of topic {topic} are skipped, the first at {record.offset}: {error}")

        return deliver

    # --- rounds -----------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        checkpoints = await self._unless_away("translating positions", self._translate)
        if checkpoints is None:
            return
        news = self._memory.take(checkpoints)
        if news:
            now = int(time.time() * 1000)
            topic = self._policy.checkpoints_topic(self._spec.source_alias)
            records = [NewRecord(each.key(), each.value(), now) for each in news]
            places = [checkpoint_position_key(self._spec.connector, each) for each in news]
            await self._frame.write(topic, records, places)
        self._translated.set()

    async def _translate(self) -> list[Checkpoint]:
        await self._follow_mappings()
        # If nobody is there it is one line, not one for each group.
        await self._source.connect()
        read = await self._groups.read(self._spec.assigned_groups)
        self._say_unreadable(read.troubles)
        translator = self._translator
        if translator.crowded and self._spec.run_id not in _crowded:
            _crowded.add(self._spec.run_id)
            self._link.notice(translator.crowded)
        named = {topic for committed in read.positions.values() for topic, _ in committed}
        # Beside the loop: an expression that is slow for a name takes a second of it.
        await asyncio.to_thread(translator.judge, named, self._selection.judge_topics)
        topics = {topic for committed in read.positions.values() for topic in translator.accepted(committed)}
        self._tell_of_missing_syncs(topics)
        # Their ids, which tell whether they are still the topics that the runs are of.
        await asyncio.gather(
            self._source.refresh(topics),
            self._target.refresh({translator.remote_topic(topic) for topic in topics}),
        )
        return [
            checkpoint
            for group, committed in read.positions.items()
            for checkpoint in translator.checkpoints(group, committed, self._source.topic_id, self._target.topic_id)
        ]

    async def _unless_away(self, what: str, do: Callable[[], Awaitable[Any]]) -> Any:
        """The result; None, and a line once, while a cluster is away: the next round is soon enough."""
        try:
            result = await do()
        except (ClusterUnreachable, ConnectionLost) as error:
            self._say(what, str(error))
            return None
        self._goes(what)
        return result

    def _say(self, what: str, trouble: str) -> None:
        if what not in self._vain:
            self._link.notice(f"{_waits(what)}: {trouble}; it is tried again")
        self._vain.add(what)
        self._frame.outage(_waits(what)).lasts(trouble)

    def _goes(self, what: str) -> None:
        self._vain.discard(what)
        self._frame.outage(_waits(what)).over()

    def _say_unreadable(self, troubles: dict[str, str]) -> None:
        for why in sorted(set(troubles.values())):
            groups = sorted(group for group, its in troubles.items() if its == why and group not in self._unreadable)
            if groups:
                more = f" and {counted(len(groups) - 1, 'more group')}" if len(groups) > 1 else ""
                self._link.notice(
                    f"Group {groups[0]}{more} can't be read at the source: {why}; the others are translated"
                )
        self._unreadable = troubles

    # --- parts ------------------------------------------------------------------------------------------------------

    def _new_translator(self, *, must_read_to_end: bool) -> PositionTranslator:
        return PositionTranslator(
            self._policy,
            (self._spec.source_alias, self._spec.target_alias),
            self._selection.accepts_topic,
            must_read_to_end=must_read_to_end,
        )

    def _reader(self, properties: Any, side: str, role: str) -> TopicReader:
        cluster = self._cluster(properties, role, "consumer")
        return TopicReader(cluster, properties, side, self._link.notice)

    def _cluster(self, properties: Any, role: str, kind: Kind) -> Cluster:
        spec = self._spec
        name = f"{spec.source_alias}->{spec.target_alias}|{spec.connector}-{spec.task}|{role}"
        configured = properties.get("client.id")
        cluster = Cluster(properties, f"{configured}|{name}" if configured else name, kind)
        self._clusters.append(cluster)
        return cluster


def _waits(what: str) -> str:
    return f"{what[:1].upper()}{what[1:]} has to wait"
