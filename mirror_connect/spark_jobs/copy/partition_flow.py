"""One source partition on its way to the target: what was fetched, what is decided of each batch, how far it has come.

*Decide* happens when the producer has room for a batch, not when it was fetched: only then is it known whether there is a
backlog, and a fetched megabyte of tiny batches isn't turned into thousands of objects that wait.

- As it is: nearly always.
- Dropped: control batches, aborted transactions under read_committed, what was had already (a fetch may start in the
  middle of a batch, or bring one twice).
- Re-encoded: what record_batch.needs_rewrite says, and a batch that starts below the wanted offset.
- Merged: small neighbours, when there is a backlog. Merging a record costs about as much CPU as a batch of some ten
  records copied raw, so larger batches are merged only where latency bounds the partition (a slow link).

The position is the last source offset of which everything at or below is on the target or was dropped: it lies in front of
the oldest offset that is not. It is one of a topic: another one made under its name begins when all that was taken of the
former is acknowledged. So does what follows a truncation of the source's log, whose offsets have been had before with other
records: there the position goes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final

from mirror_connect.connectors.records.positions import NO_EPOCH
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer.fetcher import Fetched
from mirror_connect.kafka_io.consumer.leader_epochs import LeaderEpochs
from mirror_connect.kafka_io.producer.in_flight import InFlight
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import (
    BatchReader,
    BatchView,
    CorruptBatchError,
    Outgoing,
    as_is,
    needs_rewrite,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import merge, rewrite
from mirror_connect.kafka_io.records.single_records import merge_singles
from mirror_connect.spark_jobs.copy.positions_writer import Position

NOTHING_YET: Final = -1
# Up to so many records and bytes a batch is merged with its neighbours even on a fast link.
SMALL_RECORDS: Final = 10
SMALL_BYTES: Final = 16 << 10
# On a slow link everything up to this size is.
SLOW_LINK_BYTES: Final = 512 << 10
# Merging is done in the event loop: not more than so many records at a time, so that it is back within some 10 ms.
MERGED_RECORDS: Final = 4_000


class PartitionFlow:
    """The feed (target_partition.Feed) of one partition. `position`: NOTHING_YET while it is not known where to begin.

    `on_corrupt(flow, error)` hears of a batch that can't be copied: the flow has stopped in front of it; `restart` goes on.
    `on_others(flow, offset, count)` hears that the target partition has `count` records from `offset` on that are not ours;
    `on_lost(flow, offset)` that it is shorter than it was: what it had of the source below `offset` may be gone.
    `on_placed(outgoing, base_offset)` hears of each acknowledged batch where it lies, as Feed.acked does.
    """

    def __init__(
        self,
        partition: TaskPartition,
        next_offset: int | None,
        counters: MutableMapping[str, int],
        *,
        topic_id: bytes | None = None,
        leader_epoch: int = NO_EPOCH,
        check_crcs: bool,
        read_committed: bool,
        on_corrupt: Callable[[PartitionFlow, CorruptBatchError], None],
        on_refused: Callable[[PartitionFlow, PartitionRefusedError], None],
        on_written: Callable[[PartitionFlow], None],
        on_others: Callable[[PartitionFlow, int, int], None] = lambda _flow, _offset, _count: None,
        on_lost: Callable[[PartitionFlow, int], None] = lambda _flow, _offset: None,
        on_placed: Callable[[Outgoing, int], None] = lambda _outgoing, _base_offset: None,
    ) -> None:
        self.partition = partition
        # Offsets below are done; None until the first fetch has told where auto.offset.reset leads.
        self.next_offset = next_offset
        # Of the topic that all offsets here are of; None where that isn't known, or there are no ids.
        self.topic_id = topic_id
        # Of what was read from the source; the position goes with the epoch of its record.
        self._epochs = LeaderEpochs()
        if next_offset is not None:
            self._epochs.know(next_offset - 1, leader_epoch)
        self.stopped = False
        # Set with on_corrupt: where an intact batch begins behind the corrupt one, None if none was seen there.
        self.behind_corrupt: int | None = None
        self._counters = counters
        self._check_crcs = check_crcs
        self._read_committed = read_committed
        self._on_corrupt = on_corrupt
        self._on_refused = on_refused
        self._on_written = on_written
        self._on_others = on_others
        self._on_lost = on_lost
        self._on_placed = on_placed
        # Where our next batch comes to lie on the target if nobody else writes there; None while that is not known.
        self._target_end: int | None = None
        self._fetched: deque[Fetched] = deque()
        self._current: Fetched | None = None
        self._reader = BatchReader(b"")
        # What is left of a batch that is re-encoded piece by piece.
        self._pieces: Iterator[Outgoing] | None = None
        self._aborted: AbortedFilter | None = None
        # Decided, not sent: what was looked at while merging and didn't fit.
        self._held: deque[Outgoing] = deque()
        self._in_flight = InFlight()
        self._looked_at = Position(NOTHING_YET, None)

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    @property
    def position(self) -> int:
        """The offset to commit: the last one of which nothing at or below is missing on the target."""
        oldest = self._in_flight.oldest
        if oldest is None:
            # What was dropped behind the last copied batch counts too: a restart needn't look at it again.
            oldest = self._held[0].first_offset if self._held else self.next_offset
        return NOTHING_YET if oldest is None else oldest - 1

    def moved(self) -> Position | None:
        """The position, if it is another one than when this was last asked."""
        offset, topic_id, known = self.position, self.topic_id, self._looked_at
        epoch = self._epochs.at(offset)
        # Asked of thousands of quiet partitions twice a second: nothing is made for them.
        if offset == known.offset and topic_id == known.topic_id and epoch == known.leader_epoch:
            return None
        self._looked_at = Position(offset, topic_id, epoch)
        return self._looked_at

    def put(self, fetched: Fetched) -> None:
        """More from the source, in order."""
        if self.stopped:
            fetched.release()
            return
        self._fetched.append(fetched)

    def restart(self) -> int | None:
        """Forgets what was fetched and not sent; returns the offset to fetch from."""
        self.clear()
        self.stopped = False
        if self.next_offset is not None:
            self._epochs.cut(self.next_offset)
        return self.next_offset

    @property
    def leader_epoch(self) -> int:
        """Of the source's record before `next_offset`; NO_EPOCH where it isn't known."""
        return NO_EPOCH if self.next_offset is None else self._epochs.at(self.next_offset - 1)

    def skip_corrupt(self) -> int | None:
        """Gives the corrupt batch up that it stopped at; how many offsets are lost by that, None if that isn't known."""
        behind, self.behind_corrupt = self.behind_corrupt, None
        if behind is None:
            return None
        lost = behind - (self.next_offset or 0)
        self.next_offset = behind
        # Of what the corrupt batch says of itself nothing is believed.
        self._epochs.clear()
        return lost

    def clear(self) -> None:
        """Gives back what was fetched and not sent; takes nothing more until `restart`."""
        self.stopped = True
        if self._held:
            # Decided anew after a restart.
            self.next_offset = self._held[0].first_offset
            self._held.clear()
        for fetched in (self._current, *self._fetched):
            if fetched is not None:
                fetched.release()
        self._fetched.clear()
        self._current, self._reader, self._pieces = None, BatchReader(b""), None

    # --- the feed ---------------------------------------------------------------------------------------------------

    def waiting(self) -> bool:
        """Whether there may be a batch; it may turn out that all are dropped."""
        return not self.stopped and bool(self._held or self._current or self._fetched)

    def take(self, limit: int, *, slow_link: bool) -> Outgoing | None:
        """The next batch for the target, merged with its neighbours where that pays."""
        first = self._merged_singles(limit) or self._next()
        if first is None:
            return None
        # Before its neighbours are looked at: behind it another topic of the same name must not begin.
        self._in_flight.given(first)
        outgoing = self._merged(first, limit, slow_link=slow_link)
        self._in_flight.merged(outgoing)
        return outgoing

    def _merged(self, first: Outgoing, limit: int, *, slow_link: bool) -> Outgoing:
        """The batch, or one of it and the small ones behind it."""
        if not _is_small(first, limit, slow_link=slow_link):
            return first
        group, size, records = [first], first.size, first.count
        while records < MERGED_RECORDS:
            following = self._next()
            if following is None:
                break
            fits = size + following.size <= limit and following.codec == first.codec
            if not fits or not _is_small(following, limit, slow_link=slow_link):
                self._held.appendleft(following)
                break
            group.append(following)
            size += following.size
            records += following.count
        merged, used = first, 1
        while len(group) > 1:
            try:
                merged, used = merge(group)
                break
            except CorruptBatchError as error:
                # Its CRC is right, so the producer wrote it so: what can't be decompressed is copied as it is, alone. One
                # in front of it may unfold and yet hold no records: that is found only when they are merged.
                readable = [each for each in group if each.last_offset < error.offset] or [first]
                self._held.extendleft(reversed(group[len(readable) :]))
                group = readable
        self._held.extendleft(reversed(group[used:]))
        if used > 1:
            self._counters["merged"] = self._counters.get("merged", 0) + used
        return merged

    def acked(self, outgoing: Outgoing, base_offset: int) -> None:
        """The target has this batch, and all before it."""
        self._in_flight.acked(outgoing)
        counters = self._counters
        counters["records"] = counters.get("records", 0) + outgoing.count
        counters["bytes"] = counters.get("bytes", 0) + outgoing.size
        counters["batches"] = counters.get("batches", 0) + 1
        if self._target_end is not None and base_offset != self._target_end and base_offset >= 0:
            if base_offset > self._target_end:
                self._on_others(self, self._target_end, base_offset - self._target_end)
            else:
                self._on_lost(self, outgoing.first_offset)
        self._target_end = base_offset + outgoing.count if base_offset >= 0 else None
        self._on_placed(outgoing, base_offset)
        self._on_written(self)

    def failed(self, error: PartitionRefusedError) -> None:
        """The target takes no more of this partition; `restart` begins with what it refused."""
        self.clear()
        if error.offset >= 0:
            # All below is on the target or was dropped; what was taken from there on is given up, and read again.
            self.next_offset = error.offset
        # What was given up may be on the target: those would be records of nobody else's.
        self._target_end = None
        self._in_flight.clear()
        self._on_refused(self, error)

    # --- decide -----------------------------------------------------------------------------------------------------

    def _merged_singles(self, limit: int) -> Outgoing | None:
        """The short way for what a producer without linger wrote; None where it doesn't apply."""
        if self._held or self._pieces is not None or (self._reader.ended and not self._open_next()):
            return None
        merged = merge_singles(self._reader, self.next_offset or 0, limit, check_crcs=self._check_crcs)
        if merged is not None:
            self.next_offset = merged.last_offset + 1
            self._counters["merged"] = self._counters.get("merged", 0) + merged.count
        return merged

    def _next(self) -> Outgoing | None:
        """The next batch that is not dropped; None when nothing is left of what was fetched."""
        if self._held:
            return self._held.popleft()
        try:
            while True:
                outgoing = self._next_piece()
                if outgoing is not None:
                    return outgoing
                while (view := self._reader.next()) is not None:
                    outgoing = self._decide(view)
                    if outgoing is not None:
                        return outgoing
                if not self._open_next():
                    return None
        except CorruptBatchError as error:
            self.behind_corrupt = self._intact_one_follows()
            self.clear()
            self._on_corrupt(self, error)
            return None

    def _intact_one_follows(self) -> int | None:
        """Where the next batch behind a corrupt one begins. Of what the corrupt one says of itself nothing is believed."""
        try:
            view = self._reader.next()
            if view is None or view.magic < 2:
                return None
            verify(view, check_crc=True)
        except CorruptBatchError:
            return None
        return view.base_offset if view.base_offset > (self.next_offset or 0) else None

    def _next_piece(self) -> Outgoing | None:
        if self._pieces is None:
            return None
        piece = next(self._pieces, None)
        if piece is None:
            self._pieces = None
        else:
            self.next_offset = piece.last_offset + 1
        return piece

    def _open_next(self) -> bool:
        if self._current is not None:
            # Offsets that compaction has emptied to the end of the fetch are done as well.
            self.next_offset = self._current.next_offset
            self._current.release()
            # The reader would keep all that came with this piece alive, without being counted.
            self._current, self._reader = None, BatchReader(b"")
        if self.stopped or not self._fetched or not self._may_begin(self._fetched[0]):
            return False
        self._current = self._fetched.popleft()
        # Also where it is lower than before: after a topic was re-created, or a log truncated. The fetcher has said so.
        self._epochs.go_on(self._current.fetch_offset, self.next_offset, self._current.epoch_before)
        self._epochs.read(self._current.epochs)
        self.next_offset = self._current.fetch_offset
        self._reader = BatchReader(self._current.buffer, whole=True)
        self._aborted = AbortedFilter(self._current.aborted) if self._read_committed else None
        return True

    def _may_begin(self, following: Fetched) -> bool:
        """Another topic of the same name waits until the target has all of the former: a position is one of a topic.

        So does what the source has again at offsets that were had before: a position is one of a log, too.
        """
        again = following.fetch_offset < (self.next_offset or 0)
        another = following.topic_id not in (None, self.topic_id)
        if (again or (another and self.topic_id is not None)) and (self._in_flight or self._held):
            return False
        if another:
            if self.topic_id is not None:
                self._epochs.clear()
            self.topic_id = following.topic_id
        return True

    def _decide(self, view: BatchView) -> Outgoing | None:
        wanted = self.next_offset or 0
        # First of all: a wrong last offset would make a batch look as if it had been copied already.
        verify(view, check_crc=self._check_crcs)
        # The filter follows transactions through control batches, so it sees every batch, in order.
        aborted = self._aborted is not None and self._aborted.drops(view)
        if view.last_offset < wanted:
            return None
        if aborted or view.is_control:
            outgoing = None
        elif needs_rewrite(view, wanted):
            self._pieces = rewrite(view, wanted)
            self._counters["reencoded"] = self._counters.get("reencoded", 0) + 1
            outgoing = self._next_piece()
            if outgoing is not None:
                return outgoing
        else:
            outgoing = as_is(view)
        self.next_offset = view.last_offset + 1
        return outgoing


def _is_small(outgoing: Outgoing, limit: int, *, slow_link: bool) -> bool:
    if slow_link:
        return outgoing.size <= min(SLOW_LINK_BYTES, limit // 2)
    return outgoing.count <= SMALL_RECORDS and outgoing.size <= SMALL_BYTES
