"""The feed of one source partition for a producer with transactions.

It passes everything on to the partition's flow, and keeps what is needed if the transaction is aborted: then all that was
given since the last commit is fetched and given again. What was acknowledged counts after the commit: for metrics, for
offset syncs and offset ranges, and for the topics that Connect reports as active.

Dead letters of the partition are in the same transaction as the records before them. So the partition counts as one with
batches in flight until the target has them.
"""

from __future__ import annotations

from collections.abc import Callable

from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, ProducerBatch
from mirror_connect.spark_jobs.copy.acknowledged import Acknowledged
from mirror_connect.spark_jobs.copy.partition_flow import NOTHING_YET, PartitionFlow
from mirror_connect.spark_jobs.copy.transaction_watch import TransactionWatch


class TransactionalFlow:
    """A TransactionalFeed.

    `on_committed(flow)`: records of it were committed. `on_aborted(flow)`: it must be fetched again from `next_offset` on.
    `wake(flow)`: it may have something for the next transaction.
    """

    def __init__(
        self,
        flow: PartitionFlow,
        watch: TransactionWatch,
        on_committed: Callable[[PartitionFlow], None],
        on_aborted: Callable[[PartitionFlow], None],
        wake: Callable[[PartitionFlow], None],
    ) -> None:
        self.flow = flow
        # Given, and not acknowledged.
        self.bytes_in_flight = 0
        flow.on_boundary = watch.ask
        letters = flow.letters
        if letters is not None:
            letters.on_sent = self._letters_sent
            letters.on_acked = self._letters_acked
            letters.on_committed = self.committed
            letters.on_aborted = self.aborted
        self._watch = watch
        self._on_committed = on_committed
        self._on_aborted = on_aborted
        self._wake = wake
        self._acknowledged = Acknowledged()

    @property
    def committed_offset(self) -> int:
        """The source offset up to which everything is committed or was dropped; NOTHING_YET before the first one."""
        begin = self.flow.uncommitted
        if begin is None:
            return self.flow.source_offset
        return NOTHING_YET if begin.offset is None else begin.offset - 1

    @property
    def has_records(self) -> bool:
        """Whether the open transaction has records of this partition."""
        return bool(self._acknowledged.batches or self.flow.in_flight)

    def waiting(self) -> bool:
        """See Feed."""
        return self.flow.waiting()

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        """See Feed."""
        flow = self.flow
        begin = flow.place if flow.uncommitted is None else None
        batch = flow.take(limit, latency_bound=latency_bound, append_time=append_time)
        if begin is not None and (batch is not None or (flow.letters is not None and flow.letters.sent)):
            flow.uncommitted = begin
            flow.uncommitted_ms = NO_TIMESTAMP if batch is None else batch.first_ms
        if batch is not None:
            self.bytes_in_flight += batch.size
            self._watch.taken(self, batch.size)
        return batch

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """See Feed."""
        self._acknowledged.add(batch, base_offset)
        self._watch.copied.add(self)
        self.flow.acked_in_transaction(batch, base_offset)
        if self.flow.in_flight:
            self.bytes_in_flight -= batch.size
        else:
            self.bytes_in_flight = 0
            self._look_whether_settled()

    def _letters_sent(self, size: int) -> None:
        self._watch.taken(self, size)

    def _letters_acked(self) -> None:
        self._watch.copied.add(self)
        self._look_whether_settled()
        self.flow.letters_acked()

    def _look_whether_settled(self) -> None:
        letters = self.flow.letters
        if not self.flow.in_flight and not (letters is not None and letters.sent):
            self._watch.settled(self)

    def failed(self, error: PartitionRefusedError) -> None:
        """See Feed."""
        self.bytes_in_flight = 0
        self.flow.failed(error)
        self._look_whether_settled()

    def committed(self) -> None:
        """See TransactionalFeed. A batch without an acknowledgement belongs to the next transaction."""
        flow = self.flow
        flow.uncommitted = None
        if flow.in_flight:
            flow.uncommitted_ms = flow.oldest_ms()
            flow.uncommitted = flow.place
        if self._acknowledged.batches:
            acknowledged, self._acknowledged = self._acknowledged, Acknowledged()
            flow.committed(acknowledged)
            self._on_committed(flow)
        # Another topic of its name may have waited for the commit.
        self._wake(flow)

    def aborted(self, error: object) -> None:
        """See TransactionalFeed."""
        self.bytes_in_flight = 0
        self._watch.settled(self)
        if self.flow.uncommitted is None:
            # It was about to give its first batch.
            self._wake(self.flow)
        else:
            self._acknowledged = Acknowledged()
            self.flow.go_back()
            self._on_aborted(self.flow)
