"""Translates upstream offsets by recorded ranges (offset_ranges.py): to the exact record wherever that is possible.

A translated offset promises: every mirrored record at or after `upstream` is at that offset or after it. This holds from
the newest segment read onward. So a group that continues there skips nothing.

The offsets from 0 to the reach are cut into pieces, in order and without holes. A piece is a range, a void (none of it
is mirrored) or an unknown stretch. A newer range replaces what it overlaps. Usually downstream offsets rise with the
pieces. They don't while records are being repeated, after a crash or after source offsets were reset. Then records
above the newest range are only *before* it, and an offset inside it must not be translated beyond them. The pieces are
called folded while that is so, and the lowest downstream offset of all later pieces is a bound.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from mirror_connect.connectors.translation.offset_ranges import (
    OffsetRange,
    RangeLogState,
    Segment,
    ids_differ,
    targets_differ,
)

MOST_PIECES: Final = 1 << 17  # 16 bytes each
_VOID: Final = -1
_NOTHING_KNOWN: Final = -2
_FLOOR: Final = -3  # and below: _FLOOR - offset, an unknown stretch whose records are all at the offset or after it
_FAR: Final = (1 << 63) - 1


class Kind(Enum):
    """How good a translated offset is; it never skips a record."""

    EXACT = "exact"  # where the first record at or after the offset is or will be; repeats none
    SAFE = "safe"  # repeats some: the latest offset that skips none while records are being mirrored again
    FLOOR = "floor"  # the ranges end before the offset: an offset sync may know a later one


@dataclass(frozen=True, slots=True)
class Translation:
    """A downstream offset for an upstream one. `repeats`: at most how many records are repeated, as far as is known."""

    offset: int
    kind: Kind
    repeats: int = field(default=0, compare=False)

    @property
    def exact(self) -> bool:
        """Whether no record is repeated."""
        return self.kind is Kind.EXACT


def translated(by_ranges: Translation | None, by_syncs: int | None) -> int | None:
    """The downstream offset to use. None or negative, as OffsetSyncStore gives it: there is none."""
    if by_ranges is None:
        return by_syncs
    if by_ranges.kind is Kind.FLOOR and by_syncs is not None:
        return max(by_ranges.offset, by_syncs)
    return by_ranges.offset


class RangeIndex:
    """One partition's ranges, from its segments in the order of the topic's log."""

    def __init__(self) -> None:
        self.newest: Segment | None = None
        self._starts = array("q")
        self._values = array("q")
        self._at = RangeLogState()
        self._folded = False
        self._bounds: tuple[array[int], array[int]] | None = None
        # Whether the start of this incarnation is known.
        self._started = False
        # The first upstream offset of this incarnation if the one before it led into another topic.
        self._moved_at: int | None = None

    def add(self, segment: Segment) -> None:
        """The next segment. If it does not follow the newest one (another incarnation, a hole), all others are forgotten."""
        old, self.newest = self.newest, segment
        if old is not None and self._goes_on(old, segment):
            known = len(old.ranges) if old.number == segment.number else 0
            if known:
                last, now = old.ranges[-1], segment.ranges[known - 1]
                if now != last:
                    self._extend(now.length - last.length, now.settled)
        else:
            known = 0
            self._begin(segment)
            if old is None or old.since != segment.since:
                self._moved_at = _moved_at(old, segment)
        for offset_range in segment.ranges[known:]:
            self._apply(offset_range)

    def belongs_to(self, source_id: bytes, target_id: bytes) -> bool:
        """Whether these are ranges of the topics that have these ids today. Ask before translating."""
        newest = self.newest
        return newest is not None and not (
            ids_differ(source_id, newest.source_id) or ids_differ(target_id, newest.target_id)
        )

    def has_target(self, target_id: bytes) -> bool:
        """Whether these are ranges into the topic that has this id today."""
        return self.newest is not None and not ids_differ(target_id, self.newest.target_id)

    @property
    def remote(self) -> str:
        """The remote topic if a transformation named it; empty if the policy did."""
        return "" if self.newest is None else self.newest.remote

    def led_elsewhere(self, upstream: int) -> bool:
        """Whether offset syncs up to this offset are known to lead into another topic than today's ranges."""
        at = self._moved_at
        return at is not None and (upstream < at or self._at.reach <= at)

    @property
    def end(self) -> int:
        """All records of these ranges are below this downstream offset."""
        return self._at.downstream

    def translate(self, upstream: int) -> Translation | None:
        """Where a group that reads `upstream` next continues; None if the ranges give no safe offset."""
        at = self._at
        if upstream >= at.reach:
            if self.newest is None:
                return None
            if at.owed:
                return Translation(at.floor, Kind.SAFE, at.downstream + upstream - at.reach - at.floor)
            kind = Kind.EXACT if upstream == at.reach else Kind.FLOOR
            return Translation(at.downstream, kind, upstream - at.reach)
        i = bisect_right(self._starts, upstream) - 1
        if i < 0:
            return None
        found = self._in_piece(i, upstream)
        if self._folded and found is not None:
            found = self._bounded(i, found)
        return found if found is not None and found.offset >= 0 else None

    def _in_piece(self, i: int, upstream: int) -> Translation | None:
        value, start = self._values[i], self._starts[i]
        if value >= 0:
            return Translation(value + upstream - start, Kind.EXACT)
        if value == _VOID:
            following = self._values[i + 1]
            # Another void or stretch follows only where a range was partly overwritten. Then the bounds decide.
            return Translation(following, Kind.EXACT) if following >= 0 else Translation(_FAR, Kind.SAFE)
        if value == _NOTHING_KNOWN:
            return None
        floor = _FLOOR - value
        before = self._values[i - 1] if i else _VOID
        at_the_end_of_a_run = upstream == start and before >= 0 and before + start - self._starts[i - 1] == floor
        if at_the_end_of_a_run:
            return Translation(floor, Kind.EXACT)
        return Translation(floor, Kind.FLOOR, upstream - start)

    def _bounded(self, i: int, found: Translation) -> Translation:
        lows, highs = self._bounds_of_pieces()
        if lows[i + 1] < found.offset:
            more = found.offset - lows[i + 1] if found.offset < _FAR else 0
            return Translation(lows[i + 1], Kind.SAFE, found.repeats + more)
        if found.exact and highs[i] > found.offset:
            # Copies of earlier records come after it.
            return replace(found, kind=Kind.SAFE, repeats=highs[i] - found.offset)
        return found

    def _bounds_of_pieces(self) -> tuple[array[int], array[int]]:
        """For each piece the lowest offset of it and all later ones, and the highest end of all earlier ones."""
        if self._bounds is None:
            starts, values, at = self._starts, self._values, self._at
            lows = array("q", bytes(8 * (len(starts) + 1)))
            highs = array("q", bytes(8 * len(starts)))
            low, high, rising = at.floor if at.owed else _FAR, -1, not at.owed
            lows[-1] = low
            for i in range(len(starts) - 1, -1, -1):
                low = lows[i] = min(low, _lowest(values[i]))
            for i, value in enumerate(values):
                highs[i] = high
                rising = rising and _lowest(value) >= high
                if value >= 0:
                    end = starts[i + 1] if i + 1 < len(starts) else at.reach
                    high = max(high, value + end - starts[i])
            # Voids that follow each other need the bounds.
            self._folded = not rising or any(
                value == _VOID and values[i + 1] < 0 for i, value in enumerate(values[:-1])
            )
            self._bounds = lows, highs
        return self._bounds

    def _goes_on(self, old: Segment, new: Segment) -> bool:
        if (old.since, old.target_id, old.source_id) != (new.since, new.target_id, new.source_id):
            return False
        if new.number == old.number:
            known = len(old.ranges)
            return (
                new.before == old.before
                and len(new.ranges) >= known
                and (not known or _longer(old.ranges[-1], new.ranges[known - 1]))
                and (not known or new.ranges[: known - 1] == old.ranges[: known - 1])
            )
        return new.number == old.number + 1 and new.before == self._at

    def _begin(self, segment: Segment) -> None:
        self._at = replace(segment.before)
        reach = self._at.reach
        self._starts, self._values = array("q", [0] if reach else []), array("q", [_NOTHING_KNOWN] if reach else [])
        self._folded, self._bounds = bool(self._at.owed), None
        self._started = bool(reach) or not segment.ranges or segment.number != segment.since

    def _apply(self, offset_range: OffsetRange) -> None:
        at = self._at
        self._bounds = None
        if offset_range.upstream > at.upstream and offset_range.linked:
            self._put(at.upstream, offset_range.upstream, _VOID)
        elif offset_range.upstream > at.reach:
            floor = _FLOOR - (at.floor if at.owed else at.downstream)
            self._put(at.reach, offset_range.upstream, floor if self._starts or self._started else _NOTHING_KNOWN)
        if offset_range.upstream < at.reach or offset_range.unsure:
            self._folded = True
        self._put(offset_range.upstream, offset_range.upstream + offset_range.length, offset_range.downstream)
        at.add(offset_range)
        if len(self._starts) > MOST_PIECES:
            # The lowest quarter is forgotten: hardly any group is that far behind.
            cut = MOST_PIECES // 4
            self._starts[:cut], self._values[:cut] = array("q", [0]), array("q", [_NOTHING_KNOWN])

    def _extend(self, records: int, settled: bool) -> None:
        if records:
            self._apply(OffsetRange(self._at.upstream, self._at.downstream, records, settled=settled))
        elif settled:
            self._at.owed = self._at.floor = 0
            self._bounds = None

    def _put(self, low: int, high: int, value: int) -> None:
        """The piece from `low` to `high`, in place of what is there. There is no hole between the last piece and `low`."""
        starts, values = self._starts, self._values
        end = self._at.reach
        if low >= end:
            last = values[-1] if values else _VOID
            if last < 0 or value != last + low - starts[-1]:
                starts.append(low)
                values.append(value)
            return
        i, j = bisect_left(starts, low), bisect_left(starts, high)
        new_starts, new_values = [low], [value]
        behind = starts[j] if j < len(starts) else end
        if high < behind:
            rest = values[j - 1]
            new_starts.append(high)
            new_values.append(rest + high - starts[j - 1] if rest >= 0 else rest)
        starts[i:j], values[i:j] = array("q", new_starts), array("q", new_values)


def _moved_at(old: Segment | None, new: Segment) -> int | None:
    if old is None or new.number != new.since or not targets_differ(old, new):
        return None
    starts = new.before.reach or not new.ranges or new.ranges[0].linked
    return new.before.upstream if starts else new.ranges[0].upstream


def _lowest(value: int) -> int:
    if value >= 0:
        return value
    return _FAR if value == _VOID else -1 if value == _NOTHING_KNOWN else _FLOOR - value


def _longer(old: OffsetRange, new: OffsetRange) -> bool:
    return new[:2] == old[:2] and new.length >= old.length
