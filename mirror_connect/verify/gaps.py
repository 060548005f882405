"""Explains the records before a meeting of both logs, and passes over them.

meeting.py explains the two windows alone. This module adds what was missing, foreign or repeated before.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Final

from mirror_connect.verify.comparison import Comparison
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.lookup import Lookup
from mirror_connect.verify.meeting import Gap, explain
from mirror_connect.verify.records import Record, difference
from mirror_connect.verify.side import Side

# As after an unclean leader election: copies of the lost records are still on the target.
_LOST_SINCE: Final = "the producer that copied the record before wrote it: the source has lost it"
# How many single faults are remembered, to recognise a record that moved.
REMEMBERED: Final = 20_000


class Gaps:
    """The gaps of one comparison."""

    def __init__(self, comparison: Comparison, lookup: Lookup) -> None:
        self._comparison = comparison
        self._lookup = lookup
        # How many records that compaction took from the source may be on the target once more.
        self._excusable = 0
        self._strays_known = 0

    def excuse_compacted(self) -> None:
        """A copier repeats from here on: the target may have records again that compaction took from the source."""
        self._excusable = self._comparison.source.hollow

    async def pass_over(self, ours_count: int, theirs_count: int) -> None:
        """Explains the first records of both windows and passes over them."""
        comparison = self._comparison
        source, target = comparison.source, comparison.target
        ours = source.window[source.at : source.at + ours_count]
        theirs = target.window[target.at : target.at + theirs_count]
        whole = not source.holes(ours_count) and not target.holes(theirs_count)
        gap = explain(ours, theirs, comparison.content, whole=whole)
        self._explain_both(gap, ours, theirs)
        self._explain_source_only(ours, gap.source_only, target, theirs_count)
        await self._explain_target_only(theirs, gap.target_only, ours_count)
        if theirs:
            comparison.last_at = theirs[-1][0]
        if ours and ours[-1][0] >= comparison.done_to:
            # The repeat was right; the fault comes after it.
            if comparison.repeat is not None:
                comparison.end_repeat(complete=comparison.repeat.reached + 1 >= comparison.done_to)
            comparison.done_to = max(comparison.done_to, ours[-1][0] + 1)
            comparison.progress(comparison.done_to)
        source.keep_holes(ours_count)
        target.keep_holes(theirs_count)
        source.drop(ours_count)
        target.drop(theirs_count)
        await asyncio.sleep(0)

    def _explain_both(self, gap: Gap, ours: list[Record], theirs: list[Record]) -> None:
        """Explains records that both windows have."""
        comparison = self._comparison
        findings, missing = comparison.findings, comparison.missing
        findings.equal += sum(ours[here][0] >= comparison.done_to for here, _ in gap.in_place)
        for here, there in gap.in_place:
            if ours[here][0] in missing:
                comparison.came_late((ours[here][0], ours[here][0]), (theirs[there][0], theirs[there][0]))
            elif ours[here][0] < comparison.done_to:
                findings.repeated += 1
        for here, there in gap.reordered:
            if ours[here][0] in missing:
                comparison.found(ours[here][0], ours[here][0])
            findings.add(_fault(Kind.REORDERED, ours[here], theirs[there]))
        for here, there in gap.doubled:
            if comparison.hollow and comparison.target.segments(there + 1):
                findings.repeated += 1
            else:
                findings.add(_fault(Kind.DOUBLED, ours[here], theirs[there]))
        for here, there in gap.changed:
            if ours[here][0] in missing:
                comparison.found(ours[here][0], ours[here][0])
            what = difference(ours[here], theirs[there], timestamps=comparison.timestamps)
            findings.add(_fault(Kind.CHANGED, ours[here], theirs[there], what))

    def _explain_source_only(self, ours: list[Record], indexes: list[int], target: Side, passed: int) -> None:
        """Explains source records that the target lacks here: `indexes` in `ours`."""
        comparison = self._comparison
        findings = comparison.findings
        indexes = [index for index in indexes if ours[index][0] >= comparison.done_to]
        if not indexes:
            return
        excused = min(target.holes(passed), len(indexes))
        target.use_holes(passed, excused)
        findings.gone_from_target += excused
        if not findings.equal:
            findings.before_target_start += excused
        for index in indexes[excused:]:
            record = ours[index]
            mark = hash(comparison.content(record))
            strays = comparison.strays.get(mark)
            if strays:
                stray = strays.pop(0)
                findings.withdraw(Kind.FOREIGN, stray, stray)
                findings.add(Fault(Kind.REORDERED, (record[0], record[0]), (stray, stray)))
                comparison.came_early([record])
                continue
            known = comparison.missing.add(record[0], ours[index - 1][0] if index else comparison.done_to - 1)
            if known and len(comparison.lost) < REMEMBERED:
                comparison.lost[mark] = record[0]
            findings.add(_fault(Kind.MISSING, record, None))

    async def _explain_target_only(self, theirs: list[Record], indexes: list[int], passed: int) -> None:
        """Explains target records that the source lacks here: `indexes` in `theirs` and in the target's window."""
        comparison = self._comparison
        source, findings = comparison.source, comparison.findings
        indexes = [index for index in indexes if not self._was_missing(theirs[index])]
        excused = min(source.holes(passed), len(indexes))
        source.use_holes(passed, excused)
        # Compaction may have taken records from the source that a copier from the beginning has once more.
        if indexes and any(comparison.fresh(index) for index in range(indexes[-1] + 1)):
            self.excuse_compacted()
        more = min(self._excusable, len(indexes) - excused)
        self._excusable -= more
        excused += more
        findings.gone_from_source += excused
        if not findings.equal:
            findings.before_source_start += excused
        rest, at = indexes[excused:], 0
        while at < len(rest):
            record = theirs[rest[at]]
            again = await self._again(theirs, rest[at:])
            if again:
                at += again
                continue
            if self._strays_known < REMEMBERED:
                self._strays_known += 1
                comparison.strays.setdefault(hash(comparison.content(record)), []).append(record[0])
            wrote = comparison.target.producer(rest[at])
            by_copier = wrote[0] >= 0 and wrote == comparison.last_producer
            findings.add(_fault(Kind.FOREIGN, None, record, _LOST_SINCE if by_copier else ""))
            at += 1

    def _was_missing(self, record: Record) -> bool:
        """Whether a target record was called missing before; then it counts as reordered."""
        comparison = self._comparison
        lost = comparison.lost.pop(hash(comparison.content(record)), -1)
        if lost not in comparison.missing:
            return False
        comparison.came_late((lost, lost), (record[0], record[0]))
        return True

    async def _again(self, theirs: list[Record], indexes: list[int]) -> int:
        """How many of the first `indexes` are records in a row that the target has had before. Counts them."""
        comparison = self._comparison
        first = indexes[0]
        found = await self._lookup.find(theirs[first : first + 1], 1)
        if found is None or found >= comparison.done_to:
            return 0
        ours: list[Record] = []
        for number, record in enumerate(await comparison.source.records_at(found)):
            if (
                number == len(indexes)
                or indexes[number] != first + number
                or record[0] >= comparison.done_to
                or comparison.content(record) != comparison.content(theirs[first + number])
            ):
                break
            ours.append(record)
        if not ours:
            return 0
        count, last = len(ours), ours[-1][0]
        # It is a repeat if it goes on to where the copier had been: its end, or the middle of another repeat. It is also one
        # if the copier was stopped again while it was repeating.
        been = comparison.done_to if comparison.repeat is None else comparison.repeat.reached + 1
        behind = first + count
        goes_on = behind < len(await comparison.target.want(behind + 1))
        leads_up = last + 1 == been or comparison.hollow or not goes_on or comparison.fresh(behind)
        allowed = comparison.fresh(first) and leads_up
        pairs = zip(ours, theirs[first:behind], strict=True)
        for late, group in groupby(pairs, key=lambda pair: pair[0][0] in comparison.missing):
            stretch = list(group)
            (begin, target_begin), (end, target_end) = ((one[0], other[0]) for one, other in (stretch[0], stretch[-1]))
            if late:
                comparison.came_late((begin, end), (target_begin, target_end), len(stretch))
            elif allowed:
                comparison.findings.repeated += len(stretch)
            else:
                comparison.findings.add(Fault(Kind.DOUBLED, (begin, end), (target_begin, target_end), len(stretch)))
        return count


def _fault(kind: Kind, source: Record | None, target: Record | None, detail: str = "") -> Fault:
    return Fault(
        kind,
        None if source is None else (source[0], source[0]),
        None if target is None else (target[0], target[0]),
        detail=detail,
    )
