"""Where the copy of some records lies on the target: a piece of each log in, a pair of offsets out. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mirror_connect.kafka_io.consumer.fetched import Fetched
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import BatchReader, BatchView, CorruptBatchError, verify
from mirror_connect.kafka_io.records.record_rewrite import unpack
from mirror_connect.verify.comparer import same
from mirror_connect.verify.meeting import Content, by_bytes, by_content
from mirror_connect.verify.records import Record

# So many neighbouring records have to agree, or all there are: one alone may be there twice.
AGREEING: Final = 4
# How many places of one content are tried, and how many records of the source.
_PLACES: Final = 8
_TRIED: Final = 4_000


class Pair(NamedTuple):
    """The source record at `source` has its copy at `target`; what comes before the one is copied before the other."""

    source: int
    target: int

    @property
    def delta(self) -> int:
        """How far the copy lies behind its source: the same as long as nothing is left out and nothing comes twice."""
        return self.target - self.source


class Piece:
    """The batches with data of what one look brought, from offset `start` on; what is damaged ends it."""

    def __init__(self, chunk: Fetched, start: int, *, committed: bool) -> None:
        self.start = start
        self.next_offset = chunk.next_offset
        self.views: list[BatchView] = []
        self._records: list[Record] | None = None
        aborted = AbortedFilter(chunk.aborted) if committed else None
        reader = BatchReader(chunk.buffer)
        try:
            while (view := reader.next()) is not None:
                dropped = view.is_control or (aborted is not None and aborted.drops(view))
                if not dropped and view.last_offset >= start and (view.magic < 2 or view.count):
                    self.views.append(view)
        except CorruptBatchError:
            pass  # who compares it will say so

    @property
    def first(self) -> int | None:
        """The first offset of data here, as the batches' headers tell it."""
        return max(self.start, self.views[0].base_offset) if self.views else None

    @property
    def log_append_time(self) -> bool:
        """Whether timestamps are the broker's."""
        return any(view.log_append_time for view in self.views)

    def records(self) -> list[Record]:
        """All of them, unpacked once."""
        if self._records is None:
            self._records = []
            try:
                for view in self.views:
                    verify(view)
                    self._records += unpack(view, self.start)[0]
            except CorruptBatchError:
                pass
        return self._records


def placed_by(delta: int, source: Piece, target: Piece) -> Pair | None:
    """The first place where both agree if copies lie `delta` behind their sources; None if they don't."""
    copies = {view.base_offset: view for view in target.views}
    for view in source.views:
        copy = copies.get(view.base_offset + delta)
        if copy is not None and view.base_offset >= source.start and same(view, copy):
            return Pair(view.base_offset, copy.base_offset)
    content = _content(target)
    there = {record[0]: content(record) for record in target.records()}
    ours = source.records()
    agreeing = 0
    for at, record in enumerate(ours):
        agreeing = agreeing + 1 if there.get(record[0] + delta) == content(record) else 0
        if agreeing == AGREEING:
            first = ours[at + 1 - AGREEING][0]
            return Pair(first, first + delta)
    if agreeing and agreeing == len(ours):
        return Pair(ours[0][0], ours[0][0] + delta)
    return None


def placed_anywhere(source: Piece, target: Piece) -> Pair | None:
    """The first records of `source` that are somewhere in `target` in a row; None if there are none."""
    content = _content(target)
    theirs = [content(record) for record in target.records()]
    places: dict[Content, list[int]] = {}
    for there, each in enumerate(theirs):
        found = places.setdefault(each, [])
        if len(found) < _PLACES:
            found.append(there)
    ours = [content(record) for record in source.records()[: _TRIED + AGREEING]]
    for here in range(min(len(ours), _TRIED)):
        wanted = min(AGREEING, len(ours) - here)
        if wanted < AGREEING and here:
            break
        for there in places.get(ours[here], ()):
            if theirs[there : there + wanted] == ours[here : here + wanted]:
                return Pair(source.records()[here][0], target.records()[there][0])
    return None


def earliest_timestamp(source: Piece) -> int | None:
    """Of the first records; None where they have none. Their copies lie at the first as late one or behind it."""
    stamps: Sequence[int] = [record[1] for record in source.records()[: 16 * AGREEING] if record[1] >= 0]
    return min(stamps, default=None)


def _content(target: Piece) -> Callable[[Record], Content]:
    return by_bytes if target.log_append_time else by_content
