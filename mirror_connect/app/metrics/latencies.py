"""Latencies of the last minute in the buckets of LATENCY_BUCKETS_MS, and their percentiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mirror_connect.app.metrics.figures import Latency
from mirror_connect.connectors.task_measures import BUCKETS, LATENCY_BUCKETS_MS

SLOT_S: Final = 10.0
# The present slot, and those before it: a minute, and what the present one has begun.
SLOTS: Final = 7
# Percentiles that are shown.
_HALF: Final = 0.5
_NEARLY_ALL: Final = 0.99


class _Slot:
    """What was counted within one slot. `most`: the largest latency, 0 if it is not known."""

    __slots__ = ("counts", "most", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts = [0] * BUCKETS
        self.most = 0


class RecentLatencies:
    """See the module. `now`: seconds of a monotonic clock."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def add_pairs(self, pairs: Sequence[int], most: int, now: float) -> None:
        """So many more: (bucket, count, bucket, count, …). `most`: the largest of them."""
        slot = self._slot(now)
        counts = slot.counts
        for place in range(0, len(pairs), 2):
            counts[pairs[place]] += pairs[place + 1]
        if most > slot.most:  # noqa: PLR1730 — a call takes three times as long, and this is for each row of a report
            slot.most = most

    def add(self, counts: Sequence[int], now: float) -> None:
        """So many more in each bucket."""
        slot = self._slot(now)
        slot.counts = [old + more for old, more in zip(slot.counts, counts, strict=True)]

    def add_most(self, most: int, now: float) -> None:
        """One of those that `add` counts was so large."""
        slot = self._slot(now)
        slot.most = max(slot.most, most)

    def of_minute(self, now: float) -> Latency | None:
        """Of the last minute; None without records in it."""
        return latency_of(*self.counted(now))

    def counted(self, now: float) -> tuple[list[int], int]:
        """The counts of the last minute, and the largest latency in it, 0 if it is not known."""
        first = int(now // SLOT_S) - SLOTS + 1
        counts, most = [0] * BUCKETS, 0
        for slot in self._slots:
            if slot.number >= first:
                counts = [old + more for old, more in zip(counts, slot.counts, strict=True)]
                most = max(most, slot.most)
        return counts, most

    def _slot(self, now: float) -> _Slot:
        number = int(now // SLOT_S)
        slots = self._slots
        if not slots or slots[-1].number != number:
            slots.append(_Slot(number))
            if len(slots) > SLOTS:
                del slots[0]
        return slots[-1]


def latency_of(counts: Sequence[int], most: int = 0) -> Latency | None:
    """The percentiles of a histogram; None if it counts nothing. `most`: the largest latency, 0 if it is not known."""
    if not any(counts):
        return None
    top = float(most) if most else _highest(counts)
    return Latency(min(quantile(counts, _HALF), top), min(quantile(counts, _NEARLY_ALL), top), top)


def latency_of_all(counted: Iterable[tuple[Sequence[int], int]]) -> Latency | None:
    """Of several histograms together, each with its largest latency; None if they count nothing."""
    found = [each for each in counted if each[0]]
    if not found:
        return None
    counts = [sum(of_bucket) for of_bucket in zip(*(counts for counts, _ in found), strict=True)]
    return latency_of(counts, max(most for _, most in found))


def quantile(counts: Sequence[int], part: float) -> float:
    """The latency that `part` of all are not above: on a straight line within its bucket, so about."""
    rank = part * sum(counts)
    seen, lower = 0, 0.0
    for count, upper in zip(counts, LATENCY_BUCKETS_MS, strict=False):
        if count and seen + count >= rank:
            return lower + (upper - lower) * (rank - seen) / count
        seen, lower = seen + count, float(upper)
    return lower


def _highest(counts: Sequence[int]) -> float:
    filled = max(place for place, count in enumerate(counts) if count)
    return float(LATENCY_BUCKETS_MS[min(filled, len(LATENCY_BUCKETS_MS) - 1)])
