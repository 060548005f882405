"""A broker's plan is looked at where something happened, and nowhere else."""

from __future__ import annotations

from mirror_connect.kafka_io.consumer.fetch_plan import NOTHING, FetchPlan, Judged, Key
from mirror_connect.kafka_io.protocol.wire import FetchPartition

ONE, TWO = ("t", 1), ("t", 2)


class Partitions:
    """Judges, and counts how often it is asked."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = {("t", int(name[1:])): offset for name, offset in offsets.items()}
        self.restless: set[Key] = set()
        self.full: set[Key] = set()
        self.asked: list[Key] = []

    def __call__(self, key: Key) -> Judged:
        self.asked.append(key)
        if key in self.full:
            return Judged(None, restless=True, full=True)
        if key not in self.offsets:
            return NOTHING
        return Judged(FetchPartition(*key, self.offsets[key], 100), key in self.restless)


def planned(partitions: Partitions) -> FetchPlan:
    plan = FetchPlan()
    for key in (ONE, TWO):
        plan.stir(key)
    plan.look(partitions)
    plan.asked()
    partitions.asked.clear()
    return plan


def test_a_quiet_partition_stays_wanted_without_a_look() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    plan.look(partitions)
    assert (partitions.asked, [each.offset for each in plan.wanted.values()], [*plan.news]) == ([], [5, 7], [])


def test_what_has_stirred_is_looked_at_once() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    partitions.offsets[TWO] = 8
    plan.stir(TWO)
    for _ in range(2):
        plan.look(partitions)
    assert (partitions.asked, plan.wanted[TWO].offset, [*plan.news]) == ([TWO], 8, [TWO])


def test_a_restless_partition_is_looked_at_until_it_is_quiet() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    partitions.restless = {ONE}
    plan.stir(ONE)
    plan.look(partitions)
    partitions.restless = set()
    for _ in range(2):
        plan.look(partitions)
    assert partitions.asked == [ONE, ONE]


def test_what_is_gone_is_no_longer_wanted_and_is_news() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    del partitions.offsets[ONE]
    plan.stir(ONE)
    plan.look(partitions)
    assert ([*plan.wanted], [*plan.news]) == ([TWO], [ONE])


def test_news_stay_news_until_the_broker_is_asked() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    for key in (ONE, TWO):
        plan.stir(key)
        plan.look(partitions)
    assert [*plan.news] == [ONE, TWO]


def test_a_partition_that_holds_too_much_is_told_at_each_look() -> None:
    partitions = Partitions(p1=5, p2=7)
    partitions.full = {TWO}
    plan = planned(partitions)
    assert ([plan.look(partitions) for _ in range(2)], [*plan.wanted]) == ([True, True], [ONE])
