"""One partition of a running link: what was copied since the last look is counted whole and compared in samples.

As long as nothing is left out and nothing comes twice, a copy lies always as far behind its source (Pair.delta). So two
places of which that is known prove the number of all records between them, at the cost of two looks. Where the distance
has changed, the place at which it did is searched by halves and compared record by record: that tells whether a record is
missing, doubled or foreign, or whether a restart repeated some, or a marker or compaction left a gap at the source.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.kafka_io.consumer.fetched import Fetched
from mirror_connect.verify.batch_side import BatchSide
from mirror_connect.verify.comparer import Comparer
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.peek import GoneError, Peek, PeekedLog
from mirror_connect.verify.placing import Pair, Piece, earliest_timestamp, placed_anywhere, placed_by
from mirror_connect.verify.side import Producer

# Halving a partition of 2^40 records; each costs a few looks.
_MOST_HALVINGS: Final = 40
# So many gaps of the source in a row, and no more are searched for: it holds transactions, or is compacted.
_GAPS_OF_A_THIN_LOG: Final = 3

# Records that changed their places are looked for so many offsets further at least.
_WIDER: Final = 100
_Place = tuple[Pair | None, Fetched | None]


@dataclass(slots=True)
class Tally:
    """Of one partition, in source offsets but for `findings` and `changes`.

    `compared`: record by record or by batches of the same bytes; `counted`: between two places that prove their number;
    `passed`: neither; `gone`: retention had taken them before they were looked at. `read`: offsets that `size` bytes of
    the source were for. `unaccounted`: target offsets passed over before the first place that was found, more of them than
    of the source's.
    """

    compared: int = 0
    counted: int = 0
    passed: int = 0
    gone: int = 0
    unaccounted: int = 0
    findings: Findings = field(default_factory=Findings)
    read: int = 0
    size: int = 0


class FollowedPartition:
    """`position`: the first source offset that is to be verified. `doubt` is asked, after a difference was seen, whether
    both topics are still the same: only what a second look confirms is told to `on_fault`.
    """

    def __init__(
        self,
        source: Peek,
        target: Peek,
        position: int,
        *,
        rng: random.Random,
        doubt: Callable[[], Awaitable[bool]],
        on_fault: Callable[[Fault], None] = lambda _fault: None,
        most_listed: int = 20,
    ) -> None:
        self.tally = Tally(findings=Findings(most_listed))
        # Deltas to try where none is known.
        self.guesses: tuple[int, ...] = ()
        # One past the last source offset that is known to be on the target.
        self.until = position
        self._source = source
        self._target = target
        self._rng = rng
        self._doubt = doubt
        self._on_fault = on_fault
        self._most_listed = most_listed
        # Everything below is settled; if `_delta` is known, the next record's copy is expected that far behind it.
        self._at = self._began = position
        self._copied_before = 0
        self._delta: int | None = None
        # Whether `_at` and `_delta` are of one place, so that records from there on can be counted.
        self._firm = False
        # Where the target ended when this began, until the first place is found; None if nobody knows.
        self._target_began: int | None = None
        self._gaps = 0
        self._whole = False
        self._planned: list[tuple[int, int]] = []
        self._planned_to = self._looked_to = position
        self._looks = 0
        # Faults and repeated records of the last comparison.
        self._last_strange = 0
        # Who wrote what lies on the target in front of `_at`.
        self._producer: Producer | None = None
        self._newest_producer: Producer | None = None

    @property
    def copied(self) -> int:
        """Source offsets copied since this began."""
        return self._copied_before + max(0, self.until - self._began)

    @property
    def pending(self) -> int:
        """Source offsets among which nothing was sampled yet."""
        return max(0, self.until - max(self._looked_to, self._at))

    @property
    def unplaced(self) -> bool:
        """Whether all is settled, and it isn't known where the next record's copy belongs."""
        return not self._firm and self._at == self.until

    @property
    def set_back(self) -> bool:
        """Whether the link has gone back behind what is verified already."""
        return self.until < self._at

    @property
    def thin(self) -> bool:
        """Whether one of the logs has gaps everywhere: records can't be counted by offsets."""
        return self._gaps >= _GAPS_OF_A_THIN_LOG

    @property
    def bytes_per_offset(self) -> float:
        """Of the source's log, as far as it was read; 0 while nothing was."""
        return self.tally.size / self.tally.read if self.tally.read else 0.0

    def target_ended(self, offset: int, *, at_rest: bool) -> None:
        """The target ended before `offset` when the link had copied all up to `until`.

        `at_rest`: and no source record behind it was there yet. So the copies of later ones come from `offset` on, and
        whatever else comes there is a fault. Otherwise it is only known that nothing before `until` comes there.
        """
        if not self.unplaced:
            return
        if self._target_began is None:
            self._target_began = offset
        if at_rest:
            self._move_to(Pair(self._at, offset), counted=False)

    def restart(self, position: int, target: int | None = None) -> None:
        """Another topic has the name: nothing that was known is true of it. `target`: where that began, or had ended."""
        if target is None and self._firm and self._delta is not None and self._at == self.until:
            target = self._at + self._delta
        self._target_began = target
        self._copied_before += max(0, self.until - self._began)
        self.tally.passed += max(0, self.until - self._at)
        self._at = self._began = self.until = self._planned_to = self._looked_to = position
        self._delta, self._firm, self._gaps, self._whole = None, False, 0, False
        self._planned.clear()

    # --- where to look ----------------------------------------------------------------------------------------------

    def plan(self, looks: float) -> None:
        """So many looks are to be spread over what is pending; all of it is read if they are enough for that."""
        low, self._planned_to = max(self._looked_to, self._at), self.until
        size = self.tally.read / self._looks if self._looks else 1
        self._whole = looks * size >= self._planned_to - low
        self._planned.clear()
        if not self._whole:
            count = max(1, int(looks))
            step = (self._planned_to - low) / count
            self._planned = [(low + int(step * n), low + int(step * (n + 1))) for n in range(count)][::-1]
            if not self._firm:
                # From the first one on everything is counted.
                self._planned[-1] = (low, low + 1)

    async def step(self) -> bool:
        """Looks at the next of the planned places; False if there is none any more. CannotCompareError."""
        goal = self._next()
        if goal is None:
            return False
        try:
            seen = await self._look(goal)
        except GoneError as gone:
            self._passed_by(gone)
            # Whatever came of it, it is not looked at again and again.
            seen = self._at if self._at > goal else self._planned_to
        if self._whole:
            self._looked_to = self._at if self._at > goal else min(seen, self._planned_to)
        return True

    def _next(self) -> int | None:
        if self._whole:
            goal = max(self._looked_to, self._at)
            if goal < self._planned_to:
                return goal
            self._whole = False
        while self._planned:
            low, high = self._planned.pop()
            low = max(low, self._at)
            if low < high:
                return self._rng.randrange(low, high)
        self._looked_to = max(self._looked_to, self._planned_to)
        return None

    def _passed_by(self, gone: GoneError) -> None:
        """Retention was here first: that is no fault."""
        first = gone.first
        if gone.place == "target":
            first = self._at if self._delta is None else first - self._delta
        first = min(first, self.until)
        self.tally.gone += max(0, first - self._at)
        self._at = max(self._at, first)
        self._firm = False

    # --- looking ----------------------------------------------------------------------------------------------------

    async def _look(self, goal: int) -> int:
        """Compares what one look at `goal` shows, and what it gives reason to; the source offset up to which it saw."""
        chunk = await self._chunk(goal)
        seen = chunk.next_offset
        if self._firm and goal <= self._at and self._delta is not None:
            await self._compare(Pair(self._at, self._at + self._delta), seen, chunk)
            return seen
        piece = Piece(chunk, self._at, committed=self._source.committed)
        first = piece.first
        if first is None or first >= self.until:
            return seen  # markers only
        place, copy = await self._place(piece, () if self._delta is None else (self._delta,))
        if place is not None and place.delta == self._delta:
            if self._firm:
                self._gaps = max(0, self._gaps - 1)
            here = Pair(first, first + place.delta)
            self._move_to(here, counted=self._firm)
            await self._compare(here, seen, chunk, copy)
        elif place is not None and (self.thin or not self._firm):
            self._move_to(place, counted=False)
            await self._compare(place, seen, chunk, copy)
        elif self._firm:
            await self._explain(first, place)
        else:
            self.tally.passed += min(seen, self.until) - self._at
            self._at = min(seen, self.until)
            self.tally.findings.note("some records were not found near the place where their timestamps lead")
        return seen

    def _move_to(self, pair: Pair, *, counted: bool) -> None:
        """What lies before it is settled without being compared."""
        between = pair.source - self._at
        if between:
            self._producer = None
        if counted:
            self.tally.counted += between
        else:
            self.tally.passed += between
            if self._target_began is not None:
                came = pair.target - self._target_began
                self.tally.unaccounted += max(0, came - (pair.source - self._began))
        self._target_began = None
        self._at, self._delta, self._firm = pair.source, pair.delta, True

    async def _chunk(self, offset: int) -> Fetched:
        """What the source has from there on. GoneError, CannotCompareError."""
        found = await PeekedLog(self._source, offset, there=self.until).read()
        assert found is not None  # there is something up to `until`
        self._looks += 1
        self.tally.read += max(1, found.next_offset - offset)
        self.tally.size += len(found.buffer)
        return found

    async def _place(self, piece: Piece, deltas: tuple[int, ...]) -> _Place:
        """Where the copy of the piece's first records lies, and what was read of the target there. GoneError."""
        first = piece.first
        if first is None:
            return None, None
        best: _Place = None, None
        for delta in dict.fromkeys(deltas or self.guesses):
            wanted = first + delta
            chunk = await self._target.look(wanted) if wanted >= 0 else None
            if chunk is None:
                if delta == self._delta and (begins := await self._target.first()) > wanted:
                    raise GoneError(self._target.place, self._target.key, begins)
                continue
            copy = Piece(chunk, wanted, committed=True)
            found = placed_by(delta, piece, copy)
            if found is not None and delta == self._delta:
                return found, chunk
            best = _earlier(best, (found or placed_anywhere(piece, copy), chunk))
        if best[0] is None or best[0].source > first:
            stamp = earliest_timestamp(piece)
            begin = None if stamp is None else await self._target.offset_at(stamp)
            chunk = None if begin is None else await self._target.look(begin)
            if begin is not None and chunk is not None:
                best = _earlier(best, (placed_anywhere(piece, Piece(chunk, begin, committed=True)), chunk))
        return best if best[0] is not None and best[0].source < self.until else (None, None)

    async def _explain(self, first: int, place: Pair | None) -> None:
        """Between `_at` and `first` something has happened: searches the place by halves, and compares what is there."""
        assert self._delta is not None
        low, high, delta = Pair(self._at, self._at + self._delta), first, self._delta
        high_delta = None if place is None else place.delta
        for _ in range(_MOST_HALVINGS):
            middle = (low.source + high) // 2
            if middle <= low.source:
                break
            chunk = await self._chunk(middle)
            piece = Piece(chunk, low.source, committed=self._source.committed)
            start = piece.first
            if start is None or start >= high:
                high = middle  # no data from here on
                continue
            if start <= low.source or chunk.next_offset >= high:
                break  # one look shows all that is left
            deltas = (delta,) if high_delta is None else (delta, high_delta)
            found, _ = await self._place(piece, deltas)
            if found is not None and (found.delta == delta or self.thin):
                low = found
            else:
                high, high_delta = start, None if found is None else found.delta
        self._move_to(low, counted=not self.thin)
        # To where the new distance is seen to hold, and a look further.
        chunk = await self._chunk(high)
        await self._compare(low, chunk.next_offset)
        if self._delta not in (None, low.delta) and not self._last_strange:
            # Markers at the source, or those of an exactly-once copier on the target; or compaction.
            self._gaps += 1

    async def _compare(self, pair: Pair, until: int, chunk: Fetched | None = None, copy: Fetched | None = None) -> None:
        """Compares from `pair` on up to `until`, and everything stands there afterwards."""
        until = min(until, self.until)
        for again in (False, True):
            findings = Findings(self._most_listed)
            # What was fetched already serves the first time; what is confirmed is read anew.
            left, right = await self._compared(pair, until, findings, None if again else chunk, None if again else copy)
            if not (findings.faults() or findings.error):
                break
            if not again:
                if not await self._doubt():
                    return
                # What is missing here may come a little later.
                until = min(until + max(_WIDER, until - pair.source), self.until)
        self._last_strange = findings.faults(strict=True)
        self._producer = self._newest_producer
        self.tally.compared += max(0, left - pair.source)
        self._at, self._delta, self._firm = left, right - left, True
        for fault in findings.listed:
            self._on_fault(fault)
        _add(self.tally.findings, findings)

    async def _compared(
        self, pair: Pair, until: int, findings: Findings, chunk: Fetched | None, copy: Fetched | None
    ) -> tuple[int, int]:
        """Where both sides stand afterwards."""

        def source_damaged(offset: int, reason: str) -> None:
            findings.error = findings.error or f"the source's batch at offset {offset} can't be read: {reason}"

        def target_damaged(offset: int, reason: str) -> None:
            findings.add(Fault(Kind.UNREADABLE, None, (offset, offset), detail=reason))

        ours = PeekedLog(self._source, pair.source, chunk, there=until)
        theirs = PeekedLog(self._target, pair.target, copy)
        left = BatchSide(ours, source_damaged, expected=pair.source, committed=self._source.committed)
        right = BatchSide(theirs, target_damaged, expected=pair.target, committed=True)
        try:
            going_on = self._producer if pair.source == self._at else None
            comparer = Comparer(left, right, findings, until=until, done=pair.source, producer=going_on)
            await comparer.run()
            self._newest_producer = comparer.last_producer
            return max(until, left.position), right.position
        finally:
            left.close()
            right.close()


def _earlier(one: _Place, other: _Place) -> _Place:
    return one if other[0] is None or (one[0] is not None and one[0].source <= other[0].source) else other


def _add(total: Findings, found: Findings) -> None:
    """The counts of a window, and its faults as far as there is room."""
    for fault in found.listed:
        if len(total.listed) < total.most_listed:
            total.listed.append(fault)
    total.counts += found.counts
    total.equal += found.equal
    total.by_batch += found.by_batch
    total.repeated += found.repeated
    total.gone_from_source += found.gone_from_source
    total.gone_from_target += found.gone_from_target
    total.bytes += found.bytes
    total.error = total.error or found.error
    for line in found.notes:
        total.note(line)
