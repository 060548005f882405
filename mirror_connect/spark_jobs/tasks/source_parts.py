"""What one run of a source task is made of: its parts, made from the spec, and what they ask each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.loop_slices import drained, in_turns
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
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_measures import SOURCE, TARGET
from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetch_pause import BETWEEN_SMALL_S
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch, Fetcher
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.spark_jobs.copy.computed_batch import Computing, begin_computing
from mirror_connect.spark_jobs.copy.copy_measures import CopyMeasures
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters
from mirror_connect.spark_jobs.copy.letter_context import written_of
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.record_failures import RecordFailures
from mirror_connect.spark_jobs.copy.reported_source_offsets import ReportedSourceOffsets
from mirror_connect.spark_jobs.copy.request_rows import RequestRows
from mirror_connect.spark_jobs.copy.slow_transform import SlowTransform
from mirror_connect.spark_jobs.copy.source_offsets_writer import SourceOffsetsWriter
from mirror_connect.spark_jobs.copy.stalled_partitions import StalledPartitions
from mirror_connect.spark_jobs.mapping.offset_mapping import offset_mapping
from mirror_connect.spark_jobs.mapping.partition_ranges import PartitionRanges
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.advice import SET_OFFSETS
from mirror_connect.spark_jobs.tasks.source_transactions import SourceTransactions
from mirror_connect.spark_jobs.tasks.task_frame import TaskFrame

FETCH_BUFFER: Final = 32 << 20
# Of a task with a statement. Its records wait for a flush anyway (row_sender.FLUSH_S), and each answer costs it more.
_BETWEEN_SMALL_COMPUTED_S: Final = 0.005
# Of one to five microseconds each.
FLOWS_IN_SLICE: Final = 200
STOP_AT_NEW_TOPIC: Final = (
    f"to copy the new one from its beginning, set {NEW_TOPICS}={COPY}. To continue elsewhere in it,"
)


class SourceParts:
    """Of one run, in one event loop. `flows` and `targets`: of the partitions that the task has at present.

    `computing`: takes its records to Spark; None: it has no statement. `slow`: watches that.

    `touched`: flows whose source offset may have changed since it was noted for a commit. There may be thousands of others.
    """

    def __init__(self, spec: TaskSpec, link: WorkerLink, computing: Computing | None) -> None:
        self.spec = spec
        self.link = link
        self.computing = computing
        settings = MirrorSource().settings(spec.config)
        self.flows: dict[TopicPartition, PartitionFlow] = {}
        self.targets: dict[TopicPartition, TargetPartition] = {}
        self.touched: dict[PartitionFlow, None] = {}
        self.frame = frame = TaskFrame(spec, link, spec.source)
        self.producer = frame.producer
        self.source = _source_cluster(spec)
        self.source_unreachable = frame.unreachable("source", spec.source)
        letters = dead_letter_topic(settings)
        self.failures = RecordFailures(settings, link.log, letters=letters)
        self.letters: DeadLetters | None = None
        if letters is not None:
            written = written_of(letters, spec)
            self.letters = DeadLetters(frame.producer, letters.name, written, self.failures.counts)
            frame.failures.append(self.letters.failure)
        self.transactions = self._new_transactions()
        self.source_offsets = self._new_source_offsets()
        frame.failures.append(self.source_offsets.failure)
        self.mapping = offset_mapping(
            spec, link, self._ranges_producer(), self._topic_id, frame.target, problems=frame.problems
        )
        self.fetcher = self._new_fetcher(settings)
        begin_computing(spec.config, computing, spec.suspects, spec.too_much)
        self.slow = None if computing is None else SlowTransform(computing, settings.integer(TIMEOUT), link.log)
        self.stalled = self._new_stalled(settings)
        self.measures = CopyMeasures(
            self.flows,
            self.fetcher.log_ends,
            self.fetcher.position,
            RequestRows([(SOURCE, self.source), (TARGET, frame.target)]),
            counters=link.counters,
            counts=frame.producer.counts,
            commits=self.source_offsets.measures,
            buffered=lambda: self.fetcher.buffered,
            errors=self.failures.counts,
        )

    async def close(self) -> None:
        """Ends what they do, then the connections, without a commit."""
        await self.stalled.close()
        if self.transactions is not None:
            await self.transactions.close(abandoned=self.link.abandon_wanted)
        self.link.settled = self.producer.settled
        letters = () if self.letters is None else (self.letters,)
        await self.frame.close(self.mapping, self.source_offsets, *letters, self.source)

    # What they ask each other.

    def ready(self, flow: PartitionFlow) -> None:
        """The flow may have a batch for the target."""
        self.producer.wake(self.targets[flow.source])

    def problems(self) -> tuple[Problem | None, ...]:
        """The problems besides those of single partitions."""
        slow = () if self.transactions is None else self.transactions.problems
        letters = None if self.letters is None else self.letters.problem
        transformation = None if self.slow is None else self.slow.problem
        writes = self.source_offsets.problem, self.producer.problem
        return *writes, letters, transformation, *self.mapping.problems, *slow

    async def note_source_offsets(self, flows: Iterable[PartitionFlow] | None = None) -> None:
        """Notes up to where these partitions are copied, for the next commit; None: all that have changed.

        In slices of the loop, as it may be thousands.
        """
        self.source_offsets.measures.note()
        if flows is None:
            await drained(self.touched, self._note_source_offset, FLOWS_IN_SLICE)
            return
        async for part in in_turns(list(flows), FLOWS_IN_SLICE):
            for flow in part:
                self._note_source_offset(flow)

    def _note_source_offset(self, flow: PartitionFlow) -> None:
        if self.flows.get(flow.source) is not flow:
            return
        if flow.topic_id is None:
            # Kafka's workers or a user wrote this offset. It is taken as one of the topic that exists now.
            with contextlib.suppress(KeyError):
                flow.topic_id = self.fetcher.state(flow.source).topic_id
            if flow.topic_id is None:
                self.touched[flow] = None
        position = flow.moved()
        if position is not None:
            self.source_offsets.note(flow.partition, position)
            if self.transactions is None or not self.transactions.has_records(flow.source):
                self.mapping.passes(flow.partition, position.offset)

    async def report_passed(self) -> None:
        """Reports how far partitions are. Their former owner may have copied records that are copied again."""
        if self.spec.source.get("client.rack"):
            return  # a follower may know an older log end than that owner did
        async for part in in_turns(self.mapping.behind(), FLOWS_IN_SLICE):
            for ranges in part:
                self._report_one_passed(ranges)

    def _report_one_passed(self, ranges: PartitionRanges) -> None:
        source = ranges.partition.source
        flow = self.flows.get(source)
        if flow is None:
            return  # another task has it since
        end = -1
        with contextlib.suppress(KeyError):  # stalled and leaving partitions aren't fetched
            end = self.fetcher.state(source).high_watermark
        transactions = self.transactions
        copied = flow.source_offset if transactions is None else transactions.committed_offset(source)
        self.mapping.passed(ranges, copied, end)

    def _put(self, fetched: CompletedFetch) -> None:
        self.flows[fetched.partition].put(fetched)
        self.producer.wake(self.targets[fetched.partition])

    def _topic_id(self, partition: TaskPartition) -> bytes | None:
        """The id of the topic whose records were acknowledged. It may be deleted by now."""
        flow = self.flows.get(partition.source)
        return None if flow is None else flow.topic_id

    def _accepts(self, source: TopicPartition) -> bool:
        """Whether the target accepts what it gets of this partition, which may be dead letters alone."""
        if self.producer.stalled(self.targets[source]):
            return False
        letters = self.flows[source].letters
        return letters is None or not letters.sent or self.letters is None or not self.letters.stalled

    def _fetch_again(self, flow: PartitionFlow) -> None:
        """After an abort: the partition begins again where the transaction began."""
        source = flow.source
        self.stalled.forget(source)
        if source in self.stalled.leaving or self.flows.get(source) is not flow:
            return
        target = self.targets[source]
        if target.failure is not None:
            target.closing = True
            self.targets[source] = self.producer.partition(target.topic, target.partition, flow.feed)
        self.fetcher.add(source, flow.restart(), flow.topic_id, flow.leader_epoch)

    async def _write_starts(self) -> None:
        if self.mapping.start_waits:
            self.mapping.start_waits = False
            await self.mapping.before_commit()

    def _after_commit(self) -> None:
        """A transaction was committed: others may know now where its records lie."""
        if self.transactions is not None:
            self.transactions.tell(self._tell_of_commit)

    async def _tell_of_commit(self) -> None:
        await self.mapping.committed()
        await self.report_passed()
        await self.mapping.before_commit()

    # How they are made.

    def _new_transactions(self) -> SourceTransactions | None:
        if self.producer.transactions is None:
            return None
        return SourceTransactions(
            self.spec,
            self.frame,
            self.link,
            self.producer.transactions,
            note=self.note_source_offsets,
            buffered=lambda: self.fetcher.buffered[0],
            wake=self.ready,
            again=self._fetch_again,
            accepts=self._accepts,
            before_commit=self._write_starts,
            committed=self._after_commit,
            letters=self.letters,
        )

    def _new_source_offsets(self) -> SourceOffsetsWriter | ReportedSourceOffsets:
        if self.transactions is not None:
            return self.transactions.offsets
        if self.spec.reports_offsets:
            return ReportedSourceOffsets(self.link)
        return SourceOffsetsWriter(self.producer, self.spec)

    def _ranges_producer(self) -> BatchProducer:
        return self.producer if self.transactions is None else self.transactions.ranges_producer

    def _new_fetcher(self, settings: Settings) -> Fetcher:
        stops = settings.text(NEW_TOPICS) == STOP
        return Fetcher(
            self.source,
            self.spec.source,
            unreachable=self.source_unreachable,
            on_records=self._put,
            problems=self.frame.problems,
            buffer_limit_bytes=FETCH_BUFFER,
            adapts=True,
            stop_at_new_topic=f"{STOP_AT_NEW_TOPIC} {SET_OFFSETS[self.spec.program]}" if stops else None,
            between_small_s=BETWEEN_SMALL_S if self.computing is None else _BETWEEN_SMALL_COMPUTED_S,
        )

    def _new_stalled(self, settings: Settings) -> StalledPartitions:
        return StalledPartitions(
            self.flows,
            self.targets,
            self.fetcher,
            self.producer,
            self.link,
            problems=self.frame.problems,
            target=self.frame.target,
            target_unreachable=self.frame.target_unreachable.subject,
            skips_corrupt=settings.text(CORRUPT_BATCHES) == SKIP,
            skips_oversize=settings.text(OVERSIZE_RECORDS) == SKIP,
            letters=self.letters,
        )


def _source_cluster(spec: TaskSpec) -> Cluster:
    name = f"{spec.source_alias}->{spec.target_alias}|{spec.connector}-{spec.task}|replication-consumer"
    configured = spec.source.get("client.id")
    return Cluster(spec.source, f"{configured}|{name}" if configured else name)
