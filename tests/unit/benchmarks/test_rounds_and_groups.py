"""What is aimed at of groups that move and of links with many topics."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.findings import KAFKAS_INTERVALS, copying_beside, failover, many_topics


def moved(side: str, **figures: int) -> dict[str, Any]:
    nothing = {"repeated_median": 0, "repeated_worst": 0, "skipped": 0, "missing": 0}
    return {"side": side, "moment": "later", "places": 240, "records_per_partition": 1350, **nothing, **figures}


def test_a_group_that_goes_on_exactly_is_what_is_aimed_at() -> None:
    assert [aim.met for aim in failover([moved("ours")])[1]] == [True]


@pytest.mark.parametrize("what", ["repeated_worst", "skipped", "missing"])
def test_one_record_or_one_place_misses_it(what: str) -> None:
    assert [aim.met for aim in failover([moved("ours", **{what: 1})])[1]] == [False]


def test_of_the_other_side_nothing_is_promised() -> None:
    table, aims = failover([moved("mm2", repeated_worst=667)])
    assert (table.rows[0][2], aims) == ("667", [])


def link(**figures: Any) -> dict[str, Any]:
    copying = {"when": KAFKAS_INTERVALS, "floor_p50": 1.0, "floor_p99": 4.0, "p50": 3.0, "p99": 9.0}
    return {
        "side": "ours",
        "topics": 2000,
        "groups": 500,
        "created": 12.0,
        "all_copied": 20.0,
        "refresh": 2.0,
        "configs": 3.0,
        "checkpoints": 1.0,
        "checkpoints_worst": 2.0,
        "peak_mb": {"worker": 150.0, "Python task": 90.0},
        "copying": [{**copying, "received": 100, "sent": 100}],
        **figures,
    }


def test_a_link_with_many_topics_that_keeps_its_pace_is_what_is_aimed_at() -> None:
    assert [aim.met for aim in many_topics([link()])[1]] == [True, True, True]


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param({"created": 31.0}, id="the_first_refresh"),
        pytest.param({"refresh": 31.0}, id="a_later_refresh"),
        pytest.param({"checkpoints_worst": 11.0}, id="a_round_of_checkpoints"),
        pytest.param({"peak_mb": {"worker": 401.0}}, id="the_worker"),
        pytest.param({"peak_mb": {}}, id="a_worker_that_was_not_seen"),
    ],
)
def test_what_is_slower_or_larger_misses_it(figures: dict[str, Any]) -> None:
    assert [aim.met for aim in many_topics([link(**figures)])[1]].count(False) == 1


def test_a_side_that_did_not_get_through_has_a_row_that_says_so() -> None:
    other = {name: link()[name] for name in ("topics", "groups", "copying")}
    figures = [
        link(),
        {**other, "side": "mm2", "created": 0, "gave_up": "not within 400 s: all remote topics are there"},
    ]
    table, aims = many_topics(figures)
    assert table.rows[1][1] == "given up with 0 remote topics (not within 400 s: all remote topics are there)"
    assert ({len(row) for row in table.rows}, len(aims)) == ({len(table.head)}, 3)


def test_copying_that_is_not_held_up_is_what_is_aimed_at() -> None:
    assert [(aim.measured, aim.met) for aim in copying_beside([link()])[1]] == [("+2.0 ms", True), ("+5.0 ms", True)]


def test_of_copying_beside_rounds_that_never_end_nothing_is_promised() -> None:
    (moment,) = link()["copying"]
    table, aims = copying_beside([link(copying=[{**moment, "when": "with all rounds each second"}])])
    assert (len(table.rows), aims) == (1, [])
