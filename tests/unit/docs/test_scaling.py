"""docs/scaling.md: its figures are those that are stored, and its estimates follow from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from benchmarks.spark_placement import LOCAL, ONE, TWO
from benchmarks.store import Part, load
from docs.generate_scaling import MB, NOT_YET, PAGE, Measured, measured, needed, renewed, tls_cost

KNOWN: Final = Measured(
    task_bytes_per_second=100 * MB,
    bytes_per_cpu_second=300 * MB,
    tls=3.0,
    many_partitions=1.2,
    executor_mb=300.0,
    slot_mb=100.0,
)


def _placed(place: str, **figures: Any) -> dict[str, Any]:
    plain = {"bytes_per_cpu_second": 1.0, "bytes_per_second": 2.0, "microseconds": 1.0, "cost_ratios": [1.0]}
    return {"place": place, "tasks": 1, "partitions": 16, **plain, **figures}


FIGURES: Final = {
    "places": [_placed(LOCAL), _placed(ONE), _placed(TWO, bytes_per_cpu_second=7.0)],
    "tasks": [_placed("wide", bytes_per_second=5.0), _placed("wide")],
    "many": _placed("wide", cost_ratios=[1.1, 1.2, 1.3]),
    "peak_mb": {"executors": 250.0, "Python daemon": 50.0, "Python task": 90.0, "worker": 100.0},
}


def _part(figures: Any) -> Part:
    return Part("2026-01-01 00:00", "make bench", "abc", {"Processor": "2 cores"}, figures)


PARTS: Final = {
    "cluster": _part(FIGURES),
    "throughput 1k": _part([{"side": "ours", "microseconds_per_record": 0.5}]),
    "throughput tls": _part([{"side": "ours", "microseconds_per_record": 1.5}]),
}


def test_figures_of_two_machines_are_not_divided() -> None:
    other = replace(PARTS["throughput tls"], machine={"Processor": "64 cores"})
    with pytest.raises(ValueError, match="two machines"):
        tls_cost({**PARTS, "throughput tls": other})
    assert tls_cost(PARTS) == pytest.approx(3.0)


def test_the_page_has_the_figures_that_are_stored() -> None:
    page = PAGE.read_text("utf-8")
    assert renewed(page, load()) == page, "run: make docs"


@pytest.mark.parametrize(
    ("rate", "tasks", "cores", "executors"),
    [
        pytest.param(1 * MB, 1, 0.005, 2, id="one_task_and_an_executor_to_spare"),
        pytest.param(100 * MB, 2, 0.5, 2, id="two_tasks"),
        pytest.param(10_000 * MB, 200, 50.0, 27, id="the_slots_of_26_executors_and_one_to_spare"),
    ],
)
def test_what_a_rate_needs_follows_from_what_was_measured(
    rate: float, tasks: int, cores: float, executors: int
) -> None:
    found = needed(rate, KNOWN)
    assert (found.tasks, found.executors) == (tasks, executors)
    assert found.cores == pytest.approx(cores)
    assert found.cores_tls == pytest.approx(cores * 3)
    assert found.memory_mb == executors * (300 + 8 * 100)
    assert found.network_bits_per_second == rate * 16


def test_a_page_without_figures_says_so_and_gets_them_when_they_are_there() -> None:
    page = PAGE.read_text("utf-8")
    empty = renewed(page, {})
    assert empty.count(NOT_YET) == 4
    assert renewed(renewed(empty, PARTS), {}) == empty
    table = renewed(empty, PARTS)
    assert NOT_YET not in table
    assert "| 10,000 MB/s | " in table
    assert "cost 3.0 times as much" in table


def test_what_was_measured_is_that_of_two_executors_and_of_one_task() -> None:
    assert measured(FIGURES, 3.0) == Measured(5.0, 7.0, 3.0, 1.2, 300.0, 90.0)
