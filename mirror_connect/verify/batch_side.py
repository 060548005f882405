"""A side by the fast reader: whole batches while they are equal, else records unpacked by the copier's code. For `--follow`.

It shares batch reader, abort filter and unpacking with the copier. A fault in those would hide the same records on both
sides, so the comparison of a whole link reads by librdkafka (record_side.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import BatchReader, BatchView, CorruptBatchError, verify
from mirror_connect.kafka_io.records.unpacked_records import unpack
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import Side


class Log(Protocol):
    """The reader of a partition's log. Errors are those of the reader: ClusterUnreachable, NotAuthorized …"""

    async def read(self) -> CompletedFetch | None:
        """The next whole batches; None at the end of the range."""

    async def seek(self, offset: int) -> None:
        """Continues at this offset."""

    async def fetch(self, offset: int) -> CompletedFetch | None:
        """About a megabyte from `offset` on; None at the end. The position stays."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""


class BatchSide(Side):
    """`committed`: only what readers of committed records see."""

    def __init__(
        self,
        log: Log,
        on_damage: Callable[[int, str], None],
        *,
        expected: int = 0,
        holes: int = 0,
        committed: bool = False,
    ) -> None:
        super().__init__(on_damage, expected=expected, holes=holes)
        self._log = log
        self._committed = committed
        self._chunk: CompletedFetch | None = None
        self._reader = BatchReader(b"")
        self._aborted: AbortedFilter | None = None
        self._view: BatchView | None = None

    @property
    def log(self) -> Log:
        """See Side."""
        return self._log

    async def ready(self) -> bool:
        """See Side."""
        return self.at < len(self.window) or await self._next_view()

    @property
    def batch(self) -> BatchView | None:
        """See Side."""
        view = self._view
        return view if view is not None and self.at >= len(self.window) and view.base_offset >= self._from else None

    def take_batch(self) -> None:
        """See Side."""
        assert self._view is not None
        self._wrote(self._view, self._view.base_offset)
        self._expected = self._view.last_offset + 1
        self._pending = 0
        self.records += self._view.count
        self._view = None

    def decode(self) -> None:
        """See Side."""
        if self.at >= len(self.window) and self._view is not None:
            self._decode(self._view)

    async def _more(self) -> bool:
        if not await self._next_view():
            return False
        assert self._view is not None
        self._decode(self._view)
        return True

    async def seek(self, offset: int) -> None:
        """See Side."""
        self._let_go()
        self._view = None
        self._forget(offset)
        self._producers.clear()
        await self._log.seek(offset)

    async def records_at(self, offset: int) -> list[Record]:
        """See Side."""
        chunk = await self._log.fetch(offset)
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
            pass  # the comparison reports it when it reads there
        return found

    async def identify(self, offsets: Iterable[int]) -> None:
        """See Side. Each batch names its producer, so there is nothing to read."""

    def close(self) -> None:
        """Releases what was fetched."""
        self._let_go()

    async def _next_view(self) -> bool:
        """Makes `_view` the next batch with data, unless it is one already."""
        while self._view is None and not self.ended:
            try:
                view = self._reader.next()
                if view is None:
                    await self._next_chunk()
                    continue
                self._meet(view)
            except CorruptBatchError as error:
                # The start of the next batch is unknown, but the next fetch finds it.
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
            self._wrote(view, records[0][0])
            self.records += len(records)
            self.window += records

    def _wrote(self, view: BatchView, offset: int) -> None:
        producer = view.producer_id, view.producer_epoch
        if not self._producers or self._producers[-1][1] != producer:
            self._producers.append((offset, producer))

    async def _next_chunk(self) -> None:
        self._let_go()
        chunk = await self._log.read()
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
        # The comparer is done with the views, which hold slices of the buffer.
        chunk, self._chunk = self._chunk, None
        self._reader = BatchReader(b"")
        if chunk is not None:
            chunk.release()


def _has_records(view: BatchView) -> bool:
    return view.magic < 2 or view.count > 0
