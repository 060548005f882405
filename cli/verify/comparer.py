"""Compares one partition's log with its copy, and says what is wrong where.

Both are read forward once. While the next batches of both have the same bytes, nothing is unpacked. Otherwise their
records are compared in order; where they differ, it is looked for the next place at which both agree again, and what lies
before it is explained (meeting.py). After a restart a copier begins at an earlier source offset: then the source is read
again from there, until the copy is where it had been.

A record of the copy that can't be placed so is looked up in the source by its timestamp. `until`: source records from
this offset on needn't be on the target yet; the source is read further only to explain what is there already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mirror_connect.cli.verify.differences import difference
from mirror_connect.cli.verify.findings import Fault, Findings, Kind
from mirror_connect.cli.verify.meeting import by_bytes, by_content, explain, meet
from mirror_connect.cli.verify.side import Producer, Side
from mirror_connect.spark_jobs.record_batch import BatchView
from mirror_connect.spark_jobs.record_rewrite import Record

# How many records are looked through for a meeting, in turn; between the first and the second the source is asked.
_WINDOWS: Final = (32, 1024, 16_384)
# What is found by looking has to agree for so many records, or to the end of what there is.
_AGREEING: Final = 4
# How far before the present place it is looked where timestamps lead nowhere.
_LOOK_BACK: Final = 2_000
# Lookups that found nothing: from the so-manieth on only one in two, four, eight … is tried.
_PATIENCE: Final = 32
# How many single faults are remembered, to recognise a record that went missing here and turns up there.
_REMEMBERED: Final = 20_000


@dataclass(slots=True)
class _Repeat:
    """A stretch of the target that is a copy of what had been copied. `fresh`: by a producer that had just begun."""

    source: int
    target: int
    fresh: bool
    records: int = 0
    last_source: int = -1
    last_target: int = -1


class Comparer:
    """One comparison; `run` fills `findings`. `progress` is told the source offset up to which all is done."""

    def __init__(
        self,
        source: Side,
        target: Side,
        findings: Findings,
        *,
        until: int,
        start: int = 0,
        progress: Callable[[int], None] = lambda _offset: None,
    ) -> None:
        self._source = source
        self._target = target
        self._findings = findings
        self._until = until
        self._start = start
        self._progress = progress
        # Every source offset below is explained.
        self._done_to = start
        self._timestamps = True
        self._repeat: _Repeat | None = None
        self._last_producer: Producer | None = None
        self._misses = 0
        self._lost: dict[int, int] = {}
        self._strays: dict[int, int] = {}

    async def run(self) -> None:
        """Compares to the end of the target's range."""
        source, target = self._source, self._target
        while await target.ready():
            if await source.ready():
                if self._same_batches():
                    continue
                source.decode()
                target.decode()
                self._check_timestamps()
                if self._equal_records():
                    await asyncio.sleep(0)
                    continue
                if not source.left or not target.left:
                    continue  # a batch without a record that is wanted
            await self._resolve()
        self._end_repeat(complete=True)
        await self._rest_of_source()
        self._findings.bytes = source.bytes + target.bytes

    # --- what is equal ----------------------------------------------------------------------------------------------

    def _same_batches(self) -> bool:
        ours, theirs = self._source.batch, self._target.batch
        if ours is None or theirs is None or not same(ours, theirs):
            return False
        self._source.take_batch()
        self._target.take_batch()
        self._findings.by_batch += ours.count
        self._matched(ours.base_offset, ours.last_offset, ours.count, theirs.base_offset, theirs.last_offset)
        self._last_producer = theirs.producer_id, theirs.producer_epoch
        return True

    def _check_timestamps(self) -> None:
        if self._timestamps and self._target.log_append_time:
            self._timestamps = False
            self._findings.note(
                "timestamps are not compared: the target topic has message.timestamp.type=LogAppendTime"
            )

    def _content(self, record: Record) -> object:
        return by_content(record) if self._timestamps else by_bytes(record)

    def _equal_records(self) -> bool:
        source, target = self._source, self._target
        ours, theirs, here, there = source.window, target.window, source.at, target.at
        most = min(len(ours) - here, len(theirs) - there)
        count = 0
        if self._timestamps:
            while count < most:
                one, other = ours[here + count], theirs[there + count]
                if one[2] != other[2] or one[1] != other[1]:
                    break
                count += 1
        else:
            while count < most and ours[here + count][2] == theirs[there + count][2]:
                count += 1
        if count:
            self._take_equal(count)
        return count > 0

    def _take_equal(self, count: int) -> None:
        """The first `count` records of both windows are the same."""
        source, target = self._source, self._target
        ours = source.window[source.at : source.at + count]
        theirs = target.window[target.at : target.at + count]
        again = 0
        if ours[0][0] < self._done_to:
            again = sum(record[0] < self._done_to for record in ours)
            self._matched(ours[0][0], ours[again - 1][0], again, theirs[0][0], theirs[again - 1][0])
        if again < count:
            self._matched(ours[again][0], ours[-1][0], count - again, theirs[again][0], theirs[-1][0])
        self._last_producer = target.producer(count - 1)
        source.drop(count)
        target.drop(count)

    def _matched(self, first: int, last: int, count: int, target_first: int, target_last: int) -> None:
        """Source offsets first..last are on the target: for the first time, or again."""
        if last < self._done_to:
            if self._repeat is None:
                self._repeat = _Repeat(first, target_first, fresh=False)
            self._repeat.records += count
            self._repeat.last_source, self._repeat.last_target = last, target_last
            return
        # A repeat that leads up to what is new is how a copier goes on after a restart.
        self._end_repeat(complete=self._repeat is not None and self._repeat.last_source + 1 >= self._done_to)
        self._findings.equal += count
        self._done_to = last + 1
        self._progress(self._done_to)

    # --- repeats ----------------------------------------------------------------------------------------------------

    def _fresh(self) -> bool:
        """Whether the target's next record may be by a producer that has just begun."""
        producer = self._target.producer()
        return producer[0] < 0 or self._last_producer is None or producer != self._last_producer

    def _end_repeat(self, *, complete: bool) -> None:
        repeat, self._repeat = self._repeat, None
        if repeat is None or not repeat.records:
            return
        if repeat.fresh and complete:
            self._findings.repeated += repeat.records
        else:
            place = (repeat.source, repeat.last_source), (repeat.target, repeat.last_target)
            self._findings.add(Fault(Kind.DOUBLED, *place, repeat.records))

    # --- what differs -----------------------------------------------------------------------------------------------

    async def _resolve(self) -> None:
        """Passes over at least one record that differs."""
        source, target = self._source, self._target
        for size in _WINDOWS:
            ours, theirs = await source.want(size), await target.want(size)
            self._check_timestamps()
            last = len(ours) < size and len(theirs) < size
            meeting = meet(ours, theirs, self._content, last=last or size == _WINDOWS[-1])
            if meeting is not None:
                await self._gap(*meeting)
                return
            if size == _WINDOWS[0] and await self._jump_back():
                return
            if last:
                await self._gap(len(ours), len(theirs))
                return
            if not ours:
                await self._gap(0, len(theirs))
                return
        place = await self._find(theirs[:_AGREEING])
        if place is not None and place > source.position:
            await self._pass_over_source(place)
        elif source.holes(0) >= len(theirs):
            await self._gap(0, len(theirs))
        elif target.holes(0) >= len(ours):
            await self._gap(len(ours), 0)
        else:
            both = min(len(ours), len(theirs))
            await self._gap(both, both)

    async def _jump_back(self) -> bool:
        """Reads the source again from where the target's next records are in it, if that is before the present place."""
        theirs = await self._target.want(_AGREEING)
        if hash(self._content(theirs[0])) in self._lost:
            return False  # it was missing where it belongs: it has moved
        place = await self._find(theirs)
        if place is None or place >= self._source.position:
            return False
        fresh = self._fresh()
        # A copier may be ended again while it is still repeating.
        self._end_repeat(complete=fresh)
        self._repeat = _Repeat(place, theirs[0][0], fresh)
        await self._source.seek(place)
        return True

    async def _find(self, run: list[Record]) -> int | None:
        """The source offset from which on the source has these records."""
        if self._misses >= _PATIENCE and self._misses & (self._misses - 1):
            self._misses += 1
            return None
        wanted = [self._content(record) for record in run]
        if self._timestamps and run[0][1] >= 0:
            place = await self._source.log.offset_at(run[0][1])
            found = None if place is None else self._place_of(wanted, await self._source.look(place))
            if found is not None:
                return found
        # Timestamps need not rise; what is repeated is mostly what came last.
        place = max(self._start, self._done_to - _LOOK_BACK)
        while place < self._done_to:
            records = await self._source.look(place)
            found = self._place_of(wanted, records)
            if found is not None:
                return found
            if not records:
                break
            place = records[-1][0] + 1
        self._misses += 1
        return None

    def _place_of(self, wanted: list[object], records: list[Record]) -> int | None:
        contents = [self._content(record) for record in records]
        for at, each in enumerate(contents):
            room = min(len(wanted), len(contents) - at)
            if each == wanted[0] and records[at][0] >= self._start and contents[at : at + room] == wanted[:room]:
                return records[at][0]
        return None

    async def _gap(self, ours_count: int, theirs_count: int) -> None:
        """Explains the first records of both windows and passes over them."""
        source, target = self._source, self._target
        ours = source.window[source.at : source.at + ours_count]
        theirs = target.window[target.at : target.at + theirs_count]
        gap = explain(ours, theirs, self._content)
        findings = self._findings
        new = [pair for pair in gap.in_place if ours[pair[0]][0] >= self._done_to]
        findings.equal += len(new)
        findings.repeated += len(gap.in_place) - len(new)
        for here, there in gap.reordered:
            findings.add(_fault(Kind.REORDERED, ours[here], theirs[there]))
        for here, there in gap.doubled:
            findings.add(_fault(Kind.DOUBLED, ours[here], theirs[there]))
        for here, there in gap.changed:
            what = difference(ours[here], theirs[there], timestamps=self._timestamps)
            findings.add(_fault(Kind.CHANGED, ours[here], theirs[there], what))
        self._explain_source_only([ours[here] for here in gap.source_only], target, theirs_count)
        await self._explain_target_only([theirs[there] for there in gap.target_only], ours_count)
        if theirs:
            self._last_producer = target.producer(theirs_count - 1)
        if ours:
            self._done_to = max(self._done_to, ours[-1][0] + 1)
            self._progress(self._done_to)
        source.keep_holes(ours_count)
        target.keep_holes(theirs_count)
        source.drop(ours_count)
        target.drop(theirs_count)
        await asyncio.sleep(0)

    def _explain_source_only(self, records: list[Record], target: Side, passed: int) -> None:
        """Source records that the target lacks here."""
        records = [record for record in records if record[0] >= self._done_to]
        if not records:
            return
        excused = min(target.holes(passed), len(records))
        target.use_holes(passed, excused)
        self._findings.gone_from_target += excused
        for record in records[excused:]:
            mark = hash(self._content(record))
            stray = self._strays.pop(mark, None)
            if stray is not None:
                self._findings.withdraw(Kind.FOREIGN, stray)
                self._findings.add(Fault(Kind.REORDERED, (record[0], record[0]), (stray, stray)))
                continue
            if len(self._lost) < _REMEMBERED:
                self._lost[mark] = record[0]
            self._findings.add(_fault(Kind.MISSING, record, None))

    async def _explain_target_only(self, records: list[Record], passed: int) -> None:
        """Target records that the source lacks here."""
        findings = self._findings
        excused = min(self._source.holes(passed), len(records))
        self._source.use_holes(passed, excused)
        findings.gone_from_source += excused
        rest, at = records[excused:], 0
        while at < len(rest):
            record = rest[at]
            mark = hash(self._content(record))
            lost = self._lost.pop(mark, None)
            if lost is not None:
                findings.withdraw(Kind.MISSING, lost)
                findings.add(Fault(Kind.REORDERED, (lost, lost), (record[0], record[0])))
                at += 1
                continue
            again = await self._again(rest[at:])
            if again:
                at += again
                continue
            if len(self._strays) < _REMEMBERED:
                self._strays[mark] = record[0]
            findings.add(_fault(Kind.FOREIGN, None, record))
            at += 1

    async def _again(self, run: list[Record]) -> int:
        """How many records of `run` are a stretch that the target has had before; tells of them."""
        place = await self._find(run[:1])
        if place is None or place >= self._done_to:
            return 0
        records = await self._source.look(place)
        count = 0
        while (
            count < min(len(run), len(records))
            and records[count][0] < self._done_to
            and self._content(records[count]) == self._content(run[count])
        ):
            count += 1
        if count == 0:
            return 0
        last = records[count - 1][0]
        self._repeat_ends(place, last, run[0][0], run[count - 1][0], count)
        return count

    def _repeat_ends(self, first: int, last: int, target_first: int, target_last: int, count: int) -> None:
        # It is a repeat if it leads up to where the copier had been: at its end, or in the middle of another repeat.
        been = self._done_to if self._repeat is None else self._repeat.last_source + 1
        if self._fresh() and last + 1 == been:
            self._findings.repeated += count
        else:
            self._findings.add(Fault(Kind.DOUBLED, (first, last), (target_first, target_last), count))

    async def _pass_over_source(self, place: int) -> None:
        """The target lacks everything up to `place`, or has it from before."""
        if self._source.position < place <= self._done_to:
            await self._source.seek(place)
        while (ours := await self._source.want(_WINDOWS[1])) and ours[0][0] < place:
            await self._gap(sum(record[0] < place for record in ours), 0)

    async def _rest_of_source(self) -> None:
        """The target is at its end: what the source has below `until` is missing."""
        source = self._source
        if source.position < self._done_to:
            await source.seek(self._done_to)
        while await source.ready():
            ours = await source.want(_WINDOWS[1])
            missing = sum(record[0] < self._until for record in ours)
            if missing:
                await self._gap(missing, 0)
            if missing < len(ours):
                break
        self._progress(self._until)


def same(source: BatchView, target: BatchView) -> bool:
    """Whether two batches hold the same records, told without unpacking: alike but for what the target's log gave them."""
    return (
        source.count == target.count
        and source.magic == target.magic == 2
        and source.base_timestamp == target.base_timestamp
        and source.max_timestamp == target.max_timestamp
        and source.codec == target.codec
        and source.last_offset - source.base_offset == target.last_offset - target.base_offset
        and not source.log_append_time
        and not target.log_append_time
        and source.records == target.records
    )


def _fault(kind: Kind, source: Record | None, target: Record | None, detail: str = "") -> Fault:
    return Fault(
        kind,
        None if source is None else (source[0], source[0]),
        None if target is None else (target[0], target[0]),
        detail=detail,
    )
