"""Counters that only grow, and the rate of the last seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.app.metrics.growth import STEP_S, WINDOW_S, Growth

AMOUNTS = st.lists(st.tuples(st.floats(0.01, 20), st.integers(0, 10_000)), min_size=1, max_size=60)


@given(AMOUNTS, st.floats(0, 60))
def test_the_rate_is_the_mean_of_a_window_up_to_a_step_longer(amounts: list[tuple[float, int]], wait: float) -> None:
    now, history = 1_000.0, []
    growth = Growth(now)
    for seconds, records in amounts:
        now += seconds
        growth.add(records, records * 10, now)
        history.append((now, records))
    now += wait
    rate = growth.rate(now)
    assert growth.records == sum(records for _, records in history)
    # What is surely inside of the window, and what may be.
    least = sum(records for when, records in history if when > now - WINDOW_S)
    most = sum(records for when, records in history if when >= now - WINDOW_S - 2 * STEP_S)
    longest = min(now - 1_000.0, WINDOW_S + 2 * STEP_S)
    shortest = min(now - 1_000.0, WINDOW_S)
    assert least / max(longest, 1.0) - 1e-6 <= rate.records <= most / max(shortest, 1.0) + 1e-6
    assert rate.bytes == pytest.approx(rate.records * 10)


@pytest.mark.parametrize("every", [0.5, 1.0, 4.0])
def test_an_even_flow_has_its_own_rate(every: float) -> None:
    growth, now = Growth(0.0), 0.0
    while now < 100:
        now += every
        growth.add(int(100 * every), 0, now)
        if now > WINDOW_S:
            assert growth.rate(now).records == pytest.approx(100, rel=every / WINDOW_S + 0.01)


def test_what_stands_still_has_rate_0_after_the_window() -> None:
    growth = Growth(0.0)
    growth.add(1_000, 1_000, 100.0)
    assert growth.rate(100.0 + WINDOW_S / 2).records > 0
    assert growth.rate(100.0 + WINDOW_S + 2 * STEP_S).records == 0


def test_a_beginner_has_the_rate_since_its_beginning() -> None:
    growth = Growth(50.0)
    growth.add(30, 0, 53.0)
    assert growth.rate(53.0).records == 10
    assert Growth(50.0).rate(50.0).records == 0


def test_it_keeps_few_marks_however_long_it_runs() -> None:
    growth = Growth(0.0)
    for second in range(10_000):
        growth.add(1, 1, float(second))
    assert len(growth._marks) <= WINDOW_S / STEP_S + 3
