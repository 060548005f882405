"""What the comparison of a partition found: counts, and the first faults with their offsets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Kinds of faults of a copy. The JSON output has these words."""

    MISSING = "missing"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    CHANGED = "changed"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, or neighbouring ones of one kind: `count` records. Offsets are those of the first and the last one.

    `source` is None for records that the source lacks, `target` for records that the target lacks.
    """

    kind: Kind
    source: tuple[int, int] | None
    target: tuple[int, int] | None
    count: int = 1
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """The entry of the JSON output."""
        return {
            "kind": str(self.kind),
            "records": self.count,
            "source_offsets": None if self.source is None else list(self.source),
            "target_offsets": None if self.target is None else list(self.target),
            "detail": self.detail,
        }

    def joined(self, following: Fault) -> Fault | None:
        """Both as one fault if the other one directly follows; otherwise None."""
        if following.kind != self.kind or following.detail != self.detail:
            return None
        if not (_follows(self.source, following.source) and _follows(self.target, following.target)):
            return None
        return replace(
            self,
            source=_span(self.source, following.source),
            target=_span(self.target, following.target),
            count=self.count + following.count,
        )

    def without(self, first: int, last: int) -> list[Fault]:
        """What is left without the records at these offsets: the source's if there are any, else the target's."""
        on_source = self.source is not None
        begin, end = self.source or self.target or (0, -1)
        if last < begin or end < first:
            return [self]
        most = self.count - (min(end, last) - max(begin, first) + 1)
        left = []
        for part in ((begin, first - 1), (last + 1, end)):
            if part[0] <= part[1]:
                size = min(part[1] - part[0] + 1, most)
                offsets = {"source": part} if on_source else {"target": part}
                left.append(replace(self, count=size, **offsets))  # type: ignore[arg-type]
        return left


def _follows(first: tuple[int, int] | None, second: tuple[int, int] | None) -> bool:
    if first is None or second is None:
        return first is second
    return second[0] == first[1] + 1


def _span(first: tuple[int, int] | None, second: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if first is None or second is None else (first[0], second[1])


@dataclass(eq=False, slots=True)
class Findings:
    """The findings of one partition. `behind` counts offsets, all others but `bytes` count records.

    `equal`: the same on both sides, `by_batch` of them in whole batches of the same bytes. `repeated`: copied again after
    a restart, as at-least-once allows. `gone_from_source`, `gone_from_target`: only on the other side, because this
    side's log has a gap (compaction, retention). `before_source_start` and `before_target_start` of them are before the
    first record that both have, where a log begins now. `behind`: offsets at the source's end that needn't be on the
    target yet, and aren't. `error`: why the comparison is not complete.
    """

    most_listed: int = 20
    equal: int = 0
    by_batch: int = 0
    repeated: int = 0
    gone_from_source: int = 0
    gone_from_target: int = 0
    before_source_start: int = 0
    before_target_start: int = 0
    behind: int = 0
    bytes: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    listed: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None

    def add(self, fault: Fault) -> None:
        """Counts a fault, and lists it while there is room."""
        self.counts[fault.kind] += fault.count
        joined = self.listed[-1].joined(fault) if self.listed else None
        if joined is not None:
            self.listed[-1] = joined
        elif len(self.listed) < self.most_listed:
            self.listed.append(fault)

    def withdraw(self, kind: Kind, first: int, last: int, count: int = 1) -> None:
        """`count` records counted as `kind`, from offset `first` to `last`, turned out to be something else."""
        self.counts[kind] -= count
        self.listed = [
            part for each in self.listed for part in (each.without(first, last) if each.kind is kind else [each])
        ]

    def note(self, line: str) -> None:
        """Adds a line that is no fault, once."""
        if line not in self.notes:
            self.notes.append(line)

    def faults(self, *, strict: bool = False) -> int:
        """How many records are wrong. `strict`: repeated ones count, too."""
        return self.counts.total() + (self.repeated if strict else 0)

    @property
    def compared(self) -> int:
        """Records with any result, good or bad."""
        return self.equal + self.repeated + self.gone_from_source + self.gone_from_target + self.counts.total()

    def as_json(self) -> dict[str, Any]:
        """Members of the JSON output."""
        return {
            "equal": self.equal,
            "equal_by_batch": self.by_batch,
            "repeated": self.repeated,
            "gone_from_source": self.gone_from_source,
            "gone_from_target": self.gone_from_target,
            "not_copied_yet_offsets": self.behind,
            "bytes": self.bytes,
            "faults": {str(kind): self.counts[kind] for kind in Kind},
            "listed": [fault.as_json() for fault in self.listed],
            "notes": list(self.notes),
            "error": self.error,
        }
