"""One partition of a running link: all records copied since the last round are counted, and samples are compared.

While no record is missing or doubled, each copy has the same distance from its source offset (OffsetPair.delta). So two
samples with the same distance prove the number of all records between them. If the distance has changed, bisection finds
the offset, and the records there are compared one by one. The comparison shows whether a record is missing, doubled or
foreign, whether a restart repeated some, or whether a marker or compaction left a gap at the source.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.verify.batch_side import BatchSide
from mirror_connect.verify.comparer import Comparer
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.offset_pairs import (
    FetchedBatches,
    OffsetPair,
    earliest_timestamp,
    pair_anywhere,
    pair_at_delta,
)
from mirror_connect.verify.peek import GoneError, Peek, PeekedLog
from mirror_connect.verify.side import Producer

# Enough for a partition of 2^40 records. Each halving costs a few fetches.
_MOST_HALVINGS: Final = 40
# After this many gaps in a row no more are searched: the source has transactions or is compacted.
_GAPS_OF_A_THIN_LOG: Final = 3

# Records that moved are searched at least this many offsets further on.
_WIDER: Final = 100
_PairAndCopy = tuple[OffsetPair | None, CompletedFetch | None]


@dataclass(slots=True)
class Tally:
    """The counts of one partition, in source offsets (without `findings`, `size`, `unaccounted`).

    `compared`: by records, or by batches of the same bytes. `counted`: between two samples that prove their number.
    `passed`: neither. `gone`: removed by retention before they were read. `read`: the offsets in `size` bytes of the
    source. `unaccounted`: surplus target offsets before the first sample that was found.
    """

    compared: int = 0
    counted: int = 0
    passed: int = 0
    gone: int = 0
    unaccounted: int = 0
    findings: Findings = field(default_factory=Findings)
    read: int = 0
    size: int = 0


class SampledPartition:
    """`position`: the first source offset to verify. `doubt` is called after a difference: are both topics the same?

    `on_fault` gets only differences that a second read confirms.
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
        # Deltas to try while none is known.
        self.guesses: tuple[int, ...] = ()
        # One past the last source offset that is known to be on the target.
        self.until = position
        self._source = source
        self._target = target
        self._rng = rng
        self._doubt = doubt
        self._on_fault = on_fault
        self._most_listed = most_listed
        # Everything below is settled. If `_delta` is known, the next record's copy is expected at `_at + _delta`.
        self._at = self._began = position
        self._copied_before = 0
        self._delta: int | None = None
        # Whether `_at` and `_delta` belong together, so that records from there on can be counted.
        self._firm = False
        # The target's end at the start, until the first sample is found; None if it is unknown.
        self._target_end_at_start: int | None = None
        self._gaps = 0
        self._whole = False
        self._planned: list[tuple[int, int]] = []
        self._planned_to = self._sampled_to = position
        self._fetches = 0
        # Faults and repeated records of the last comparison.
        self._last_strange = 0
        # The producer of the target's record before `_at`.
        self._producer: Producer | None = None
        self._newest_producer: Producer | None = None

    @property
    def copied(self) -> int:
        """Source offsets copied since this began."""
        return self._copied_before + max(0, self.until - self._began)

    @property
    def pending(self) -> int:
        """Source offsets that no sample has covered yet."""
        return max(0, self.until - max(self._sampled_to, self._at))

    @property
    def unpaired(self) -> bool:
        """Whether everything is settled, and the target offset of the next record's copy is unknown."""
        return not self._firm and self._at == self.until

    @property
    def set_back(self) -> bool:
        """Whether the link has gone back to before the verified part."""
        return self.until < self._at

    @property
    def thin(self) -> bool:
        """Whether one of the logs has gaps everywhere: then offsets don't count records."""
        return self._gaps >= _GAPS_OF_A_THIN_LOG

    @property
    def bytes_per_offset(self) -> float:
        """The mean bytes per offset of what was read from the source; 0 before the first fetch."""
        return self.tally.size / self.tally.read if self.tally.read else 0.0

    def set_target_end(self, offset: int, *, at_rest: bool) -> None:
        """Sets the target's end as it was when the link had copied everything below `until`.

        `at_rest`: the source had no later record yet. So copies of later records begin at `offset`, and anything else
        there is a fault. Otherwise only this is known: no copy of an earlier record comes from `offset` on.
        """
        if not self.unpaired:
            return
        if self._target_end_at_start is None:
            self._target_end_at_start = offset
        if at_rest:
            self._move_to(OffsetPair(self._at, offset), counted=False)

    def restart(self, position: int, target: int | None = None) -> None:
        """Begins again, because another topic has this name. `target`: the target offset where its copies begin."""
        if target is None and self._firm and self._delta is not None and self._at == self.until:
            target = self._at + self._delta
        self._target_end_at_start = target
        self._copied_before += max(0, self.until - self._began)
        self.tally.passed += max(0, self.until - self._at)
        self._at = self._began = self.until = self._planned_to = self._sampled_to = position
        self._delta, self._firm, self._gaps, self._whole = None, False, 0, False
        self._planned.clear()

    # Planning.

    def plan(self, samples: float) -> None:
        """Spreads this many samples over the pending offsets. If they suffice for all offsets, all are read."""
        low, self._planned_to = max(self._sampled_to, self._at), self.until
        size = self.tally.read / self._fetches if self._fetches else 1
        self._whole = samples * size >= self._planned_to - low
        self._planned.clear()
        if not self._whole:
            count = max(1, int(samples))
            step = (self._planned_to - low) / count
            self._planned = [(low + int(step * n), low + int(step * (n + 1))) for n in range(count)][::-1]
            if not self._firm:
                # Everything after the first sample is counted.
                self._planned[-1] = (low, low + 1)

    async def step(self) -> bool:
        """Takes the next planned sample; False if there is none left. CannotCompareError."""
        goal = self._next()
        if goal is None:
            return False
        try:
            seen = await self._sample(goal)
        except GoneError as gone:
            self._skip_gone(gone)
            # This offset is not sampled again.
            seen = self._at if self._at > goal else self._planned_to
        if self._whole:
            self._sampled_to = self._at if self._at > goal else min(seen, self._planned_to)
        return True

    def _next(self) -> int | None:
        if self._whole:
            goal = max(self._sampled_to, self._at)
            if goal < self._planned_to:
                return goal
            self._whole = False
        while self._planned:
            low, high = self._planned.pop()
            low = max(low, self._at)
            if low < high:
                return self._rng.randrange(low, high)
        self._sampled_to = max(self._sampled_to, self._planned_to)
        return None

    def _skip_gone(self, gone: GoneError) -> None:
        """Skips what retention removed before it was read: no fault."""
        first = gone.first
        if gone.role == "target":
            first = self._at if self._delta is None else first - self._delta
        first = min(first, self.until)
        self.tally.gone += max(0, first - self._at)
        self._at = max(self._at, first)
        self._firm = False

    # Comparing.

    async def _sample(self, goal: int) -> int:
        """Compares what one fetch at `goal` brings, and more if needed. Returns the source offset up to which it read."""
        chunk = await self._chunk(goal)
        seen = chunk.next_offset
        if self._firm and goal <= self._at and self._delta is not None:
            await self._compare(OffsetPair(self._at, self._at + self._delta), seen, chunk)
            return seen
        piece = FetchedBatches(chunk, self._at, committed=self._source.committed)
        first = piece.first
        if first is None or first >= self.until:
            return seen  # markers only
        pair, copy = await self._find_pair(piece, () if self._delta is None else (self._delta,))
        if pair is not None and pair.delta == self._delta:
            if self._firm:
                self._gaps = max(0, self._gaps - 1)
            here = OffsetPair(first, first + pair.delta)
            self._move_to(here, counted=self._firm)
            await self._compare(here, seen, chunk, copy)
        elif pair is not None and (self.thin or not self._firm):
            self._move_to(pair, counted=False)
            await self._compare(pair, seen, chunk, copy)
        elif self._firm:
            await self._explain(first, pair)
        else:
            self.tally.passed += min(seen, self.until) - self._at
            self._at = min(seen, self.until)
            self.tally.findings.note("some records were not found near the offsets of their timestamps")
        return seen

    def _move_to(self, pair: OffsetPair, *, counted: bool) -> None:
        """Moves to `pair`. The offsets before it are settled without a comparison."""
        between = pair.source - self._at
        if between:
            self._producer = None
        if counted:
            self.tally.counted += between
        else:
            self.tally.passed += between
            if self._target_end_at_start is not None:
                came = pair.target - self._target_end_at_start
                self.tally.unaccounted += max(0, came - (pair.source - self._began))
        self._target_end_at_start = None
        self._at, self._delta, self._firm = pair.source, pair.delta, True

    async def _chunk(self, offset: int) -> CompletedFetch:
        """Fetches from the source at `offset`. GoneError, CannotCompareError."""
        found = await PeekedLog(self._source, offset, there=self.until).read()
        assert found is not None  # the log reaches `until`
        self._fetches += 1
        self.tally.read += max(1, found.next_offset - offset)
        self.tally.size += len(found.buffer)
        return found

    async def _find_pair(self, piece: FetchedBatches, deltas: tuple[int, ...]) -> _PairAndCopy:
        """The pair of the piece's first records and their copy, and what was fetched of the target there. GoneError."""
        first = piece.first
        if first is None:
            return None, None
        best: _PairAndCopy = None, None
        for delta in dict.fromkeys(deltas or self.guesses):
            wanted = first + delta
            chunk = await self._target.fetch(wanted) if wanted >= 0 else None
            if chunk is None:
                if delta == self._delta and (begins := await self._target.first()) > wanted:
                    raise GoneError(self._target.role, self._target.key, begins)
                continue
            copy = FetchedBatches(chunk, wanted, committed=True)
            found = pair_at_delta(delta, piece, copy)
            if found is not None and delta == self._delta:
                return found, chunk
            best = _earlier(best, (found or pair_anywhere(piece, copy), chunk))
        if best[0] is None or best[0].source > first:
            stamp = earliest_timestamp(piece)
            begin = None if stamp is None else await self._target.offset_at(stamp)
            chunk = None if begin is None else await self._target.fetch(begin)
            if begin is not None and chunk is not None:
                best = _earlier(best, (pair_anywhere(piece, FetchedBatches(chunk, begin, committed=True)), chunk))
        return best if best[0] is not None and best[0].source < self.until else (None, None)

    async def _explain(self, first: int, pair: OffsetPair | None) -> None:
        """The distance changed between `_at` and `first`: finds where by bisection, and compares there."""
        assert self._delta is not None
        low, high, delta = OffsetPair(self._at, self._at + self._delta), first, self._delta
        high_delta = None if pair is None else pair.delta
        for _ in range(_MOST_HALVINGS):
            middle = (low.source + high) // 2
            if middle <= low.source:
                break
            chunk = await self._chunk(middle)
            piece = FetchedBatches(chunk, low.source, committed=self._source.committed)
            start = piece.first
            if start is None or start >= high:
                high = middle  # no data from here on
                continue
            if start <= low.source or chunk.next_offset >= high:
                break  # one fetch shows all that is left
            deltas = (delta,) if high_delta is None else (delta, high_delta)
            found, _ = await self._find_pair(piece, deltas)
            if found is not None and (found.delta == delta or self.thin):
                low = found
            else:
                high, high_delta = start, None if found is None else found.delta
        self._move_to(low, counted=not self.thin)
        # Up to where the new distance holds, and one fetch further.
        chunk = await self._chunk(high)
        await self._compare(low, chunk.next_offset)
        if self._delta not in (None, low.delta) and not self._last_strange:
            # Markers at the source, markers of an exactly-once copier on the target, or compaction.
            self._gaps += 1

    async def _compare(
        self, pair: OffsetPair, until: int, chunk: CompletedFetch | None = None, copy: CompletedFetch | None = None
    ) -> None:
        """Compares from `pair` up to `until`. Everything before that is settled afterwards."""
        until = min(until, self.until)
        for again in (False, True):
            findings = Findings(self._most_listed)
            # The first comparison uses what was fetched already; the confirmation reads again.
            left, right = await self._compared(pair, until, findings, None if again else chunk, None if again else copy)
            if not (findings.faults() or findings.error):
                break
            if not again:
                if not await self._doubt():
                    return
                # A record that is missing here may come a little later.
                until = min(until + max(_WIDER, until - pair.source), self.until)
        self._last_strange = findings.faults(strict=True)
        self._producer = self._newest_producer
        self.tally.compared += max(0, left - pair.source)
        self._at, self._delta, self._firm = left, right - left, True
        for fault in findings.listed:
            self._on_fault(fault)
        _add(self.tally.findings, findings)

    async def _compared(
        self,
        pair: OffsetPair,
        until: int,
        findings: Findings,
        chunk: CompletedFetch | None,
        copy: CompletedFetch | None,
    ) -> tuple[int, int]:
        """Compares. Returns the source and target offsets up to which it did."""

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


def _earlier(one: _PairAndCopy, other: _PairAndCopy) -> _PairAndCopy:
    return one if other[0] is None or (one[0] is not None and one[0].source <= other[0].source) else other


def _add(total: Findings, found: Findings) -> None:
    """Adds the counts of a window, and its faults while there is room."""
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
