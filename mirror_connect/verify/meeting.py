"""Two runs of records that differ at their fronts: where they meet again, and what happened before that. Pure functions.

`content` of a record is what has to be equal: its timestamp and its bytes, or the bytes alone where timestamps are the
broker's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.verify.differences import alike
from mirror_connect.verify.records import Record

Content = object
# So many records in a row have to be equal where the runs meet, lest one that is there twice be taken for the place.
CONFIRMED: Final = 3
# How many places of one content are tried: logs of many equal records would take for ever otherwise.
_PLACES: Final = 8


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
    """(records to pass over in `source`, in `target`), the fewest in all; None where they don't meet.

    `last`: nothing follows the runs, so that a meeting near their ends needn't be confirmed by what isn't there.
    `segments`: places in `target` at which another producer begins; it may do so with what was written before.
    `holes`: how many offsets are missing in front of `source` and of `target`.
    """
    ours, theirs = [content(record) for record in source], [content(record) for record in target]
    places: dict[Content, list[int]] = {}
    for at, each in enumerate(ours):
        found = places.setdefault(each, [])
        if len(found) < _PLACES:
            found.append(at)
    best: tuple[int, int] | None = None
    least = (len(ours) + len(theirs) + 1, 0)
    for there, each in enumerate(theirs):
        if _cost(0, there, holes) >= least:
            break
        for here in places.get(each, ()):
            if _cost(here, there, holes) >= least:
                break
            segment = bisect_right(segments, there)
            most = segments[segment] - there if segment < len(segments) else CONFIRMED
            if _confirmed(ours, here, theirs, there, most, last=last):
                best, least = (here, there), _cost(here, there, holes)
                break
    return best


def _cost(here: int, there: int, holes: tuple[int, int]) -> tuple[int, int]:
    """What is to be explained when so many records are passed over: those for which the other log has no hole."""
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
    """What became of the records before the meeting: places in the two runs, (source, target) where both have it."""

    in_place: list[tuple[int, int]] = field(default_factory=list)
    reordered: list[tuple[int, int]] = field(default_factory=list)
    doubled: list[tuple[int, int]] = field(default_factory=list)
    changed: list[tuple[int, int]] = field(default_factory=list)
    source_only: list[int] = field(default_factory=list)
    target_only: list[int] = field(default_factory=list)


def explain(
    source: Sequence[Record], target: Sequence[Record], content: Callable[[Record], Content], *, whole: bool
) -> Gap:
    """The smallest set of faults that makes `target` of `source`, as far as it can be told from the two alone.

    `whole`: neither log has holes here, so that one missing and one unknown record at a place must be one that changed.
    """
    gap = Gap()
    waiting: dict[Content, list[int]] = {}
    for here in range(len(source) - 1, -1, -1):
        waiting.setdefault(content(source[here]), []).append(here)
    known = {each: places[-1] for each, places in waiting.items()}
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
    missing = sorted(here for places in waiting.values() for here in places)
    _pair_changed(gap, source, target, missing, left, whole=whole)
    return gap


def _pair_changed(
    gap: Gap, source: Sequence[Record], target: Sequence[Record], missing: list[int], left: list[int], *, whole: bool
) -> None:
    """Between the same neighbours something is missing and something unknown came: that is one record, changed."""
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
    """Indexes of a longest rising subsequence: what is not in it has moved."""
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for at, value in enumerate(values):
        place = bisect_left(tails, value)
        before.append(tail_at[place - 1] if place else -1)
        if place == len(tails):
            tails.append(value)
            tail_at.append(at)
        else:
            tails[place], tail_at[place] = value, at
    found: set[int] = set()
    at = tail_at[-1] if tail_at else -1
    while at >= 0:
        found.add(at)
        at = before[at]
    return found
