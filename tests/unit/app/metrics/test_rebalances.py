"""How often a group has rebalanced, and for how long."""

from __future__ import annotations

import pytest

from mirror_connect.app.metrics.rebalances import RebalanceFigures, Rebalances
from tests.fakes.measured_process import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_nothing_before_the_first() -> None:
    assert Rebalances().figures() == RebalanceFigures(rebalancing=False, completed=0, recent=None, since_ms=None)


def test_one_lasts_until_the_assignment_whatever_fails_meanwhile(clock: Clock) -> None:
    found = Rebalances(clock)
    found.begin()
    clock.s += 2
    found.begin()
    assert found.figures().rebalancing
    clock.s += 1
    found.end()
    clock.s += 5
    told = found.figures()
    assert (told.rebalancing, told.completed, told.since_ms) == (False, 1, 5_000)
    assert told.recent is not None
    assert (told.recent.most, told.recent.count) == (3_000, 1)


def test_times_are_of_the_last_minute_and_the_count_is_of_all(clock: Clock) -> None:
    found = Rebalances(clock)
    for took in (4, 1):
        found.begin()
        clock.s += took
        found.end()
    told = found.figures()
    assert told.recent is not None
    assert (told.recent.most, told.recent.total, told.completed) == (4_000, 5_000, 2)
    clock.s += 120
    assert (found.figures().recent, found.figures().completed) == (None, 2)


def test_an_assignment_without_a_join_is_none(clock: Clock) -> None:
    found = Rebalances(clock)
    found.end()
    assert found.figures().completed == 0
