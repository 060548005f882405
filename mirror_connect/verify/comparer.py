"""Compares one partition's log with its copy, and says what is wrong where.

Both are read forward once. While the next batches of both have the same bytes, nothing is unpacked. Otherwise their
records are compared in order; where they differ, it is looked for the next place at which both agree again, and what lies
before it is explained (meeting.py). After a restart a copier begins at an earlier source offset: then the source is read
again from there, until the copy is where it had been. What was called missing, and is there then, came late: it is
reordered.

A record of the copy that can't be placed so is looked up in the source by its timestamp. `until`: source records from
this offset on needn't be on the target yet; the source is read further only to explain what is there already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from mirror_connect.verify.differences import difference
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.meeting import Gap, by_bytes, by_content, explain, meet
from mirror_connect.verify.missing_ranges import MissingRanges
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import Batch, Producer, Side

# How many records are looked through for a meeting, in turn; between the first and the second the source is asked.
_WINDOWS: Final = (32, 1024, 16_384)
# What is found by looking has to agree for so many records, or to the end of what there is.
_AGREEING: Final = 4
# How far before the present place it is looked where timestamps lead nowhere.
_LOOK_BACK: Final = 2_000
# Lookups that found nothing: from the so-manieth on only one in two, four, eight … is tried.
_PATIENCE: Final = 32
# As by an unclean leader election: what was copied before is there.
_LOST_SINCE: Final = "the producer that copied the record before wrote it: the source has lost it"
# How many single faults are remembered, to recognise a record that went missing here and turns up there.
_REMEMBERED: Final = 20_000


@dataclass(slots=True)
class _Repeat:
    """A stretch of the target that is a copy of what had been copied. `fresh`: by a producer that had just begun.

    `source`, `target`: where its repeated records begin and end. `reached`: how far it has come, with what came late.
    """

    fresh: bool
    records: int = 0
    source: tuple[int, int] = (-1, -1)
    target: tuple[int, int] = (-1, -1)
    reached: int = -1


class Comparer:
    """One comparison; `run` fills `findings`. `progress` is told the source offset up to which all is done.

    `start`: nothing on the target is of earlier source offsets. `done`: both sides begin here, in the middle of their
    logs, and it is compared up to `until` and no further: a window. `producer`: who wrote what lies before it on the target.
    """

    def __init__(
        self,
        source: Side,
        target: Side,
        findings: Findings,
        *,
        until: int,
        start: int = 0,
        done: int | None = None,
        producer: Producer | None = None,
        progress: Callable[[int], None] = lambda _offset: None,
    ) -> None:
        self._source = source
        self._target = target
        self._findings = findings
        self._until = until
        self._start = start
        self._progress = progress
        # Every source offset below is explained.
        self._done_to = start if done is None else done
        self._window = done is not None
        self._timestamps = True
        self._repeat: _Repeat | None = None
        self._producer_before = producer
        # Offsets on the target: of the last record that is explained, and of the last one that was new.
        self._last_at: int | None = None
        self._front_at: int | None = None
        self._misses = 0
        self._excusable = 0
        self._missing = MissingRanges()
        # Where single ones of those are, by their content.
        self._lost: dict[int, int] = {}
        # Where on the target those are that are called foreign, by their content.
        self._strays: dict[int, list[int]] = {}
        self._strays_known = 0

    async def run(self) -> None:
        """Compares to the end of the target's range, or a window up to `until`."""
        source, target = self._source, self._target
        while not self._window_is_done and await target.ready():
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
        if not self._window_is_done:
            await self._rest_of_source()
        self._findings.bytes = source.bytes + target.bytes

    @property
    def explained(self) -> int:
        """Every source offset below was found on the target, or is told of."""
        return self._done_to

    @property
    def last_producer(self) -> Producer | None:
        """Who wrote the target's last record that is explained."""
        return self._producer_before if self._last_at is None else self._target.producer_at(self._last_at)

    @property
    def _window_is_done(self) -> bool:
        return self._window and self._done_to >= self._until

    # --- what is equal ----------------------------------------------------------------------------------------------

    def _same_batches(self) -> bool:
        ours, theirs = self._source.batch, self._target.batch
        if ours is None or theirs is None or not same(ours, theirs):
            return False
        if self._strays or self._missing.any(ours.base_offset, min(ours.last_offset, self._done_to - 1)):
            return False  # what came late, again or early is told by records
        self._source.take_batch()
        self._target.take_batch()
        self._findings.by_batch += ours.count
        first, place, again = ours.base_offset, theirs.base_offset, self._done_to - ours.base_offset
        if 0 < again < ours.count:
            # The end of what is repeated and the beginning of what is new, in one batch.
            self._matched(first, first + again - 1, again, place, place + again - 1)
            first, place = first + again, place + again
        count = ours.count - (first - ours.base_offset)
        self._matched(first, ours.last_offset, count, place, theirs.last_offset)
        self._wrote(theirs.last_offset, ours.last_offset)
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
        if self._strays:
            self._came_early(ours)
        again = 0
        if ours[0][0] < self._done_to:
            again = sum(record[0] < self._done_to for record in ours)
            self._matched_again(ours[:again], theirs[:again])
        if again < count:
            self._matched(ours[again][0], ours[-1][0], count - again, theirs[again][0], theirs[-1][0])
        self._wrote(theirs[-1][0], ours[-1][0])
        source.drop(count)
        target.drop(count)

    def _wrote(self, place: int, offset: int) -> None:
        self._last_at = place
        if offset + 1 == self._done_to:
            self._front_at = place

    def _matched(self, first: int, last: int, count: int, target_first: int, target_last: int) -> None:
        """Source offsets first..last are on the target: for the first time, or again."""
        if last < self._done_to:
            if self._repeat is None:
                self._repeat = _Repeat(fresh=False)
            repeat = self._repeat
            repeat.source = repeat.source[0] if repeat.records else first, last
            repeat.target = repeat.target[0] if repeat.records else target_first, target_last
            repeat.records += count
            repeat.reached = last
            if self._missing.full_from is not None and last >= self._missing.full_from:
                self._findings.note(
                    f"records are missing at very many places: of those from source offset {self._missing.full_from:,} on "
                    "it is not known whether some came later"
                )
            return
        # A repeat that leads up to what is new is how a copier goes on after a restart.
        self._end_repeat(complete=self._repeat is not None and self._repeat.reached + 1 >= self._done_to)
        self._findings.equal += count
        self._done_to = last + 1
        self._progress(self._done_to)

    def _matched_again(self, ours: Sequence[Record], theirs: Sequence[Record]) -> None:
        """Source records before what is new are on the target: again, or late."""
        for late, run in groupby(zip(ours, theirs, strict=True), key=lambda pair: pair[0][0] in self._missing):
            pairs = list(run)
            (first, place), (last, end) = ((pair[0][0], pair[1][0]) for pair in (pairs[0], pairs[-1]))
            if not late:
                self._matched(first, last, len(pairs), place, end)
                continue
            self._came_late((first, last), (place, end), len(pairs))
            if self._repeat is not None:
                self._repeat.reached = last

    def _came_late(self, source: tuple[int, int], target: tuple[int, int], count: int = 1) -> None:
        self._found(*source, count)
        self._findings.add(Fault(Kind.REORDERED, source, target, count))

    def _came_early(self, records: Sequence[Record]) -> None:
        """These are in their places. What of them was on the target before that was taken for somebody else's."""
        for record in records:
            for stray in self._strays.pop(hash(self._content(record)), ()):
                self._findings.withdraw(Kind.FOREIGN, stray, stray)
                self._findings.add(Fault(Kind.DOUBLED, (record[0], record[0]), (stray, stray)))

    def _found(self, first: int, last: int, count: int = 1) -> None:
        """So many records were called missing, and are not."""
        self._missing.take(first, last)
        self._findings.withdraw(Kind.MISSING, first, last, count)

    # --- repeats ----------------------------------------------------------------------------------------------------

    def _fresh(self, number: int = 0) -> bool:
        """Whether a record of the target's window may be the first one of a producer that has just begun."""
        producer = self._target.producer(number)
        if self._hollow:
            # Where it began may be gone: what counts is that it isn't the one who had come farthest.
            return producer[0] < 0 or self._front_at is None or producer != self._target.producer_at(self._front_at)
        before = self._target.producer(number - 1) if number else self.last_producer
        return producer[0] < 0 or before is None or producer != before

    def _end_repeat(self, *, complete: bool) -> None:
        repeat, self._repeat = self._repeat, None
        if repeat is None or not repeat.records:
            return
        if repeat.fresh and (complete or self._hollow):
            self._findings.repeated += repeat.records
        else:
            self._findings.add(Fault(Kind.DOUBLED, repeat.source, repeat.target, repeat.records))

    @property
    def _hollow(self) -> bool:
        """Whether one of the logs was compacted: not all of a repeat is left to lead up to anything."""
        return self._source.hollow > 0 or self._target.hollow > 0

    # --- what differs -----------------------------------------------------------------------------------------------

    async def _resolve(self) -> None:
        """Passes over at least one record that differs."""
        source, target = self._source, self._target
        if not await target.want(1):
            return  # what was left of the target can't be read
        await target.identify(place for place in (self._last_at, self._front_at) if place is not None)
        begun = target.producer()[0] >= 0 and self._fresh()
        # A producer that has just begun does so with what may have been copied before, be it with one such record.
        if begun and await self._jump(least=1):
            return
        for size in _WINDOWS:
            ours, theirs = await source.want(size), await target.want(size)
            self._check_timestamps()
            last = len(ours) < size and len(theirs) < size
            segments = target.segments(len(theirs))
            meeting = meet(
                ours,
                theirs,
                self._content,
                last=last or size == _WINDOWS[-1],
                segments=segments,
                holes=(source.holes(0), target.holes(0)),
            )
            if meeting is not None:
                # Behind records of somebody else, or what the source has lost; or these ones are the source's, further on.
                unknown = meeting[1] > source.holes(meeting[0])
                if not (unknown and self._fresh() and await self._jump_ahead()):
                    await self._gap(*meeting)
                return
            if size == _WINDOWS[0] and not begun and await self._jump(least=_AGREEING):
                return
            if last:
                await self._gap(len(ours), len(theirs))
                return
            if not ours:
                await self._gap(0, len(theirs))
                return
        await self._far(ours, theirs)

    async def _far(self, ours: list[Record], theirs: list[Record]) -> None:
        """Both windows are full, and don't meet."""
        source, target = self._source, self._target
        place = await self._find(theirs[:_AGREEING], _AGREEING)
        if place is not None and place > source.position:
            await self._pass_over_source(place)
        elif place is not None and place < source.position:
            await self._go_back(place)
        elif source.holes(0) >= len(theirs):
            await self._gap(0, len(theirs))
        elif target.holes(0) >= len(ours):
            await self._gap(len(ours), 0)
        else:
            both = min(len(ours), len(theirs))
            await self._gap(both, both)

    async def _jump(self, least: int) -> bool:
        """Reads the source from where the target's next records are in it.

        That is before the present place when a copier repeats. It is ahead when it has just begun there, as its position was
        set forward: else records behind might be taken for the place, and these ones for somebody else's.
        """
        run = await self._run()
        if self._lost.get(hash(self._content(run[0])), -1) in self._missing:
            # Missing where it belongs: it has moved, unless the copier began anew there.
            if len(run) < _AGREEING or not self._fresh():
                return False
            least = _AGREEING
        place = await self._find(run, least)
        if place is None or place == self._source.position:
            return False
        if place < self._source.position:
            await self._go_back(place)
            return True
        if (
            len(run) < _AGREEING
            or not self._fresh()
            or (least < _AGREEING and place != await self._find(run, _AGREEING))
        ):
            return False
        await self._go_ahead(place)
        return True

    async def _jump_ahead(self) -> bool:
        """The same for what is ahead, where timestamps may lead nowhere."""
        run = await self._run()
        if len(run) < _AGREEING:
            return False
        wanted = [self._content(record) for record in run]
        place = self._place_of(wanted, _AGREEING, await self._source.want(_WINDOWS[-1]))
        place = await self._find(run, _AGREEING) if place is None else place
        if place is None or place <= self._source.position:
            return False
        await self._go_ahead(place)
        return True

    async def _go_back(self, place: int) -> None:
        fresh = self._fresh()
        # A copier may be ended again while it is still repeating.
        self._end_repeat(complete=fresh)
        self._repeat = _Repeat(fresh)
        self._excusable = self._source.hollow
        await self._source.seek(place)

    async def _go_ahead(self, place: int) -> None:
        self._end_repeat(complete=True)
        if place < self._done_to:
            self._repeat = _Repeat(fresh=True)
        await self._pass_over_source(place)

    async def _run(self) -> list[Record]:
        """The target's next records, as many as have to agree, by one producer."""
        theirs = await self._target.want(_AGREEING)
        return theirs[: next(iter(self._target.segments(len(theirs))), None)]

    async def _find(self, run: list[Record], least: int) -> int | None:
        """The source offset from which on the source has these records, or the first `least` of them."""
        if self._misses >= _PATIENCE and self._misses & (self._misses - 1):
            self._misses += 1
            return None
        wanted = [self._content(record) for record in run]
        if self._timestamps and run[0][1] >= 0:
            place = await self._source.log.offset_at(run[0][1])
            found = None if place is None else self._place_of(wanted, least, await self._source.look(place))
            if found is not None:
                return found
        # Timestamps need not rise; what is repeated is mostly what came last.
        place = max(self._start, self._done_to - _LOOK_BACK)
        while place < self._done_to:
            records = await self._source.look(place)
            found = self._place_of(wanted, least, records)
            if found is not None:
                return found
            if not records:
                break
            place = records[-1][0] + 1
        # Else a copier has begun anew, or where records were skipped.
        for beginning in (self._start, self._missing.first):
            if beginning is not None and beginning < self._done_to - _LOOK_BACK:
                found = self._place_of(wanted, least, await self._source.look(beginning))
                if found is not None:
                    return found
        self._misses += 1
        return None

    def _place_of(self, wanted: list[object], least: int, records: list[Record]) -> int | None:
        """Where in `records` most of `wanted` is, as an offset."""
        contents = [self._content(record) for record in records]
        best, most = None, 0
        for at, each in enumerate(contents):
            if each != wanted[0] or records[at][0] < self._start:
                continue
            room = min(len(wanted), len(contents) - at)
            agreeing = 1
            while agreeing < room and contents[at + agreeing] == wanted[agreeing]:
                agreeing += 1
            if agreeing > most and agreeing >= min(least, room):
                best, most = records[at][0], agreeing
        return best

    async def _gap(self, ours_count: int, theirs_count: int) -> None:
        """Explains the first records of both windows and passes over them."""
        source, target = self._source, self._target
        ours = source.window[source.at : source.at + ours_count]
        theirs = target.window[target.at : target.at + theirs_count]
        whole = not source.holes(ours_count) and not target.holes(theirs_count)
        gap = explain(ours, theirs, self._content, whole=whole)
        self._explain_both(gap, ours, theirs)
        self._explain_source_only(ours, gap.source_only, target, theirs_count)
        await self._explain_target_only(theirs, gap.target_only, ours_count)
        if theirs:
            self._last_at = theirs[-1][0]
        if ours and ours[-1][0] >= self._done_to:
            # Not what is repeated is wrong, but what comes after it.
            if self._repeat is not None:
                self._end_repeat(complete=self._repeat.reached + 1 >= self._done_to)
            self._done_to = max(self._done_to, ours[-1][0] + 1)
            self._progress(self._done_to)
        source.keep_holes(ours_count)
        target.keep_holes(theirs_count)
        source.drop(ours_count)
        target.drop(theirs_count)
        await asyncio.sleep(0)

    def _explain_both(self, gap: Gap, ours: list[Record], theirs: list[Record]) -> None:
        """Records that both have, in some way."""
        findings = self._findings
        findings.equal += sum(ours[here][0] >= self._done_to for here, _ in gap.in_place)
        for here, there in gap.in_place:
            if ours[here][0] in self._missing:
                self._came_late((ours[here][0], ours[here][0]), (theirs[there][0], theirs[there][0]))
            elif ours[here][0] < self._done_to:
                findings.repeated += 1
        for here, there in gap.reordered:
            if ours[here][0] in self._missing:
                self._found(ours[here][0], ours[here][0])
            findings.add(_fault(Kind.REORDERED, ours[here], theirs[there]))
        for here, there in gap.doubled:
            if self._hollow and self._target.segments(there + 1):
                findings.repeated += 1
            else:
                findings.add(_fault(Kind.DOUBLED, ours[here], theirs[there]))
        for here, there in gap.changed:
            if ours[here][0] in self._missing:
                self._found(ours[here][0], ours[here][0])
            what = difference(ours[here], theirs[there], timestamps=self._timestamps)
            findings.add(_fault(Kind.CHANGED, ours[here], theirs[there], what))

    def _explain_source_only(self, ours: list[Record], places: list[int], target: Side, passed: int) -> None:
        """Source records that the target lacks here; `places` are those in `ours`."""
        places = [place for place in places if ours[place][0] >= self._done_to]
        if not places:
            return
        excused = min(target.holes(passed), len(places))
        target.use_holes(passed, excused)
        self._findings.gone_from_target += excused
        if not self._findings.equal:
            self._findings.before_target_start += excused
        for place in places[excused:]:
            record = ours[place]
            mark = hash(self._content(record))
            strays = self._strays.get(mark)
            if strays:
                stray = strays.pop(0)
                self._findings.withdraw(Kind.FOREIGN, stray, stray)
                self._findings.add(Fault(Kind.REORDERED, (record[0], record[0]), (stray, stray)))
                self._came_early([record])
                continue
            known = self._missing.add(record[0], ours[place - 1][0] if place else self._done_to - 1)
            if known and len(self._lost) < _REMEMBERED:
                self._lost[mark] = record[0]
            self._findings.add(_fault(Kind.MISSING, record, None))

    async def _explain_target_only(self, theirs: list[Record], places: list[int], passed: int) -> None:
        """Target records that the source lacks here; `places` are those in `theirs` and in the target's window."""
        findings = self._findings
        places = [place for place in places if not self._was_missing(theirs[place])]
        excused = min(self._source.holes(passed), len(places))
        self._source.use_holes(passed, excused)
        # What compaction took from the source cannot be found there when a copier that began anew has it once more.
        if places and any(self._fresh(place) for place in range(places[-1] + 1)):
            self._excusable = self._source.hollow
        more = min(self._excusable, len(places) - excused)
        self._excusable -= more
        excused += more
        findings.gone_from_source += excused
        if not findings.equal:
            findings.before_source_start += excused
        rest, at = places[excused:], 0
        while at < len(rest):
            record = theirs[rest[at]]
            again = await self._again(theirs, rest[at:])
            if again:
                at += again
                continue
            if self._strays_known < _REMEMBERED:
                self._strays_known += 1
                self._strays.setdefault(hash(self._content(record)), []).append(record[0])
            wrote = self._target.producer(rest[at])
            by_copier = wrote[0] >= 0 and wrote == self.last_producer
            findings.add(_fault(Kind.FOREIGN, None, record, _LOST_SINCE if by_copier else ""))
            at += 1

    def _was_missing(self, record: Record) -> bool:
        """Whether a record of the target is one that went missing before; tells of it."""
        lost = self._lost.pop(hash(self._content(record)), -1)
        if lost not in self._missing:
            return False
        self._came_late((lost, lost), (record[0], record[0]))
        return True

    async def _again(self, theirs: list[Record], places: list[int]) -> int:
        """How many of the first `places` are a stretch that the target has had before; tells of them."""
        first = places[0]
        found = await self._find(theirs[first : first + 1], 1)
        if found is None or found >= self._done_to:
            return 0
        ours: list[Record] = []
        for number, record in enumerate(await self._source.look(found)):
            if (
                number == len(places)
                or places[number] != first + number
                or record[0] >= self._done_to
                or self._content(record) != self._content(theirs[first + number])
            ):
                break
            ours.append(record)
        if not ours:
            return 0
        count, last = len(ours), ours[-1][0]
        # It is a repeat if it leads up to where the copier had been, at its end or in the middle of another repeat; or if
        # the copier was ended again while it was repeating.
        been = self._done_to if self._repeat is None else self._repeat.reached + 1
        behind = first + count
        goes_on = behind < len(await self._target.want(behind + 1))
        leads_up = last + 1 == been or self._hollow or not goes_on or self._fresh(behind)
        allowed = self._fresh(first) and leads_up
        pairs = zip(ours, theirs[first:behind], strict=True)
        for late, run in groupby(pairs, key=lambda pair: pair[0][0] in self._missing):
            stretch = list(run)
            (begin, place), (end, place_end) = ((one[0], other[0]) for one, other in (stretch[0], stretch[-1]))
            if late:
                self._came_late((begin, end), (place, place_end), len(stretch))
            elif allowed:
                self._findings.repeated += len(stretch)
            else:
                self._findings.add(Fault(Kind.DOUBLED, (begin, end), (place, place_end), len(stretch)))
        return count

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
                await self._target.want(1)  # nothing is left there, and it may matter why
                await self._gap(missing, 0)
            if missing < len(ours):
                break
        self._progress(self._until)


def same(source: Batch, target: Batch) -> bool:
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
