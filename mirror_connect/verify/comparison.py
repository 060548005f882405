"""The state of a comparison: explained source offsets, missing records, the repeat in progress.

comparer.py and gaps.py write it; lookup.py reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.meeting import by_bytes, by_content
from mirror_connect.verify.missing_ranges import MissingRanges
from mirror_connect.verify.records import Record
from mirror_connect.verify.side import Producer, Side


@dataclass(slots=True)
class Repeat:
    """Target records in a row that were copied before. `fresh`: by a producer that had just begun.

    `source`, `target`: first and last offset of the repeated records. `reached`: the last source offset so far, also of a
    late record.
    """

    fresh: bool
    records: int = 0
    source: tuple[int, int] = (-1, -1)
    target: tuple[int, int] = (-1, -1)
    reached: int = -1


class Comparison:
    """The state of comparing `source` with `target`; fills `findings`. The other arguments are those of Comparer."""

    def __init__(
        self,
        source: Side,
        target: Side,
        findings: Findings,
        *,
        start: int,
        done: int | None,
        producer: Producer | None,
        progress: Callable[[int], None],
    ) -> None:
        self.source = source
        self.target = target
        self.findings = findings
        self.start = start
        self.progress = progress
        # Every source offset below this one is explained.
        self.done_to = start if done is None else done
        self.timestamps = True
        self.repeat: Repeat | None = None
        # The target offset of the last explained record.
        self.last_at: int | None = None
        self.missing = MissingRanges()
        # Hash of the content → source offset of a missing record.
        self.lost: dict[int, int] = {}
        # Hash of the content → target offsets of records that are called foreign.
        self.strays: dict[int, list[int]] = {}
        self._producer_before = producer
        # The target offset of the last record that was new.
        self._front_at: int | None = None

    def check_timestamps(self) -> None:
        """Ends the comparison of timestamps when the broker set those of a target batch."""
        if self.timestamps and self.target.log_append_time:
            self.timestamps = False
            self.findings.note("timestamps are not compared: the target topic has message.timestamp.type=LogAppendTime")

    def content(self, record: Record) -> object:
        """The parts of a record that must be equal."""
        return by_content(record) if self.timestamps else by_bytes(record)

    # What is equal.

    def matched(self, first: int, last: int, count: int, target_first: int, target_last: int) -> None:
        """Source offsets first..last were found on the target, for the first time or again."""
        if last < self.done_to:
            if self.repeat is None:
                self.repeat = Repeat(fresh=False)
            repeat = self.repeat
            repeat.source = repeat.source[0] if repeat.records else first, last
            repeat.target = repeat.target[0] if repeat.records else target_first, target_last
            repeat.records += count
            repeat.reached = last
            if self.missing.full_from is not None and last >= self.missing.full_from:
                self.findings.note(
                    f"records are missing in too many ranges: from source offset {self.missing.full_from:,} on it is "
                    "unknown whether some came later"
                )
            return
        # After a restart a copier repeats records up to the first new one.
        self.end_repeat(complete=self.repeat is not None and self.repeat.reached + 1 >= self.done_to)
        self.findings.equal += count
        self.done_to = last + 1
        self.progress(self.done_to)

    def matched_again(self, ours: Sequence[Record], theirs: Sequence[Record]) -> None:
        """Source records below `done_to` were found on the target: again, or late."""
        for late, group in groupby(zip(ours, theirs, strict=True), key=lambda pair: pair[0][0] in self.missing):
            pairs = list(group)
            (first, target_first), (last, target_last) = ((pair[0][0], pair[1][0]) for pair in (pairs[0], pairs[-1]))
            if not late:
                self.matched(first, last, len(pairs), target_first, target_last)
                continue
            self.came_late((first, last), (target_first, target_last), len(pairs))
            if self.repeat is not None:
                self.repeat.reached = last

    def came_late(self, source: tuple[int, int], target: tuple[int, int], count: int = 1) -> None:
        """Records that were called missing are on the target, in another order."""
        self.found(*source, count)
        self.findings.add(Fault(Kind.REORDERED, source, target, count))

    def came_early(self, records: Sequence[Record]) -> None:
        """These records are in order. Earlier copies of them that were called foreign are doubled."""
        for record in records:
            for stray in self.strays.pop(hash(self.content(record)), ()):
                self.findings.withdraw(Kind.FOREIGN, stray, stray)
                self.findings.add(Fault(Kind.DOUBLED, (record[0], record[0]), (stray, stray)))

    def found(self, first: int, last: int, count: int = 1) -> None:
        """Withdraws `count` records that were called missing and are not."""
        self.missing.take(first, last)
        self.findings.withdraw(Kind.MISSING, first, last, count)

    def wrote(self, target_offset: int, source_offset: int) -> None:
        """The last explained record: its offset on the target, and at the source."""
        self.last_at = target_offset
        if source_offset + 1 == self.done_to:
            self._front_at = target_offset

    # Repeats.

    @property
    def last_producer(self) -> Producer | None:
        """The producer of the target's last explained record."""
        return self._producer_before if self.last_at is None else self.target.producer_at(self.last_at)

    async def identify_last(self) -> None:
        """Reads the producers of the records that `fresh` compares with."""
        await self.target.identify(at for at in (self.last_at, self._front_at) if at is not None)

    def fresh(self, number: int = 0) -> bool:
        """Whether a record of the target's window may be the first one of a producer that has just begun."""
        producer = self.target.producer(number)
        if self.hollow:
            # Its first record may be gone. So it only must not be the producer of the last new record.
            return producer[0] < 0 or self._front_at is None or producer != self.target.producer_at(self._front_at)
        before = self.target.producer(number - 1) if number else self.last_producer
        return producer[0] < 0 or before is None or producer != before

    def end_repeat(self, *, complete: bool) -> None:
        """Counts the repeat that ends. `complete`: it went on to where the copier had been."""
        repeat, self.repeat = self.repeat, None
        if repeat is None or not repeat.records:
            return
        if repeat.fresh and (complete or self.hollow):
            self.findings.repeated += repeat.records
        else:
            self.findings.add(Fault(Kind.DOUBLED, repeat.source, repeat.target, repeat.records))

    @property
    def hollow(self) -> bool:
        """Whether one of the logs was compacted: then part of a repeat may be gone."""
        return self.source.hollow > 0 or self.target.hollow > 0
