"""A side by librdkafka: records as any consumer sees them. For the comparison of a whole link.

An offset without a record may be a transaction marker, an aborted record, or a record that is gone. Only a record that is
gone explains a difference. So at a difference the headers of the batches are read. They also hold the producers, which
show whether a restart doubled a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from mirror_connect.kafka_io.consumer.batch_heads import BatchHead
from mirror_connect.verify.cluster_logs import Piece
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import UNKNOWN, Producer, Side

# How many offsets before a difference are checked for compaction.
_NEAR: Final = 100_000


class RecordLogLike(Protocol):
    """The reader of a partition. Errors are those of the reader: CannotCompareError, NotAuthorized …"""

    async def read(self) -> Piece | None:
        """The next records; None at the end of the range."""

    async def seek(self, offset: int) -> None:
        """Continues at this offset."""

    async def records_at(self, offset: int) -> Sequence[Record]:
        """About a megabyte of records from `offset` on. The position stays."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""

    async def heads(self, first: int, last: int) -> list[BatchHead]:
        """The headers of the batches that hold these offsets."""


class RecordSide(Side):
    """`producers`: whether the producers of the records matter."""

    def __init__(
        self,
        log: RecordLogLike,
        on_damage: Callable[[int, str], None],
        *,
        expected: int = 0,
        holes: int = 0,
        producers: bool = False,
    ) -> None:
        super().__init__(on_damage, expected=expected, holes=holes)
        self._log = log
        self._reads_producers = producers
        # Record offset → first of the offsets directly before it that show no record. The reason is not known yet.
        self._unshown: dict[int, int] = {}
        # The same for the next record.
        self._unshown_next: int | None = None
        # Whether there are such offsets from `_settled_to` on. Before that the reasons are known.
        self._settled_to = expected
        self._unsettled = False
        # The producers of the offsets between these two are known.
        self._producers_from = self._producers_to = expected
        self._damaged: set[int] = set()
        self._known: dict[int, Producer] = {}

    @property
    def log(self) -> RecordLogLike:
        """See Side."""
        return self._log

    async def ready(self) -> bool:
        """See Side."""
        return self.at < len(self.window) or await self._more()

    def take_batch(self) -> None:
        """See Side. There are no batches."""

    def decode(self) -> None:
        """See Side. librdkafka has decoded the records."""

    async def want(self, count: int) -> list[Record]:
        """See Side. Called after a difference: now the reasons for offsets without a record matter."""
        found = await super().want(count)
        await self._settle()
        return found

    async def seek(self, offset: int) -> None:
        """See Side."""
        self._forget(offset)
        self._unshown.clear()
        self._unshown_next = None
        self._settled_to = max(self._settled_to, offset)
        self._unsettled = False
        await self._log.seek(offset)

    async def records_at(self, offset: int) -> list[Record]:
        """See Side."""
        return list(await self._log.records_at(offset))

    def drop(self, count: int) -> None:
        """See Side."""
        if self._unshown:
            for offset, _, _ in self.window[self.at : self.at + count]:
                self._unshown.pop(offset, None)
        super().drop(count)

    def producer_at(self, offset: int) -> Producer:
        """See Side."""
        return self._known.get(offset) or super().producer_at(offset)

    async def identify(self, offsets: Iterable[int]) -> None:
        """See Side."""
        if not self._reads_producers:
            return
        before, self._known = self._known, {}
        for offset in offsets:
            if self._producers_from <= offset < self._producers_to:
                continue
            if offset not in before:
                heads = await self._log.heads(offset, offset)
                before[offset] = heads[0].producer if heads else UNKNOWN
            self._known[offset] = before[offset]

    async def _more(self) -> bool:
        while not self.ended:
            piece = await self._log.read()
            if piece is None:
                self.ended = True
                break
            for offset, reason in piece.damaged:
                if offset not in self._damaged:
                    self._damaged.add(offset)
                    self._on_damage(offset, reason)
            self.bytes += piece.size
            self.log_append_time |= piece.log_append_time
            records = piece.records
            if records and records[0][0] < self._expected:
                records = [record for record in records if record[0] >= self._expected]
            if records:
                self._take(records)
            if piece.end > self._expected:
                if self._unshown_next is None:
                    self._unshown_next = self._expected
                self._unsettled = True
                self._expected = piece.end
            if records:
                return True
        return False

    def _take(self, records: Sequence[Record]) -> None:
        first, last = records[0][0], records[-1][0]
        if self._pending:
            self._holes[first] = self._pending
            self._pending = 0
        if self._unshown_next is not None or last - self._expected + 1 != len(records):
            expected = self._expected if self._unshown_next is None else self._unshown_next
            for offset, _, _ in records:
                if offset > expected:
                    self._unshown[offset] = expected
                    self._unsettled = True
                expected = offset + 1
            self._unshown_next = None
        self._expected = last + 1
        self.records += len(records)
        self.window += records

    async def _settle(self) -> None:
        """Reads why offsets show no record, and the producers of the records."""
        begin = self.position
        if self._unsettled:
            # Back to the first offset whose reason is unknown: a compacted log is compacted everywhere.
            begin = min([begin, *self._unshown.values()])
            if self._unshown_next is not None:
                begin = min(begin, self._unshown_next)
            begin = min(begin, max(self._settled_to, self.position - _NEAR))
        elif not self._reads_producers or self._expected <= self._producers_to:
            return
        else:
            # The producer of the record before these matters, too.
            begin = max(begin - 1, self._producers_to)
        heads = await self._log.heads(begin, self._expected - 1) if begin < self._expected else []
        if self._unsettled:
            self.hollow += missing(heads, max(begin, self._settled_to), self._expected, self._damaged)
            for offset, unshown in self._unshown.items():
                gone = missing(heads, unshown, offset, self._damaged)
                if gone:
                    self._holes[offset] = self._holes.get(offset, 0) + gone
            self._unshown.clear()
            if self._unshown_next is not None:
                self._pending += missing(heads, self._unshown_next, self._expected, self._damaged)
                self._unshown_next = None
            self._unsettled = False
        self._settled_to = max(self._settled_to, self._expected)
        if self._reads_producers:
            for head in heads:
                known = head.control or head.last < self._producers_to
                if not known and (not self._producers or self._producers[-1][1] != head.producer):
                    self._producers.append((max(head.first, begin, self._producers_to), head.producer))
            if begin > self._producers_to:
                self._producers_from = begin
            self._producers_to = self._expected


def missing(heads: Sequence[BatchHead], first: int, last: int, damaged: set[int]) -> int:
    """How many of the offsets from `first` to before `last`, which show no record, are gone from the log.

    A marker is not gone. In a batch with all its records nothing is gone either: the transaction was aborted, or the reader
    hid the records. If a batch lacks records, all of them may belong to these offsets.
    """
    gone, at = 0, first
    for head in heads:
        if head.last < first or head.first >= last:
            continue
        here, end = max(head.first, at), min(head.last + 1, last)
        gone += max(0, here - at)
        if head.records < 0 or head.first in damaged:
            gone += max(0, end - here)
        elif not head.control:
            gone += min(max(0, end - here), max(0, head.last + 1 - head.first - head.records))
        at = max(at, end)
    return gone + max(0, last - at)
