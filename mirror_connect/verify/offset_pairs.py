"""Finds the copy of some records on the target: fetched batches of each log in, a pair of offsets out. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import BatchReader, BatchView, CorruptBatchError, verify
from mirror_connect.kafka_io.records.unpacked_records import unpack
from mirror_connect.verify.meeting import Content, by_bytes, by_content
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import same_batch

# So many records in a row must be equal, or all there are: a single one may be a duplicate.
AGREEING: Final = 4
# How many records of one content are tried, and how many records of the source.
_MOST_INDEXES: Final = 8
_TRIED: Final = 4_000


class OffsetPair(NamedTuple):
    """The record at offset `source` has its copy at offset `target`. Earlier records have earlier copies."""

    source: int
    target: int

    @property
    def delta(self) -> int:
        """The copy's offset minus the source offset: constant while no record is missing or doubled."""
        return self.target - self.source


class FetchedBatches:
    """The batches with data of one fetch, from offset `start` on, up to a damaged batch."""

    def __init__(self, chunk: CompletedFetch, start: int, *, committed: bool) -> None:
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
            pass  # the comparison reports it

    @property
    def first(self) -> int | None:
        """The first offset with data, from the batch headers."""
        return max(self.start, self.views[0].base_offset) if self.views else None

    @property
    def log_append_time(self) -> bool:
        """Whether the broker set the timestamps."""
        return any(view.log_append_time for view in self.views)

    def records(self) -> list[Record]:
        """All records. They are unpacked once."""
        if self._records is None:
            self._records = []
            try:
                for view in self.views:
                    verify(view)
                    self._records += unpack(view, self.start)[0]
            except CorruptBatchError:
                pass
        return self._records


def pair_at_delta(delta: int, source: FetchedBatches, target: FetchedBatches) -> OffsetPair | None:
    """The first equal records if copies are `delta` offsets after their sources; None if they are not."""
    copies = {view.base_offset: view for view in target.views}
    for view in source.views:
        copy = copies.get(view.base_offset + delta)
        if copy is not None and view.base_offset >= source.start and same_batch(view, copy):
            return OffsetPair(view.base_offset, copy.base_offset)
    content = _content(target)
    there = {record[0]: content(record) for record in target.records()}
    ours = source.records()
    agreeing = 0
    for at, record in enumerate(ours):
        agreeing = agreeing + 1 if there.get(record[0] + delta) == content(record) else 0
        if agreeing == AGREEING:
            first = ours[at + 1 - AGREEING][0]
            return OffsetPair(first, first + delta)
    if agreeing and agreeing == len(ours):
        return OffsetPair(ours[0][0], ours[0][0] + delta)
    return None


def pair_anywhere(source: FetchedBatches, target: FetchedBatches) -> OffsetPair | None:
    """The first records of `source` that are anywhere in `target` in a row; None if there are none."""
    content = _content(target)
    theirs = [content(record) for record in target.records()]
    indexes: dict[Content, list[int]] = {}
    for there, each in enumerate(theirs):
        found = indexes.setdefault(each, [])
        if len(found) < _MOST_INDEXES:
            found.append(there)
    ours = [content(record) for record in source.records()[: _TRIED + AGREEING]]
    for here in range(min(len(ours), _TRIED)):
        wanted = min(AGREEING, len(ours) - here)
        if wanted < AGREEING and here:
            break
        for there in indexes.get(ours[here], ()):
            if theirs[there : there + wanted] == ours[here : here + wanted]:
                return OffsetPair(source.records()[here][0], target.records()[there][0])
    return None


def earliest_timestamp(source: FetchedBatches) -> int | None:
    """The earliest timestamp of the first records, or None. No copy is before the first target record that is as late."""
    stamps: Sequence[int] = [record[1] for record in source.records()[: 16 * AGREEING] if record[1] >= 0]
    return min(stamps, default=None)


def _content(target: FetchedBatches) -> Callable[[Record], Content]:
    return by_bytes if target.log_append_time else by_content
