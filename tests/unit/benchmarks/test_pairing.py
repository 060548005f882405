"""Lateness is each record's own: its arrival on the target less its arrival at a consumer of the source."""

from __future__ import annotations

import pytest

from benchmarks.pairing import Arrival, Pair, lateness, pairs


def arrivals(delays_ms: list[float], sent: float = 100.0) -> list[Arrival]:
    return [(number, sent + number, sent + number + delay / 1000) for number, delay in enumerate(delays_ms)]


def overs(near: list[Arrival], far: list[Arrival]) -> list[float]:
    return [round(each.over, 6) for each in pairs(near, far)]


def test_a_record_is_set_against_itself() -> None:
    assert overs(arrivals([1.0, 50.0, 2.0]), arrivals([4.0, 51.0, 30.0])) == [3.0, 1.0, 28.0]


def test_the_order_of_arrival_does_not_matter() -> None:
    assert sorted(overs(arrivals([1.0, 50.0, 2.0]), arrivals([4.0, 51.0, 30.0])[::-1])) == [1.0, 3.0, 28.0]


def test_a_tail_at_one_end_does_not_hide_that_of_the_other() -> None:
    # One record in a hundred is late at each end, but not the same one: both ends have the same percentiles.
    near, far = [1.0] * 200, [1.0] * 200
    near[3:6] = [90.0] * 3
    far[100:103] = [90.0] * 3
    found = lateness(pairs(arrivals(near), arrivals(far)))
    assert found.p99 - found.floor_p99 == pytest.approx(0.0, abs=1e-6)
    assert found.over_p99 == pytest.approx(89.0, abs=1e-6)


def test_percentiles_of_both_ends_are_there_as_well() -> None:
    found = lateness([Pair(1.0, 3.0), Pair(2.0, 9.0), Pair(5.0, 6.0)])
    assert (found.floor_p50, found.floor_p99, found.p50, found.p99) == (2.0, 5.0, 6.0, 9.0)
    assert (found.over_p50, found.over_p99, found.over_p999, found.received) == (2.0, 7.0, 7.0, 3)


def test_one_record_in_a_thousand_is_in_the_longest_tail_only() -> None:
    found = lateness([*(Pair(1.0, 2.0) for _ in range(1_998)), Pair(1.0, 80.0), Pair(1.0, 90.0)])
    assert (found.over_p99, found.over_p999) == (1.0, 1.0)
    found = lateness([*(Pair(1.0, 2.0) for _ in range(1_997)), *(Pair(1.0, 80.0) for _ in range(3))])
    assert (found.over_p99, found.over_p999) == (1.0, 79.0)


def test_the_source_consumer_may_be_the_later_one() -> None:
    assert overs(arrivals([9.0]), arrivals([4.0])) == [-5.0]


@pytest.mark.parametrize("end", ["near", "far"])
def test_a_record_that_one_consumer_did_not_get_is_not_counted(end: str) -> None:
    both = {"near": arrivals([1.0, 1.0, 1.0]), "far": arrivals([2.0, 2.0, 2.0])}
    del both[end][1]
    assert lateness(pairs(both["near"], both["far"])).received == 2


def test_a_record_that_came_twice_counts_once_and_when_it_came_first() -> None:
    assert overs(arrivals([1.0]), arrivals([3.0]) + arrivals([70.0])) == [2.0]


def test_a_late_record_of_an_earlier_run_has_no_partner() -> None:
    assert overs(arrivals([1.0], sent=100.0), arrivals([2.0], sent=60.0)) == []


def test_of_no_record_there_is_no_lateness() -> None:
    with pytest.raises(ValueError, match="no value"):
        lateness([])
