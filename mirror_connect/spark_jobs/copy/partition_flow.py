"""The way of one source partition to the target: decides on each fetched batch, and keeps the source offset.

It decides on a batch when the producer has room for it, not when it was fetched. Only then it is known whether there is a
backlog. And a fetched megabyte of tiny batches doesn't become thousands of waiting objects.

- Copied unchanged: nearly always.
- Dropped: control batches, aborted transactions under read_committed, records that are copied already (a fetch may start
  in the middle of a batch, or bring one twice).
- Re-encoded: if there are transformations, or record_batch.needs_rewrite says so, for example if the batch starts below the
  wanted offset. A batch with LogAppendTime isn't, as long as the target has LogAppendTime, too: its broker sets the times of
  all records anyway.
- Merged: small neighbours, when there is a backlog. Merging one compressed record costs about as much CPU as copying a batch
  of some ten records unchanged. So larger batches are merged only if they would wait for an answer from far away, or where
  nothing is compressed and the loops over records are in C.

The source offset is the last one at or below which all records are on the target or were dropped. It belongs to one topic:
another topic of the same name begins when the target has acknowledged all of the former. The same holds after a truncation
of the source's log, where offsets come again with other records. There the source offset goes back.

Records that no transformation could take may go to a dead letter topic (dead_letters.py). The source offset waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, MutableMapping
from typing import Final, NamedTuple

from mirror_connect.connectors.record_errors import RecordError, SkippedRecords
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch
from mirror_connect.kafka_io.consumer.leader_epochs import LeaderEpochs
from mirror_connect.kafka_io.producer.in_flight import InFlight
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import Feed
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.compiled import merge_plain, merges_plain, take
from mirror_connect.kafka_io.records.placed_records import Placed
from mirror_connect.kafka_io.records.record_batch import (
    NO_TIMESTAMP,
    BatchReader,
    BatchView,
    CorruptBatchError,
    ProducerBatch,
    as_is,
    first_timestamp,
    needs_rewrite,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import with_append_time
from mirror_connect.kafka_io.records.single_records import merge_singles
from mirror_connect.spark_jobs.copy.acknowledged import Acknowledged
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch, Computing
from mirror_connect.spark_jobs.copy.dead_letters import FlowLetters
from mirror_connect.spark_jobs.copy.flow_measures import CopyTotals, FlowMeasures
from mirror_connect.spark_jobs.copy.read_ahead import ReadAhead
from mirror_connect.spark_jobs.copy.rewritten_pieces import InThread, Rewriting, RewrittenPieces
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset

NOTHING_YET: Final = -1
# A batch up to these sizes is merged with its neighbours even on a fast link. In C, the bytes alone count.
SMALL_RECORDS: Final = 10
SMALL_BYTES: Final = 16 << 10
# If the distance limits the partition, a batch up to this size is merged.
LATENCY_BOUND_BYTES: Final = 512 << 10
# Merging blocks the event loop, so there are limits. A batch takes 10 to 15 µs, mostly for decompressing, and a request as
# much as some ten of them. Where the distance is the limit, requests take long anyway: there it is one of records (10 ms).
MERGED_BATCHES: Final = 150
MERGED_RECORDS: Final = 4_000


class FlowPlace(NamedTuple):
    """A place in the source's log: the next offset, None if it isn't known, its topic's id, the epoch before it."""

    offset: int | None
    topic_id: bytes | None
    leader_epoch: int


class PartitionFlow:
    """The feed (target_partition.Feed) of one partition. `source_offset`: NOTHING_YET while the start is not known.

    `on_corrupt(flow, error)`: a batch can't be copied, and the flow has stopped before it until `restart`.
    `on_others(flow, offset, count)`: the target partition has `count` records from `offset` on that are not ours.
    `on_lost(flow, offset)`: the target partition is shorter than it was; copies of offsets below `offset` may be gone.
    `on_placed(batch, base_offset)`: see Feed.acked. `on_begin(flow, offset)`: the flow begins at an offset that no source
    offset told: the first one, or that of another topic of the same name. All that was placed before has been told.
    `feed`: what the producer gets. It is another one if the records are written in transactions.
    `measures`: gets what there is to measure. `touched`: gets this flow whenever `moved` may have something new.
    `steps`: transformations of the records. `tolerant`: those that they can't take are skipped: `on_skipped(flow, records)`.
    Otherwise `on_failed(flow, error)`: the flow has stopped before such a record. `letters`: gets those that are skipped,
    for the dead letter topic; None: there is none. `on_letters(flow)`: the target has all that were under way.
    `in_thread`: see RewrittenPieces; `on_ready(flow)`: a thread, or Spark, has made what `take` now returns.
    `computing`: transforms all records after these steps; None: nothing does.
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
        on_placed: Callable[[Placed, int], None] = lambda _batch, _base_offset: None,
        on_begin: Callable[[PartitionFlow, int], None] = lambda _flow, _offset: None,
        steps: Steps = (),
        tolerant: bool = False,
        on_skipped: Callable[[PartitionFlow, SkippedRecords], None] = lambda _flow, _records: None,
        on_failed: Callable[[PartitionFlow, RecordError], None] = lambda _flow, _error: None,
        letters: FlowLetters | None = None,
        in_thread: InThread | None = None,
        on_ready: Callable[[PartitionFlow], None] = lambda _flow: None,
        on_letters: Callable[[PartitionFlow], None] = lambda _flow: None,
        computing: Computing | None = None,
        measures: FlowMeasures | None = None,
        touched: MutableMapping[PartitionFlow, None] | None = None,
    ) -> None:
        self.partition = partition
        self.source = partition.source
        self.feed: Feed = self
        # Where the open transaction begins in which records of this partition are, and about the timestamp of the first of
        # them; None: there is none. Another topic or log begins after its commit, for which `on_boundary` asks.
        self.uncommitted: FlowPlace | None = None
        self.uncommitted_ms = NO_TIMESTAMP
        self.on_boundary: Callable[[], None] = _nothing
        # Offsets below are done; None until the first fetch shows where auto.offset.reset leads.
        self.next_offset = next_offset
        # The id of the topic of all offsets here; None if it isn't known, or there are no ids.
        self.topic_id = topic_id
        # The epochs of what was read; a source offset is committed with the epoch of its record.
        self._epochs = LeaderEpochs()
        if next_offset is not None:
            self._epochs.know(next_offset - 1, leader_epoch)
        self.stopped = False
        # Set with on_corrupt: where the next intact batch begins after the corrupt one, None if there is none.
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
        self._on_begin = on_begin
        self._on_skipped = on_skipped
        self._on_failed = on_failed
        self.letters = letters
        if letters is not None:
            letters.on_room = lambda: self._on_ready(self)
            letters.on_acked = self.letters_acked
        self._rewriting = Rewriting(steps, in_thread, self._made, tolerant=tolerant, letters=letters is not None)
        self._ahead: ReadAhead | None = None
        if computing is not None:
            self._ahead = ReadAhead(
                computing,
                partition.source,
                steps,
                self._made,
                check_crcs=check_crcs,
                read_committed=read_committed,
                letters=letters is not None,
            )
        # Whether each batch is re-encoded.
        self._transforms = bool(steps) or computing is not None
        self._on_ready = on_ready
        self._on_letters = on_letters
        # The next batch's offset on the target if nobody else writes there; None if not known.
        self._target_end: int | None = None
        self._fetched: deque[CompletedFetch] = deque()
        self._current: CompletedFetch | None = None
        self._reader = BatchReader(b"")
        # The rest of a batch that is re-encoded piece by piece.
        self._pieces: RewrittenPieces | ComputedBatch | None = None
        self._aborted: AbortedFilter | None = None
        # Batches decided on and not sent, as they didn't fit when others were merged.
        self._held: deque[ProducerBatch] = deque()
        self._in_flight = InFlight()
        # See TargetPartition; as of the last `take`.
        self._append_time = False
        self._looked_at = LastOffset(NOTHING_YET, None)
        self._touched: MutableMapping[PartitionFlow, None] = {} if touched is None else touched
        self._touched[self] = None
        self.measures = measures or FlowMeasures(CopyTotals())
        # An offset that is not copied and not held here at present, and about the timestamp of its record.
        self._after = NOTHING_YET, NO_TIMESTAMP

    def __str__(self) -> str:
        return str(self.source)

    @property
    def source_offset(self) -> int:
        """The offset to commit: nothing at or below it is missing on the target."""
        oldest = self._reached
        if self.letters and oldest is not None:
            letter = self.letters.oldest
            oldest = oldest if letter is None else min(oldest, letter)
        return NOTHING_YET if oldest is None else oldest - 1

    @property
    def _reached(self) -> int | None:
        """The lowest offset that is neither on the target nor dropped. The target may miss dead letters below it."""
        oldest = self._in_flight.oldest
        if oldest is None:
            # Batches dropped after the last copied one count too: a restart needn't read them again.
            oldest = self._held[0].first_offset if self._held else self.next_offset
        return oldest

    def moved(self) -> LastOffset | None:
        """The source offset, if it has changed since this was last called."""
        offset, topic_id, known = self.source_offset, self.topic_id, self._looked_at
        epoch = self._epochs.at(offset)
        if offset == known.offset and topic_id == known.topic_id and epoch == known.leader_epoch:
            return None
        self._looked_at = LastOffset(offset, topic_id, epoch)
        return self._looked_at

    @property
    def begins_at(self) -> int | None:
        """The lowest source offset that readers of committed records miss on the target; None while the start is unknown."""
        return self._uncopied if self.uncommitted is None else self.uncommitted.offset

    @property
    def _uncopied(self) -> int | None:
        """The lowest source offset that is not copied."""
        if self.next_offset is None:
            return self._fetched[0].fetch_offset if self._fetched else None
        return self.source_offset + 1

    @property
    def place(self) -> FlowPlace:
        """The lowest source offset that is not copied, as a place to begin at again."""
        begins_at, topic_id = self._uncopied, self.topic_id
        if topic_id is None and self._fetched:
            topic_id = self._fetched[0].topic_id
        return FlowPlace(begins_at, topic_id, NO_EPOCH if begins_at is None else self._epochs.at(begins_at - 1))

    @property
    def in_flight(self) -> int:
        """How many batches the producer has that the target has not acknowledged."""
        return len(self._in_flight)

    def oldest_ms(self) -> int:
        """About the timestamp of the record at `begins_at`; NO_TIMESTAMP if it isn't known, or there is none."""
        if self.uncommitted is not None:
            return self.uncommitted_ms
        if self.letters and self.letters.oldest == self.begins_at:
            return NO_TIMESTAMP if self.letters.oldest_ms is None else self.letters.oldest_ms
        if self._in_flight:
            return self._in_flight.oldest_ms
        if (waiting := self._oldest_waiting_ms()) != NO_TIMESTAMP:
            return waiting
        offset, after = self._after
        return after if offset == self.begins_at else NO_TIMESTAMP

    def _oldest_waiting_ms(self) -> int:
        """The same of what is not sent yet."""
        if self._held:
            return self._held[0].first_ms
        if self._pieces is not None:
            return self._pieces.oldest_ms
        if not self._reader.ended:
            return first_timestamp(self._reader.data, self._reader.at)
        return self._fetched[0].oldest_ms if self._fetched else NO_TIMESTAMP

    def put(self, fetched: CompletedFetch) -> None:
        """Takes the next fetch from the source."""
        self.measures.fetched(fetched)
        if self.stopped:
            fetched.release()
            return
        self._fetched.append(fetched)
        if self._pieces is not None:
            self._look_ahead()

    def restart(self) -> int | None:
        """Drops what was fetched and not sent; returns the offset to fetch from."""
        self.clear()
        self.stopped = False
        if self.next_offset is not None:
            self._epochs.cut(self.next_offset)
        return self.next_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch of the source's record before `next_offset`; NO_EPOCH if it isn't known."""
        return NO_EPOCH if self.next_offset is None else self._epochs.at(self.next_offset - 1)

    def go_back(self) -> None:
        """The open transaction is aborted. All from its begin on will be taken again. `restart` follows."""
        assert self.uncommitted is not None
        place, self.uncommitted = self.uncommitted, None
        self.clear()
        self._in_flight.clear()
        if self.letters is not None:
            self.letters.drop()
        self.next_offset, self.topic_id = place.offset, place.topic_id
        self._epochs.clear()
        if place.offset is not None:
            self._epochs.know(place.offset - 1, place.leader_epoch)
        # What was aborted, and its marker, lie on the target.
        self._target_end = None
        self.behind_corrupt = None
        self._looked_at = LastOffset(NOTHING_YET, None)
        self._after = NOTHING_YET if place.offset is None else place.offset, self.uncommitted_ms

    def skip_corrupt(self) -> int | None:
        """Skips the corrupt batch. Returns how many offsets are lost, or None if there is no intact batch after it."""
        behind, self.behind_corrupt = self.behind_corrupt, None
        if behind is None:
            return None
        lost = behind - (self.next_offset or 0)
        self.skip_to(behind)
        # Nothing in the header of a corrupt batch can be trusted.
        self._epochs.clear()
        return lost

    def skip_to(self, offset: int) -> None:
        """What lies before this offset is given up. `restart` follows."""
        self.next_offset = offset
        self._touched[self] = None

    def clear(self) -> None:
        """Releases what was fetched and not sent, and takes nothing more until `restart`."""
        self.measures.touch()
        self._touched[self] = None
        oldest_ms = self._oldest_waiting_ms()
        self.stopped = True
        if self._held:
            # These are read again after a restart.
            self.next_offset = self._held[0].first_offset
            self._held.clear()
        if self.letters and self.next_offset is not None:
            self.letters.cut(self.next_offset)
        if oldest_ms != NO_TIMESTAMP and self.next_offset is not None:
            self._after = self.next_offset, oldest_ms
        for fetched in (self._current, *self._fetched):
            if fetched is not None:
                fetched.release()
        self._fetched.clear()
        self._current, self._reader = None, BatchReader(b"")
        if self._pieces is not None:
            self._pieces.drop()
            self._pieces = None
        if self._ahead is not None:
            self._ahead.clear()

    # The feed.

    def waiting(self) -> bool:
        """Whether there may be a batch. But all that was fetched may be dropped later."""
        if self._pieces is not None and self._pieces.busy:
            return bool(self._held)  # `on_ready` is called when the next piece is made
        if self._full:
            return bool(self._held)
        return not self.stopped and bool(self._held or self._current or self._fetched)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        """The next batch for the target, merged with its neighbours where that pays."""
        self._append_time = append_time
        # Also if there is none, as some may have been dropped.
        self._touched[self] = None
        self._rewriting.turn()
        first = self._merged_plain(limit) or self._next()
        if first is None:
            self._send_letters()
            return None
        # Before its neighbours are read: while it is in flight, another topic of the same name must not begin.
        self._in_flight.given(first)
        batch = self._merged(first, limit, latency_bound=latency_bound)
        self._in_flight.merged(batch)
        self._send_letters()
        return batch

    def _merged(self, first: ProducerBatch, limit: int, *, latency_bound: bool) -> ProducerBatch:
        """The batch, or one merged from it and the small ones after it."""
        if not _is_small(first, limit, latency_bound=latency_bound):
            return first
        group, size, records = [first], first.size, first.count
        while records < MERGED_RECORDS and (latency_bound or len(group) < MERGED_BATCHES):
            following = self._next()
            if following is None:
                break
            fits = size + following.size <= limit and following.codec == first.codec
            if not fits or not _is_small(following, limit, latency_bound=latency_bound):
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
                # Its CRC is right, so the producer wrote it like that. A batch that can't be decompressed is copied alone
                # and unchanged. One before it may decompress and yet hold no records: that shows only in a merge.
                readable = [each for each in group if each.last_offset < error.offset] or [first]
                self._held.extendleft(reversed(group[len(readable) :]))
                group = readable
        self._held.extendleft(reversed(group[used:]))
        if used > 1:
            self._counters["merged"] = self._counters.get("merged", 0) + used
            self.measures.merged(used, merged.size)
        return merged

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """The target has this batch, and all before it."""
        self._in_flight.acked(batch)
        self._touched[self] = None
        counters = self._counters
        size = batch.size
        counters["records"] = counters.get("records", 0) + batch.count
        counters["bytes"] = counters.get("bytes", 0) + size
        counters["batches"] = counters.get("batches", 0) + 1
        self.measures.acked(batch, size)
        if base_offset != self._target_end:
            self._look_between(batch, base_offset)
        self._target_end = base_offset + batch.count if base_offset >= 0 else None
        self._on_placed(batch, base_offset)
        self._on_written(self)
        self._send_letters()

    def acked_in_transaction(self, batch: ProducerBatch, base_offset: int) -> None:
        """The target has this batch, and all before it. It counts when the transaction is committed: see `committed`."""
        self._in_flight.acked(batch)
        self._touched[self] = None
        if base_offset != self._target_end:
            self._look_between(batch, base_offset)
        self._target_end = base_offset + batch.count if base_offset >= 0 else None
        self._on_written(self)
        self._send_letters()

    def committed(self, acknowledged: Acknowledged) -> None:
        """All that `acked_in_transaction` got since the last call is committed."""
        counters = self._counters
        counters["records"] = counters.get("records", 0) + acknowledged.records
        counters["bytes"] = counters.get("bytes", 0) + acknowledged.bytes
        counters["batches"] = counters.get("batches", 0) + acknowledged.batches
        self.measures.committed(acknowledged)
        for placed in acknowledged.placed:
            self._on_placed(placed, placed.base_offset)
        if self._target_end is not None:
            # The commit has a marker in each of the transaction's partitions, before anything that we write later.
            self._target_end += 1

    def _send_letters(self) -> None:
        """Sends the dead letters of which everything before is on the target."""
        if self.letters and (reached := self._reached) is not None:
            self.letters.release(reached)

    def letters_acked(self) -> None:
        """The target has some more dead letters."""
        self._touched[self] = None
        if not self.letters:
            self._on_letters(self)  # another topic may have waited for them

    def _look_between(self, batch: ProducerBatch, base_offset: int) -> None:
        """The batch does not follow the one before on the target."""
        if self._target_end is None or base_offset < 0:
            return
        if base_offset > self._target_end:
            self._on_others(self, self._target_end, base_offset - self._target_end)
        else:
            self._on_lost(self, batch.first_offset)

    def failed(self, error: PartitionRefusedError) -> None:
        """The target refused a batch of this partition. `restart` begins with that one."""
        self.clear()
        if error.offset >= 0:
            # All below is on the target or was dropped. Later batches are dropped, and read again.
            self.next_offset = error.offset
            self._after = error.offset, self._in_flight.oldest_ms
            if self.letters:
                self.letters.cut(error.offset)
        # Dropped batches may be on the target all the same. They must not count as records of another writer.
        self._target_end = None
        self._in_flight.clear()
        self._on_refused(self, error)

    # Decisions.

    def _merged_plain(self, limit: int) -> ProducerBatch | None:
        """A short cut for small batches without compression; None if it doesn't apply."""
        if self._transforms or self._held or self._pieces is not None or (self._reader.ended and not self._open_next()):
            return None
        wanted, check_crcs = self.next_offset or 0, self._check_crcs
        if merges_plain(check_crcs=check_crcs):
            found = merge_plain(
                self._reader, wanted, limit, SMALL_BYTES, check_crcs=check_crcs, append_time=self._append_time
            )
            merged, batches = found or (None, 0)
        else:
            merged = merge_singles(self._reader, wanted, limit, check_crcs=check_crcs)
            batches = merged.count if merged is not None else 0
        if merged is not None:
            self.next_offset = merged.last_offset + 1
            self._counters["merged"] = self._counters.get("merged", 0) + batches
            self.measures.merged(batches, merged.size)
        return merged

    def _next(self) -> ProducerBatch | None:
        """The next batch that is not dropped; None at the end of what was fetched."""
        if self._held:
            return self._next_held()
        view: BatchView | None = None
        try:
            while True:
                batch = self._next_piece()
                # A batch that is being re-encoded in a thread stops all that come after it.
                if batch is not None or self._pieces is not None:
                    return batch
                while True:
                    batch = self._as_it_is()
                    if batch is None:
                        view = None if self._full else self._reader.next()
                        if view is None:
                            break
                        batch = self._decide(view)
                    if batch is not None or self._pieces is not None:
                        return batch
                if not self._open_next():
                    return None
        except CorruptBatchError as error:
            self.behind_corrupt = self._next_intact()
            # Nothing in a corrupt header can be trusted, but the records are among those of their fetch.
            first = NO_TIMESTAMP if view is None else first_timestamp(view.data)
            if self._current is not None:
                first = max(self._current.oldest_ms, min(first, self._current.newest_ms))
            self.clear()
            if self.next_offset is not None:
                self._after = self.next_offset, first
            self._on_corrupt(self, error)
            return None
        except RecordError as error:
            self.clear()
            self._on_failed(self, error)
            return None

    def _next_held(self) -> ProducerBatch:
        batch = self._held.popleft()
        if batch.append_time is None or self._append_time:
            return batch
        # It was decided on while the target had LogAppendTime, and that has ended since.
        try:
            first, *others = with_append_time(batch)
        except CorruptBatchError:
            return batch  # the target refuses it, and says why
        self._held.extendleft(reversed(others))
        return first

    def _next_intact(self) -> int | None:
        """The first offset of the batch after a corrupt one, if it is intact. The corrupt header is not trusted."""
        try:
            view = self._reader.next()
            if view is None or view.magic < 2:
                return None
            verify(view, check_crc=True)
        except CorruptBatchError:
            return None
        return view.base_offset if view.base_offset > (self.next_offset or 0) else None

    def _next_piece(self) -> ProducerBatch | None:
        """The next piece of a batch that is re-encoded; None if there is none yet (`_pieces` stays), or none any more."""
        pieces = self._pieces
        if pieces is None or not pieces.ready():
            return None
        piece = pieces.take()
        if self.letters is not None:
            # Before the next offset is higher than theirs.
            self.letters.add(pieces.skipped.take_letters())
        last = pieces.last_offset if piece is None else piece.last_offset
        if last == pieces.last_offset:
            self._pieces = None
            if pieces.filtered:
                self.measures.filtered(pieces.filtered)
            if pieces.skipped.count:
                self._on_skipped(self, pieces.skipped)
        self.next_offset = last + 1
        return piece

    def _begin(self, view: BatchView, wanted: int) -> RewrittenPieces | ComputedBatch:
        if self._ahead is None:
            return self._rewriting.begin(view, wanted)
        assert self._current is not None
        batch = self._ahead.begin(self._current, self._reader.at, view, wanted, self._fetched)
        self._look_ahead()
        return batch

    def _look_ahead(self) -> None:
        if self._ahead is not None and self._current is not None:
            self._ahead.look(self._current, self._reader.at, self._fetched)

    def _made(self, pieces: RewrittenPieces | ComputedBatch) -> None:
        if self._pieces is pieces:
            self._on_ready(self)

    @property
    def _full(self) -> bool:
        """Whether dead letters have to leave first. `on_ready` is called then."""
        return self.letters is not None and self.letters.full()

    def _open_next(self) -> bool:
        if self._full:
            return False
        if self._current is not None:
            # Offsets up to the end of the fetch are done too, as compaction has removed their records.
            self.next_offset = self._current.next_offset
            self._after = self.next_offset, self._current.following_ms
            self._current.release()
            # Else the reader would keep the whole frame alive, which nobody counts any more.
            self._current, self._reader = None, BatchReader(b"")
        topic_id = self.topic_id
        if self.stopped or not self._fetched or not self._may_begin(self._fetched[0]):
            return False
        self._current = self._fetched.popleft()
        # Also if it is lower than before: after a topic was re-created or a log truncated, which the fetcher has reported.
        self._epochs.go_on(self._current.fetch_offset, self.next_offset, self._current.epoch_before)
        self._epochs.read(self._current.epochs)
        if self.next_offset is None or topic_id not in (None, self.topic_id):
            self._on_begin(self, self._current.fetch_offset)
        self.next_offset = self._current.fetch_offset
        self._reader = BatchReader(self._current.buffer, whole=True)
        # Without aborted transactions it would drop nothing but control batches.
        self._aborted = AbortedFilter(self._current.aborted) if self._read_committed and self._current.aborted else None
        return True

    def _may_begin(self, following: CompletedFetch) -> bool:
        """Whether the fetch may be read now. Another topic of the same name waits until the target has all of the former.

        So does a fetch at earlier offsets, after a truncation: a source offset belongs to one topic and one log.
        """
        again = following.fetch_offset < (self.next_offset or 0)
        another = following.topic_id not in (None, self.topic_id)
        if again or (another and self.topic_id is not None):
            if self._in_flight or self._held or self.letters:
                return False
            if self.uncommitted is not None:
                self.on_boundary()
                return False
        if another:
            if self.topic_id is not None:
                self._epochs.clear()
            self.topic_id = following.topic_id
        return True

    def _as_it_is(self) -> ProducerBatch | None:
        """A short cut for nearly all batches; None if it doesn't apply."""
        if self._transforms or self._aborted is not None:
            return None
        batch = take(self._reader, self.next_offset or 0, check_crcs=self._check_crcs, append_time=self._append_time)
        if batch is not None:
            self.next_offset = batch.last_offset + 1
        return batch

    def _decide(self, view: BatchView) -> ProducerBatch | None:
        wanted = self.next_offset or 0
        # This comes first: with a corrupt last offset, a batch would look as if it had been copied already.
        verify(view, check_crc=self._check_crcs)
        # The filter follows transactions through control batches, so it sees every batch, in order.
        aborted = self._aborted is not None and self._aborted.drops(view)
        if view.last_offset < wanted:
            self.measures.dropped(view.size)
            return None
        if aborted or view.is_control:
            self.measures.dropped(view.size)
            batch = None
        elif self._transforms or needs_rewrite(view, wanted, append_time=self._append_time):
            self._pieces = self._begin(view, wanted)
            self._counters["reencoded"] = self._counters.get("reencoded", 0) + 1
            self.measures.reencoded(view.size)
            return self._next_piece()
        else:
            batch = as_is(view)
        self.next_offset = view.last_offset + 1
        return batch


def _nothing() -> None: ...


def _is_small(batch: ProducerBatch, limit: int, *, latency_bound: bool) -> bool:
    if latency_bound:
        return batch.size <= min(LATENCY_BOUND_BYTES, limit // 2)
    return batch.count <= SMALL_RECORDS and batch.size <= SMALL_BYTES
