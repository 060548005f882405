"""Of which other workers something may still be written, and what the trace says of them."""

from __future__ import annotations

from mirror_connect.app.supervisor.other_workers import LANDING_S, OtherWorker, OtherWorkers


def test_the_least_that_any_of_them_has_confirmed_counts() -> None:
    others = OtherWorkers(lambda: 0.0)
    others.update(
        [OtherWorker("a:1", {"c": 20, "d": 5}), OtherWorker("b:1", {"c": 10}), OtherWorker("l:1", {"e": -1}, 1.0)]
    )
    assert [others.confirmed(connector) for connector in "cdef"] == [10, 5, -1, float("inf")]


def test_all_that_are_waited_for_are_named() -> None:
    others = OtherWorkers(lambda: 0.0)
    others.update([OtherWorker("a:1", {"c": 10}), OtherWorker("b:1", {"c": 20}), OtherWorker("l:1", {"c": 10}, 1.0)])
    alive, lost = others.why("c", 20).split("; ")
    assert alive == "worker a:1 has not given them up yet"
    assert lost.startswith("worker l:1 was lost, and what it has sent may still be written until ")
    assert (others.lost("c"), others.lost("d"), others.why("c", 10)) == (lost, "", "")


def test_who_was_lost_is_forgotten_in_time_and_who_waited_for_it_is_told_once() -> None:
    now = 0.0
    others = OtherWorkers(lambda: now)
    others.update([OtherWorker("l:1", {"c": -1, "d": -1}, 10.0)])
    early, now = others.over(), LANDING_S - 10.0
    assert (early, others.confirmed("c"), others.over(), others.over()) == (set(), float("inf"), {"c", "d"}, set())


def test_only_members_make_company() -> None:
    others = OtherWorkers(lambda: 0.0)
    others.update([OtherWorker("l:1", {}, 1.0)])
    alone = others.are_there
    others.update([OtherWorker("a:1", {})])
    assert (alone, others.are_there) == (False, True)
