"""Arithmetic on what was sampled: percentiles, and what happened between the first and the last acknowledged record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """The state at one moment: seconds on a monotonic clock, records on the target, CPU seconds so far by whom."""

    at: float
    records: int
    cpu: float
    cpu_by_kind: Mapping[str, float]
    source_broker_cpu: float
    target_broker_cpu: float


@dataclass(frozen=True, slots=True)
class Span:
    """The difference of two samples."""

    seconds: float
    records: int
    cpu: float
    cpu_by_kind: Mapping[str, float]
    source_broker_cpu: float
    target_broker_cpu: float

    @property
    def records_per_second(self) -> float:
        """By the clock on the wall."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def records_per_cpu_second(self) -> float:
        """The figure that counts."""
        return self.records / self.cpu if self.cpu else 0.0

    @property
    def microseconds_per_record(self) -> float:
        """Its inverse."""
        return self.cpu / self.records * 1e6 if self.records else math.inf


def span(samples: Sequence[Sample], settle: float = 0.0) -> Span:
    """From `settle` seconds after the first sample that has a record to the first that has the final count. ValueError if
    nothing moved in that time.
    """
    moving = [sample for sample in samples if sample.records > 0]
    moving = [sample for sample in moving if sample.at >= moving[0].at + settle]
    if not moving or moving[0].records == moving[-1].records:
        raise ValueError("no record arrived while it was measured")
    first = moving[0]
    last = next(sample for sample in moving if sample.records == moving[-1].records)
    kinds = {kind: last.cpu_by_kind[kind] - first.cpu_by_kind.get(kind, 0.0) for kind in last.cpu_by_kind}
    return Span(
        last.at - first.at,
        last.records - first.records,
        last.cpu - first.cpu,
        kinds,
        last.source_broker_cpu - first.source_broker_cpu,
        last.target_broker_cpu - first.target_broker_cpu,
    )


def together(spans: Sequence[Span]) -> Span:
    """Several spans as one; what happened between them does not count. ValueError for none."""
    if not spans:
        raise ValueError("nothing was measured")
    kinds = {kind: 0.0 for each in spans for kind in each.cpu_by_kind}
    for each in spans:
        for kind, seconds in each.cpu_by_kind.items():
            kinds[kind] += seconds
    return Span(
        sum(each.seconds for each in spans),
        sum(each.records for each in spans),
        sum(each.cpu for each in spans),
        kinds,
        sum(each.source_broker_cpu for each in spans),
        sum(each.target_broker_cpu for each in spans),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all are not above (nearest rank). ValueError for none."""
    if not values:
        raise ValueError("there is no value to take a percentile of")
    ordered = sorted(values)
    # 99.9 % of 2,000 are 1,998, and no more by what the floating point adds.
    return ordered[max(0, math.ceil(round(percent * len(ordered) / 100, 6)) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle one, the lower of two."""
    return percentile(values, 50)
