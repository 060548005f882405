"""The sending side of one target partition: which batch goes next, with which sequence, and what an answer changes.

No I/O and no clock here: batch_producer.py sends, this decides. The rules, for an idempotent producer:

- Batches leave in order, and none that is `window` or more behind the oldest unacknowledged one: the broker remembers a
  producer's last five batches, and what has fallen out of its memory can't be repeated safely.
- After a failure nothing is sent until every request that carries a batch of this partition is answered or lost. Then
  everything unacknowledged goes again, in order, with the same sequences and the same bytes, so that the broker can
  tell a repetition from a new batch.
- The head (the oldest unacknowledged) decides: a sequence error of a later batch only says that the head is missing.
- A broker that has no state of a producer (id and epoch) takes any sequence, so the second batch would be let in although
  the first one failed, and the first never again. So there is one batch in flight until one is acknowledged whose records
  are new enough for the broker to keep the state: it drops that when the last batch's newest record is older than
  producer.id.expiration.ms, and mirrored records keep their old times.
- Splitting a batch changes no sequence of those behind it: the pieces hold the same number of records. What a partition
  has refused once tells how large a batch may be: larger ones are split before they are sent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from mirror_connect.kafka_io.producer.produce_outcome import Outcome, OversizeRecordError, PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import (
    CorruptBatchError,
    Outgoing,
    next_sequence,
    stamp,
)
from mirror_connect.kafka_io.records.record_rewrite import TooMuchToSplitError, split

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
# Below the broker's default max.message.bytes (1,048,588), as merged batches should never have to be split again.
MERGE_LIMIT: Final = 1_000_000
# Half of the brokers' default for producer.id.expiration.ms: their clocks are not ours.
REMEMBERED_MS: Final = 12 * 3600 * 1000
# A limit learned from a refusal is not smaller than this: each batch of some records fits.
SMALLEST_LIMIT: Final = 1024


@dataclass(frozen=True, slots=True)
class ProducerId:
    """What a batch is stamped with; id -1 makes it a plain batch, without sequences."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1

    @property
    def idempotent(self) -> bool:
        """Whether the broker recognises repetitions."""
        return self.producer_id != NO_PRODUCER_ID


class Feed(Protocol):
    """Where the batches of a partition come from. All calls happen in the event loop and must not block."""

    def waiting(self) -> bool:
        """Whether `take` may have something."""

    def take(self, limit: int, *, slow_link: bool) -> Outgoing | None:
        """The next batch, at most `limit` bytes if it was merged; None when there is none at present."""

    def acked(self, outgoing: Outgoing, base_offset: int) -> None:
        """The target has it, at `base_offset`; called in the order of `take`.

        -1: not told, or it was sent more than once and the broker may have it twice.
        """

    def failed(self, error: PartitionRefusedError) -> None:
        """The partition goes no further; what was taken and not acknowledged is given up."""


@dataclass(slots=True, eq=False)
class Sent:
    """A batch between `take` and its acknowledgement: its bytes and sequence stay what they were at the first try.

    `absent`: the target has said that it has not written it, or was not asked yet. `repeated`: sent again although it may
    have been written before, so that where it lies is not known.
    """

    outgoing: Outgoing
    sequence: int
    payload: bytes
    on_wire: bool = False
    acked: bool = False
    absent: bool = False
    repeated: bool = False
    base_offset: int = -1

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.outgoing.size


@dataclass(slots=True, eq=False)
class TargetPartition:
    """One target partition of a producer. `limit`: what a merged batch may measure, in bytes.

    `largest`: what any batch may measure, as refusals or the topic's config have told; None while nothing was refused.
    `ahead`: what it has goes before what others have. `remembered_until`: up to when (ms since the epoch) the broker keeps
    its state of this producer, by the newest record that it has acknowledged.
    `taken_apart`: in the last `next_batch` a batch was, or it was tried: that takes up to a second.
    `trouble`: one line, while the target doesn't take what it has; "" otherwise. `failing_since`: nothing was acknowledged
    since that time of the loop's, when a try failed; None while none did.
    `closing`: no more is taken from the feed; `given_up`: what is unacknowledged isn't sent again either.
    `may_land_until`: up to when (the loop's time) the broker may still write a batch whose request was lost; 0: none was.
    """

    topic: str
    partition: int
    feed: Feed
    window: int
    limit: int
    ahead: bool = False
    largest: int | None = None
    next_sequence: int = 0
    unacked: deque[Sent] = field(default_factory=deque)
    again: deque[Sent] = field(default_factory=deque)
    on_wire: int = 0
    remembered_until: float = 0.0
    recovering: bool = False
    taken_apart: bool = False
    closing: bool = False
    given_up: bool = False
    failure: PartitionRefusedError | None = None
    node: int | None = None
    blocked_until: float = 0.0
    failures_in_row: int = 0
    trouble: str = ""
    failing_since: float | None = None
    may_land_until: float = 0.0

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def established(self) -> bool:
        """Whether the broker has state of this producer, and refuses a batch whose predecessor is missing."""
        return time.time() * 1000 < self.remembered_until

    def sendable(self) -> bool:
        """Whether `next_batch` may have something now."""
        if self.failure is not None or self.recovering or self.given_up:
            return False
        window = self.window if self.established else 1
        if self.again:
            return any(sent is self.again[0] for sent in islice(self.unacked, window))
        return len(self.unacked) < window and not self.closing and self.feed.waiting()

    def next_batch(self, producer: ProducerId, *, slow_link: bool) -> Sent | None:
        """The batch to put into the next request; None when there is none. Only when `sendable`."""
        self.taken_apart = False
        if not self.again and not self._take(producer, slow_link=slow_link):
            return None
        sent = self.again.popleft()
        sent.on_wire = True
        self.on_wire += 1
        return sent

    def _take(self, producer: ProducerId, *, slow_link: bool) -> bool:
        """Moves the feed's next batch to `again`; False when there is none."""
        outgoing = self.feed.take(self.limit, slow_link=slow_link)
        if outgoing is None:
            return False
        stamped = [self._stamped(piece, producer) for piece in self._fitting(outgoing)]
        self.unacked.extend(stamped)
        self.again.extend(stamped)
        return True

    def hold_head(self, producer: ProducerId) -> bool:
        """Whether there is a batch to be tried again, whatever the feed has; takes one out of the feed if need be."""
        if self.unacked:
            return True
        if self.failure is not None or self.closing or self.given_up or not self.feed.waiting():
            return False
        return self._take(producer, slow_link=False)

    def _fitting(self, outgoing: Outgoing) -> list[Outgoing]:
        """The batch in pieces that the target takes, as far as that is known: each refusal costs the batch's bytes."""
        if self.largest is None or outgoing.size <= self.largest or outgoing.count == 1:
            return [outgoing]
        self.taken_apart = True
        try:
            return split(outgoing, self.largest)
        except (CorruptBatchError, TooMuchToSplitError):
            return [outgoing]  # should the target refuse it, it says why

    def _stamped(self, outgoing: Outgoing, producer: ProducerId) -> Sent:
        if not producer.idempotent:
            return Sent(outgoing, NO_SEQUENCE, stamp(outgoing, NO_PRODUCER_ID, -1, NO_SEQUENCE), absent=True)
        sequence = self.next_sequence
        self.next_sequence = next_sequence(sequence, outgoing.count)
        payload = stamp(outgoing, producer.producer_id, producer.epoch, sequence)
        return Sent(outgoing, sequence, payload, absent=True)

    def answered(self, sent: Sent, outcome: Outcome, base_offset: int = -1, *, absent: bool = False) -> None:
        """Takes the answer for one batch in; Outcome.RETRY stands for a lost connection too. `absent`: see Sent."""
        sent.on_wire = False
        sent.absent = absent
        self.on_wire -= 1
        if outcome is Outcome.WRITTEN:
            self.remembered_until = sent.outgoing.max_timestamp + REMEMBERED_MS
            sent.acked, sent.base_offset = True, base_offset
            self.failures_in_row = 0
            self.trouble, self.failing_since = "", None
            self._acknowledge()
            if not self.unacked and sent.sequence != NO_SEQUENCE and self.established:
                # The broker knows all of it, and drops what comes once more.
                self.may_land_until = 0.0
        else:
            self.recovering = True
        self._recover()

    def _acknowledge(self) -> None:
        # In order even if answers were not: a position must never pass a batch that is still missing.
        while self.unacked and self.unacked[0].acked:
            head = self.unacked.popleft()
            self.feed.acked(head.outgoing, -1 if head.repeated else head.base_offset)

    def _recover(self) -> None:
        if self.recovering and self.on_wire == 0:
            self.recovering = False
            self._send_again(sent for sent in self.unacked if not sent.acked)

    def _send_again(self, batches: Iterable[Sent]) -> None:
        self.again = deque(batches)
        for sent in self.again:
            sent.repeated = sent.repeated or not sent.absent

    def is_head(self, sent: Sent) -> bool:
        """Whether nothing older is unacknowledged."""
        return bool(self.unacked) and self.unacked[0] is sent

    def splitting(self) -> None:
        """A batch is going to be split: until it is `answered` it counts as on the wire, and nothing else is sent."""
        self.recovering = True

    def split(self, sent: Sent, producer: ProducerId) -> None:
        """Replaces a batch that the target found too large by smaller ones; call before `answered`.

        Raises PartitionRefusedError when it is a single record, or can't be taken apart. The pieces hold as many records as
        it does, so that those behind it keep their sequences.
        """
        if sent.outgoing.count == 1:
            alone = sent.outgoing
            record = alone.upstream_offsets[0][0] if alone.upstream_offsets else alone.first_offset
            raise OversizeRecordError(self.topic, self.partition, record, alone.last_offset + 1, alone.size)
        # The limit itself may not be told, so a half is tried.
        limit = sent.outgoing.size // 2
        if self.largest is not None and self.largest < sent.outgoing.size:
            limit = self.largest
        try:
            pieces = split(sent.outgoing, limit)
        except (CorruptBatchError, TooMuchToSplitError) as error:
            reason = error.reason if isinstance(error, CorruptBatchError) else str(error)
            raise PartitionRefusedError(
                f"Batch at offset {sent.outgoing.first_offset} for {self} has {sent.outgoing.count} records in "
                f"{sent.outgoing.size} bytes, more than the target takes, and can't be split: {reason}; raise "
                f"max.message.bytes of topic {self.topic} on the target (or message.max.bytes of its brokers)"
            ) from None
        self._learn(limit)
        sequence, replacement = sent.sequence, []
        for piece in pieces:
            if producer.idempotent:
                payload = stamp(piece, producer.producer_id, producer.epoch, sequence)
            else:
                payload = stamp(piece, NO_PRODUCER_ID, -1, NO_SEQUENCE)
            # The whole may have been written before the topic's limit was lowered; then it is there twice.
            replacement.append(Sent(piece, sequence, payload, absent=True, repeated=sent.repeated))
            sequence = next_sequence(sequence, piece.count) if producer.idempotent else NO_SEQUENCE
        at = self.unacked.index(sent)
        del self.unacked[at]
        for offset, piece_sent in enumerate(replacement):
            self.unacked.insert(at + offset, piece_sent)

    def told(self, largest: int) -> None:
        """The topic's config says how many bytes a batch may measure: better than what refusals alone have taught."""
        self.largest = None
        self._learn(largest)

    def _learn(self, largest: int) -> None:
        largest = max(largest, SMALLEST_LIMIT)
        self.largest = largest if self.largest is None else min(self.largest, largest)
        self.limit = min(MERGE_LIMIT, self.largest)

    def restamp(self, producer: ProducerId) -> None:
        """Begins anew with another producer id or epoch, sequences from 0. Nothing of any partition may be on the wire.

        A batch whose answer was lost may be on the target already. The broker can't tell its repetition under the new
        epoch, so it is there twice: at least once is kept, exactly once is not, as with Java's producer (KIP-360).
        """
        self.next_sequence = 0
        self.remembered_until = 0.0
        for sent in self.unacked:
            restamped = self._stamped(sent.outgoing, producer)
            sent.sequence, sent.payload = restamped.sequence, restamped.payload
            # Also what was acknowledged behind a missing head: it goes again behind it, and is not there before that.
            sent.acked, sent.base_offset = False, -1
        self.recovering = False
        self._send_again(self.unacked)

    def fail(self, error: PartitionRefusedError) -> None:
        """Gives the partition up because of its head; its feed is told, its unacknowledged batches are forgotten."""
        self.failure = error
        if self.unacked:
            head = self.unacked[0]
            error.offset = head.outgoing.first_offset
            # The target has neither the head nor, as their sequences come later, anything behind it: should the partition
            # be taken up again, both begin there. But an earlier try of the head may have been written. Then the broker
            # would take another batch of that sequence for a repetition, and drop it: so it goes on as in `abandon`.
            if not head.repeated:
                self.next_sequence = max(head.sequence, 0)
        self.unacked.clear()
        self.again.clear()
        self.feed.failed(error)

    def abandon(self) -> None:
        """Forgets what is unacknowledged (a partition that was taken away). Only when nothing is on the wire."""
        # The sequence goes on after the forgotten ones: should the target not have them, it says so when the partition
        # comes back, and the producer begins anew.
        self.unacked.clear()
        self.again.clear()
        self.recovering = False
