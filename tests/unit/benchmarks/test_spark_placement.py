"""Figures of places on a Spark cluster: ratios are taken round by round, and every place counts what it runs."""

from __future__ import annotations

from typing import Final

import pytest

from benchmarks.figures import Span
from benchmarks.spark_placement import LOCAL, MANY, ONE, PARTITIONS, WIDE, _placed, findings, kind

WIRE: Final = 500.0


def spans(*figures: tuple[float, float]) -> list[Span]:
    """Rounds of a million records: seconds and CPU seconds."""
    return [
        Span(seconds, 1_000_000, cpu, {"Python task": cpu / 2, "worker": cpu / 2}, 0, 0) for seconds, cpu in figures
    ]


PLAIN: Final = spans((10, 1), (10, 2), (10, 4))


def test_a_ratio_is_that_of_one_round_and_not_of_medians() -> None:
    placed = _placed(ONE, 4, spans((5, 2), (10, 2), (20, 4)), PLAIN, WIRE)
    assert placed.cost_ratios == [2.0, 1.0, 1.0]
    assert placed.speed_ratios == [2.0, 1.0, 0.5]
    assert (placed.microseconds, placed.bytes_per_second) == (2.0, 100_000 * WIRE)
    assert placed.bytes_per_cpu_second == 500_000 * WIRE
    assert (placed.records, placed.cpu_by_kind) == (3_000_000, {"Python task": 4.0, "worker": 4.0})


def test_a_place_that_costs_a_tenth_more_meets_its_aims_and_one_that_costs_more_misses() -> None:
    def figures(cost: float) -> dict[str, object]:
        dear = [Span(each.seconds, each.records, each.cpu * cost, {}, 0, 0) for each in PLAIN]
        as_dict = {
            name: vars_of(_placed(place, tasks, measured, PLAIN, WIRE, partitions=partitions))
            for name, place, tasks, measured, partitions in (
                ("local", LOCAL, 4, PLAIN, PARTITIONS),
                ("one", ONE, 4, dear, PARTITIONS),
                ("1", WIDE, 1, PLAIN, PARTITIONS),
                ("16", WIDE, 16, dear, PARTITIONS),
                ("many", WIDE, 1, dear, MANY),
            )
        }
        return {
            "places": [as_dict["local"], as_dict["one"]],
            "tasks": [as_dict["1"], as_dict["16"]],
            "many": as_dict["many"],
        }

    table, aims = findings(figures(1.1))
    assert [row[0] for row in table.rows][-1] == f"{WIDE}, 1 task, {MANY:,} partitions"
    assert [aim.met for aim in aims] == [True] * 4
    assert [aim.met for aim in findings(figures(1.2))[1]] == [False, True, True, True]
    assert [aim.met for aim in findings(figures(1.4))[1]] == [False, True, False, False]


def vars_of(placed: object) -> dict[str, object]:
    return {name: getattr(placed, name) for name in placed.__slots__}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("command", "parent", "expected"),
    [
        pytest.param("java -cp x org.apache.spark.deploy.worker.Worker", "", "Spark's workers", id="worker"),
        pytest.param("java -cp x org.apache.spark.deploy.master.Master", "", "Spark's master", id="master"),
        pytest.param(
            "java org.apache.spark.executor.CoarseGrainedExecutorBackend --executor-id 1",
            "",
            "executors",
            id="executor",
        ),
        pytest.param(
            "python -m mirror_connect.spark_jobs.daemon",
            "java CoarseGrainedExecutorBackend",
            "Python daemon",
            id="daemon",
        ),
        pytest.param(
            "python -m mirror_connect.spark_jobs.daemon",
            "python -m mirror_connect.spark_jobs.daemon",
            "Python task",
            id="task",
        ),
    ],
)
def test_each_process_of_a_cluster_has_its_kind(command: str, parent: str, expected: str) -> None:
    assert kind(command.split(), parent.split()) == expected
