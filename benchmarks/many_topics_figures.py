"""The figures of a link of thousands of topics: one side that got through, or one that gave up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.pairing import Lateness


@dataclass(frozen=True, slots=True)
class Copying:
    """Lateness while something else goes on. `when`: what goes on; `sent`: records."""

    when: str
    sent: int
    lateness: Lateness

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        return {"when": self.when, "sent": self.sent, **self.lateness.figures()}


@dataclass(frozen=True, slots=True)
class ManyTopics:
    """One side. Seconds: `created`, `all_copied` since the connector was created; the others are medians of some rounds."""

    side: str
    topics: int
    partitions: int
    groups: int
    positions: int
    created: float
    all_copied: float
    refresh: float
    configs: float
    checkpoints: float
    checkpoints_worst: float
    peak_mb: dict[str, float]
    copying: list[Copying]

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        return {**asdict(self), "copying": [each.figures() for each in self.copying]}


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A side that did not get through: what it did not do, how many remote topics it had made, the records in them,
    what it copied until then, and what its own log complained of last.
    """

    side: str
    topics: int
    groups: int
    gave_up: str
    created: int
    copying: list[Copying]
    said: list[str]
    records: int
    all_records: int

    def figures(self) -> dict[str, Any]:
        """By name, as results have them."""
        return {**asdict(self), "copying": [each.figures() for each in self.copying]}
