"""What is aimed at of groups that move and of links with many topics."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.findings import copying_beside, failover, many_topics
from benchmarks.many_topics import BEFORE, CREATING, EACH_SECOND_ROUNDS, KAFKAS_INTERVALS
from benchmarks.store import load


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
    copying |= {"over_p50": 2.0, "over_p99": 5.0}
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
    assert table.rows[1][1].startswith("given up with 0 remote topics (not within 400 s: all remote topics are there).")
    assert ({len(row) for row in table.rows}, len(aims)) == ({len(table.head)}, 3)


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        pytest.param(
            {"said": ["12:00 WARN a (B) | c.D: e", "12:01 ERROR `f`"]},
            "Its log: `12:00 WARN a (B) – c.D: e · 12:01 ERROR 'f'`",
            id="its_lines_as_one_cell",
        ),
        pytest.param({"said": []}, "Its log says nothing", id="none"),
        pytest.param({}, "Its log was not kept", id="measured_before_it_was_kept"),
    ],
)
def test_a_side_that_gave_up_is_quoted_with_its_last_words(said: dict[str, Any], quoted: str) -> None:
    figures = {"side": "mm2", "topics": 2000, "groups": 500, "copying": [], "created": 0, "gave_up": "not within 400 s"}
    assert many_topics([figures | said])[0].rows[0][1].endswith(f"). {quoted}")


def test_a_side_that_gave_up_is_told_with_what_it_had_copied() -> None:
    figures = {
        "side": "mm2",
        "topics": 1950,
        "groups": 500,
        "copying": [],
        "created": 1950,
        "gave_up": "not within 400 s",
    }
    (row,) = many_topics([figures | {"said": [], "records": 7, "all_records": 117000}])[0].rows
    assert row[1].startswith("given up with 1,950 remote topics and 7 of 117,000 records (not within 400 s).")


def test_copying_that_is_not_held_up_is_what_is_aimed_at() -> None:
    assert [(aim.measured, aim.met) for aim in copying_beside([link()])[1]] == [("+2.0 ms", True), ("+5.0 ms", True)]


@pytest.mark.parametrize("when", [BEFORE, CREATING, KAFKAS_INTERVALS, EACH_SECOND_ROUNDS])
def test_every_moment_that_was_measured_is_aimed_at(when: str) -> None:
    (moment,) = link()["copying"]
    late = {**moment, "when": when, "over_p50": 22.0, "over_p99": 288.5}
    aims = copying_beside([link(copying=[moment, late])])[1]
    assert [(aim.measured, aim.met) for aim in aims if aim.what.startswith(f"Copying beside 2,000 topics, {when}:")][
        -2:
    ] == [("+22.0 ms", False), ("+288.5 ms", False)]


def test_of_the_other_sides_moments_nothing_is_promised() -> None:
    table, aims = copying_beside([link(side="mm2")])
    assert (len(table.rows), aims) == (1, [])


def test_no_moment_that_is_stored_is_left_out_of_the_aims() -> None:
    figures = load()["many-topics"].figures
    moments = [moment["when"] for each in figures if each["side"] == "ours" for moment in each["copying"]]
    told = [aim.what for aim in copying_beside(figures)[1]]
    assert {BEFORE, CREATING, KAFKAS_INTERVALS, EACH_SECOND_ROUNDS} <= set(moments)
    assert all(sum(f", {when}: {name} " in what for what in told) for when in moments for name in ("p50", "p99"))
