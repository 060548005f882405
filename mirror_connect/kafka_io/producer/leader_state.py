"""What a partition's leader has of this producer, as far as it is known. So many batches may be in flight to a far one.

There is no I/O here: producer_states.py asks. The rules:

- A broker remembers a producer's last five batches, and an older one can't be repeated safely. A leader may get many more
  (FAR_WINDOW) if it is far away, and tells the last sequence that it has of this producer (DescribeProducers).
- If it may have written several of them before a failure, it is asked first. The batch with its last sequence is sent
  again, and what comes after it. The leader recognises that one, and acknowledges it when all replicas in sync have it.
- That batch's offset shows whether they have all before it, too: a leader may have lost its state meanwhile. So it is sent
  alone. Where somebody else writes, offsets show nothing, and five are in flight.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mirror_connect.kafka_io.producer.in_flight_batch import NO_OFFSET, InFlightBatch
from mirror_connect.kafka_io.records.record_batch import next_sequence

# Batches of a partition in flight to a far leader that tells which it has. Bytes under way are limited elsewhere.
FAR_WINDOW: Final = 160
# So often the leader is asked before all are sent again, as after any failure. What it told may be of no use: it may lead no
# more, or its batch may have been cut in another way, and be no repetition.
RESUMES: Final = 3
# It may take so long until the leader can answer the question, as after an election. From then on all are sent again.
PATIENCE_S: Final = 30.0


@dataclass(slots=True, eq=False)
class LeaderState:
    """Of one partition. `unacked`: its unacknowledged batches, oldest first; the partition adds and removes them.

    `wide`: FAR_WINDOW batches may be in flight, as the leader tells which it has. `asked`: whether it does was asked.
    `shared`: somebody else writes into the partition, too.
    `unclear`: it has to tell which batches it has, before anything is sent. `doubted`: it refused the oldest one, perhaps
    as a repetition that it doesn't recognise.
    `lost`: it accepted a batch behind one that it doesn't have; nothing is sent before `begin_anew`.
    """

    unacked: deque[InFlightBatch]
    wide: bool = False
    asked: bool = False
    shared: bool = False
    unclear: bool = False
    doubted: bool = False
    lost: bool = False
    # The batch that has the leader's last sequence, or the oldest one, while it is sent again.
    _resumed: InFlightBatch | None = field(default=None, init=False)
    _refused: int = field(default=0, init=False)
    # How many of the unacknowledged ones it had, by its best answer.
    _furthest: int = field(default=0, init=False)
    # When it began to answer questions with errors (loop time).
    _in_vain_since: float | None = field(default=None, init=False)
    # Behind the newest acknowledged batch, on the target.
    _acked_end: int = field(default=NO_OFFSET, init=False)

    def window(self, usual: int) -> int:
        """How many batches may be in flight. `usual`: to a leader that is near."""
        return max(usual, FAR_WINDOW) if self.wide and not self.shared else usual

    @property
    def waits(self) -> bool:
        """Whether a batch is on its way whose answer shows what the leader has; nothing else is sent before."""
        return self._resumed is not None and self._resumed.on_wire and self.unacked[0].on_leader

    @property
    def asks(self) -> bool:
        """Whether more batches may be written than the leader surely remembers: it may not recognise the first one again.

        A leader that began with a snapshot of its log remembers only the last one before that.
        """
        written = sum(not sent.never_written for sent in self.unacked)
        return self.wide and (written > 1 or self.doubted) and self._refused < RESUMES

    def doubt(self) -> bool:
        """It has refused the sequence of the oldest batch. Whether it is asked, as it may have that one and more."""
        asks = self.asks
        self.doubted = self.doubted or asks
        return asks

    def failed(self) -> None:
        """A batch has failed, and none is on the wire any more. Then it may be `unclear` what the leader has."""
        self.forget_resumed()
        self.unclear = self.asks

    def resume(self, last_sequence: int | None) -> list[InFlightBatch]:
        """The batches to send again: from the one on whose last record has this sequence. Only when `unclear`.

        None: the leader has none, or does not tell. Then it is all of them, and so it is if it has another sequence.
        """
        self.unclear = self.doubted = False
        self._in_vain_since = None
        at = next((n for n, sent in enumerate(self.unacked) if sent.last_sequence == last_sequence), None)
        if at is None or (at > 0 and not self._may_have_all_before(at)):
            at = 0
            if last_sequence is None or next_sequence(last_sequence, 1) != self.unacked[0].sequence:
                self._refused += 1
        elif at > self._furthest:
            # What was on its way still lands, perhaps slowly, and hides the batch that it told. It gets further each time.
            self._furthest, self._refused = at, 0
        for sent in islice(self.unacked, at):
            sent.on_leader = sent.repeated = True
        again = list(islice(self.unacked, at, None))
        for sent in again:
            # What was acknowledged behind a missing batch is not there any more.
            sent.acked, sent.base_offset = False, NO_OFFSET
        self._resumed = again[0] if again else None
        return again

    def in_vain(self, now: float) -> bool:
        """It has answered the question with an error. Whether it has done so for too long. `now`: loop time."""
        if self._in_vain_since is None:
            self._in_vain_since = now
        return now - self._in_vain_since >= PATIENCE_S

    def _may_have_all_before(self, at: int) -> bool:
        """Whether nothing shows that a batch before this one is missing: one that was not written, or a wrong offset."""
        end = self._acked_end
        if end == NO_OFFSET or self.shared:
            return False
        for number, sent in enumerate(self.unacked):
            if number < at and sent.never_written:
                return False
            if sent.acked and sent.base_offset not in (NO_OFFSET, end):
                return False
            end += sent.batch.count
        return True

    def refuses(self, sent: InFlightBatch) -> None:
        """It refuses this batch for good. That matters if it was the first one sent again: all others depend on it."""
        if sent is self._resumed:
            self._refused += 1

    def has_all_before(self, sent: InFlightBatch) -> bool:
        """Whether it has what it told to have before this batch, which it acknowledges now. If not, it is `lost`."""
        if sent is self._resumed and not self._is_all_there(sent):
            self.lost = True
        return not self.lost

    def _is_all_there(self, resumed: InFlightBatch) -> bool:
        """Whether what the leader had lies right before this batch, which is acknowledged now. Then it counts, too."""
        self._resumed = None
        before = [sent for sent in self.unacked if sent.on_leader]
        there = not before or resumed.base_offset == self._acked_end + sum(sent.batch.count for sent in before)
        for sent in before:
            sent.acked, sent.on_leader = there, False
        return there

    def acknowledged(self, head: InFlightBatch) -> None:
        """This batch, the oldest one, has just left `unacked`."""
        self.doubted, self._refused, self._furthest = False, 0, 0
        if not head.repeated and NO_OFFSET not in (self._acked_end, head.base_offset):
            self.shared = self.shared or head.base_offset != self._acked_end
        self._acked_end = head.base_offset + head.batch.count if head.base_offset != NO_OFFSET else NO_OFFSET

    def begin_anew(self) -> None:
        """The producer has another id or epoch. What it sends lies behind all that was written before."""
        self.drop()
        self._refused, self._furthest, self._acked_end = 0, 0, NO_OFFSET

    def drop(self) -> None:
        """The partition is about to drop its batches."""
        self.forget_resumed()
        self.doubted = False

    def forget_resumed(self) -> None:
        """What the leader told does not hold any more."""
        self.unclear = self.lost = False
        self._resumed = self._in_vain_since = None
        for sent in self.unacked:
            sent.on_leader = False
