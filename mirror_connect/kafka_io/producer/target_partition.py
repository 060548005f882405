"""The sending side of one target partition: the next batch, its sequence, and what an answer changes.

This module decides and sender.py sends; there is no I/O here. The rules, for an idempotent producer:

- Batches leave in order, and only the oldest `window` unacknowledged ones may be on the wire. The broker remembers a
  producer's last five batches. An older one can't be repeated safely. Many more may be in flight to a far leader that tells
  which it has: leader_state.py has the rules for that.
- After a failure nothing is sent until every request with a batch of this partition is answered or lost. Then all that is
  unacknowledged is sent again, in order, with the same sequences and bytes. So the broker recognises repetitions.
- The head (the oldest unacknowledged batch) decides. A sequence error of a later batch only says that the head is missing.
- A broker without state of a producer (id and epoch) accepts any sequence. If the first batch failed, it would write the
  second one, and never the first. So only one batch is in flight until the broker certainly keeps the state: until it has
  acknowledged a batch with new records. It drops the state when the last batch's newest record is older than
  producer.id.expiration.ms, and mirrored records keep their old times.
- A split changes no later sequence, as the pieces hold the same number of records. A refusal shows the size limit, so
  larger batches are split before they are sent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from mirror_connect.connectors.problems import Problem
from mirror_connect.kafka_io.producer.batch_counts import BatchCounts
from mirror_connect.kafka_io.producer.in_flight_batch import NO_OFFSET, NO_SEQUENCE, InFlightBatch
from mirror_connect.kafka_io.producer.leader_state import LeaderState
from mirror_connect.kafka_io.producer.produce_outcome import Outcome, OversizeRecordError, PartitionRefusedError
from mirror_connect.kafka_io.records.batch_split import TooMuchToSplitError, split
from mirror_connect.kafka_io.records.record_batch import (
    CorruptBatchError,
    ProducerBatch,
    next_sequence,
    stamped_header,
)

NO_PRODUCER_ID = -1
# Below the broker's default max.message.bytes (1,048,588), as merged batches should never have to be split again.
MERGE_LIMIT: Final = 1_000_000
# Half of the brokers' default for producer.id.expiration.ms: their clocks are not ours.
REMEMBERED_MS: Final = 12 * 3600 * 1000
# An answer that told of LogAppendTime counts for so long: the config may be changed while nothing is written.
APPEND_TIME_MS: Final = 5_000
# A limit learned from a refusal is not smaller than this: each batch of some records fits.
SMALLEST_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """A producer's id and epoch, which each batch carries. With id -1 batches are plain, without sequences.

    `transactional`: each batch is part of a transaction.
    """

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    transactional: bool = False

    @property
    def idempotent(self) -> bool:
        """Whether the broker recognises repetitions."""
        return self.producer_id != NO_PRODUCER_ID


class Feed(Protocol):
    """Where the batches of a partition come from. All calls happen in the event loop and must not block."""

    def waiting(self) -> bool:
        """Whether `take` may have something."""

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        """The next batch, at most `limit` bytes if it was merged; None when there is none at present.

        `latency_bound`: what still waits must wait for an answer from far away, so larger batches are merged, too.
        `append_time`: see TargetPartition.
        """

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """The target has it, at `base_offset`; called in the order of `take`.

        -1: not known, or the batch was sent more than once and the broker may have it twice.
        """

    def failed(self, error: PartitionRefusedError) -> None:
        """The partition can't continue. Batches that were taken and not acknowledged are dropped."""


@dataclass(slots=True, eq=False)
class TargetPartition:
    """One target partition of a producer. `limit`: the largest size of a merged batch, in bytes.

    `largest`: the largest size of any batch, from refusals or the topic's config; None while nothing was refused.
    `counts`: of its batches. `ahead`: they go over a connection of their own. `remembered_until`: until then (ms since the
    epoch) the broker keeps its state of this producer, by the newest record that it has acknowledged.
    `append_time_until`: until then (ms since the epoch) the newest answer counts, which told of LogAppendTime.
    `split_tried`: the last `next_batch` split a batch or tried to, which takes up to a second.
    `problem`: why the target doesn't accept its batches; None while it does. `failing_since`: a try failed then (loop time),
    and nothing was acknowledged since; None: no try failed.
    `closing`: nothing more is taken from the feed; `given_up`: unacknowledged batches aren't sent again either.
    `may_land_until`: until then (loop time) the broker may still write a batch whose request was lost; 0: none was lost.
    `may_land_unfenced_until`: the same of former producer ids, which nothing fences off; see `restamp`.
    `leader`: what its leader has of the unacknowledged batches, as far as known.
    """

    topic: str
    partition: int
    feed: Feed
    window: int
    limit: int
    ahead: bool = False
    counts: BatchCounts = field(default_factory=BatchCounts)
    largest: int | None = None
    next_sequence: int = 0
    unacked: deque[InFlightBatch] = field(default_factory=deque)
    again: deque[InFlightBatch] = field(default_factory=deque)
    on_wire: int = 0
    remembered_until: float = 0.0
    append_time_until: float = 0.0
    recovering: bool = False
    split_tried: bool = False
    closing: bool = False
    given_up: bool = False
    failure: PartitionRefusedError | None = None
    node: int | None = None
    blocked_until: float = 0.0
    failures_in_row: int = 0
    problem: Problem | None = None
    failing_since: float | None = None
    may_land_until: float = 0.0
    may_land_unfenced_until: float = 0.0
    leader: LeaderState = field(init=False)

    def __post_init__(self) -> None:
        self.leader = LeaderState(self.unacked)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def established(self) -> bool:
        """Whether the broker has state of this producer, and refuses a batch whose predecessor is missing."""
        return time.time() * 1000 < self.remembered_until

    @property
    def append_time(self) -> bool:
        """Whether the target's topic has LogAppendTime, as far as known. Then its broker sets the times of all records."""
        return time.time() * 1000 < self.append_time_until

    @property
    def _window(self) -> int:
        return self.leader.window(self.window) if self.established else 1

    @property
    def settled(self) -> bool:
        """Whether each batch that was taken is either acknowledged, in order, or certainly not written."""
        return self.on_wire == 0 and all(sent.never_written for sent in self.unacked)

    def sendable(self) -> bool:
        """Whether `next_batch` may have something now."""
        if self.failure is not None or self.recovering or self.given_up or self.leader.waits:
            return False
        window = self._window
        if self.again:
            unwritten = (sent for sent in self.unacked if not sent.on_leader)
            return any(sent is self.again[0] for sent in islice(unwritten, window))
        return len(self.unacked) < window and not self.closing and self.feed.waiting()

    def next_batch(self, producer: ProducerIdAndEpoch, *, latency_bound: bool) -> InFlightBatch | None:
        """The batch to put into the next request; None when there is none. Only when `sendable`.

        `latency_bound`: see TargetBroker.
        """
        self.split_tried = False
        # While the window has room, what waits can leave as it is. Behind its last place it waits for an answer.
        last = len(self.unacked) + 1 >= self._window
        if not self.again and not self._take(producer, latency_bound=latency_bound and last):
            return None
        sent = self.again.popleft()
        sent.on_wire = True
        self.on_wire += 1
        return sent

    def _take(self, producer: ProducerIdAndEpoch, *, latency_bound: bool) -> bool:
        """Moves the feed's next batch to `again`; False when there is none."""
        batch = self.feed.take(self.limit, latency_bound=latency_bound, append_time=self.append_time)
        if batch is None:
            return False
        stamped = [self._stamped(piece, producer) for piece in self._fitting(batch)]
        self.unacked.extend(stamped)
        self.again.extend(stamped)
        return True

    def hold_head(self, producer: ProducerIdAndEpoch) -> bool:
        """Whether the partition has a batch to try again. If it has none, it takes one from the feed."""
        if self.unacked:
            return True
        if self.failure is not None or self.closing or self.given_up or not self.feed.waiting():
            return False
        return self._take(producer, latency_bound=False)

    def _fitting(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """The batch in pieces within the known size limit: each refusal costs the transfer of the batch."""
        if self.largest is None or batch.size <= self.largest or batch.count == 1:
            return [batch]
        self.split_tried = True
        try:
            pieces = split(batch, self.largest)
            self._count_split(batch)
            return pieces
        except (CorruptBatchError, TooMuchToSplitError):
            return [batch]  # if the target refuses it, `split` reports the reason

    def _stamped(self, batch: ProducerBatch, producer: ProducerIdAndEpoch) -> InFlightBatch:
        if not producer.idempotent:
            return InFlightBatch(batch, NO_SEQUENCE, _payload(batch, producer, NO_SEQUENCE), absent=True)
        sequence = self.next_sequence
        self.next_sequence = next_sequence(sequence, batch.count)
        return InFlightBatch(batch, sequence, _payload(batch, producer, sequence), absent=True)

    def answered(
        self,
        sent: InFlightBatch,
        outcome: Outcome,
        base_offset: int = NO_OFFSET,
        log_append_time: int = -1,
        *,
        absent: bool = False,
    ) -> None:
        """Notes the answer for one batch; Outcome.RETRY also for a lost connection.

        `log_append_time`: see ProducedPartition. `absent`: see InFlightBatch.
        """
        sent.on_wire = False
        sent.absent = absent
        self.on_wire -= 1
        if outcome is Outcome.WRITTEN:
            self._note_times(sent, log_append_time)
            sent.acked, sent.base_offset = True, base_offset
            self.failures_in_row = 0
            self.problem, self.failing_since = None, None
            if self.leader.has_all_before(sent):
                self._acknowledge()
            else:
                self.recovering = True
            if not self.unacked and sent.sequence != NO_SEQUENCE and self.established:
                # The broker has all batches, and drops repetitions that still arrive; not so those of another producer id.
                self.may_land_until = self.may_land_unfenced_until
        else:
            self.recovering = True
        self._recover()

    def _note_times(self, sent: InFlightBatch, log_append_time: int) -> None:
        if log_append_time >= 0:
            newest = log_append_time
            # For a repetition of what it has already, a broker always answers the time of that batch.
            if not sent.repeated:
                self.append_time_until = time.time() * 1000 + APPEND_TIME_MS
        else:
            # With CreateTime now, the broker goes by the times in the records, and those aren't known here.
            newest = sent.batch.max_timestamp if sent.batch.append_time is None else 0
            self.append_time_until = 0.0
        self.remembered_until = newest + REMEMBERED_MS

    def _acknowledge(self) -> None:
        # In order, even if the answers came in another order: a source offset must never pass a missing batch.
        while self.unacked and self.unacked[0].acked:
            head = self.unacked.popleft()
            self.leader.acknowledged(head)
            self.feed.acked(head.batch, NO_OFFSET if head.repeated else head.base_offset)

    def _recover(self) -> None:
        if not self.recovering or self.on_wire > 0 or self.leader.lost:
            return
        self.leader.failed()
        if not self.leader.unclear:
            self.recovering = False
            self._send_again(sent for sent in self.unacked if not sent.acked)

    @property
    def must_ask(self) -> bool:
        """Whether its leader has to be asked before anything is sent."""
        return self.leader.unclear and not self.given_up

    def resume(self, last_sequence: int | None) -> None:
        """The leader has told the last sequence that it has of this producer; see LeaderState. Only when `must_ask`."""
        self.recovering = False
        if last_sequence is None:
            # A leader that knows nothing of this producer accepts any sequence.
            self.remembered_until = 0.0
        self._send_again(self.leader.resume(last_sequence))

    def _send_again(self, batches: Iterable[InFlightBatch]) -> None:
        self.again = deque(batches)
        for sent in self.again:
            sent.repeated = sent.repeated or not sent.absent
            self.counts.repeated += 1
            self.counts.repeated_bytes += sent.size

    def is_head(self, sent: InFlightBatch) -> bool:
        """Whether nothing older is unacknowledged."""
        return bool(self.unacked) and self.unacked[0] is sent

    def splitting(self) -> None:
        """A batch is about to be split. Until `answered` it counts as on the wire, and nothing else is sent."""
        self.recovering = True

    def split(self, sent: InFlightBatch, producer: ProducerIdAndEpoch) -> None:
        """Replaces a batch that the target refused as too large by smaller ones; call before `answered`.

        Raises PartitionRefusedError if it is a single record or can't be split. The pieces hold as many records as the
        batch, so later batches keep their sequences.
        """
        if sent.batch.count == 1:
            alone = sent.batch
            record = alone.upstream_offsets[0][0] if alone.upstream_offsets else alone.first_offset
            raise OversizeRecordError(self.topic, self.partition, record, alone.last_offset + 1, alone.size)
        # The refusal does not contain the limit, so half of the size is tried.
        limit = sent.batch.size // 2
        if self.largest is not None and self.largest < sent.batch.size:
            limit = self.largest
        try:
            pieces = split(sent.batch, limit)
        except (CorruptBatchError, TooMuchToSplitError) as error:
            reason = error.reason if isinstance(error, CorruptBatchError) else str(error)
            raise PartitionRefusedError(
                f"Batch at offset {sent.batch.first_offset} for {self} has {sent.batch.count} records in "
                f"{sent.batch.size} bytes, more than the target takes, and can't be split: {reason}; raise "
                f"max.message.bytes of topic {self.topic} on the target (or message.max.bytes of its brokers)"
            ) from None
        self._count_split(sent.batch)
        self._learn(limit)
        sequence, replacement = sent.sequence, []
        for piece in pieces:
            payload = _payload(piece, producer, sequence)
            # The target may have written the whole batch before its limit was lowered; then it gets the records twice.
            replacement.append(InFlightBatch(piece, sequence, payload, absent=True, repeated=sent.repeated))
            sequence = next_sequence(sequence, piece.count) if producer.idempotent else NO_SEQUENCE
        at = self.unacked.index(sent)
        del self.unacked[at]
        for offset, piece_sent in enumerate(replacement):
            self.unacked.insert(at + offset, piece_sent)

    def _count_split(self, batch: ProducerBatch) -> None:
        self.counts.split += 1
        self.counts.split_bytes += batch.size

    def set_largest(self, largest: int) -> None:
        """Notes the limit of the topic's config, which is more exact than one learned from refusals."""
        self.largest = None
        self._learn(largest)

    def _learn(self, largest: int) -> None:
        largest = max(largest, SMALLEST_LIMIT)
        self.largest = largest if self.largest is None else min(self.largest, largest)
        self.limit = min(MERGE_LIMIT, self.largest)

    def restamp(self, producer: ProducerIdAndEpoch, *, fenced: bool) -> None:
        """Begins again with another producer id or epoch, sequences from 0. No partition may have a batch on the wire.

        `fenced`: the id is the same, so the next batch makes the broker refuse those of the former epoch. Without the right
        to a transactional id each id is a new one, and the broker still writes what was sent with the former one.

        A batch whose answer was lost may be on the target already. Under the new epoch the broker does not recognise its
        repetition, and writes it twice: at least once holds, exactly once does not, as with Java's producer (KIP-360).
        """
        self.next_sequence = 0
        self.remembered_until = 0.0
        if not fenced:
            self.may_land_unfenced_until = self.may_land_until
        for sent in self.unacked:
            restamped = self._stamped(sent.batch, producer)
            sent.sequence, sent.payload = restamped.sequence, restamped.payload
            # This includes batches acknowledged after a missing head: they are sent again after it, to keep the order.
            sent.acked, sent.base_offset = False, NO_OFFSET
        self.recovering = False
        self.leader.begin_anew()
        self._send_again(self.unacked)

    def fail(self, error: PartitionRefusedError) -> None:
        """Stops the partition because of its head: informs its feed, and drops its unacknowledged batches."""
        self.failure = error
        # If the reason is a time, as CreateTime is checked, the batch would be refused again and again as it is.
        self.append_time_until = 0.0
        if self.unacked:
            head = self.unacked[0]
            error.offset = head.batch.first_offset
            # The target has neither the head nor any later batch, as their sequences come after it. So a partition that
            # continues later does so with the head's sequence. But the target may have written an earlier try of the head.
            # Then it would take another batch of that sequence for a repetition, and drop it. So do as in `abandon`.
            if not head.repeated:
                self.next_sequence = max(head.sequence, 0)
        self._drop()
        self.feed.failed(error)

    def abandon(self) -> None:
        """Drops unacknowledged batches of a partition that was taken away. Only when nothing is on the wire."""
        if self.unacked and all(sent.never_written for sent in self.unacked):
            self.next_sequence = max(self.unacked[0].sequence, 0)
        # Otherwise the sequence continues after the dropped ones. If the target doesn't have them, it reports that when the
        # partition comes back, and the producer begins again.
        self._drop()
        self.recovering = False

    def renounce(self) -> None:
        """Drops all: their transaction is aborted, under an epoch that is over. Only when nothing is on the wire."""
        self._drop()
        self.recovering = False
        self.next_sequence = 0
        self.remembered_until = self.may_land_until = self.may_land_unfenced_until = 0.0

    def _drop(self) -> None:
        self.leader.drop()
        self.unacked.clear()
        self.again.clear()


def _payload(batch: ProducerBatch, producer: ProducerIdAndEpoch, sequence: int) -> tuple[bytes, bytes]:
    # They are not joined: that would copy the records once more.
    epoch = producer.epoch if producer.idempotent else -1
    header = stamped_header(batch, producer.producer_id, epoch, sequence, transactional=producer.transactional)
    return header, batch.records
