"""Two sequences of records that differ: where they become equal again, and what happened before that. Pure functions.

`content` of a record is what must be equal: timestamp and bytes, or only the bytes where the broker sets timestamps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.verify.records import Record, alike

Content = object
# So many records in a row must be equal at a meeting: a single equal one may be a duplicate.
CONFIRMED: Final = 3
# How many records of one content are tried: otherwise logs of many equal records would take too long.
_MOST_INDEXES: Final = 8


def by_content(record: Record) -> Content:
    """Timestamp and bytes."""
    return record[1:]


def by_bytes(record: Record) -> Content:
    """Key, value and headers."""
    return record[2]


def meet(
    source: Sequence[Record],
    target: Sequence[Record],
    content: Callable[[Record], Content],
    *,
    last: bool,
    segments: Sequence[int] = (),
    holes: tuple[int, int] = (0, 0),
) -> tuple[int, int] | None:
    """How many records of `source` and of `target` to pass over, the fewest in total; None if they don't meet.

    `last`: both are the last records, so a meeting near their ends needs no more records to confirm it.
    `segments`: indexes in `target` where another producer begins; its first records may be repeated ones.
    `holes`: how many offsets are missing before `source` and before `target`.
    """
    ours, theirs = [content(record) for record in source], [content(record) for record in target]
    indexes: dict[Content, list[int]] = {}
    for at, each in enumerate(ours):
        found = indexes.setdefault(each, [])
        if len(found) < _MOST_INDEXES:
            found.append(at)
    best: tuple[int, int] | None = None
    least = (len(ours) + len(theirs) + 1, 0)
    for there, each in enumerate(theirs):
        if _cost(0, there, holes) >= least:
            break
        for here in indexes.get(each, ()):
            if _cost(here, there, holes) >= least:
                break
            segment = bisect_right(segments, there)
            most = segments[segment] - there if segment < len(segments) else CONFIRMED
            if _confirmed(ours, here, theirs, there, most, last=last):
                best, least = (here, there), _cost(here, there, holes)
                break
    return best


def _cost(here: int, there: int, holes: tuple[int, int]) -> tuple[int, int]:
    """The number of records that remain to be explained: those for which the other log has no hole."""
    return max(0, here - holes[1]) + max(0, there - holes[0]), here + there


def _confirmed(ours: list[Content], here: int, theirs: list[Content], there: int, most: int, *, last: bool) -> bool:
    wanted = min(most, CONFIRMED)
    room = min(len(ours) - here, len(theirs) - there)
    if room < wanted and not last:
        return False
    size = min(room, wanted)
    return ours[here : here + size] == theirs[there : there + size]


@dataclass(slots=True)
class Gap:
    """What became of the records before the meeting, as indexes: (source, target) if both have the record."""

    in_place: list[tuple[int, int]] = field(default_factory=list)
    reordered: list[tuple[int, int]] = field(default_factory=list)
    doubled: list[tuple[int, int]] = field(default_factory=list)
    changed: list[tuple[int, int]] = field(default_factory=list)
    source_only: list[int] = field(default_factory=list)
    target_only: list[int] = field(default_factory=list)


def explain(
    source: Sequence[Record], target: Sequence[Record], content: Callable[[Record], Content], *, whole: bool
) -> Gap:
    """The smallest set of faults that turns `source` into `target`, judged by these two alone.

    `whole`: neither log has holes here. So a missing and an unknown record at the same index are one changed record.
    """
    gap = Gap()
    waiting: dict[Content, list[int]] = {}
    for here in range(len(source) - 1, -1, -1):
        waiting.setdefault(content(source[here]), []).append(here)
    known = {each: indexes[-1] for each, indexes in waiting.items()}
    paired: list[tuple[int, int]] = []
    left: list[int] = []
    for there, record in enumerate(target):
        each = content(record)
        if waiting.get(each):
            paired.append((waiting[each].pop(), there))
        elif each in known:
            gap.doubled.append((known[each], there))
        else:
            left.append(there)
    stayed = _longest_rising([here for here, _ in paired])
    for number, pair in enumerate(paired):
        (gap.in_place if number in stayed else gap.reordered).append(pair)
    missing = sorted(here for indexes in waiting.values() for here in indexes)
    _pair_changed(gap, source, target, missing, left, whole=whole)
    return gap


def _pair_changed(
    gap: Gap, source: Sequence[Record], target: Sequence[Record], missing: list[int], left: list[int], *, whole: bool
) -> None:
    """Pairs a missing record with an unknown one between the same neighbours: it is one changed record."""
    anchors = [*gap.in_place, (len(source), len(target))]
    here_at = there_at = 0
    for here_end, there_end in anchors:
        here_to, there_to = bisect_left(missing, here_end, here_at), bisect_left(left, there_end, there_at)
        ours, theirs = missing[here_at:here_to], left[there_at:there_to]
        here_at, there_at = here_to, there_to
        if whole and len(ours) == len(theirs):
            pairs = list(zip(ours, theirs, strict=True))
        else:
            pairs = _alike_pairs(source, target, ours, theirs, same_key=not whole)
        gap.changed += pairs
        known_here, known_there = {here for here, _ in pairs}, {there for _, there in pairs}
        gap.source_only += [here for here in ours if here not in known_here]
        gap.target_only += [there for there in theirs if there not in known_there]


def _alike_pairs(
    source: Sequence[Record], target: Sequence[Record], ours: list[int], theirs: list[int], *, same_key: bool
) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    next_here = 0
    for there in theirs:
        for number in range(next_here, min(next_here + 64, len(ours))):
            if alike(source[ours[number]], target[there], same_key=same_key):
                pairs.append((ours[number], there))
                next_here = number + 1
                break
    return pairs


def _longest_rising(values: Sequence[int]) -> set[int]:
    """Indexes of a longest rising subsequence: records outside it have moved."""
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        index = bisect_left(tails, value)
        before.append(tail_at[index - 1] if index else -1)
        if index == len(tails):
            tails.append(value)
            tail_at.append(at)
        else:
            tails[index], tail_at[index] = value, at
    found: set[int] = set()
    at = tail_at[-1] if tail_at else -1
    while at >= 0:
        found.add(at)
        at = before[at]
    return found
