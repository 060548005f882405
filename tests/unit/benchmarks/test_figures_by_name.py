"""Figures are stored flat, by the names that reports and earlier results have."""

from __future__ import annotations

from benchmarks.latency import Delay
from benchmarks.many_topics_figures import Copying, GaveUp, ManyTopics
from benchmarks.pairing import Lateness

LATE = Lateness(90, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
FLAT = {
    "received": 90,
    "floor_p50": 1.0,
    "floor_p99": 2.0,
    "p50": 3.0,
    "p99": 4.0,
    "over_p50": 5.0,
    "over_p99": 6.0,
    "over_p999": 7.0,
}


def test_a_delay_is_flat_and_so_are_its_rounds() -> None:
    found = Delay("ours", 100, 95, LATE, [LATE], 7.0, 2).figures()
    assert found == {"side": "ours", "rate": 100, "sent": 95, **FLAT, "rounds": [FLAT], "cpu_percent": 7.0, "busy": 2}


def test_copying_beside_many_topics_is_flat_on_both_outcomes() -> None:
    copying = [Copying("before", 95, LATE)]
    whole = ManyTopics("ours", 2, 4, 1, 10, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, {"worker": 80.0}, copying).figures()
    gave_up = GaveUp("mm2", 2, 1, "not within 400 s", 1, copying, ["out of memory"], 5, 40).figures()
    assert whole["copying"] == gave_up["copying"] == [{"when": "before", "sent": 95, **FLAT}]
    assert (whole["peak_mb"], gave_up["said"]) == ({"worker": 80.0}, ["out of memory"])
