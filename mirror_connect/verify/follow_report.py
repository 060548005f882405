"""What following a link has found so far, for people and machines; and who hears of it while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mirror_connect.verify.findings import Fault
from mirror_connect.verify.followed import FollowedPartition
from mirror_connect.verify.place import Key

EQUAL, DIFFERENT, NOT_COMPARED = range(3)


@dataclass(slots=True)
class FollowReport:
    """How it stands. `copied` … are source offsets: see followed.Tally. `copying_cpu`: the least that copying has cost."""

    link: str
    since: datetime
    seed: int
    whole: bool
    strict: bool = False
    seconds: float = 0.0
    own_cpu: float = 0.0
    copying_cpu: float = 0.0
    read_bytes: int = 0
    partitions: dict[Key, tuple[str, FollowedPartition]] = field(default_factory=dict)
    # What can't be looked at present, and why.
    troubles: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def total(self, name: str) -> int:
        """The sum of a member of all tallies."""
        return sum(getattr(each.tally, name) for _, each in self.partitions.values())

    @property
    def copied(self) -> int:
        """Source offsets copied since the beginning."""
        return sum(each.copied for _, each in self.partitions.values())

    @property
    def faults(self) -> int:
        """Records that are not as they should be."""
        return sum(each.tally.findings.faults(strict=self.strict) for _, each in self.partitions.values())

    @property
    def outcome(self) -> int:
        """EQUAL, DIFFERENT or NOT_COMPARED: the exit code. Nothing is called equal of which nothing was read."""
        if self.faults:
            return DIFFERENT
        damaged = any(each.tally.findings.error for _, each in self.partitions.values())
        return NOT_COMPARED if damaged or not self.total("compared") else EQUAL

    def as_json(self, *, partitions: bool) -> dict[str, Any]:
        """An object of the JSON lines."""
        shown: dict[str, Any] = {
            "link": self.link,
            "since": self.since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "seconds": round(self.seconds, 3),
            "outcome": ("equal", "different", "not compared")[self.outcome],
            "faults": self.faults,
            "copied": self.copied,
            **{name: self.total(name) for name in ("compared", "counted", "passed", "gone", "unaccounted")},
            "records_equal": sum(each.tally.findings.equal for _, each in self.partitions.values()),
            "repeated": sum(each.tally.findings.repeated for _, each in self.partitions.values()),
            "bytes_read": self.read_bytes,
            "cpu_seconds": round(self.own_cpu, 3),
            "copying_cpu_seconds_at_least": round(self.copying_cpu, 3),
            "sample": "everything" if self.whole else f"random, seed {self.seed}",
            "reader": "the copier's",
            "troubles": list(self.troubles.values()),
        }
        if partitions:
            shown["notices"] = self.notices
            shown["partitions"] = [
                {
                    "topic": topic,
                    "partition": number,
                    "target_topic": remote,
                    "copied": each.copied,
                    "compared": each.tally.compared,
                    "counted": each.tally.counted,
                    "passed": each.tally.passed,
                    "gone": each.tally.gone,
                    "unaccounted": each.tally.unaccounted,
                    "counts_by_offsets": not each.thin,
                    **each.tally.findings.as_json(),
                }
                for (topic, number), (remote, each) in sorted(self.partitions.items())
            ]
        return shown


class FollowWatcher:
    """Hears of progress; all methods may be left as they are."""

    def moved(self, report: FollowReport) -> None:
        """Something was looked at, or a round is over."""

    def fault(self, key: Key, fault: Fault) -> None:
        """A fault that a second look has confirmed."""

    def notice(self, line: str) -> None:
        """A line for people."""
