"""The task of a MirrorSourceConnector: fetch → decide → produce → commit, for its assigned partitions.

The order of the start makes a takeover safe: first the producer id, which fences the former owner; then the source offsets,
as nothing newer can appear after that; then fetching. A kill at any point loses nothing, because source offsets follow the
acknowledgements. It repeats what was acknowledged since the last commit: half a second at most while the target answers.

When the task is ordered to finish, it stops fetching, waits up to 1.5 s for batches in flight, commits and returns. At the
end of its epoch it waits longer: nobody waits for the task then, and a slow link needn't send the same batches twice. It
doesn't wait for partitions that the target doesn't accept at present, as all others pause meanwhile. When it is ordered to
abandon, it returns at once.

A partition that can't continue is stalled: the status names it, it is tried again, and the others continue. The task fails
only when all of its partitions need a user, or at a record that can't be transformed. It commits before that
(docs/decisions/0013).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.dead_letters import dead_letter_topic
from mirror_connect.connectors.mirror.mirror_source import (
    COPY,
    CORRUPT_BATCHES,
    NEW_TOPICS,
    OVERSIZE_RECORDS,
    SKIP,
    STOP,
    MirrorSource,
)
from mirror_connect.connectors.mirror.transform_sql import TIMEOUT
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, status_lines
from mirror_connect.connectors.record_errors import RecordError, SkippedRecords
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.records.topic_ids import parse_topic_id
from mirror_connect.connectors.task_measures import SOURCE, TARGET
from mirror_connect.connectors.task_protocol import MIRROR_MAKER_1, TaskPartition, TaskSpec
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import consumer_settings
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch, Fetcher
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.spark_jobs.copy.computed_batch import Computing, begin_computing
from mirror_connect.spark_jobs.copy.copy_measures import CopyMeasures
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters
from mirror_connect.spark_jobs.copy.letter_context import written_of
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.record_failures import RecordFailures
from mirror_connect.spark_jobs.copy.remote_gaps import RemoteGaps
from mirror_connect.spark_jobs.copy.remote_topic_events import RemoteTopicEvents
from mirror_connect.spark_jobs.copy.reported_source_offsets import ReportedSourceOffsets
from mirror_connect.spark_jobs.copy.request_rows import RequestRows
from mirror_connect.spark_jobs.copy.slow_transform import SlowTransform
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset, SourceOffsetsWriter
from mirror_connect.spark_jobs.copy.stalled_partitions import StalledPartitions
from mirror_connect.spark_jobs.mapping.offset_mapping import offset_mapping
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.advice import RESTART, SET_OFFSETS
from mirror_connect.spark_jobs.tasks.source_transactions import SourceTransactions
from mirror_connect.spark_jobs.tasks.task_frame import Running, TaskFrame, cancelled

COMMIT_S: Final = 0.5
MEASURE_S: Final = 0.5
# A task that is ordered to finish ends within two seconds: 1.5 at most for acknowledgements, the rest for the commit.
SETTLE_S: Final = 1.5
# For an epoch's end: longer than any request may take, so that only an unreachable target leaves batches unacknowledged.
EPOCH_SETTLE_S: Final = 60.0
# Nobody waits for an epoch's last commit, so ranges may be slower than at any other.
PATIENT_RANGES_S: Final = 2.0
LAST_RANGES_S: Final = 0.15
LAST_COMMIT_S: Final = 0.25
FETCH_BUFFER: Final = 32 << 20
ALL_STALLED: Final = "All partitions of this task are blocked. Fix the causes above, then"
STOP_AT_NEW_TOPIC: Final = (
    f"to copy the new one from its beginning, set {NEW_TOPICS}={COPY}. To continue elsewhere in it,"
)


async def run_source_task(spec: TaskSpec, link: WorkerLink, computing: Computing | None = None) -> None:
    """Copies until it is ordered to end. Raises ConfigError, NotAuthorized, FencedError, PartitionRefusedError …"""
    task = SourceTask(spec, link, computing)
    try:
        await task.run()
    finally:
        await task.close()


class SourceTask:
    """One run of a source task, in one event loop. `computing`: takes its records to Spark; None: it has no statement."""

    def __init__(self, spec: TaskSpec, link: WorkerLink, computing: Computing | None = None) -> None:
        self._spec = spec
        self._link = link
        self._consumer_settings = consumer_settings(spec.source)
        settings = MirrorSource().settings(spec.config)
        set_offsets = SET_OFFSETS[spec.program]
        self._frame = frame = TaskFrame(spec, link, spec.source)
        name = f"{spec.source_alias}->{spec.target_alias}|{spec.connector}-{spec.task}|replication-consumer"
        configured = spec.source.get("client.id")
        self._source = Cluster(spec.source, f"{configured}|{name}" if configured else name)
        self._source_unreachable = frame.unreachable("source", spec.source)
        self._producer = frame.producer
        self._source_offsets: SourceOffsetsWriter | ReportedSourceOffsets
        letters = dead_letter_topic(settings)
        self._failures = RecordFailures(settings, link.log, letters=letters)
        self._letters: DeadLetters | None = None
        if letters is not None:
            written = written_of(letters, spec)
            self._letters = DeadLetters(frame.producer, letters.name, written, self._failures.counts)
            frame.failures.append(self._letters.failure)
        self._transactions: SourceTransactions | None = None
        ranges_producer = frame.producer
        if frame.producer.transactions is not None:
            self._transactions = SourceTransactions(
                spec,
                frame,
                link,
                frame.producer.transactions,
                note=self._note_source_offsets,
                buffered=lambda: self._fetcher.buffered[0],
                wake=self._ready,
                again=self._fetch_again,
                accepts=self._accepts,
                before_commit=self._write_starts,
                committed=self._after_commit,
                letters=self._letters,
            )
            self._source_offsets = self._transactions.offsets
            ranges_producer = self._transactions.ranges_producer
        elif spec.reports_offsets:
            self._source_offsets = ReportedSourceOffsets(link)
        else:
            self._source_offsets = SourceOffsetsWriter(frame.producer, spec)
        frame.failures.append(self._source_offsets.failure)
        self._mapping = offset_mapping(
            spec, link, ranges_producer, self._topic_id, frame.target, problems=frame.problems
        )
        # Held from reading the source offsets to their commit. Older ones must not overwrite newer ones, and none may be
        # written after the partition has gone to another task.
        self._committing = asyncio.Lock()
        # When somebody began to wait for the end, on the loop's clock; None while nobody does.
        self._awaited_since: float | None = None
        self._fetcher = Fetcher(
            self._source,
            spec.source,
            unreachable=self._source_unreachable,
            on_records=self._put,
            problems=frame.problems,
            buffer_limit_bytes=FETCH_BUFFER,
            adapts=True,
            stop_at_new_topic=f"{STOP_AT_NEW_TOPIC} {set_offsets}" if settings.text(NEW_TOPICS) == STOP else None,
        )
        self._chain = chain_of(spec.config)
        self._computing = computing
        begin_computing(spec.config, computing)
        self._slow = None if computing is None else SlowTransform(computing, settings.integer(TIMEOUT), link.log)
        self._flows: dict[TopicPartition, PartitionFlow] = {}
        # Flows whose source offset may have changed since it was noted for a commit. There may be thousands of others.
        self._touched: dict[PartitionFlow, None] = {}
        self._targets: dict[TopicPartition, TargetPartition] = {}
        self._stalled = StalledPartitions(
            self._flows,
            self._targets,
            self._fetcher,
            frame.producer,
            link,
            problems=frame.problems,
            target=frame.target,
            target_unreachable=frame.target_unreachable.subject,
            skips_corrupt=settings.text(CORRUPT_BATCHES) == SKIP,
            skips_oversize=settings.text(OVERSIZE_RECORDS) == SKIP,
            letters=self._letters,
        )
        self._remote_topics = RemoteTopicEvents(frame.problems, set_offsets)
        self._remote_gaps = RemoteGaps(frame.target, self._remote_topics.others_write)
        self._unmeasured = False
        self._measures = CopyMeasures(
            self._flows,
            self._fetcher.log_ends,
            self._fetcher.position,
            RequestRows([(SOURCE, self._source), (TARGET, frame.target)]),
            counters=link.counters,
            counts=frame.producer.counts,
            commits=self._source_offsets.measures,
            buffered=lambda: self._fetcher.buffered,
            errors=self._failures.counts,
        )
        # One: more would take memory for batches that the producer does not ask for yet.
        self._thread = ThreadPoolExecutor(1, "re-encode")

    # The whole task.

    async def run(self) -> None:
        """Runs from the first connection to the last commit."""
        self._link.settled = False
        await self._frame.run(self)
        self._failures.raise_failure()
        if self._stalled.all_stalled.is_set():
            raise PartitionRefusedError(
                "\n".join((*status_lines(self._link.problems), f"{ALL_STALLED} {RESTART[self._spec.program]}."))
            )

    async def start(self) -> None:
        """See TaskWork."""
        if self._transactions is not None:
            await self._transactions.ranges_producer.start()
        # The offset ranges of former tasks are read while the source is being connected to.
        self._mapping.start()
        if self._letters is not None:
            with contextlib.suppress(ClusterUnreachable):
                await self._frame.target.refresh([self._letters.topic])
            self._letters.know_partitions(self._frame.target.partition_count(self._letters.topic))
        await self._add(self._spec.assigned, connect=True)

    def works(self) -> Mapping[str, Coroutine[Any, Any, Any]]:
        """See TaskWork."""
        commits = (
            {"commit": self._commit_for_ever()}
            if self._transactions is None
            else {**self._transactions.works(), "stalls": self._keep_stalls()}
        )
        computing: dict[str, Coroutine[Any, Any, Any]] = {}
        if self._computing is not None and self._slow is not None:
            computing = {"spark": self._computing.watch(), "transformation": self._slow.watch()}
        return {
            **commits,
            **computing,
            "fetch": self._fetcher.run(),
            "stalled": self._stalled.all_stalled.wait(),
            "failed record": self._failures.failed.wait(),
            "log ends": self._fetcher.log_ends.run(),
            "measures": self._measure_for_ever(),
        }

    async def finish(self, works: Running) -> None:
        """See TaskWork."""
        self._fetcher.pause()
        if self._transactions is None:
            # Source offsets are committed meanwhile: a kill must not repeat more than at any other time.
            await self._settle()
            works["commit"].cancel()
            works["measures"].cancel()
            await self._commit_last()
        else:
            if works["commit"].done():
                works["commit"].result()
            await self._commit_transaction(self._transactions)
            works["measures"].cancel()
        self._measure(last=True)

    async def close(self) -> None:
        """Ends connections and tasks, without a commit."""
        for flow in self._flows.values():
            flow.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._stalled.close()
        await self._remote_gaps.close()
        if self._transactions is not None:
            await self._transactions.close(abandoned=self._link.abandon_wanted)
        self._link.settled = self._producer.settled
        letters = () if self._letters is None else (self._letters,)
        await self._frame.close(self._mapping, self._source_offsets, *letters, self._source)

    async def _settle(self) -> None:
        """Waits until all batches in flight are acknowledged; SETTLE_S at most once somebody waits for the end."""
        settling = asyncio.create_task(self._settled())
        try:
            await self._while_nobody_waits(settling)
            if not self._link.abandon_wanted:
                await asyncio.wait({settling}, timeout=SETTLE_S)
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def _settled(self) -> None:
        await self._producer.settle(self._targets.values(), EPOCH_SETTLE_S)
        if self._letters is not None:
            await self._letters.settle()

    async def _commit_last(self) -> None:
        """Commits for the last time: patiently while nobody waits for the end, or else in the little time that is left."""
        self._frame.raise_failure()
        patient = asyncio.create_task(self._commit_now(PATIENT_RANGES_S, EPOCH_SETTLE_S))
        try:
            await self._while_nobody_waits(patient)
            if patient.done():
                self._link.committed = patient.result()
                return
        finally:
            patient.cancel()
            await asyncio.gather(patient, return_exceptions=True)
        if not self._link.abandon_wanted:
            # The commit has what acknowledgements did not need of their time: what it leaves out is copied again.
            now = asyncio.get_running_loop().time()
            waited = 0.0 if self._awaited_since is None else now - self._awaited_since
            left = max(0.0, SETTLE_S - LAST_RANGES_S - waited)
            self._link.committed = await self._commit_now(LAST_RANGES_S, LAST_COMMIT_S + left)

    async def _commit_transaction(self, transactions: SourceTransactions) -> None:
        """Ends the open transaction for the last time, as patiently as `_settle` and `_commit_last` are."""
        self._frame.raise_failure()
        ending = asyncio.create_task(transactions.end())
        try:
            await self._while_nobody_waits(ending)
            if not self._link.abandon_wanted:
                await asyncio.wait({ending}, timeout=SETTLE_S + LAST_COMMIT_S)
            # What is left is aborted, and was never seen. But nobody knows the end of a commit that has no answer yet.
            self._link.committed = ending.done()
            if ending.done():
                ending.result()
                await self._mapping.before_commit(LAST_RANGES_S, last=True)
                await self._mapping.flush(LAST_COMMIT_S)
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _while_nobody_waits(self, work: asyncio.Task[Any]) -> None:
        """Waits until the work is done, or the worker waits for this task's end or for partitions that it must give away.

        At the end of its epoch nobody waits. Then it waits for batches on a slow link, which needn't be sent twice.
        """
        link = self._link
        while link.finish_wanted and not work.done():
            if link.end_ordered or link.orders.assignment_version > link.assignment_version:
                if self._awaited_since is None:
                    self._awaited_since = asyncio.get_running_loop().time()
                return
            link.changed.clear()
            heard = asyncio.create_task(link.changed.wait())
            await asyncio.wait({work, heard}, return_when=asyncio.FIRST_COMPLETED)
            heard.cancel()

    async def _commit_now(self, ranges_s: float, offsets_s: float) -> bool:
        """Writes offset ranges, then the source offsets that belong to them; False if these weren't written in time."""
        async with self._committing:
            self._mapping.committed()
            syncs = asyncio.create_task(self._mapping.flush(offsets_s))
            try:
                self._note_source_offsets()
                self._report_passed()
                await self._mapping.before_commit(ranges_s, last=True)
                flushed = await self._source_offsets.flush(offsets_s)
                await syncs
                return flushed
            finally:
                syncs.cancel()

    # Orders.

    async def until_ended(self) -> None:
        """See TaskWork. Applies changed assignments meanwhile."""
        link = self._link
        reassigning: asyncio.Task[None] | None = None

        def check_orders() -> None:
            nonlocal reassigning
            if reassigning is not None and reassigning.done():
                reassigning.result()
                reassigning = None
            if reassigning is None and link.orders.assignment_version > link.assignment_version:
                # In a task of its own: the release of a partition may be slow, and an order to finish must not wait for it.
                reassigning = asyncio.create_task(self._reassign())
                reassigning.add_done_callback(lambda _: link.changed.set())

        try:
            await self._frame.until_ordered_to_end(check_orders)
        finally:
            if reassigning is not None:
                await cancelled(reassigning)

    async def _reassign(self) -> None:
        """Applies a changed assignment: releases partitions that were taken away, confirms that, then adds new ones."""
        spec = await self._link.spec()
        wanted = {a.source: a for a in spec.assigned}
        leaving = [p for p, flow in self._flows.items() if wanted.get(p) != flow.partition]
        self._stalled.leaving = set(leaving)
        self._report_passed()  # after their removal from the fetcher, their log ends are not known any more
        for partition in leaving:
            self._fetcher.remove(partition)
        if self._transactions is None:
            await self._release(leaving)
        elif leaving:
            async with self._transactions.held(SETTLE_S):
                await self._mapping.before_commit(SETTLE_S, last=True)
                await self._producer.release([self._targets[p] for p in leaving], SETTLE_S)
        for partition in leaving:
            flow = self._flows.pop(partition)
            flow.clear()
            if flow.letters is not None:
                flow.letters.drop()
            del self._touched[flow]
            self._measures.forget(partition, flow.measures)
            self._fetcher.log_ends.forget(partition)
            del self._targets[partition]
            self._stalled.forget(partition)
            self._source_offsets.forget(flow.partition)
            self._mapping.forget(flow.partition)
            if self._transactions is not None:
                self._transactions.forget(partition)
        self._stalled.leaving = set()
        self._spec = spec
        self._link.assignment_version = spec.assignment_version
        await self._add([a for p, a in wanted.items() if p not in self._flows])

    async def _release(self, leaving: Sequence[TopicPartition]) -> None:
        await self._producer.release([self._targets[p] for p in leaving], SETTLE_S)
        if leaving and self._letters is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._letters.settle()
        if leaving and not await self._commit_now(SETTLE_S, SETTLE_S):
            async with self._committing:
                # If these were written after the new owner's source offsets, its partitions would go back.
                await self._source_offsets.withdraw()
            self._link.log(
                "Source offsets of partitions that were taken away were not committed in time; records may be copied again"
            )

    async def _add(self, partitions: Iterable[TaskPartition], *, connect: bool = False) -> None:
        added = list(partitions)
        if self._chain:
            await asyncio.to_thread(self._chain.judge, dict.fromkeys(each.named or each.remote_topic for each in added))
        found = await self._link.source_offsets(added, fenceable=self._producer.fenceable) if added else []
        known = {(p.topic, p.partition): p for p in found}
        if connect:
            await self._frame.connected(self._source, self._source_unreachable)
        for partition in added:
            stored = known.get((partition.topic, partition.partition))
            position = topic_id = None
            epoch = NO_EPOCH
            if stored is not None and stored.offset is not None:
                position, topic_id = stored.offset + 1, parse_topic_id(stored.topic_id)
                epoch = stored.leader_epoch
                self._source_offsets.known(partition, LastOffset(stored.offset, topic_id, epoch))
            source = partition.source
            flow = PartitionFlow(
                partition,
                position,
                self._link.counters,
                topic_id=topic_id,
                leader_epoch=epoch,
                check_crcs=self._consumer_settings.check_crcs,
                read_committed=self._consumer_settings.read_committed,
                on_corrupt=self._stalled.stop_at_corrupt,
                on_refused=self._stalled.refuse,
                on_written=self._written,
                on_others=self._others_write,
                on_lost=self._remote_topics.lost_records,
                on_placed=self._mapping.on_placed(partition, position),
                on_begin=self._begins,
                steps=self._chain.steps(
                    partition.named or partition.remote_topic,
                    partition.partition,
                    routed=bool(partition.named),
                    heartbeats=partition.heartbeats,
                ),
                tolerant=self._failures.tolerant,
                on_skipped=self._skipped,
                on_failed=self._failed,
                letters=None if self._letters is None else self._letters.of(source),
                in_thread=self._in_thread,
                on_ready=self._ready,
                on_letters=self._letters_written,
                computing=None if partition.heartbeats else self._computing,
                measures=self._measures.add(source),
                touched=self._touched,
            )
            self._flows[source] = flow
            if self._transactions is not None:
                self._transactions.add(flow)
            self._targets[source] = self._producer.partition(*partition.target, flow.feed)
        for partition in added:
            source = partition.source
            flow = self._flows[source]
            self._fetcher.add(source, flow.next_offset, flow.topic_id, flow.leader_epoch)

    # Records.

    def _put(self, fetched: CompletedFetch) -> None:
        self._flows[fetched.partition].put(fetched)
        self._producer.wake(self._targets[fetched.partition])

    def _in_thread(self, work: Callable[[], ProducerBatch | None]) -> asyncio.Future[ProducerBatch | None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _ready(self, flow: PartitionFlow) -> None:
        self._producer.wake(self._targets[flow.source])

    def _letters_written(self, flow: PartitionFlow) -> None:
        self._ready(flow)
        self._stalled.acknowledged(flow)

    def _accepts(self, source: TopicPartition) -> bool:
        """Whether the target accepts what it gets of this partition, which may be dead letters alone."""
        if self._producer.stalled(self._targets[source]):
            return False
        letters = self._flows[source].letters
        return letters is None or not letters.sent or self._letters is None or not self._letters.stalled

    def _skipped(self, flow: PartitionFlow, records: SkippedRecords) -> None:
        self._failures.skip(flow.source, records)

    def _failed(self, flow: PartitionFlow, error: RecordError) -> None:
        self._failures.end(flow.source, error)

    def _written(self, flow: PartitionFlow) -> None:
        if self._transactions is None:
            self._link.wrote_to(flow.partition.remote_topic)
        self._stalled.acknowledged(flow)

    def _begins(self, flow: PartitionFlow, offset: int) -> None:
        self._mapping.begins(flow.partition, offset)

    def _fetch_again(self, flow: PartitionFlow) -> None:
        """After an abort: the partition begins again where the transaction began."""
        source = flow.source
        self._stalled.forget(source)
        if source in self._stalled.leaving or self._flows.get(source) is not flow:
            return
        target = self._targets[source]
        if target.failure is not None:
            target.closing = True
            self._targets[source] = self._producer.partition(target.topic, target.partition, flow.feed)
        self._fetcher.add(source, flow.restart(), flow.topic_id, flow.leader_epoch)

    def _others_write(self, flow: PartitionFlow, offset: int, count: int) -> None:
        # MirrorMaker 1 copies several sources into one topic, and beside the topic's own producers.
        if self._spec.program != MIRROR_MAKER_1:
            self._remote_gaps.found(flow.partition, offset, count)

    def _topic_id(self, partition: TaskPartition) -> bytes | None:
        """The id of the topic whose records were acknowledged. It may be deleted by now."""
        flow = self._flows.get(partition.source)
        return None if flow is None else flow.topic_id

    def _note_source_offsets(self, flows: Iterable[PartitionFlow] | None = None) -> None:
        self._source_offsets.measures.note()
        noted = list(self._touched if flows is None else flows)
        if flows is None:
            self._touched.clear()
        for flow in noted:
            if self._flows.get(flow.source) is not flow:
                continue
            if flow.topic_id is None:
                # Kafka's workers or a user wrote this offset. It is taken as one of the topic that exists now.
                with contextlib.suppress(KeyError):
                    flow.topic_id = self._fetcher.state(flow.source).topic_id
                if flow.topic_id is None:
                    self._touched[flow] = None
            position = flow.moved()
            if position is not None:
                self._source_offsets.note(flow.partition, position)
                if self._transactions is None or not self._transactions.has_records(flow.source):
                    self._mapping.passes(flow.partition, position.offset)

    async def _write_starts(self) -> None:
        if self._mapping.start_waits:
            await self._mapping.before_commit()

    async def _commit_for_ever(self) -> None:
        interval = min(COMMIT_S, self._spec.commit_interval_ms / 1000)
        loop = asyncio.get_running_loop()
        due = loop.time() + interval
        while True:
            # A steady pace: a wait for ranges makes the next commit no later. Yet there is a pause before each of them.
            await asyncio.sleep(max(due - loop.time(), interval / 2))
            due = loop.time() + interval
            async with self._committing:
                self._stalled.give_back()
                self._stalled.show(self._problems())
                self._note_source_offsets()
                self._report_passed()
                # A crash in between leaves ranges of records that are read again. Readers of ranges expect that.
                await self._mapping.before_commit()
                self._source_offsets.commit()
            self._mapping.committed()
            self._link.counters["commits"] = self._source_offsets.commits

    async def _keep_stalls(self) -> None:
        """With transactions: as often as source offsets are committed without them."""
        while True:
            await asyncio.sleep(COMMIT_S)
            self._stalled.give_back()
            self._stalled.show(self._problems())

    def _problems(self) -> tuple[Problem | None, ...]:
        slow = () if self._transactions is None else self._transactions.problems
        letters = None if self._letters is None else self._letters.problem
        transformation = None if self._slow is None else self._slow.problem
        writes = self._source_offsets.problem, self._producer.problem
        return *writes, letters, transformation, *self._mapping.problems, *slow

    def _after_commit(self) -> None:
        """A transaction was committed: others may know now where its records lie."""
        self._mapping.committed()
        self._report_passed()
        if self._transactions is not None:
            self._transactions.write_ranges(self._mapping)

    async def _measure_for_ever(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_S)
            if self._link.measures_wanted:
                while self._measure_some():
                    await asyncio.sleep(0)
                self._measure()

    def _measure_some(self) -> bool:
        try:
            return self._measures.make_some()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in measuring, copying continues
            self._measuring_failed(error)
            return False

    def _measure(self, *, last: bool = False) -> None:
        try:
            self._link.measured(self._measures.take(last=last))
        except Exception as error:  # noqa: BLE001 - as above
            self._measuring_failed(error)

    def _measuring_failed(self, error: Exception) -> None:
        if not self._unmeasured:
            self._unmeasured = True
            self._link.log(f"Its metrics are missing or old: {type(error).__name__}: {error}. Report this fault")

    def _report_passed(self) -> None:
        """Reports how far partitions are. Their former owner may have copied records that are copied again."""
        if self._spec.source.get("client.rack"):
            return  # a follower may know an older log end than that owner did
        for ranges in self._mapping.behind():
            source = ranges.partition.source
            end = -1
            with contextlib.suppress(KeyError):  # stalled and leaving partitions aren't fetched
                end = self._fetcher.state(source).high_watermark
            ranges.passed(
                self._flows[source].source_offset
                if self._transactions is None
                else self._transactions.committed_offset(source),
                end,
            )
