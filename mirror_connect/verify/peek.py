"""A partition's log by single fetches of limited size. Nothing is read ahead, because sampling reads little."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Protocol

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.verify.clusters import EARLIEST
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.reading import FETCH_BYTES, ClusterReader

# The cost of a smaller fetch is that of the request more than of its bytes.
_LARGE: Final = 128 << 10
# CPU seconds of a fetch: an idle link allows one in ten seconds.
_MOST_S: Final = 0.01
_SMALLEST: Final = 16 << 10


class GoneError(CannotCompareError):
    """The offset to read is gone: the log begins at `first` now (retention, deleted records)."""

    def __init__(self, role: str, key: TopicPartition, first: int) -> None:
        super().__init__(f"{role} partition {key} begins at offset {first} now")
        self.role = role
        self.first = first


class Peek(Protocol):
    """One partition of one cluster. CannotCompareError if it stays unreadable for a while."""

    @property
    def role(self) -> str:
        """source or target."""

    @property
    def key(self) -> TopicPartition:
        """The partition."""

    @property
    def committed(self) -> bool:
        """Whether only committed records are seen."""

    async def fetch(self, offset: int) -> CompletedFetch | None:
        """About a megabyte from `offset` on; None at the end, and where the log has nothing any more."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""

    async def first(self) -> int:
        """The log's first offset now."""


@dataclass(slots=True)
class ReadingPrice:
    """The cost of receiving: CPU seconds and bytes of the large fetches so far. `read`: bytes of all fetches.

    `fetch_bytes`: the size of the next fetch.
    """

    seconds: float = 0.0
    size: int = 0
    read: int = 0
    fetch_bytes: int = FETCH_BYTES

    @property
    def per_byte(self) -> float:
        """CPU seconds per byte; 0 while unknown."""
        return self.seconds / self.size if self.size else 0.0

    def adapt(self, seconds: float) -> None:
        """Adapts the size of the next fetch to the CPU seconds of the last one with its comparison.

        Small records in small batches are compared one by one. A megabyte of them would use the budget of minutes.
        """
        if seconds > _MOST_S:
            self.fetch_bytes = max(_SMALLEST, self.fetch_bytes // 2)
        elif seconds < _MOST_S / 4:
            self.fetch_bytes = min(FETCH_BYTES, self.fetch_bytes * 2)


class ClusterPeek:
    """A Peek by a ClusterReader. It keeps to the reader's rate and records the price."""

    def __init__(self, reader: ClusterReader, key: TopicPartition, price: ReadingPrice) -> None:
        self._reader = reader
        self._price = price
        self.key = key

    @property
    def role(self) -> str:
        """See Peek."""
        return self._reader.role

    @property
    def committed(self) -> bool:
        """See Peek."""
        return self._reader.committed

    async def fetch(self, offset: int) -> CompletedFetch | None:
        """See Peek."""
        began = time.process_time()
        chunk = await self._reader.fetch(self.key, offset, hidden_too=False, most=self._price.fetch_bytes)
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
    """The Log (batch_side.py) of a partition from `position` on, by single fetches. `chunk`: what was fetched there already.

    The log is known to reach `there`. If a fetch below it finds nothing, GoneError or CannotCompareError says why.
    """

    def __init__(self, peek: Peek, position: int, chunk: CompletedFetch | None = None, there: int = 0) -> None:
        self._peek = peek
        self._position = position
        self._chunk = chunk
        self._there = there

    async def read(self) -> CompletedFetch | None:
        """See Log."""
        chunk, self._chunk = self._chunk, None
        chunk = chunk or await self._peek.fetch(self._position)
        if chunk is None:
            first = await self._peek.first()
            if first > self._position:
                raise GoneError(self._peek.role, self._peek.key, first)
            if self._position < self._there:
                raise CannotCompareError(
                    f"{self._peek.role} partition {self._peek.key} shows nothing from offset {self._position} on, "
                    f"and was known to reach {self._there}"
                )
            return None
        if chunk.next_offset <= self._position:
            raise CannotCompareError(
                f"{self._peek.role} partition {self._peek.key} can't be read beyond offset {self._position}: "
                "its next batch is damaged"
            )
        self._position = chunk.next_offset
        return chunk

    async def seek(self, offset: int) -> None:
        """See Log."""
        self._position, self._chunk = offset, None

    async def fetch(self, offset: int) -> CompletedFetch | None:
        """See Log."""
        return await self._peek.fetch(offset)

    async def offset_at(self, timestamp: int) -> int | None:
        """See Log."""
        return await self._peek.offset_at(timestamp)
