"""The figures that people and programs read. None is unknown, and never means 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# A task reports twice a second. What it has not told for so long is unknown.
UNKNOWN_AFTER_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the target is behind the source. `records`: of all partitions whose lag is known; None if of none.

    `seconds`: the age of the oldest record that is not on the target, of those whose age is known; 0 if none is missing.
    `behind`: partitions with a lag; `unknown`: partitions whose lag is not known.
    """

    records: int | None
    seconds: float | None
    behind: int = 0
    unknown: int = 0

    @property
    def seconds_of_all(self) -> float | None:
        """The seconds; None if they are 0 for what is known, and something is unknown."""
        return None if self.seconds == 0 and self.unknown else self.seconds

    @classmethod
    def of_all(cls, lags: Iterable[Lag]) -> Lag:
        """That of several: the sum of the records, the oldest of the seconds."""
        lags = list(lags)
        records = [each.records for each in lags if each.records is not None]
        seconds = max((each.seconds for each in lags if each.seconds is not None), default=None)
        if seconds == 0 and any(each.behind and each.seconds is None for each in lags):
            seconds = None  # something is missing on the target, and nobody knows how old it is
        behind, unknown = sum(each.behind for each in lags), sum(each.unknown for each in lags)
        return cls(sum(records) if records else None, seconds, behind, unknown)


@dataclass(frozen=True, slots=True)
class Rate:
    """What the target has acknowledged, each second."""

    records: float
    bytes: float

    @classmethod
    def of_all(cls, rates: Iterable[Rate | None]) -> Rate | None:
        """The sum of those that are known; None if none is."""
        known = [each for each in rates if each is not None]
        return cls(sum(each.records for each in known), sum(each.bytes for each in known)) if known else None


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from a record's timestamp to the moment when the target had it, of the last minute.

    `p50` and `p99` come from a histogram, so they are estimates within one of its buckets.
    """

    p50: float
    p99: float
    max: float
