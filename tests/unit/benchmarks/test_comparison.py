"""The costs stand beside the wins: each figure that was measured of both sides has its row."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.comparison import Row, rows
from benchmarks.epochs import epochs
from benchmarks.latency_probe import Load
from benchmarks.report import render
from benchmarks.store import Part, load


@pytest.mark.parametrize(
    ("ours", "other", "more", "verdict"),
    [
        pytest.param(38.0, 30.0, False, "worse", id="more_of_a_cost"),
        pytest.param(11.0, 19.0, False, "better", id="less_of_a_cost"),
        pytest.param(38.0, 30.0, True, "better", id="more_of_a_gain"),
        pytest.param(30.0, 38.0, True, "worse", id="less_of_a_gain"),
        pytest.param(2.7, 2.71, False, "equal", id="nothing_that_the_reader_sees"),
    ],
)
def test_which_side_is_better(ours: float, other: float, more: bool, verdict: str) -> None:
    assert Row("", ours, other, "", ".1f", more).verdict == verdict


def test_the_costs_are_compared_like_everything_else() -> None:
    told = {row.what for part in load().values() for row in rows(part.figures)}
    assert {
        "1 KiB records in ~100 KB lz4 batches: records per CPU second",
        "Idle, one connector of two tasks: memory (PSS)",
        "From process start to the first record",
        "2,000 records/s: CPU",
    } <= told


def test_costs_and_wins_stand_in_one_table_before_everything_else() -> None:
    figures = {"idle": [idle("ours", 688.0), idle("mm2", 212.0)], "throttled": []}
    parts = {"memory": Part("2026-01-02 03:04", "python -m benchmarks", "abc1234", {"Processor": "2 cores"}, figures)}
    text = render(load() | parts)
    table = text.split("## Beside each other")[1].split("\n## ")[0]
    assert "memory (PSS) | 688 MB | 212 MB | **worse** |" in table
    assert "records per CPU second | " in table
    assert text.index("## Beside each other") < text.index("## Copying")


def idle(side: str, megabytes: float) -> dict[str, Any]:
    return {"side": side, "total_mb": megabytes, "by_kind": {}, "cpu_percent": 2.0}


def test_of_one_side_alone_nothing_is_compared() -> None:
    assert rows({"idle": [idle("ours", 688.0)], "throttled": []}) == []
    assert rows([]) == []


def test_only_figures_of_the_same_case_are_compared() -> None:
    delay = {
        "floor_p50": 1.0,
        "floor_p99": 1.0,
        "p50": 2.0,
        "p99": 3.0,
        "over_p50": 1.0,
        "over_p99": 2.0,
        "cpu_percent": 3.0,
    }
    figures = [{"side": "mm2", "rate": 100} | delay, {"side": "ours", "rate": 2000} | delay]
    assert rows(figures) == []


def test_a_difference_of_percentiles_is_called_so() -> None:
    delay = {"rate": 100, "floor_p50": 1.0, "floor_p99": 1.0, "p50": 2.0, "p99": 3.0, "cpu_percent": 3.0}
    paired = delay | {"over_p50": 1.0, "over_p99": 2.0}
    found = rows([{"side": "mm2"} | delay, {"side": "ours"} | paired])
    assert [row.what for row in found][:2] == [
        "100 records/s: p50 over consuming directly (unpaired)",
        "100 records/s: p99 over consuming directly (unpaired)",
    ]
    assert [row.ours for row in found] == [1.0, 2.0, 3.0]


def test_a_side_that_gave_up_is_compared_in_what_it_did() -> None:
    moment = {"when": "before", "over_p50": 1.0, "over_p99": 2.0}
    gave_up = {"side": "mm2", "topics": 2000, "gave_up": "not within 400 s", "copying": [moment]}
    other = {"when": "with Kafka's intervals", "over_p50": 1.0, "over_p99": 2.0}
    figures = [{"side": "ours", "topics": 2000, "copying": [moment, other]}, gave_up]
    assert [row.what for row in rows(figures)] == [
        "Copying beside 2,000 topics, before: p50 over consuming directly",
        "Copying beside 2,000 topics, before: p99 over consuming directly",
    ]


def test_a_case_of_this_product_alone_compares_nothing() -> None:
    assert rows({"places": [], "tasks": []}) == []
    arrived = [(number, float(number), number + 0.001) for number in range(100)]
    assert rows([epochs(arrived, arrived, Load(10, 0.0, 10.0, 200)).figures()]) == []
