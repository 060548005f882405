"""What sampling verification has found so far, and the interface of watchers that show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.sampled_partition import SampledPartition

EQUAL, DIFFERENT, NOT_COMPARED = range(3)


@dataclass(slots=True)
class SamplingReport:
    """The findings so far. `copied` and others count source offsets (see Tally). `copying_cpu`: least cost of copying."""

    link: str
    since: datetime
    seed: int
    whole: bool
    strict: bool = False
    seconds: float = 0.0
    own_cpu: float = 0.0
    copying_cpu: float = 0.0
    read_bytes: int = 0
    partitions: dict[TopicPartition, tuple[str, SampledPartition]] = field(default_factory=dict)
    # What can't be read now → why.
    problems: dict[str, str] = field(default_factory=dict)
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
        """Records that differ."""
        return sum(each.tally.findings.faults(strict=self.strict) for _, each in self.partitions.values())

    @property
    def faults_by_kind(self) -> dict[str, int]:
        """Records of each kind of fault, also of those that were not found."""
        found = [each.tally.findings.counts for _, each in self.partitions.values()]
        return {str(kind): sum(counts[kind] for counts in found) for kind in Kind}

    @property
    def outcome(self) -> int:
        """The exit code: EQUAL, DIFFERENT or NOT_COMPARED. It is never EQUAL without a comparison."""
        if self.faults:
            return DIFFERENT
        damaged = any(each.tally.findings.error for _, each in self.partitions.values())
        return NOT_COMPARED if damaged or not self.total("compared") else EQUAL

    def as_json(self, *, partitions: bool) -> dict[str, Any]:
        """The members of a JSON line."""
        shown: dict[str, Any] = {
            "link": self.link,
            "since": self.since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "seconds": round(self.seconds, 3),
            "outcome": ("equal", "different", "not compared")[self.outcome],
            "faults": self.faults,
            "faults_by_kind": self.faults_by_kind,
            "copied": self.copied,
            **{name: self.total(name) for name in ("compared", "counted", "passed", "gone", "unaccounted")},
            "records_equal": sum(each.tally.findings.equal for _, each in self.partitions.values()),
            "repeated": sum(each.tally.findings.repeated for _, each in self.partitions.values()),
            "bytes_read": self.read_bytes,
            "cpu_seconds": round(self.own_cpu, 3),
            "copying_cpu_seconds_at_least": round(self.copying_cpu, 3),
            "sample": "everything" if self.whole else f"random, seed {self.seed}",
            "reader": "the copier's",
            "troubles": list(self.problems.values()),
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


class SamplingWatcher:
    """Shows progress. By default it shows nothing."""

    def moved(self, report: SamplingReport) -> None:
        """Called after each sample and each round."""

    def fault(self, key: TopicPartition, fault: Fault) -> None:
        """Called for a fault that a second read has confirmed."""

    def notice(self, line: str) -> None:
        """Called with a line for people."""
