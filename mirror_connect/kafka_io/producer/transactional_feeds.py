"""Feeds of a transactional producer, and the gate before them: nothing is taken while no transaction is open."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import Feed, TargetPartition
from mirror_connect.kafka_io.producer.transaction_errors import TransactionAbortedError
from mirror_connect.kafka_io.records.record_batch import ProducerBatch


@runtime_checkable
class TransactionalFeed(Feed, Protocol):
    """A feed that can give its batches again. Both calls happen while no transaction is open."""

    def committed(self) -> None:
        """A transaction with batches of this feed is committed: what was acknowledged so far is final.

        A batch that was taken and not acknowledged stays taken. It was certainly not written, and comes in the next one.
        """

    def aborted(self, error: TransactionAbortedError) -> None:
        """The transaction is aborted. Give again all that was taken since the last commit, acknowledged or not."""


class Gate:
    """What may be taken. `held`: partitions whose feeds had something while the gate was closed to them."""

    __slots__ = ("data", "held", "own")

    def __init__(self) -> None:
        self.data = False
        self.own = False
        self.held: dict[TargetPartition, None] = {}


class GatedFeed:
    """Implements Feed: another feed behind the gate. `target` is set by the maker of both."""

    __slots__ = ("_ahead", "_gate", "inner", "target")

    target: TargetPartition

    def __init__(self, inner: TransactionalFeed, gate: Gate, *, ahead: bool) -> None:
        self.inner = inner
        self._gate = gate
        self._ahead = ahead

    def waiting(self) -> bool:
        """See Feed."""
        if not self.inner.waiting():
            return False
        if self._gate.own if self._ahead else self._gate.data:
            return True
        self._gate.held[self.target] = None
        return False

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        """See Feed."""
        return self.inner.take(limit, latency_bound=latency_bound, append_time=append_time)

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """See Feed."""
        self.inner.acked(batch, base_offset)

    def failed(self, error: PartitionRefusedError) -> None:
        """See Feed."""
        self.inner.failed(error)

    def committed(self) -> None:
        """See TransactionalFeed."""
        self.inner.committed()

    def aborted(self, error: TransactionAbortedError) -> None:
        """See TransactionalFeed."""
        self.inner.aborted(error)
