"""How much later records are on the target than at a consumer of the source, record by record.

A difference of two percentiles is the lateness of no record: the slowest one in a hundred at one end need not be so at the
other. So each record's two arrivals are set against each other first, and percentiles are taken of those differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks.figures import percentile

# A record's number, when it was sent and when it arrived: seconds on one clock.
Arrival = tuple[int, float, float]


@dataclass(frozen=True, slots=True)
class Pair:
    """One record. Milliseconds from its sending to each of the two consumers."""

    floor: float
    there: float

    @property
    def over(self) -> float:
        """How much later it was on the target; below zero if the source's consumer had it later."""
        return self.there - self.floor


@dataclass(frozen=True, slots=True)
class Lateness:
    """Milliseconds. `floor_*`: to the source's consumer, `p50`, `p99`: to the target's, `over_*`: percentiles of the
    records' own differences (`over_p999`: 99.9 %). `received`: records that both consumers had.
    """

    received: int
    floor_p50: float
    floor_p99: float
    p50: float
    p99: float
    over_p50: float
    over_p99: float
    over_p999: float

    def figures(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


def pairs(near: Iterable[Arrival], far: Iterable[Arrival]) -> list[Pair]:
    """Each record that arrived at both consumers. Of a record that came twice the first arrival counts.

    A record is known by its number and by when it was sent, so that one of an earlier run which comes late has no partner.
    """
    at_source, at_target = first_arrivals(near), first_arrivals(far)
    return [
        Pair((at_source[key] - key[1]) * 1000, (arrived - key[1]) * 1000)
        for key, arrived in at_target.items()
        if key in at_source
    ]


def lateness(found: Sequence[Pair]) -> Lateness:
    """Percentiles of them all. ValueError for none."""
    floors, theres, overs = (
        [each.floor for each in found],
        [each.there for each in found],
        [each.over for each in found],
    )
    floor, there, over = (
        [percentile(values, percent) for percent in (50, 99, 99.9)] for values in (floors, theres, overs)
    )
    return Lateness(len(found), *floor[:2], *there[:2], *over)


def first_arrivals(arrivals: Iterable[Arrival]) -> dict[tuple[int, float], float]:
    """Each record's number and sending → when it came first."""
    found: dict[tuple[int, float], float] = {}
    for number, sent, arrived in arrivals:
        key = (number, sent)
        found[key] = min(arrived, found.get(key, arrived))
    return found
