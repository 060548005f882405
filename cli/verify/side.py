"""One partition of one cluster, as the comparer wants it: a batch at a time while it can, records when it must.

Control batches, aborted transactions and records below the start are passed over here. What the log lacks is counted as
holes: offsets of which nothing is there, because compaction or retention took them or because a batch is damaged. A
broker gives offsets without gaps, so a copier's mistake never leaves a hole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final, Protocol

from mirror_connect.spark_jobs.aborted import AbortedFilter
from mirror_connect.spark_jobs.fetched import Fetched
from mirror_connect.spark_jobs.record_batch import BatchReader, BatchView, CorruptBatchError, verify
from mirror_connect.spark_jobs.record_rewrite import Record, unpack

Producer = tuple[int, int]
UNKNOWN: Final[Producer] = (-1, -1)

# A window never holds more than that of records, whatever number of them is wanted.
_MOST_BYTES: Final = 16 << 20


class Log(Protocol):
    """What a partition's log is read by. Errors are those of the reader: ClusterUnreachable, NotAuthorized …"""

    async def read(self) -> Fetched | None:
        """The next whole batches; None at the end of the range."""

    async def seek(self, offset: int) -> None:
        """Go on reading at this offset."""

    async def look(self, offset: int) -> Fetched | None:
        """About a megabyte from there, without moving; None at the end."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""


class Side:
    """`on_damage(offset, reason)` hears of batches that can't be read; they count as holes.

    `expected`: the first offset wanted; `holes`: how many in front of it were never there to be read.
    """

    def __init__(
        self,
        log: Log,
        on_damage: Callable[[int, str], None],
        *,
        expected: int = 0,
        holes: int = 0,
        committed: bool = False,
    ) -> None:
        self.log = log
        self.ended = False
        # Records that are decoded and not done with; `at`: the first of them.
        self.window: list[Record] = []
        self.at = 0
        self.log_append_time = False
        self.bytes = 0
        # How many offsets behind the first one are known to be missing: more than 0 for a log that was compacted.
        self.hollow = 0
        self._on_damage = on_damage
        self._committed = committed
        self._chunk: Fetched | None = None
        self._reader = BatchReader(b"")
        self._aborted: AbortedFilter | None = None
        self._view: BatchView | None = None
        self._from = expected
        self._expected = expected
        self._pending = holes
        self._holes: dict[int, int] = {}
        # From which offset on who wrote what the window holds.
        self._producers: list[tuple[int, Producer]] = []

    @property
    def position(self) -> int:
        """The offset up to which everything is done."""
        if self.at < len(self.window):
            return self.window[self.at][0]
        return self._expected

    def producer(self, number: int = 0) -> Producer:
        """Who wrote a record of the window: producer id and epoch; (-1, -1) where batches don't say."""
        offset = self.window[self.at + number][0]
        at = bisect_right(self._producers, offset, key=_first_offset) - 1
        return self._producers[at][1] if at >= 0 else UNKNOWN

    def segments(self, count: int) -> list[int]:
        """At which of the first `count` records another producer begins; not the first one."""
        offsets = [record[0] for record in self.window[self.at : self.at + count]]
        places = (bisect_left(offsets, first) for first, _ in self._producers)
        return [place for place in places if 0 < place < len(offsets)]

    @property
    def left(self) -> int:
        """How many records the window holds."""
        return len(self.window) - self.at

    async def ready(self) -> bool:
        """Whether there is a batch or a record; False at the end."""
        return self.at < len(self.window) or await self._next_view()

    @property
    def batch(self) -> BatchView | None:
        """The next batch, if everything before it is done and all of it is wanted. Only after `ready`."""
        view = self._view
        return view if view is not None and self.at >= len(self.window) and view.base_offset >= self._from else None

    def take_batch(self) -> None:
        """The batch is done."""
        assert self._view is not None
        self._expected = self._view.last_offset + 1
        self._pending = 0
        self._view = None

    def decode(self) -> None:
        """Batch to records, if none are left. Only after `ready`."""
        if self.at >= len(self.window) and self._view is not None:
            self._decode(self._view)

    async def want(self, count: int) -> list[Record]:
        """Up to so many records from the window's front; fewer at the end, or when they are very large."""
        size = sum(len(record[2]) for record in self.window[self.at :])
        while self.left < count and size < _MOST_BYTES and await self._next_view():
            before = len(self.window)
            assert self._view is not None
            self._decode(self._view)
            size += sum(len(record[2]) for record in self.window[before:])
        return self.window[self.at : self.at + count]

    def drop(self, count: int) -> None:
        """The first `count` records of the window are done."""
        if self._holes:
            for offset, _, _ in self.window[self.at : self.at + count]:
                self._holes.pop(offset, None)
        self.at += count
        if self.at == len(self.window) or self.at > 20_000:
            del self.window[: self.at]
            self.at = 0

    def holes(self, count: int) -> int:
        """How many offsets are missing before and among the first `count` records, and in front of the one behind them."""
        total = sum(self._holes.get(record[0], 0) for record in self.window[self.at : self.at + count + 1])
        return total + (self._pending if self.left <= count else 0)

    def use_holes(self, count: int, used: int) -> None:
        """`used` of the holes that `holes(count)` told are explained; the others count for what comes next."""
        for record in self.window[self.at : self.at + count + 1]:
            taken = min(used, self._holes.get(record[0], 0))
            if taken:
                self._holes[record[0]] -= taken
                used -= taken
        if used and self.left <= count:
            self._pending -= min(used, self._pending)

    def keep_holes(self, count: int) -> None:
        """Holes of the first `count` records, which are about to be dropped, count for what follows them."""
        kept = sum(self._holes.get(record[0], 0) for record in self.window[self.at : self.at + count])
        if not kept:
            return
        if self.left > count:
            following = self.window[self.at + count][0]
            self._holes[following] = self._holes.get(following, 0) + kept
        else:
            self._pending += kept

    async def seek(self, offset: int) -> None:
        """Go on at this offset; what was decoded is forgotten."""
        self._let_go()
        self.window, self.at, self._view = [], 0, None
        self._holes.clear()
        self._producers.clear()
        self._from = self._expected = offset
        self._pending = 0
        self.ended = False
        await self.log.seek(offset)

    async def look(self, offset: int) -> list[Record]:
        """Records from there on, about a megabyte of them, without moving."""
        chunk = await self.log.look(offset)
        if chunk is None:
            return []
        found: list[Record] = []
        aborted = AbortedFilter(chunk.aborted) if self._committed else None
        reader = BatchReader(chunk.buffer)
        try:
            while (view := reader.next()) is not None:
                verify(view)
                if (aborted is None or not aborted.drops(view)) and not view.is_control and _has_records(view):
                    found += unpack(view, offset)[0]
        except CorruptBatchError:
            pass  # whoever reads on will find it and say so
        return found

    def close(self) -> None:
        """Gives back what was fetched."""
        self._let_go()

    async def _next_view(self) -> bool:
        """Makes `_view` the next batch that holds data, unless it is one already."""
        while self._view is None and not self.ended:
            try:
                view = self._reader.next()
                if view is None:
                    await self._next_chunk()
                    continue
                self._meet(view)
            except CorruptBatchError as error:
                # Where the next batch begins nobody knows now; the next fetch does.
                self._on_damage(error.offset, error.reason)
                self._skip_chunk()
        return self._view is not None

    def _meet(self, view: BatchView) -> None:
        dropped = self._aborted is not None and self._aborted.drops(view)
        try:
            verify(view)
        except CorruptBatchError as error:
            self._on_damage(error.offset, error.reason)
            self._pending += max(0, view.last_offset + 1 - self._expected)
            self._expected = max(self._expected, view.last_offset + 1)
            return
        if view.last_offset < self._from:
            return
        if view.magic == 2 and not view.is_control:
            self.hollow += max(0, view.last_offset + 1 - max(view.base_offset, self._from) - view.count)
        if view.magic == 2 and view.base_offset > self._expected:
            self.hollow += view.base_offset - self._expected
            self._pending += view.base_offset - self._expected
            self._expected = view.base_offset
        if dropped or view.is_control:
            self._expected = view.last_offset + 1
        elif not _has_records(view):
            self._pending += max(0, view.last_offset + 1 - self._expected)
            self._expected = view.last_offset + 1
        else:
            self.log_append_time |= view.log_append_time
            self._view = view

    def _decode(self, view: BatchView) -> None:
        self._view = None
        try:
            records = unpack(view, self._from)[0]
        except CorruptBatchError as error:
            self._on_damage(error.offset, error.reason)
            self._pending += max(0, view.last_offset + 1 - self._expected)
            self._expected = view.last_offset + 1
            return
        expected = self._expected
        if records and (self._pending or records[-1][0] - expected + 1 != len(records)):
            for offset, _, _ in records:
                missing = self._pending + offset - expected
                if missing > 0:
                    self._holes[offset] = missing
                self._pending, expected = 0, offset + 1
        elif records:
            expected = records[-1][0] + 1
        self._pending += view.last_offset + 1 - max(expected, self._from)
        self._expected = view.last_offset + 1
        if records:
            if not self.left:
                self._producers.clear()
            producer = view.producer_id, view.producer_epoch
            if not self._producers or self._producers[-1][1] != producer:
                self._producers.append((records[0][0], producer))
            self.window += records

    async def _next_chunk(self) -> None:
        self._let_go()
        chunk = await self.log.read()
        if chunk is None:
            self.ended = True
            return
        self._chunk = chunk
        self.bytes += len(chunk.buffer)
        self._reader = BatchReader(chunk.buffer, whole=True)
        self._aborted = AbortedFilter(chunk.aborted) if self._committed else None

    def _skip_chunk(self) -> None:
        if self._chunk is not None:
            self._pending += max(0, self._chunk.next_offset - self._expected)
            self._expected = max(self._expected, self._chunk.next_offset)
        self._let_go()

    def _let_go(self) -> None:
        # Views keep slices of the buffer alive only until the comparer is done with them.
        chunk, self._chunk = self._chunk, None
        self._reader = BatchReader(b"")
        if chunk is not None:
            chunk.release()


def _has_records(view: BatchView) -> bool:
    return view.magic < 2 or view.count > 0


def _first_offset(entry: tuple[int, Producer]) -> int:
    return entry[0]
