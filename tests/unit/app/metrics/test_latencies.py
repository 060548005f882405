"""Latencies of the last minute, and percentiles out of buckets."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.app.metrics.latencies import RecentLatencies, latency_of, quantile
from mirror_connect.connectors.task_measures import BUCKETS, LATENCY_BUCKETS_MS


def histogram(latencies: list[int]) -> list[int]:
    counts = [0] * BUCKETS
    for each in latencies:
        counts[bisect_left(LATENCY_BUCKETS_MS, each)] += 1
    return counts


@given(st.lists(st.integers(0, 3_600_000), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_lies_in_the_bucket_of_the_true_one(latencies: list[int], part: float) -> None:
    # The smallest latency that at least this part of all are not above.
    rank = next(place for place in range(len(latencies)) if (place + 1) / len(latencies) >= part)
    true = sorted(latencies)[rank]
    bucket = bisect_left(LATENCY_BUCKETS_MS, true)
    lower = LATENCY_BUCKETS_MS[bucket - 1] if bucket else 0
    assert lower <= quantile(histogram(latencies), part) <= LATENCY_BUCKETS_MS[bucket]


@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=50))
def test_no_percentile_is_above_the_largest_latency(latencies: list[int]) -> None:
    found = latency_of(histogram(latencies), max(latencies))
    assert found is not None
    assert found.p50 <= found.p99 <= found.max
    if max(latencies):
        assert found.max == max(latencies)


def test_what_is_above_all_buckets_counts_as_the_last_limit() -> None:
    found = latency_of(histogram([10_000_000]))
    assert found is not None
    assert found.p99 == found.max == LATENCY_BUCKETS_MS[-1]


def test_nothing_counted_is_no_latency() -> None:
    assert latency_of([0] * BUCKETS) is None
    assert RecentLatencies().of_minute(0.0) is None


@pytest.mark.parametrize(("after", "seen"), [(0.0, True), (59.0, True), (70.1, False)])
def test_a_record_counts_for_a_minute(after: float, seen: bool) -> None:
    recent = RecentLatencies()
    recent.add_pairs((3, 5), 9, 1_000.0)
    found = recent.of_minute(1_000.0 + after)
    assert (found is not None) == seen
    if found is not None:
        assert (found.max, found.p50 <= 9) == (9, True)


def test_slots_add_up_and_only_a_minute_is_kept() -> None:
    recent = RecentLatencies()
    for second in range(3_600):
        recent.add([1] * BUCKETS, float(second))
    counts, _ = recent.counted(3_599.0)
    assert set(counts) == {70}
    assert len(recent._slots) == 7
