"""One partition of one cluster, as the comparer wants it: a batch at a time where that can be, records where they must be.

Control batches, aborted transactions and records below the start are passed over by who reads (batch_side.py, by the fast
reader; record_side.py, by librdkafka). What the log lacks is counted as holes: offsets of which nothing is there, because
compaction or retention took them or because a batch is damaged. A broker gives offsets without gaps, so a copier's mistake
never leaves a hole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mirror_connect.verify.records import Record, size

Producer = tuple[int, int]
UNKNOWN: Final[Producer] = (-1, -1)

# A window never holds more than that of records, whatever number of them is wanted.
MOST_BYTES: Final = 16 << 20


class Batch(Protocol):
    """What is to be known of a batch to call it the same as another without unpacking it."""

    @property
    def base_offset(self) -> int: ...  # noqa: D102
    @property
    def last_offset(self) -> int: ...  # noqa: D102
    @property
    def count(self) -> int: ...  # noqa: D102
    @property
    def magic(self) -> int: ...  # noqa: D102
    @property
    def base_timestamp(self) -> int: ...  # noqa: D102
    @property
    def max_timestamp(self) -> int: ...  # noqa: D102
    @property
    def codec(self) -> int: ...  # noqa: D102
    @property
    def log_append_time(self) -> bool: ...  # noqa: D102
    @property
    def records(self) -> bytes: ...  # noqa: D102


class Timed(Protocol):
    """A log in which a place can be found by its time."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""


class Side(ABC):
    """`on_damage(offset, reason)` hears of batches that can't be read; they count as holes.

    `expected`: the first offset wanted; `holes`: how many in front of it were never there to be read.
    """

    def __init__(self, on_damage: Callable[[int, str], None], *, expected: int = 0, holes: int = 0) -> None:
        self.ended = False
        # Records that are decoded and not done with; `at`: the first of them.
        self.window: list[Record] = []
        self.at = 0
        self.log_append_time = False
        self.bytes = 0
        # Of how many records it was read.
        self.records = 0
        # How many offsets behind the first one are known to be missing: more than 0 for a log that was compacted.
        self.hollow = 0
        self._on_damage = on_damage
        self._from = expected
        self._expected = expected
        self._pending = holes
        self._holes: dict[int, int] = {}
        # From which offset on who wrote what was read.
        self._producers: list[tuple[int, Producer]] = []

    @property
    @abstractmethod
    def log(self) -> Timed:
        """Where it is read from."""

    @property
    def position(self) -> int:
        """The offset up to which everything is done."""
        if self.at < len(self.window):
            return self.window[self.at][0]
        return self._expected

    @property
    def left(self) -> int:
        """How many records the window holds."""
        return len(self.window) - self.at

    @abstractmethod
    async def ready(self) -> bool:
        """Whether there is a batch or a record; False at the end."""

    @property
    def batch(self) -> Batch | None:
        """The next batch, if everything before it is done and all of it is wanted. Only after `ready`."""
        return None

    @abstractmethod
    def take_batch(self) -> None:
        """The batch is done."""

    @abstractmethod
    def decode(self) -> None:
        """Batch to records, if none are left. Only after `ready`."""

    @abstractmethod
    async def _more(self) -> bool:
        """Puts more records into the window; False at the end."""

    @abstractmethod
    async def look(self, offset: int) -> list[Record]:
        """Records from there on, about a megabyte of them, without moving."""

    @abstractmethod
    async def seek(self, offset: int) -> None:
        """Go on at this offset; what was decoded is forgotten."""

    async def want(self, count: int) -> list[Record]:
        """Up to so many records from the window's front; fewer at the end, or when they are very large."""
        taken = sum(size(record[2]) for record in self.window[self.at :])
        while self.left < count and taken < MOST_BYTES:
            before = len(self.window)
            if not await self._more():
                break
            taken += sum(size(record[2]) for record in self.window[before:])
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

    # --- who wrote it -----------------------------------------------------------------------------------------------

    def producer(self, number: int = 0) -> Producer:
        """Who wrote a record of the window: producer id and epoch; (-1, -1) where batches don't say."""
        return self.producer_at(self.window[self.at + number][0])

    def producer_at(self, offset: int) -> Producer:
        """The same of an offset that was in the window, or is known by `identify`."""
        at = bisect_right(self._producers, offset, key=_first_offset) - 1
        return self._producers[at][1] if at >= 0 else UNKNOWN

    @abstractmethod
    async def identify(self, offsets: Iterable[int]) -> None:
        """Learns who wrote what is at these offsets, which were in the window before."""

    def segments(self, count: int) -> list[int]:
        """At which of the first `count` records another producer begins; not the first one."""
        offsets = [record[0] for record in self.window[self.at : self.at + count]]
        if not offsets:
            return []
        first = bisect_right(self._producers, offsets[0], key=_first_offset)
        last = bisect_right(self._producers, offsets[-1], key=_first_offset)
        places = (bisect_left(offsets, begin) for begin, _ in self._producers[first:last])
        return list(dict.fromkeys(place for place in places if 0 < place < len(offsets)))

    # --- what is missing --------------------------------------------------------------------------------------------

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

    def _forget(self, offset: int) -> None:
        """Everything that was read; it is gone on at this offset."""
        self.window, self.at = [], 0
        self._holes.clear()
        self._from = self._expected = offset
        self._pending = 0
        self.ended = False


def _first_offset(entry: tuple[int, Producer]) -> int:
    return entry[0]
