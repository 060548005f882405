"""What a source task with exactly-once has besides: feeds of its partitions, transactions, a producer of offset ranges.

Offset ranges are written after the commit of the records that they tell of. So they go through a producer of their own,
outside of transactions, and everybody who reads them sees what is true. A kill between the two leaves source offsets without
ranges, as MirrorMaker does: offset_ranges.py says what follows. Where copying began is written before the first commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import POLL, TaskSpec
from mirror_connect.kafka_io.client.copier_settings import producer_settings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.transactions import Transactions
from mirror_connect.spark_jobs.copy.copy_transactions import CopyTransactions
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters
from mirror_connect.spark_jobs.copy.partition_flow import NOTHING_YET, PartitionFlow
from mirror_connect.spark_jobs.copy.transaction_watch import TransactionWatch
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from mirror_connect.spark_jobs.copy.transactional_source_offsets import TransactionalSourceOffsets
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.task_frame import TaskFrame

# How long a partition is left out that has kept all others from their commit; twice as long each time that it does again.
LEFT_OUT_S: Final = 5.0
LEFT_OUT_MAX_S: Final = 300.0
# Readers on the target wait for an open transaction. Whoever ends a task waits as little for its abort.
ABORT_S: Final = 0.4


class SourceTransactions:
    """Of one run of a source task. `note`: see CopyTransactions; `buffered`: see TransactionWatch.

    `wake(flow)`: the partition may have something for the next transaction. `again(flow)`: it is to be fetched again, from
    its `next_offset` on. `accepts(source)`: whether the target accepts the batches of this partition at present.
    `before_commit`, `letters`: see CopyTransactions. `committed()`: called after each commit.
    """

    def __init__(
        self,
        spec: TaskSpec,
        frame: TaskFrame,
        link: WorkerLink,
        transactions: Transactions,
        *,
        note: Callable[[Iterable[PartitionFlow] | None], Awaitable[None]],
        buffered: Callable[[], int],
        wake: Callable[[PartitionFlow], None],
        again: Callable[[PartitionFlow], None],
        accepts: Callable[[TopicPartition], bool],
        before_commit: Callable[[], Awaitable[None]],
        committed: Callable[[], None],
        letters: DeadLetters | None = None,
    ) -> None:
        self._link = link
        self._transactions = transactions
        self.offsets = TransactionalSourceOffsets(frame.producer, spec)
        self.ranges_producer = BatchProducer(
            frame.target,
            # Repeated ranges do no harm, and the right to write without a transactional id may be missing.
            replace(producer_settings(spec.target), idempotent=False),
            "",
            link.lease_valid,
            frame.problems,
            unreachable=frame.target_unreachable,
        )
        frame.failures.append(self.ranges_producer.failed)
        self._problems = frame.problems
        loop = self._loop = asyncio.get_running_loop()
        self._watch = TransactionWatch(
            buffered if spec.transaction_boundary == POLL else None,
            on_most=transactions.stop_taking,
            # The producer takes in the next turn of the loop, see Sender.
            after_turn=lambda call: loop.call_soon(loop.call_soon, call),
        )
        self._wake = wake
        self._again = again
        self._accepts = accepts
        self._committed = committed
        self._feeds: dict[TopicPartition, TransactionalFlow] = {}
        # By partition: for how long it was left out the last time, and the timer of those that still are.
        self._left_out_s: dict[TopicPartition, float] = {}
        self._left_out: dict[TopicPartition, asyncio.TimerHandle] = {}
        self._too_slow: dict[TopicPartition, Problem] = {}
        self._telling: asyncio.Task[None] | None = None
        # There was a commit since it began.
        self._untold = False
        self._copying = CopyTransactions(
            spec,
            transactions,
            self.offsets,
            self._watch,
            note=note,
            stuck=lambda feeds: [each for each in feeds if not accepts(each.flow.source)],
            leave_out=self._leave_out,
            before_commit=before_commit,
            on_commit=self._after_commit,
            letters=letters,
        )

    @property
    def problems(self) -> Iterable[Problem]:
        """Those of partitions for which the link is too slow."""
        return list(self._too_slow.values())

    def works(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """See TaskWork."""
        return {"commit": self._copying.run()}

    def held(self, seconds: float) -> AbstractAsyncContextManager[None]:
        """See CopyTransactions.held."""
        return self._copying.held(seconds)

    async def end(self) -> None:
        """See CopyTransactions.end."""
        await self._copying.end()

    def add(self, flow: PartitionFlow) -> None:
        """The records of this partition are written in transactions."""
        flow.feed = self._feeds[flow.source] = TransactionalFlow(
            flow, self._watch, self._flow_committed, self._flow_aborted, self._wake
        )

    def forget(self, source: TopicPartition) -> None:
        """Another task has the partition now."""
        self._feeds.pop(source, None)
        self._left_out_s.pop(source, None)
        self._too_slow.pop(source, None)
        timer = self._left_out.pop(source, None)
        if timer is not None:
            timer.cancel()

    def committed_offset(self, source: TopicPartition) -> int:
        """The last source offset of a partition that is committed with its records."""
        feed = self._feeds.get(source)
        return NOTHING_YET if feed is None else feed.committed_offset

    def has_records(self, source: TopicPartition) -> bool:
        """Whether the open transaction has records of this partition."""
        feed = self._feeds.get(source)
        return feed is not None and feed.has_records

    def is_left_out(self, source: TopicPartition) -> bool:
        """Whether the partition isn't fetched for a while."""
        return source in self._left_out

    def tell(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does this after a commit, in the background. It is done once more if there was another commit meanwhile."""
        self._untold = True
        if self._telling is None or self._telling.done():
            self._telling = self._loop.create_task(self._tell(work), name="ranges")

    async def _tell(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while self._untold:
            self._untold = False
            await work()

    async def close(self, *, abandoned: bool) -> None:
        """Aborts what is open, unless another task may be writing already."""
        for timer in self._left_out.values():
            timer.cancel()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        if not abandoned:
            await self._transactions.close(ABORT_S)
        await self.ranges_producer.close()

    def _flow_committed(self, flow: PartitionFlow) -> None:
        self._link.wrote_to(flow.partition.remote_topic)
        self._left_out_s.pop(flow.source, None)
        if self._too_slow and self._too_slow.pop(flow.source, None) is not None:
            self._problems.resolve(
                str(flow),
                ProblemCode.PARTITION_STALLED_LINK_TOO_SLOW,
                line=f"{flow} continues: its batch was committed",
            )

    def _flow_aborted(self, flow: PartitionFlow) -> None:
        self.offsets.take_back(flow.partition)
        if flow.source not in self._left_out:
            self._again(flow)

    def _after_commit(self) -> None:
        self._link.counters["commits"] = self.offsets.commits
        self._committed()

    def _leave_out(self, feeds: Sequence[TransactionalFlow], problem: Problem | None) -> None:
        for feed in feeds:
            source = feed.flow.source
            seconds = min(LEFT_OUT_MAX_S, 2 * self._left_out_s.get(source, LEFT_OUT_S / 2))
            self._left_out_s[source] = seconds
            self._left_out[source] = self._loop.call_later(seconds, self._let_in, source)
            if problem is not None:
                self._too_slow[source] = problem
                self._problems.report(problem)

    def _let_in(self, source: TopicPartition) -> None:
        self._left_out.pop(source, None)
        feed = self._feeds.get(source)
        if feed is not None:
            self._again(feed.flow)
