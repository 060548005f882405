"""When a heap is too full to work with, by simulated samples of a JVM."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mirror_connect.spark_jobs.full_heap import SPAN_S, FullHeap, HeapSample

MIB = 1 << 20
OLD, HEAP = 928 * MIB, 1014 * MIB
EVERY_S = 5.0


def verdicts(shares: Iterable[float], lefts: Iterable[float], every_s: float = EVERY_S) -> list[str | None]:
    """What is said of each sample. `shares`: of the time before it, in collections; `lefts`: of the old part, in use."""
    heap, collecting_s = FullHeap(), 3.0
    found = []
    for number, (share, left) in enumerate(zip(shares, lefts, strict=True)):
        collecting_s += share * every_s
        found.append(heap.take(HeapSample(100 + number * every_s, collecting_s, int(left * OLD), OLD, HEAP)))
    return found


def test_a_full_heap_that_is_always_collected_is_told_after_the_span_with_its_size_and_the_share() -> None:
    found = verdicts([0.95] * 6, [0.97] * 6)
    assert found[:4] == [None] * 4
    assert found[4] == (
        "the heap of its JVM is full: 900 of 1014 MiB stay in use, "
        "and 95% of the last 20 s went into garbage collections"
    )
    assert found[5] is not None


@pytest.mark.parametrize(
    ("shares", "lefts"),
    [
        pytest.param([0.95] * 30, [0.5] * 30, id="much_becomes_free"),
        pytest.param([0.3] * 30, [0.97] * 30, id="it_still_works"),
        pytest.param([0.0] * 30, [0.97] * 30, id="full_and_idle"),
        pytest.param([0.95] * 30, [0.97, 0.97, 0.97, 0.5] * 7 + [0.97] * 2, id="some_becomes_free_in_between"),
        pytest.param(([0.95] + [0.0] * 4) * 6, [0.97] * 30, id="only_now_and_then"),
    ],
)
def test_a_heap_that_can_be_worked_with_is_left_alone(shares: list[float], lefts: list[float]) -> None:
    assert verdicts(shares, lefts) == [None] * 30


def test_the_time_before_it_was_full_does_not_count() -> None:
    found = verdicts([0.0] * 50 + [0.95] * 6, [0.4] * 50 + [0.97] * 6)
    # The first full sample begins the span, and what was collected until then is of before.
    assert [number for number, line in enumerate(found) if line] == [54, 55]


def test_the_time_when_it_still_worked_counts_no_longer_than_the_span() -> None:
    found = verdicts([0.1] * 50 + [0.95] * 6, [0.97] * 56)
    assert [number for number, line in enumerate(found) if line] == [51, 52, 53, 54, 55]


def test_a_jvm_that_was_suspended_in_a_collection_is_left_alone() -> None:
    assert verdicts([0.0, 0.99, 0.0, 0.0], [0.97] * 4, every_s=2 * SPAN_S) == [None] * 4
    assert verdicts([0.95, 0.95], [0.97] * 2, every_s=10 * SPAN_S) == [None] * 2


def test_samples_that_come_late_are_enough() -> None:
    """Each question waits for a collection to end."""
    found = verdicts([0.95] * 4, [0.97] * 4, every_s=9.0)
    assert [line is not None for line in found] == [False, False, False, True]
