"""Logs of offset ranges as a task records them, and what a reader makes of them."""

from __future__ import annotations

from mirror_connect.connectors.translation.offset_range_index import RangeIndex
from mirror_connect.connectors.translation.offset_ranges import (
    RangeRecorder,
    Segment,
)

Log = list[tuple[bytes, bytes]]


def index_of(log: Log) -> RangeIndex:
    index = RangeIndex()
    for key, value in log:
        index.add(Segment.decode(key, value))
    return index


def compacted(log: Log) -> Log:
    newest = {key: place for place, (key, _) in enumerate(log)}
    return [log[place] for place in sorted(newest.values())]


def recorded(*acks: tuple[int, int, int]) -> Log:
    recorder = RangeRecorder("t", 0)
    for upstream, count, downstream in acks:
        recorder.acked(upstream, count, downstream)
    return recorder.changed()


def offsets(index: RangeIndex, *positions: int) -> list[int | None]:
    found = [index.translate(position) for position in positions]
    return [each.offset if each and each.exact else None for each in found]
