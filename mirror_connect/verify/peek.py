"""A partition's log by single bounded requests: nothing is read ahead, for what looks at a little here and there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Protocol

from mirror_connect.kafka_io.consumer.fetched import Fetched, SourcePartition
from mirror_connect.verify.place import EARLIEST, CannotCompareError
from mirror_connect.verify.reading import LOOK_BYTES, ClusterReader

# What smaller requests cost says more of the request than of its bytes.
_LARGE: Final = 128 << 10
# CPU seconds of a look: a link that idles pays for one in ten seconds.
_MOST_S: Final = 0.01
_SMALLEST: Final = 16 << 10


class GoneError(CannotCompareError):
    """What was to be read is no longer there: the log of `place` begins at `first` now (retention, deleted records)."""

    def __init__(self, place: str, key: SourcePartition, first: int) -> None:
        super().__init__(f"{place} partition {key} begins at offset {first} now")
        self.place = place
        self.first = first


class Peek(Protocol):
    """One partition of one cluster. CannotCompareError when it can't be read for a while."""

    @property
    def place(self) -> str:
        """source or target."""

    @property
    def key(self) -> SourcePartition:
        """Which partition."""

    @property
    def committed(self) -> bool:
        """Whether only committed records are seen."""

    async def look(self, offset: int) -> Fetched | None:
        """About a megabyte from `offset` on; None at the end, and where nothing is any more."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""

    async def first(self) -> int:
        """Where the log begins now."""


@dataclass(slots=True)
class ReadingPrice:
    """What it costs here to receive bytes: CPU seconds and bytes of the large requests so far; `read`: of all.

    `look`: so many bytes at a time.
    """

    seconds: float = 0.0
    size: int = 0
    read: int = 0
    look: int = LOOK_BYTES

    @property
    def per_byte(self) -> float:
        """CPU seconds; 0 while nothing is known."""
        return self.seconds / self.size if self.size else 0.0

    def looked(self, seconds: float) -> None:
        """A look took so many CPU seconds, with the comparison: the next ones are smaller, or larger again.

        Small records in small batches are compared one by one, and a megabyte of them would use up what minutes allow.
        """
        if seconds > _MOST_S:
            self.look = max(_SMALLEST, self.look // 2)
        elif seconds < _MOST_S / 4:
            self.look = min(LOOK_BYTES, self.look * 2)


class ClusterPeek:
    """A Peek by a ClusterReader; it keeps to the reader's rate and notes the price."""

    def __init__(self, reader: ClusterReader, key: SourcePartition, price: ReadingPrice) -> None:
        self._reader = reader
        self._price = price
        self.key = key

    @property
    def place(self) -> str:
        """See Peek."""
        return self._reader.place

    @property
    def committed(self) -> bool:
        """See Peek."""
        return self._reader.committed

    async def look(self, offset: int) -> Fetched | None:
        """See Peek."""
        began = time.process_time()
        chunk = await self._reader.look(self.key, offset, hidden_too=False, most=self._price.look)
        if chunk is None:
            return None
        size = len(chunk.buffer)
        self._price.read += size
        if size >= _LARGE:
            self._price.seconds += time.process_time() - began
            self._price.size += size
        await self._reader.rate.take(size)
        return chunk

    async def offset_at(self, timestamp: int) -> int | None:
        """See Peek."""
        return (await self._reader.offsets({self.key: timestamp}))[self.key]

    async def first(self) -> int:
        """See Peek."""
        return (await self._reader.offsets({self.key: EARLIEST}))[self.key] or 0


class PeekedLog:
    """The Log (side.py) of a partition from `position` on, by looks. `chunk`: what was read from there already.

    Up to `there` the log is known to have been written: where nothing is, GoneError or CannotCompareError says why.
    """

    def __init__(self, peek: Peek, position: int, chunk: Fetched | None = None, there: int = 0) -> None:
        self._peek = peek
        self._position = position
        self._chunk = chunk
        self._there = there

    async def read(self) -> Fetched | None:
        """See Log."""
        chunk, self._chunk = self._chunk, None
        chunk = chunk or await self._peek.look(self._position)
        if chunk is None:
            first = await self._peek.first()
            if first > self._position:
                raise GoneError(self._peek.place, self._peek.key, first)
            if self._position < self._there:
                raise CannotCompareError(
                    f"{self._peek.place} partition {self._peek.key} shows nothing from offset {self._position} on, "
                    f"and was known to reach {self._there}"
                )
            return None
        if chunk.next_offset <= self._position:
            raise CannotCompareError(
                f"{self._peek.place} partition {self._peek.key} can't be read beyond offset {self._position}: "
                "its next batch is damaged"
            )
        self._position = chunk.next_offset
        return chunk

    async def seek(self, offset: int) -> None:
        """See Log."""
        self._position, self._chunk = offset, None

    async def look(self, offset: int) -> Fetched | None:
        """See Log."""
        return await self._peek.look(offset)

    async def offset_at(self, timestamp: int) -> int | None:
        """See Log."""
        return await self._peek.offset_at(timestamp)
