"""One partition of one cluster, as the comparer reads it: whole batches where possible, otherwise single records.

The readers skip control batches, aborted transactions and records below the start (batch_side.py with the fast reader,
record_side.py with librdkafka). They count holes: offsets without a record, because compaction or retention removed it or
because its batch is damaged. A broker assigns offsets without gaps, so a copier's mistake never leaves a hole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mirror_connect.verify.records import Record, size

Producer = tuple[int, int]
UNKNOWN: Final[Producer] = (-1, -1)

# Bytes of records in a window: it stops growing above this, however many records are wanted.
MOST_BYTES: Final = 16 << 20


class Batch(Protocol):
    """The parts of a batch that are compared without unpacking it."""

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


def same_batch(source: Batch, target: Batch) -> bool:
    """Whether two batches hold the same records. Nothing is unpacked, and what the target's broker assigned is ignored."""
    return (
        source.count == target.count
        and source.magic == target.magic == 2
        and source.base_timestamp == target.base_timestamp
        and source.codec == target.codec
        and source.last_offset - source.base_offset == target.last_offset - target.base_offset
        and (target.log_append_time or (not source.log_append_time and source.max_timestamp == target.max_timestamp))
        and source.records == target.records
    )


class Timed(Protocol):
    """A log in which an offset can be found by its timestamp."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""


class Side(ABC):
    """One side of a comparison. `on_damage(offset, reason)` is called for each unreadable batch, which counts as holes.

    `expected`: the first offset to read. `holes`: how many offsets before it the log no longer has.
    """

    def __init__(self, on_damage: Callable[[int, str], None], *, expected: int = 0, holes: int = 0) -> None:
        self.ended = False
        # Decoded records; those from index `at` on are not compared yet.
        self.window: list[Record] = []
        self.at = 0
        self.log_append_time = False
        self.bytes = 0
        # How many records were read.
        self.records = 0
        # How many offsets after the first one are known to be missing: more than 0 in a compacted log.
        self.hollow = 0
        self._on_damage = on_damage
        self._from = expected
        self._expected = expected
        self._pending = holes
        self._holes: dict[int, int] = {}
        # The producers of what was read: (first offset, producer).
        self._producers: list[tuple[int, Producer]] = []

    @property
    @abstractmethod
    def log(self) -> Timed:
        """The log that this side reads."""

    @property
    def position(self) -> int:
        """The next offset to compare."""
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
        """The next batch, if everything before it is compared and the whole batch is wanted. Only after `ready`."""
        return None

    @abstractmethod
    def take_batch(self) -> None:
        """Marks the batch as compared."""

    @abstractmethod
    def decode(self) -> None:
        """Decodes the batch if the window has no records left. Only after `ready`."""

    @abstractmethod
    async def _more(self) -> bool:
        """Adds records to the window; False at the end."""

    @abstractmethod
    async def records_at(self, offset: int) -> list[Record]:
        """About a megabyte of records from `offset` on. The position stays."""

    @abstractmethod
    async def seek(self, offset: int) -> None:
        """Continues at this offset and drops what was decoded."""

    async def want(self, count: int) -> list[Record]:
        """The next `count` records; fewer at the end of the log, or when they are very large."""
        taken = sum(size(record[2]) for record in self.window[self.at :])
        while self.left < count and taken < MOST_BYTES:
            before = len(self.window)
            if not await self._more():
                break
            taken += sum(size(record[2]) for record in self.window[before:])
        return self.window[self.at : self.at + count]

    def drop(self, count: int) -> None:
        """Removes the first `count` records of the window."""
        if self._holes:
            for offset, _, _ in self.window[self.at : self.at + count]:
                self._holes.pop(offset, None)
        self.at += count
        if self.at == len(self.window) or self.at > 20_000:
            del self.window[: self.at]
            self.at = 0

    # Producers.

    def producer(self, number: int = 0) -> Producer:
        """Producer id and epoch of a record of the window; (-1, -1) where the batch has none."""
        return self.producer_at(self.window[self.at + number][0])

    def producer_at(self, offset: int) -> Producer:
        """The same for an offset that was in the window or was given to `identify`."""
        at = bisect_right(self._producers, offset, key=_first_offset) - 1
        return self._producers[at][1] if at >= 0 else UNKNOWN

    @abstractmethod
    async def identify(self, offsets: Iterable[int]) -> None:
        """Reads the producers of these offsets, which were in the window before."""

    def segments(self, count: int) -> list[int]:
        """Indexes among the first `count` records where another producer begins; never 0."""
        offsets = [record[0] for record in self.window[self.at : self.at + count]]
        if not offsets:
            return []
        first = bisect_right(self._producers, offsets[0], key=_first_offset)
        last = bisect_right(self._producers, offsets[-1], key=_first_offset)
        indexes = (bisect_left(offsets, begin) for begin, _ in self._producers[first:last])
        return list(dict.fromkeys(index for index in indexes if 0 < index < len(offsets)))

    # What is missing.

    def holes(self, count: int) -> int:
        """How many offsets are missing before the first `count` records, among them, and before the record after them."""
        total = sum(self._holes.get(record[0], 0) for record in self.window[self.at : self.at + count + 1])
        return total + (self._pending if self.left <= count else 0)

    def use_holes(self, count: int, used: int) -> None:
        """Marks `used` of the holes of `holes(count)` as explained. The others count for the next records."""
        for record in self.window[self.at : self.at + count + 1]:
            taken = min(used, self._holes.get(record[0], 0))
            if taken:
                self._holes[record[0]] -= taken
                used -= taken
        if used and self.left <= count:
            self._pending -= min(used, self._pending)

    def keep_holes(self, count: int) -> None:
        """Moves the holes of the first `count` records, which are dropped next, to the record after them."""
        kept = sum(self._holes.get(record[0], 0) for record in self.window[self.at : self.at + count])
        if not kept:
            return
        if self.left > count:
            following = self.window[self.at + count][0]
            self._holes[following] = self._holes.get(following, 0) + kept
        else:
            self._pending += kept

    def _forget(self, offset: int) -> None:
        """Drops everything that was read, to continue at this offset."""
        self.window, self.at = [], 0
        self._holes.clear()
        self._from = self._expected = offset
        self._pending = 0
        self.ended = False


def _first_offset(entry: tuple[int, Producer]) -> int:
    return entry[0]
