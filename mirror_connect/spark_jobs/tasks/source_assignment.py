"""The partitions of a source task: they come with its assignment, get their flows, and go to other tasks.

A partition begins where its source offset says. Nothing newer can appear after that was read, as the producer id has fenced
the former owner. A partition leaves after its last commit, and the worker hears of it after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mirror_connect.connectors.loop_slices import in_turns
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError, SkippedRecords
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.records.topic_ids import parse_topic_id
from mirror_connect.connectors.task_protocol import MIRROR_MAKER_1, SourceOffset, TaskPartition
from mirror_connect.kafka_io.client.copier_settings import consumer_settings
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.remote_gaps import RemoteGaps
from mirror_connect.spark_jobs.copy.remote_topic_events import RemoteTopicEvents
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from mirror_connect.spark_jobs.tasks.advice import SET_OFFSETS
from mirror_connect.spark_jobs.tasks.source_commits import SourceCommits
from mirror_connect.spark_jobs.tasks.source_parts import SourceParts
from mirror_connect.spark_jobs.tasks.task_frame import cancelled

# Of some twenty microseconds each: a flow with its target; and of five: its place in the fetcher.
ADDED_IN_SLICE: Final = 50
FETCHED_IN_SLICE: Final = 200


class SourceAssignment:
    """Of one run of a source task, in one event loop."""

    def __init__(self, parts: SourceParts, commits: SourceCommits) -> None:
        self._parts = parts
        self._commits = commits
        self._consumer_settings = consumer_settings(parts.spec.source)
        self._chain = chain_of(parts.spec.config)
        self._remote_topics = RemoteTopicEvents(parts.frame.problems, SET_OFFSETS[parts.spec.program])
        self._remote_gaps = RemoteGaps(parts.frame.target, self._remote_topics.others_write)
        # One: more would take memory for batches that the producer does not ask for yet.
        self._thread = ThreadPoolExecutor(1, "re-encode")

    async def start(self) -> None:
        """Adds the first partitions. It connects to the source meanwhile."""
        await self._add(self._parts.spec.assigned, connect=True)

    async def until_ended(self) -> None:
        """See TaskWork. Applies changed assignments meanwhile."""
        link = self._parts.link
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
            await self._parts.frame.until_ordered_to_end(check_orders)
        finally:
            if reassigning is not None:
                await cancelled(reassigning)

    async def close(self) -> None:
        """Ends the flows and what works for them."""
        for flow in self._parts.flows.values():
            flow.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._remote_gaps.close()

    async def _reassign(self) -> None:
        """Applies a changed assignment: releases partitions that were taken away, confirms that, then adds new ones."""
        parts = self._parts
        spec = await parts.link.spec()
        wanted = {a.source: a for a in spec.assigned}
        leaving = [p for p, flow in parts.flows.items() if wanted.get(p) != flow.partition]
        parts.stalled.leaving = set(leaving)
        await parts.report_passed()  # after their removal from the fetcher, their log ends are not known any more
        for partition in leaving:
            parts.fetcher.remove(partition)
        await self._commits.release(leaving)
        for partition in leaving:
            self._forget(partition)
        parts.stalled.leaving = set()
        parts.link.assignment_version = spec.assignment_version
        await self._add([a for p, a in wanted.items() if p not in parts.flows])

    def _forget(self, source: TopicPartition) -> None:
        parts = self._parts
        flow = parts.flows.pop(source)
        flow.clear()
        if flow.letters is not None:
            flow.letters.drop()
        del parts.touched[flow]
        parts.measures.forget(source, flow.measures)
        parts.fetcher.log_ends.forget(source)
        del parts.targets[source]
        parts.stalled.forget(source)
        parts.source_offsets.forget(flow.partition)
        parts.mapping.forget(flow.partition)
        if parts.transactions is not None:
            parts.transactions.forget(source)

    async def _add(self, partitions: Iterable[TaskPartition], *, connect: bool = False) -> None:
        parts = self._parts
        added = list(partitions)
        if self._chain:
            await asyncio.to_thread(self._chain.judge, dict.fromkeys(each.named or each.remote_topic for each in added))
        found = await parts.link.source_offsets(added, fenceable=parts.producer.fenceable) if added else []
        known = {(p.topic, p.partition): p for p in found}
        if connect:
            await parts.frame.connected(parts.source, parts.source_unreachable)
        async for part in in_turns(added, ADDED_IN_SLICE):
            for partition in part:
                self._add_one(partition, known.get((partition.topic, partition.partition)))
        async for part in in_turns(added, FETCHED_IN_SLICE):
            for partition in part:
                flow = parts.flows[partition.source]
                parts.fetcher.add(partition.source, flow.next_offset, flow.topic_id, flow.leader_epoch)

    def _add_one(self, partition: TaskPartition, stored: SourceOffset | None) -> None:
        parts = self._parts
        begin = None
        if stored is not None and stored.offset is not None:
            begin = LastOffset(stored.offset, parse_topic_id(stored.topic_id), stored.leader_epoch)
            parts.source_offsets.known(partition, begin)
        source = partition.source
        parts.flows[source] = flow = self._flow(partition, begin)
        if parts.transactions is not None:
            parts.transactions.add(flow)
        parts.targets[source] = parts.producer.partition(*partition.target, flow.feed)

    # Flows, and what they tell.

    def _flow(self, partition: TaskPartition, last: LastOffset | None) -> PartitionFlow:
        """The flow of a partition that continues after its `last` source offset; None: it has none."""
        parts = self._parts
        source = partition.source
        position = None if last is None else last.offset + 1
        return PartitionFlow(
            partition,
            position,
            parts.link.counters,
            topic_id=None if last is None else last.topic_id,
            leader_epoch=NO_EPOCH if last is None else last.leader_epoch,
            check_crcs=self._consumer_settings.check_crcs,
            read_committed=self._consumer_settings.read_committed,
            on_corrupt=parts.stalled.stop_at_corrupt,
            on_refused=parts.stalled.refuse,
            on_written=self._written,
            on_others=self._others_write,
            on_lost=self._remote_topics.lost_records,
            on_placed=parts.mapping.on_placed(partition, position),
            on_begin=self._begins,
            steps=self._chain.steps(
                partition.named or partition.remote_topic,
                partition.partition,
                routed=bool(partition.named),
                heartbeats=partition.heartbeats,
            ),
            tolerant=parts.failures.tolerant,
            on_skipped=self._skipped,
            on_failed=self._failed,
            letters=None if parts.letters is None else parts.letters.of(source),
            in_thread=self._in_thread,
            on_ready=parts.ready,
            on_letters=self._letters_written,
            computing=None if partition.heartbeats else parts.computing,
            measures=parts.measures.add(source),
            touched=parts.touched,
        )

    def _in_thread(self, work: Callable[[], ProducerBatch | None]) -> asyncio.Future[ProducerBatch | None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _written(self, flow: PartitionFlow) -> None:
        if self._parts.transactions is None:
            self._parts.link.wrote_to(flow.partition.remote_topic)
        self._parts.stalled.acknowledged(flow)

    def _begins(self, flow: PartitionFlow, offset: int) -> None:
        self._parts.mapping.begins(flow.partition, offset)

    def _letters_written(self, flow: PartitionFlow) -> None:
        self._parts.ready(flow)
        self._parts.stalled.acknowledged(flow)

    def _skipped(self, flow: PartitionFlow, records: SkippedRecords) -> None:
        self._parts.failures.skip(flow.source, records)

    def _failed(self, flow: PartitionFlow, error: RecordError) -> None:
        self._parts.failures.end(flow.source, error)

    def _others_write(self, flow: PartitionFlow, offset: int, count: int) -> None:
        # MirrorMaker 1 copies several sources into one topic, and beside the topic's own producers.
        if self._parts.spec.program != MIRROR_MAKER_1:
            self._remote_gaps.found(flow.partition, offset, count)
