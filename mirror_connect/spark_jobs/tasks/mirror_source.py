"""The task of a MirrorSourceConnector: fetch → decide → produce → commit, for its assigned partitions.

The order of the start is what makes a takeover safe: the producer id first (from then on the former owner is fenced), then
the positions (nothing newer than them can appear), then fetching. A kill at any point loses nothing: positions follow the
acknowledgements. It repeats what was acknowledged since the last commit, half a second at most while the target answers.

How it ends: told to finish, it stops fetching, waits up to 1.5 s for what is in flight, commits, returns. At the end of its
epoch it waits longer, as nobody waits for it, and what a thin link carries needn't be sent twice; but not for partitions
that the target doesn't take at present, as the others stand still meanwhile. Told to abandon, it returns at once.
Unreachable clusters are waited for, as MirrorMaker 2 does it; wrong credentials or settings raise.
A partition that can't go on stands still, named in the task's status, and is tried again; the others go on. Only when
every partition of the task needs a user's deed the task fails, after a commit (docs/decisions/0013).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable
from typing import Any, Final

from mirror_connect.connectors.counted import counted
from mirror_connect.connectors.mirror.mirror_source import (
    COPY,
    CORRUPT_BATCHES,
    NEW_TOPICS,
    OVERSIZE_RECORDS,
    SKIP,
    STOP,
    MirrorSource,
    own_text,
)
from mirror_connect.connectors.records.positions import NO_EPOCH
from mirror_connect.connectors.records.topic_ids import parse_topic_id
from mirror_connect.connectors.task_protocol import RUNNING, TaskPartition, TaskSpec
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import consumer_settings, notices, producer_settings
from mirror_connect.kafka_io.client.outage import Outage, cluster_away
from mirror_connect.kafka_io.consumer.fetcher import Fetched, Fetcher, SourcePartition
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.positions_writer import Position, PositionsWriter
from mirror_connect.spark_jobs.copy.standing import told
from mirror_connect.spark_jobs.copy.standing_partitions import StandingPartitions
from mirror_connect.spark_jobs.mapping.offset_mapping import offset_mapping
from mirror_connect.spark_jobs.mapping.offset_runs_writer import WRITE_WAIT_S
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.connecting import until_connected

COMMIT_S: Final = 0.5
# Told to finish, everything is over within two seconds: 1.5 for acknowledgements, the rest for the commit.
SETTLE_S: Final = 1.5
# An epoch's end: longer than any request may take, so that only a target that is away leaves something unacknowledged.
EPOCH_SETTLE_S: Final = 60.0
LAST_RUNS_S: Final = 0.15
LAST_COMMIT_S: Final = 0.25
FETCH_BUFFER: Final = 32 << 20
ALL_STAND: Final = "No partition of this task can be copied: restart it when that is mended"
STOP_AT_NEW_TOPIC: Final = (
    f"To have the new one copied from its beginning, set {NEW_TOPICS}={COPY}; to go on elsewhere in it, stop the connector "
    "and set the offset by REST"
)


async def run_source_task(spec: TaskSpec, link: WorkerLink) -> None:
    """Copies until the link wants it to end. Raises ConfigError, NotAuthorized, FencedError, PartitionRefusedError."""
    task = SourceTask(spec, link)
    try:
        await task.run()
    finally:
        await task.close()


class SourceTask:
    """One run of a source task, in one event loop."""

    def __init__(self, spec: TaskSpec, link: WorkerLink) -> None:
        self._spec = spec
        self._link = link
        self._consumer_settings = consumer_settings(spec.source)
        settings = MirrorSource().settings(spec.config)
        producing = producer_settings(spec.target)
        name = f"{spec.source_alias}->{spec.target_alias}|{spec.connector}-{spec.task}|replication-consumer"
        configured = spec.source.get("client.id")
        self._source = Cluster(spec.source, f"{configured}|{name}" if configured else name)
        self._target = Cluster(
            spec.target,
            spec.target.get("client.id") or f"connector-producer-{spec.connector}-{spec.task}",
            kind="producer",
        )
        bootstrap = "bootstrap.servers"
        self._source_away = cluster_away(f"source cluster {spec.source_alias}", spec.source.get(bootstrap), spec.run_id)
        self._target_away = cluster_away(f"target cluster {spec.target_alias}", spec.target.get(bootstrap), spec.run_id)
        self._producer = BatchProducer(
            self._target, producing, spec.transactional_id, link.lease_valid, link.notice, away=self._target_away
        )
        self._positions = PositionsWriter(self._producer, spec)
        self._mapping = offset_mapping(spec, link, self._producer, self._topic_id, self._target)
        # From the look at positions to their commit: an older look must not overwrite a newer one, nor come after a
        # partition has been given away.
        self._committing = asyncio.Lock()
        self._fetcher = Fetcher(
            self._source,
            spec.source,
            away=self._source_away,
            on_records=self._put,
            on_notice=link.notice,
            on_incident=link.incident,
            buffer_limit_bytes=FETCH_BUFFER,
            stop_at_new_topic=STOP_AT_NEW_TOPIC if own_text(settings, NEW_TOPICS) == STOP else None,
        )
        self._flows: dict[SourcePartition, PartitionFlow] = {}
        self._targets: dict[SourcePartition, TargetPartition] = {}
        self._standing = StandingPartitions(
            self._flows,
            self._targets,
            self._fetcher,
            self._producer,
            link,
            target=self._target,
            target_away=self._target_away,
            skips_corrupt=own_text(settings, CORRUPT_BATCHES) == SKIP,
            skips_oversize=own_text(settings, OVERSIZE_RECORDS) == SKIP,
        )
        self._warned_of_others = False
        self._warned_of_loss: set[str] = set()

    # --- the whole --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """From the first connection to the last commit."""
        for line in notices(self._spec.source, self._spec.target):
            self._link.notice(line)
        if not await self._unless_told_to_end(self._start()):
            return
        self._link.state = RUNNING
        self._link.assignment_version = self._spec.assignment_version
        fetching = asyncio.create_task(self._fetcher.run(), name="fetch")
        committing = asyncio.create_task(self._commit_for_ever(), name="commit")
        working = (fetching, committing)
        ending = asyncio.create_task(self._until_told_to_end(), name="orders")
        refused = asyncio.create_task(self._standing.all_stand.wait(), name="refused")
        endings: set[asyncio.Future[Any]] = {
            ending,
            refused,
            *working,
            self._producer.failed,
            self._positions.failure,
        }
        try:
            await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            self._raise_what_ends_writing()
            if not self._link.abandon_wanted:
                self._fetcher.pause()
                # Positions are committed meanwhile: a kill must not repeat more than at any other time.
                await self._settle()
                committing.cancel()
                await self._finish()
            for ended in (*working, ending):
                if ended.done() and not ended.cancelled():
                    ended.result()
            if self._standing.all_stand.is_set():
                raise PartitionRefusedError("\n".join((*self._link.standing, ALL_STAND)))
        finally:
            for task in (*working, ending, refused):
                task.cancel()
            await asyncio.gather(*working, ending, refused, return_exceptions=True)

    async def close(self) -> None:
        """Ends connections and tasks; what is not committed stays uncommitted."""
        await self._standing.close()
        self._link.settled = self._producer.settled
        await self._producer.close()
        await self._mapping.close()
        await self._positions.close()
        await self._source.close()
        await self._target.close()

    async def _start(self) -> None:
        self._link.settled = False
        await self._connected(self._target, self._target_away, f"target cluster {self._spec.target_alias}")
        await self._producer.start()
        # What former tasks have recorded is read while the source is being connected to.
        self._mapping.start()
        await self._take_on(self._spec.assigned, connect=True)

    async def _connected(self, cluster: Cluster, away: Outage, name: str) -> None:
        def tell() -> None:
            self._link.standing = told({}, (away.line,))

        await until_connected(cluster, name, away, self._link, tell)

    async def _settle(self) -> None:
        """Waits until what is in flight is acknowledged: SETTLE_S from the moment on that somebody waits for the end."""
        settling = asyncio.create_task(self._producer.settle(self._targets.values(), EPOCH_SETTLE_S))
        try:
            await self._while_nobody_waits(settling)
            if not self._link.abandon_wanted:
                await asyncio.wait({settling}, timeout=SETTLE_S)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def _finish(self) -> None:
        """The last commit: with patience while nobody waits for the end, or else with the little time that is left."""
        self._raise_what_ends_writing()
        patient = asyncio.create_task(self._commit_now(WRITE_WAIT_S, EPOCH_SETTLE_S))
        try:
            await self._while_nobody_waits(patient)
            if patient.done():
                self._link.committed = patient.result()
                return
        finally:
            patient.cancel()
            await asyncio.gather(patient, return_exceptions=True)
        if not self._link.abandon_wanted:
            self._link.committed = await self._commit_now(LAST_RUNS_S, LAST_COMMIT_S)

    def _raise_what_ends_writing(self) -> None:
        """Without its producer, or the topic of positions, the task can't commit either."""
        for lost in (self._producer.failed, self._positions.failure):
            if lost.done():
                lost.result()

    async def _while_nobody_waits(self, work: asyncio.Task[bool]) -> None:
        """Until it is done, or the worker waits for this task: for its end, or for partitions that another is to have.

        At the end of its epoch nobody does. What a thin link carries is waited for then, and needn't be sent twice.
        """
        link = self._link
        while link.finish_wanted and not work.done():
            if link.end_ordered or link.orders.assignment_version > link.assignment_version:
                return
            link.changed.clear()
            heard = asyncio.create_task(link.changed.wait())
            await asyncio.wait({work, heard}, return_when=asyncio.FIRST_COMPLETED)
            heard.cancel()

    async def _commit_now(self, runs_s: float, positions_s: float) -> bool:
        """Runs first, then the positions that belong to them; False if those didn't get through in time."""
        async with self._committing:
            self._mapping.committed()
            syncs = asyncio.create_task(self._mapping.flush(positions_s))
            try:
                self._note_positions()
                self._tell_passed()
                await self._mapping.before_commit(runs_s)
                flushed = await self._positions.flush(positions_s)
                await syncs
                return flushed
            finally:
                syncs.cancel()

    # --- orders -----------------------------------------------------------------------------------------------------

    async def _unless_told_to_end(self, work: Awaitable[None]) -> bool:
        """Awaits the work; False when the task was told to end before it was done."""
        doing = asyncio.ensure_future(work)
        told = asyncio.create_task(self._until_told_to_end(follow_assignments=False))
        try:
            await asyncio.wait({doing, told}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return True
            told.result()
            return False
        finally:
            for task in (doing, told):
                task.cancel()
            await asyncio.gather(doing, told, return_exceptions=True)

    async def _until_told_to_end(self, *, follow_assignments: bool = True) -> None:
        link = self._link
        following: asyncio.Task[None] | None = None
        try:
            while not link.finish_wanted and not link.abandon_wanted:
                link.changed.clear()
                if following is not None and following.done():
                    following.result()
                    following = None
                behind = link.orders.assignment_version > link.assignment_version
                if follow_assignments and following is None and behind:
                    # Beside this loop: a partition may leave slowly, and an order to finish must be heard meanwhile.
                    following = asyncio.create_task(self._follow())
                    following.add_done_callback(lambda _: link.changed.set())
                await link.changed.wait()
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _follow(self) -> None:
        """A changed assignment: first out with what was taken away, told to the worker, then in with what is new."""
        spec = await self._link.spec()
        wanted = {SourcePartition(a.topic, a.partition): a for a in spec.assigned}
        leaving = [p for p, flow in self._flows.items() if wanted.get(p) != flow.partition]
        self._standing.leaving = set(leaving)
        self._tell_passed()  # afterwards nobody knows where their logs end
        for partition in leaving:
            self._fetcher.remove(partition)
        await self._producer.release([self._targets[p] for p in leaving], SETTLE_S)
        if leaving and not await self._commit_now(SETTLE_S, SETTLE_S):
            async with self._committing:
                # Behind the new owner's positions these would take its partitions back.
                await self._positions.withdraw()
            self._link.notice(
                "Positions of partitions that were taken away are not committed in time; some records may come again"
            )
        for partition in leaving:
            flow = self._flows.pop(partition)
            flow.clear()
            del self._targets[partition]
            self._standing.forget(partition)
            self._positions.forget(flow.partition)
            self._mapping.forget(flow.partition)
        self._standing.leaving = set()
        self._spec = spec
        self._link.assignment_version = spec.assignment_version
        await self._take_on([a for p, a in wanted.items() if p not in self._flows])

    async def _take_on(self, partitions: Iterable[TaskPartition], *, connect: bool = False) -> None:
        added = list(partitions)
        found = await self._link.positions(added, fenceable=self._producer.fenceable) if added else []
        known = {(p.topic, p.partition): p for p in found}
        if connect:
            await self._connected(self._source, self._source_away, f"source cluster {self._spec.source_alias}")
        for partition in added:
            stored = known.get((partition.topic, partition.partition))
            position = topic_id = None
            epoch = NO_EPOCH
            if stored is not None and stored.offset is not None:
                position, topic_id = stored.offset + 1, parse_topic_id(stored.topic_id)
                epoch = stored.leader_epoch
                self._positions.known(partition, Position(stored.offset, topic_id, epoch))
            source = SourcePartition(partition.topic, partition.partition)
            flow = PartitionFlow(
                partition,
                position,
                self._link.counters,
                topic_id=topic_id,
                leader_epoch=epoch,
                check_crcs=self._consumer_settings.check_crcs,
                read_committed=self._consumer_settings.read_committed,
                on_corrupt=self._standing.stop_at_corrupt,
                on_refused=self._standing.refuse,
                on_written=self._written,
                on_others=self._warn_of_others,
                on_lost=self._warn_of_loss,
                on_placed=self._mapping.follow(partition, position),
            )
            self._flows[source] = flow
            self._targets[source] = self._producer.partition(partition.remote_topic, partition.partition, flow)
        for partition in added:
            source = SourcePartition(partition.topic, partition.partition)
            flow = self._flows[source]
            self._fetcher.add(source, flow.next_offset, flow.topic_id, flow.leader_epoch)

    # --- records ----------------------------------------------------------------------------------------------------

    def _put(self, fetched: Fetched) -> None:
        self._flows[fetched.partition].put(fetched)
        self._producer.wake(self._targets[fetched.partition])

    def _written(self, flow: PartitionFlow) -> None:
        self._link.wrote_to(flow.partition.remote_topic)
        self._standing.acknowledged(flow)

    def _warn_of_others(self, flow: PartitionFlow, offset: int, count: int) -> None:
        """Two connectors that copy the same topic to one place double its records, and nothing else would tell."""
        if not self._warned_of_others:
            self._warned_of_others = True
            copied = flow.partition
            self._link.incident(
                f"Somebody else writes to topic {copied.remote_topic} on the target too: {counted(count, 'record')} of "
                f"partition {copied.partition} from offset {offset} on did not come from this task. If another connector or "
                f"worker copies {copied.topic} there as well, all its records arrive twice: delete one of the two"
            )

    def _warn_of_loss(self, flow: PartitionFlow, offset: int) -> None:
        """A remote topic that was deleted by its users is not filled again unasked: it may be what they wanted."""
        copied = flow.partition
        if copied.remote_topic not in self._warned_of_loss:
            self._warned_of_loss.add(copied.remote_topic)
            self._link.incident(
                f"Topic {copied.remote_topic} on the target was deleted and created again, or has lost records: partition "
                f"{copied.partition} goes on with offset {offset} of {copied.topic}, and what was copied before may not be "
                "in it. To copy that again, stop the connector and reset its offsets by REST"
            )

    def _topic_id(self, partition: TaskPartition) -> bytes | None:
        """Of the topic that the partition's acknowledged records are of, which may be gone already."""
        flow = self._flows.get(SourcePartition(partition.topic, partition.partition))
        return None if flow is None else flow.topic_id

    def _note_positions(self) -> None:
        for source, flow in self._flows.items():
            if flow.topic_id is None:
                # A position that Kafka's workers or a user wrote: it is taken for one of the topic that is there now.
                with contextlib.suppress(KeyError):
                    flow.topic_id = self._fetcher.state(source).topic_id
            position = flow.moved()
            if position is not None:
                self._positions.note(flow.partition, position)

    async def _commit_for_ever(self) -> None:
        interval = min(COMMIT_S, self._spec.commit_interval_ms / 1000)
        while True:
            await asyncio.sleep(interval)
            async with self._committing:
                self._standing.give_back()
                self._standing.tell((self._positions.trouble, self._producer.trouble, *self._mapping.troubles))
                self._note_positions()
                self._tell_passed()
                # A crash in between leaves runs of records that are read again, which they foresee.
                await self._mapping.before_commit()
                self._positions.commit()
            self._mapping.committed()
            self._link.counters["commits"] = self._positions.commits

    def _tell_passed(self) -> None:
        """How far partitions are whose former owner may have left copies behind the records that are read again."""
        if self._spec.source.get("client.rack"):
            return  # a follower may know less of the source's end than that owner did
        for runs in self._mapping.behind():
            source = SourcePartition(runs.partition.topic, runs.partition.partition)
            end = -1
            with contextlib.suppress(KeyError):  # one that stands still, or is leaving, isn't fetched
                end = self._fetcher.state(source).high_watermark
            runs.passed(self._flows[source].position, end)
