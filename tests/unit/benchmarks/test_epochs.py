"""Latency over an epoch's end: by sections, so that the one in which it ended is seen."""

from __future__ import annotations

from benchmarks.epochs import SECTION_S, epochs, findings
from benchmarks.latency_probe import Load
from benchmarks.pairing import Arrival
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

LOAD = Load(100, 0.0, 50.0, 200)


def arrivals(late: dict[int, float], records: int = 5_000) -> list[Arrival]:
    """`late`: number of a record → milliseconds; any other record takes one."""
    return [(number, float(number), number + late.get(number, 1.0) / 1000) for number in range(records)]


def test_the_section_in_which_it_ended_stands_out() -> None:
    turnover = range(3_210, 3_250)
    found = epochs(arrivals({}), arrivals(dict.fromkeys(turnover, 61.0)), LOAD)
    assert (round(found.usual_p999, 6), round(found.worst_p999, 6), round(found.worst, 6)) == (0.0, 60.0, 60.0)
    assert (round(found.lateness.over_p99, 6), found.lateness.received) == (0.0, 5_000)


def figures(
    seconds: float = EPOCH_SECONDS + SECTION_S, received: int = 5_000, p999: float = 100.0
) -> dict[str, object]:
    found = epochs(arrivals({}), arrivals({}), LOAD).figures()
    return {**found, "seconds": seconds, "received": received, "over_p999": p999}


def test_each_percentile_has_its_aim() -> None:
    assert [aim.met for aim in findings([figures()])[1]] == [True, True, True]
    assert [aim.met for aim in findings([figures(p999=100.1)])[1]] == [True, True, False]


def test_a_run_without_an_end_of_an_epoch_or_with_lost_records_proves_nothing() -> None:
    aims = [findings([each])[1][0].met for each in (figures(seconds=EPOCH_SECONDS - 1), figures(received=4_999))]
    assert aims == [None, None]
