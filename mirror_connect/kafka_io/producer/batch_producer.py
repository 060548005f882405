"""Produces batches to the target cluster: idempotent, in order within each partition, several requests in flight.

The producer pulls. Each partition has a feed, and `wake` announces that the feed has something. The producer takes a batch
when a request with room for it is about to leave. So batches that wait in a feed can still be merged, and memory holds a
batch twice only while it is on the wire.

A broker forgets a producer whose newest *record* in a partition is older than producer.id.expiration.ms (one day). It does
so at its restart, and periodically. Mirrored records keep their old timestamps. So a repetition of old records after a
lost answer may be written twice, and only the lease stops a former owner. Their order is kept all the same:
target_partition.py has only one batch of them in flight.

Delivery never times out. It ends in two cases: `failed` (the producer was fenced, or its credentials were refused), or the
target refuses a partition for good, which its feed gets. Nothing is written while the lease is not valid.

A transactional producer writes only in transactions (transactions.py). There, delivery ends with the transaction's timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from mirror_connect.connectors.loop_slices import SharedSlices
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, Problems, cluster_unreachable
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_counts import BatchCounts
from mirror_connect.kafka_io.producer.producer_identity import RESTART_TASK, ProducerIdentity
from mirror_connect.kafka_io.producer.sender import Sender
from mirror_connect.kafka_io.producer.target_partition import (
    MERGE_LIMIT,
    Feed,
    TargetPartition,
)
from mirror_connect.kafka_io.producer.transaction_coordinator import TransactionCoordinator
from mirror_connect.kafka_io.producer.transactions import Transactions, TransactionState

SETTLE_POLL_S: Final = 0.2
# A record of the task's own takes some two microseconds.
RECORDS_IN_SLICE: Final = 200


class BatchProducer:
    """Sends what its partitions' feeds hold. One event loop; `start` first, `close` last.

    `lease()`: whether the target may be written to. `problems` gets what a user should know; `unreachable` is the problem of
    the whole target, without its cause. `restart`: how a user restarts its owner. `failed` gets what ends the producer.
    `counts`: of the batches of data so far. `transactional`: all batches are in transactions. `transactions` begins and ends
    them; it is None without.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        transactional_id: str,
        lease: Callable[[], bool],
        problems: Problems,
        *,
        unreachable: Problem | None = None,
        restart: str = RESTART_TASK,
        transactional: bool = False,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._identity = ProducerIdentity(
            cluster,
            transactional_id,
            lease,
            problems,
            idempotent=settings.idempotent or transactional,
            restart=restart,
            transaction_timeout_ms=settings.transaction_timeout_ms if transactional else None,
        )
        self._sender = Sender(
            cluster,
            settings,
            self._identity,
            lease,
            problems,
            unreachable=unreachable or cluster_unreachable("target cluster", None),
        )
        self.transactions: Transactions | None = None
        if transactional:
            self.transactions = self._sender.transactions = Transactions(
                self._sender,
                TransactionCoordinator(cluster, transactional_id, lease, problems),
                self._identity,
                problems,
                transactional_id=transactional_id,
                timeout_ms=settings.transaction_timeout_ms,
            )
        self._loop = asyncio.get_running_loop()
        # In these the batches of OwnRecords are made.
        self.building = SharedSlices(RECORDS_IN_SLICE)
        # Of data alone.
        self.counts = BatchCounts()
        self.failed = self._sender.failed

    async def start(self) -> None:
        """Takes the producer id, which fences the former owner of the transactional id.

        It tries until that succeeds, and only while the lease is valid. What a former owner left open in a transaction is
        aborted then, in all partitions. Raises NotAuthorized, ConfigError.
        """
        await self._sender.start()

    @property
    def problem(self) -> Problem | None:
        """The problem of the producer itself, if there is one."""
        if self.transactions is not None:
            return self.transactions.problem
        return self._identity.problem

    def partition(self, topic: str, partition: int, feed: Feed, *, ahead: bool = False) -> TargetPartition:
        """The sending side of a partition. If it is created again after `release`, its sequences continue.

        `ahead`: its batches go over a connection of their own, for small ones that must not wait for data under way. A
        transactional producer needs a TransactionalFeed; TypeError.
        """
        key = TopicPartition(topic, partition)
        known = self._sender.partitions.get(key)
        if known is not None and not known.closing:
            raise ValueError(f"{key} already has a feed in this task")
        window = self._settings.window if self._sender.producer.idempotent else 1
        counts = BatchCounts() if ahead else self.counts
        gated = None if self.transactions is None else self.transactions.partitions.gated(feed, ahead=ahead)
        target = TargetPartition(topic, partition, gated or feed, window, MERGE_LIMIT, ahead, counts)
        if known is not None:
            target.next_sequence = known.next_sequence
            target.limit, target.largest = known.limit, known.largest
            target.may_land_until = known.may_land_until
            target.may_land_unfenced_until = known.may_land_unfenced_until
        if self.transactions is not None and gated is not None:
            self.transactions.partitions.enrol(target, gated, known)
        self._sender.partitions[key] = target
        if self._cluster.leader(topic, partition) is None:
            # Before its feed has something, as that would wait for it.
            self._sender.wanted.want(topic)
        return target

    def expect(self, topic: str) -> None:
        """This topic will be written to. Its leaders are looked up together with those of the next topics."""
        self._sender.wanted.want_along([topic])

    def wake(self, target: TargetPartition) -> None:
        """The target's feed has something. Repeated calls cost little."""
        self._sender.wake(target)

    @property
    def troubled(self) -> bool:
        """See Sender.troubled."""
        return self._sender.troubled

    def stalled(self, target: TargetPartition) -> bool:
        """See Sender.stalled."""
        return self._sender.stalled(target)

    def hold_head(self, target: TargetPartition) -> bool:
        """See TargetPartition.hold_head."""
        if self.transactions is not None:
            self.transactions.partitions.touched[target] = None
        return target.hold_head(self._sender.producer)

    async def settle(self, targets: Iterable[TargetPartition], seconds: float) -> bool:
        """Takes no more from their feeds, and waits until all that was taken is acknowledged; False if it isn't in time.

        It waits `seconds` at most, and not for partitions that the target doesn't accept at present: that may last long.
        """
        waited = list(targets)
        for target in waited:
            target.closing = True
        # Nothing more is taken, so what is settled stays so: of thousands only those that are not are looked at again.
        waited = [target for target in waited if target.unacked]
        deadline = self._loop.time() + seconds
        while any(target.unacked and not self._is_refused(target) for target in waited):
            if self.transactions is not None and self.transactions.state is TransactionState.READY:
                break  # what is left was certainly not written, and waits for the next transaction
            self._sender.answered.clear()
            remaining = deadline - self._loop.time()
            if remaining <= 0 or self.failed.done():
                return False
            with contextlib.suppress(TimeoutError):
                # No answer comes for partitions that wait for a leader.
                async with asyncio.timeout(min(remaining, SETTLE_POLL_S)):
                    await self._sender.answered.wait()
        return not any(target.unacked for target in waited)

    def _is_refused(self, target: TargetPartition) -> bool:
        """One with a problem, or long without a leader. A batch without an answer may still succeed in a smaller request."""
        return target.problem is not None or (target in self._sender.leaderless and self.stalled(target))

    async def release(self, targets: Iterable[TargetPartition], seconds: float) -> None:
        """Settles partitions that were taken away, and drops what is not acknowledged in time.

        Returns when no request with a batch of theirs is under way: another task may have them after this. That task has
        another producer id, so the broker would still write a batch of ours after its first one.
        """
        waited = list(targets)
        if not await self.settle(waited, seconds):
            for target in waited:
                target.given_up = True
            if self.transactions is not None and not all(target.settled for target in waited):
                await self.transactions.abort("partitions were taken away before the target had all of their batches")
        # Also partitions without unacknowledged batches: a refused one has dropped those after its head.
        while any(target.on_wire for target in waited):
            self._sender.answered.clear()
            await self._sender.answered.wait()
        landed = max((target.may_land_until for target in waited), default=0.0)
        await asyncio.sleep(max(0.0, landed - self._loop.time()))
        for target in waited:
            target.abandon()

    @property
    def fenceable(self) -> bool:
        """Whether the next producer of this transactional id fences this one off."""
        return self._identity.fenced_by_others

    @property
    def settled(self) -> bool:
        """Whether no batch that was sent may still be written from now on."""
        now = self._loop.time()
        return not any(target.on_wire or now < target.may_land_until for target in self._sender.partitions.values())

    async def close(self) -> None:
        """Sends nothing more. The caller closes the cluster's connections."""
        await self._sender.close()
