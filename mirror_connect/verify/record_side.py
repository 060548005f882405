"""A side by librdkafka: records as any consumer sees them. For the comparison of a whole link.

Offsets of which librdkafka shows no record may be markers of transactions, records of aborted ones, or gone. Only what is
gone may explain a difference, so where there is one, the headers of the batches there are read. Those tell who wrote the
target's records, too: whether something is there twice because of a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from mirror_connect.kafka_io.consumer.batch_heads import BatchHead
from mirror_connect.verify.cluster_logs import Piece
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import UNKNOWN, Producer, Side

# How far before a difference it is looked whether the log was compacted, in offsets.
_NEAR: Final = 100_000


class RecordLogLike(Protocol):
    """What a partition is read by. Errors are those of the reader: CannotCompareError, NotAuthorized …"""

    async def read(self) -> Piece | None:
        """The next records; None at the end of the range."""

    async def seek(self, offset: int) -> None:
        """Go on reading at this offset."""

    async def look(self, offset: int) -> Sequence[Record]:
        """Records from there on, about a megabyte of them, without moving."""

    async def offset_at(self, timestamp: int) -> int | None:
        """The first offset whose record has this timestamp (ms) or a later one."""

    async def heads(self, first: int, last: int) -> list[BatchHead]:
        """The headers of the batches that hold these offsets."""


class RecordSide(Side):
    """`authors`: whether it matters who wrote the records."""

    def __init__(
        self,
        log: RecordLogLike,
        on_damage: Callable[[int, str], None],
        *,
        expected: int = 0,
        holes: int = 0,
        authors: bool = False,
    ) -> None:
        super().__init__(on_damage, expected=expected, holes=holes)
        self._log = log
        self._authors = authors
        # Before the record at an offset nothing is shown from this other offset on, and nobody knows yet why.
        self._unshown: dict[int, int] = {}
        # The same in front of what comes next.
        self._unshown_next: int | None = None
        # Whether there is such a place from here on; what lies before is known.
        self._settled_to = expected
        self._unsettled = False
        # Of the offsets between it is known who wrote them.
        self._authors_from = self._authors_to = expected
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
        """See Side. There is none."""

    def decode(self) -> None:
        """See Side. librdkafka has done it."""

    async def want(self, count: int) -> list[Record]:
        """See Side. Whoever wants records has seen a difference: now it matters what is not shown."""
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

    async def look(self, offset: int) -> list[Record]:
        """See Side."""
        return list(await self._log.look(offset))

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
        if not self._authors:
            return
        before, self._known = self._known, {}
        for offset in offsets:
            if self._authors_from <= offset < self._authors_to:
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
        """Learns what lies where nothing is shown, and who wrote what is."""
        begin = self.position
        if self._unsettled:
            # Back to where nothing is known: a log that was compacted is so everywhere.
            begin = min([begin, *self._unshown.values()])
            if self._unshown_next is not None:
                begin = min(begin, self._unshown_next)
            begin = min(begin, max(self._settled_to, self.position - _NEAR))
        elif not self._authors or self._expected <= self._authors_to:
            return
        else:
            # Who wrote the last record before these is asked for, too.
            begin = max(begin - 1, self._authors_to)
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
        if self._authors:
            for head in heads:
                known = head.control or head.last < self._authors_to
                if not known and (not self._producers or self._producers[-1][1] != head.producer):
                    self._producers.append((max(head.first, begin, self._authors_to), head.producer))
            if begin > self._authors_to:
                self._authors_from = begin
            self._authors_to = self._expected


def missing(heads: Sequence[BatchHead], first: int, last: int, damaged: set[int]) -> int:
    """How many of the offsets from `first` to before `last`, of which no record is shown, are gone from the log.

    Markers are not gone, nor is any record of a batch that has all of its own: then it belongs to an aborted transaction, or
    whoever reads has hidden it. Of a batch that lacks some, they may all lie here.
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
