"""The task of a MirrorCheckpointConnector: reads committed offsets of its groups, translates them, writes checkpoints.

Before the first round it reads topics to their ends: first the checkpoints topic, when it has the producer id, as no former
owner can write to it any more; then offset syncs and ranges. The first round comes at once, where MirrorMaker waits for an
interval. group_sync.py commits the translated offsets on the target, also while the source is unreachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_checkpoint import (
    MirrorCheckpoint,
    checkpoint_selection,
    emission_interval_s,
    sync_interval_s,
)
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.records.checkpoints import Checkpoint, CheckpointMemory, checkpoint_offset_key
from mirror_connect.connectors.records.offset_syncs import offset_syncs_place
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER, on_topic
from mirror_connect.connectors.task_measures import SOURCE, TARGET, GroupMeasures
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.translation.offset_ranges import offset_ranges_topic
from mirror_connect.connectors.translation.offset_translation import OffsetTranslator
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups
from mirror_connect.kafka_io.admin.movable_groups import Obstacle
from mirror_connect.kafka_io.client.client_keys import Kind
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.record_reading import ReadRecord
from mirror_connect.kafka_io.consumer.topic_reader import TopicReader
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.copy.request_rows import RequestRows
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.group_measures import GroupFigures
from mirror_connect.spark_jobs.tasks.group_sync import GroupSync
from mirror_connect.spark_jobs.tasks.writing_task import WritingTask, every, together

RETRY_S: Final = 1.0
RANGES_PATIENCE_S: Final = 30.0
AGAIN: Final = "it is tried again"
# By run: why its groups can't be moved, so that the next epoch in this process doesn't log it again.
_logged_obstacles: dict[str, dict[str, Obstacle]] = {}

_TRANSLATION_WAITS: Final = Problem(
    "translation", ProblemCode.TRANSLATION_WAITS, "Offset translation is paused", advice=AGAIN
)
_GROUPS_WAIT: Final = Problem("groups", ProblemCode.GROUPS_WAIT, "Consumer group sync is paused", advice=AGAIN)


async def run_checkpoint_task(spec: TaskSpec, link: WorkerLink) -> None:
    """Translates until it is ordered to end. Raises ConfigError, NotAuthorized, FencedError, PartitionRefusedError."""
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
        self._writing = WritingTask(spec, link, self._work)
        self._settings = MirrorCheckpoint().settings(spec.config)
        self._policy = replication_policy(spec.config)
        self._selection = checkpoint_selection(self._settings)
        self._clusters: list[tuple[str, Cluster]] = [(TARGET, self._writing.frame.target)]
        self._source = self._cluster(spec.source_admin, SOURCE, "checkpoint-source-admin", "admin")
        self._target = self._cluster(spec.target_admin, TARGET, "checkpoint-target-admin", "admin")
        # A checkpoint that was aborted is not there for those who read committed: it has to be written again.
        self._target_reader = self._reader(
            spec.target_consumer, "target", "checkpoints-target-consumer", committed=True
        )
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
        self._unreadable: dict[str, str] = {}
        self._syncs_exist = True
        self._syncs_missed = False
        self._translator = self._new_translator(must_read_to_end=False)
        self._group_sync: GroupSync | None = None
        self._problems = self._writing.problems
        self._writing.found = self._found
        self._figures = GroupFigures(self._memory)
        self._writing.groups = self._measured_groups
        self._writing.requests = RequestRows(self._clusters)

    async def run(self) -> None:
        """From the first connection to the end."""
        await self._writing.run()

    async def close(self) -> None:
        """Ends connections."""
        await self._writing.close()
        for _, cluster in self._clusters[1:]:  # the first one is the frame's
            await cluster.close()

    # The whole task.

    def _found(self) -> Iterable[Problem]:
        readers = {self._target_reader: None, self._syncs_reader: None}
        stuck = [] if self._group_sync is None else self._group_sync.stuck
        return (*(problem for reader in readers for problem in reader.problems), *stuck)

    def _measured_groups(self) -> tuple[tuple[GroupMeasures, ...], int]:
        return self._figures.take({} if self._group_sync is None else self._group_sync.found)

    async def _work(self) -> None:
        readers = {self._target_reader, self._syncs_reader}
        await together(self._translate_and_sync(), *(reader.run() for reader in readers))

    async def _translate_and_sync(self) -> None:
        frame = self._writing.frame
        await frame.connected(self._target, frame.unreachable("target", self._spec.target_admin))
        await self._load_checkpoints()
        works = [self._translate_for_ever()]
        pace_s = sync_interval_s(self._settings)
        if pace_s is not None:
            works.append(self._sync_for_ever(pace_s))
        await together(*works)

    async def _translate_for_ever(self) -> None:
        frame = self._writing.frame
        await frame.connected(self._source, frame.unreachable("source", self._spec.source_admin))
        while not await self._tail_mappings():
            await asyncio.sleep(RETRY_S)
        self._translator.syncs_read_to_end()
        await every(emission_interval_s(self._settings), self._round)

    async def _sync_for_ever(self, pace_s: float) -> None:
        logged = _logged_obstacles.setdefault(self._spec.run_id, {})
        target_groups = ConsumerGroups(self._target, TARGET_USER)
        sync = self._group_sync = GroupSync(target_groups, self._link.lease_valid, self._link.log, logged)
        # The first round may find newer committed offsets than the existing checkpoints have. But if the source is gone for
        # good, groups need the existing ones.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pace_s):
                await self._translated.wait()

        async def sync_all() -> None:
            await sync.run(self._memory)
            self._figures.synced()

        await every(pace_s, lambda: self._unless_away(_GROUPS_WAIT, sync_all))

    # Topics read before the first round.

    async def _load_checkpoints(self) -> None:
        checkpoints = self._policy.checkpoints_topic(self._spec.source_alias)
        records: list[ReadRecord] = []
        readable = True
        if await self._begin(self._target_reader, checkpoints, records.append):
            readable = await self._target_reader.at_end(checkpoints)
        problems = self._memory.load((record.key, record.value) for record in records)
        if problems:
            self._link.log(
                f"{counted(len(problems), 'record')} of topic {checkpoints} skipped, the first: {problems[0]}"
            )
        if not readable:
            may_read = on_topic("READ", checkpoints).grant(TARGET_USER)
            self._link.log(
                f"Topic {checkpoints} can't be read on the target, so only new offset syncs are used. Older ones could move "
                f"groups backwards: {may_read}"
            )
        self._translator = self._new_translator(must_read_to_end=not readable)

    async def _tail_mappings(self) -> bool:
        """Begins to read offset syncs and ranges as soon as they exist. True when what exists is read to its end."""
        ranges = offset_ranges_topic(self._policy, self._spec.source_alias)
        translator = self._translator
        if await self._begin(self._target_reader, ranges, self._skipping(ranges, translator.add_ranges)):
            # The ranges read so far are right. Without the rest, translations are coarser, not wrong.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RANGES_PATIENCE_S):
                    await self._target_reader.at_end(ranges)
        syncs = self._place.topic
        self._syncs_exist = await self._begin(self._syncs_reader, syncs, self._skipping(syncs, translator.add_sync))
        return not self._syncs_exist or await self._syncs_reader.at_end(syncs)

    def _report_missing_syncs(self, topics: Collection[str]) -> None:
        """`topics`: those of the groups' committed offsets that are translated."""
        if self._syncs_exist:
            self._problems.resolve(self._place.topic, ProblemCode.OFFSET_SYNCS_MISSING)
            return
        missing = f"topic {self._place.topic} doesn't exist on the {self._place.cluster} cluster"
        if not self._translator.has_ranges(topics):
            # In the status, too: if the location differs from the source connector's, nothing else shows it.
            problem = Problem(
                self._place.topic,
                ProblemCode.OFFSET_SYNCS_MISSING,
                "Translation by offset syncs is paused",
                f"{missing}: nothing can be translated before a MirrorSourceConnector with the same "
                "offset-syncs.topic.location has written to it",
                AGAIN,
            )
            self._problems.report(problem, shown=True)
            return
        self._problems.resolve(self._place.topic, ProblemCode.OFFSET_SYNCS_MISSING)
        if not self._syncs_missed:
            self._syncs_missed = True
            self._link.log(
                f"T{missing[1:]}: offsets are translated by offset ranges alone, and those outside all ranges are not"
            )

    async def _begin(self, reader: TopicReader, topic: str, deliver: Callable[[ReadRecord], None]) -> bool:
        while True:
            try:
                exists = await reader.tail(topic, deliver)
                self._problems.resolve(topic, ProblemCode.TOPIC_UNREADABLE)
                return exists
            except ClusterUnreachable as error:
                text = f"Reading topic {topic} is paused"
                problem = Problem(topic, ProblemCode.TOPIC_UNREADABLE, text, str(error), AGAIN)
                self._problems.report(problem, shown=True)
            await asyncio.sleep(RETRY_S)

    def _skipping(self, topic: str, add: Callable[[bytes | None, bytes | None], None]) -> Callable[[ReadRecord], None]:
        logged = False

        def deliver(record: ReadRecord) -> None:
            nonlocal logged
            try:
                add(record.key, record.value)
            # Usually UnreadableRecord. No value in a record may end the task: it would read that record at each start.
            except (ValueError, OverflowError, struct.error) as error:
                if not logged:
                    logged = True
                    self._link.log(f"Records of topic {topic} are skipped, the first at {record.offset}: {error}")

        return deliver

    # Rounds.

    async def _round(self) -> None:
        checkpoints = await self._unless_away(_TRANSLATION_WAITS, self._translate)
        if checkpoints is None:
            return
        changed = self._memory.take(checkpoints)
        if changed:
            now = int(time.time() * 1000)
            topic = self._policy.checkpoints_topic(self._spec.source_alias)
            records = [NewRecord(each.key(), each.value(), now) for each in changed]
            await self._writing.write(topic, records, self._keys(changed))
            self._figures.wrote(changed, max(0, int(time.time() * 1000) - now))
        if not self._translated.is_set():
            # An earlier process may have ended after a checkpoint and before its key was in connect-offsets.
            self._writing.touch(self._keys(each for each in checkpoints if each.downstream >= 0))
        self._translated.set()

    def _keys(self, checkpoints: Iterable[Checkpoint]) -> list[bytes]:
        return [checkpoint_offset_key(self._spec.connector, each) for each in checkpoints]

    async def _translate(self) -> list[Checkpoint]:
        await self._tail_mappings()
        # If the source is unreachable, this gives one line instead of one for each group.
        await self._source.connect()
        read_ms = int(time.time() * 1000)
        read = await self._groups.read(self._spec.assigned_groups)
        self._log_unreadable(read.problems)
        translator = self._translator
        if translator.crowded:
            crowded = Problem("partitions", ProblemCode.TOO_MANY_PARTITIONS, translator.crowded)
            # Logged once in a run, and not again in each of its epochs.
            if self._problems.report(crowded, logged=False):
                self._link.log(translator.crowded)
        named = {topic for committed in read.committed.values() for topic, _ in committed}
        # In a thread: a regular expression may take a second for one name.
        await asyncio.to_thread(translator.judge, named, self._selection.judge_topics)
        topics = {topic for committed in read.committed.values() for topic in translator.accepted(committed)}
        self._report_missing_syncs(topics)
        # The ids show whether these are still the topics of the ranges.
        await asyncio.gather(
            self._source.refresh(topics),
            self._target.refresh(set().union(*map(translator.remote_topics, read.committed.values()))),
        )
        places = {
            group: translator.places(group, committed, self._source.topic_id, self._target.topic_id)
            for group, committed in read.committed.items()
        }
        self._figures.checked(places, read_ms)
        return [each.checkpoint for found in places.values() for each in found if each.checkpoint is not None]

    async def _unless_away(self, waits: Problem, do: Callable[[], Awaitable[Any]]) -> Any:
        """The result; None if a cluster is unreachable, which is reported as `waits`. The next round tries again."""
        try:
            result = await do()
        except (ClusterUnreachable, ConnectionLost) as error:
            self._problems.report(waits.because(str(error)), shown=True)
            return None
        self._problems.resolve(waits.subject, waits.code)
        return result

    def _log_unreadable(self, problems: dict[str, str]) -> None:
        for why in sorted(set(problems.values())):
            groups = sorted(group for group, its in problems.items() if its == why and group not in self._unreadable)
            if groups:
                more = f" and {counted(len(groups) - 1, 'more group')}" if len(groups) > 1 else ""
                self._link.log(f"Group {groups[0]}{more} can't be read at the source: {why}; the others are translated")
        self._unreadable = problems

    # Parts.

    def _new_translator(self, *, must_read_to_end: bool) -> OffsetTranslator:
        return OffsetTranslator(
            self._policy,
            (self._spec.source_alias, self._spec.target_alias),
            self._selection.accepts_topic,
            must_read_to_end=must_read_to_end,
        )

    def _reader(self, properties: Any, side: str, role: str, *, committed: bool = False) -> TopicReader:
        cluster = self._cluster(properties, side, role, "consumer")
        return TopicReader(cluster, properties, side, self._link.log, committed=committed)

    def _cluster(self, properties: Any, side: str, role: str, kind: Kind) -> Cluster:
        spec = self._spec
        name = f"{spec.source_alias}->{spec.target_alias}|{spec.connector}-{spec.task}|{role}"
        configured = properties.get("client.id")
        cluster = Cluster(properties, f"{configured}|{name}" if configured else name, kind)
        self._clusters.append((side, cluster))
        return cluster
