"""Compares one partition's log with its copy: what is wrong, and at which offsets.

Both logs are read forward once. While their next batches have the same bytes, nothing is unpacked. Otherwise records are
compared in order. Where they differ, the comparer searches for the next records that are equal again, and explains those
before them (meeting.py, gaps.py).

After a restart a copier begins at an earlier source offset. Then the source is read again from there (lookup.py), up to
where the copy had been. If a record that was called missing is found then, it came late: it is reordered.

`until`: source records from this offset on needn't be on the target yet. The source is read further only to explain target
records that are already there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.verify.comparison import Comparison, Repeat
from mirror_connect.verify.findings import Findings
from mirror_connect.verify.gaps import Gaps
from mirror_connect.verify.lookup import AGREEING, Lookup
from mirror_connect.verify.meeting import meet
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import Producer, Side, same_batch

# How many records are searched for a meeting, in turn. Before the second search the source is looked up.
_WINDOWS: Final = (32, 1024, 16_384)


class Comparer:
    """One comparison; `run` fills `findings`. `progress` gets the source offset up to which everything is explained.

    `start`: the target has no copies of earlier source offsets. `done`: the source offset at which a window begins. Then
    both sides begin in the middle of their logs and are compared up to `until` only. `producer`: the producer of the
    target record before the window.
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
        self._window = done is not None
        self._comparison = Comparison(
            source, target, findings, start=start, done=done, producer=producer, progress=progress
        )
        self._lookup = Lookup(self._comparison)
        self._gaps = Gaps(self._comparison, self._lookup)

    async def run(self) -> None:
        """Compares to the end of the target's range, or a window up to `until`."""
        source, target = self._source, self._target
        while not self._window_is_done and await target.ready():
            if await source.ready():
                if self._same_batches():
                    continue
                source.decode()
                target.decode()
                self._comparison.check_timestamps()
                if self._equal_records():
                    await asyncio.sleep(0)
                    continue
                if not source.left or not target.left:
                    continue  # the batch has no wanted record
            await self._resolve()
        self._comparison.end_repeat(complete=True)
        if not self._window_is_done:
            await self._rest_of_source()
        self._findings.bytes = source.bytes + target.bytes

    @property
    def explained(self) -> int:
        """Every source offset below this one was found on the target or is in the findings."""
        return self._comparison.done_to

    @property
    def last_producer(self) -> Producer | None:
        """The producer of the target's last explained record."""
        return self._comparison.last_producer

    @property
    def _window_is_done(self) -> bool:
        return self._window and self._comparison.done_to >= self._until

    # What is equal.

    def _same_batches(self) -> bool:
        ours, theirs = self._source.batch, self._target.batch
        if ours is None or theirs is None or not same_batch(ours, theirs):
            return False
        comparison = self._comparison
        if comparison.strays or comparison.missing.any(ours.base_offset, min(ours.last_offset, comparison.done_to - 1)):
            return False  # late, repeated or early records are distinguished one by one
        if theirs.log_append_time:
            comparison.check_timestamps()
        self._source.take_batch()
        self._target.take_batch()
        self._findings.by_batch += ours.count
        first, target_first, again = ours.base_offset, theirs.base_offset, comparison.done_to - ours.base_offset
        if 0 < again < ours.count:
            # The batch holds the end of a repeat and the first new records.
            comparison.matched(first, first + again - 1, again, target_first, target_first + again - 1)
            first, target_first = first + again, target_first + again
        count = ours.count - (first - ours.base_offset)
        comparison.matched(first, ours.last_offset, count, target_first, theirs.last_offset)
        comparison.wrote(theirs.last_offset, ours.last_offset)
        return True

    def _equal_records(self) -> bool:
        source, target = self._source, self._target
        ours, theirs, here, there = source.window, target.window, source.at, target.at
        most = min(len(ours) - here, len(theirs) - there)
        count = 0
        if self._comparison.timestamps:
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
        """Takes the first `count` records of both windows, which are equal."""
        source, target, comparison = self._source, self._target, self._comparison
        ours = source.window[source.at : source.at + count]
        theirs = target.window[target.at : target.at + count]
        if comparison.strays:
            comparison.came_early(ours)
        again = 0
        if ours[0][0] < comparison.done_to:
            again = sum(record[0] < comparison.done_to for record in ours)
            comparison.matched_again(ours[:again], theirs[:again])
        if again < count:
            comparison.matched(ours[again][0], ours[-1][0], count - again, theirs[again][0], theirs[-1][0])
        comparison.wrote(theirs[-1][0], ours[-1][0])
        source.drop(count)
        target.drop(count)

    # What differs.

    async def _resolve(self) -> None:
        """Passes over one record that differs, or more."""
        source, target, comparison = self._source, self._target, self._comparison
        if not await target.want(1):
            return  # the rest of the target can't be read
        await comparison.identify_last()
        begun = target.producer()[0] >= 0 and comparison.fresh()
        # A producer that has just begun may repeat what was copied before, even a single record.
        if begun and await self._jump(least=1):
            return
        for size in _WINDOWS:
            ours, theirs = await source.want(size), await target.want(size)
            comparison.check_timestamps()
            last = len(ours) < size and len(theirs) < size
            segments = target.segments(len(theirs))
            meeting = meet(
                ours,
                theirs,
                comparison.content,
                last=last or size == _WINDOWS[-1],
                segments=segments,
                holes=(source.holes(0), target.holes(0)),
            )
            if meeting is not None:
                # Another producer's records, or records that the source has lost, or records from further on in the source.
                unknown = meeting[1] > source.holes(meeting[0])
                if not (unknown and comparison.fresh() and await self._jump_ahead()):
                    await self._gaps.pass_over(*meeting)
                return
            if size == _WINDOWS[0] and not begun and await self._jump(least=AGREEING):
                return
            if last:
                await self._gaps.pass_over(len(ours), len(theirs))
                return
            if not ours:
                await self._gaps.pass_over(0, len(theirs))
                return
        await self._far(ours, theirs)

    async def _far(self, ours: list[Record], theirs: list[Record]) -> None:
        """Both windows are full and don't meet."""
        source, target = self._source, self._target
        offset = await self._lookup.find(theirs[:AGREEING], AGREEING)
        if offset is not None and offset > source.position:
            await self._pass_over_source(offset)
        elif offset is not None and offset < source.position:
            await self._go_back(offset)
        elif source.holes(0) >= len(theirs):
            await self._gaps.pass_over(0, len(theirs))
        elif target.holes(0) >= len(ours):
            await self._gaps.pass_over(len(ours), 0)
        else:
            both = min(len(ours), len(theirs))
            await self._gaps.pass_over(both, both)

    async def _jump(self, least: int) -> bool:
        """Continues reading the source at the target's next records.

        They are behind the present offset when a copier repeats. They are ahead when a copier has just begun there because
        its source offset was set forward. Without the jump, later equal records might be taken for these, and these for
        another producer's.
        """
        comparison = self._comparison
        wanted = await self._lookup.wanted()
        if comparison.lost.get(hash(comparison.content(wanted[0])), -1) in comparison.missing:
            # It is missing at its offset: it has moved, unless the copier began again there.
            if len(wanted) < AGREEING or not comparison.fresh():
                return False
            least = AGREEING
        offset = await self._lookup.find(wanted, least)
        if offset is None or offset == self._source.position:
            return False
        if offset < self._source.position:
            await self._go_back(offset)
            return True
        if (
            len(wanted) < AGREEING
            or not comparison.fresh()
            or (least < AGREEING and offset != await self._lookup.find(wanted, AGREEING))
        ):
            return False
        await self._go_ahead(offset)
        return True

    async def _jump_ahead(self) -> bool:
        """The same for records ahead, where timestamps may find nothing."""
        wanted = await self._lookup.wanted()
        if len(wanted) < AGREEING:
            return False
        offset = self._lookup.offset_of(wanted, AGREEING, await self._source.want(_WINDOWS[-1]))
        offset = await self._lookup.find(wanted, AGREEING) if offset is None else offset
        if offset is None or offset <= self._source.position:
            return False
        await self._go_ahead(offset)
        return True

    async def _go_back(self, offset: int) -> None:
        fresh = self._comparison.fresh()
        # A copier may be stopped again while it is still repeating.
        self._comparison.end_repeat(complete=fresh)
        self._comparison.repeat = Repeat(fresh)
        self._gaps.excuse_compacted()
        await self._source.seek(offset)

    async def _go_ahead(self, offset: int) -> None:
        self._comparison.end_repeat(complete=True)
        if offset < self._comparison.done_to:
            self._comparison.repeat = Repeat(fresh=True)
        await self._pass_over_source(offset)

    async def _pass_over_source(self, offset: int) -> None:
        """Passes over the source up to `offset`: the target lacks these records, or has them from before."""
        if self._source.position < offset <= self._comparison.done_to:
            await self._source.seek(offset)
        while (ours := await self._source.want(_WINDOWS[1])) and ours[0][0] < offset:
            await self._gaps.pass_over(sum(record[0] < offset for record in ours), 0)

    async def _rest_of_source(self) -> None:
        """The target is at its end: further source records below `until` are missing."""
        source = self._source
        if source.position < self._comparison.done_to:
            await source.seek(self._comparison.done_to)
        while await source.ready():
            ours = await source.want(_WINDOWS[1])
            missing = sum(record[0] < self._until for record in ours)
            if missing:
                await self._target.want(1)  # finds out whether the log has holes at its end
                await self._gaps.pass_over(missing, 0)
            if missing < len(ours):
                break
        self._comparison.progress(self._until)
