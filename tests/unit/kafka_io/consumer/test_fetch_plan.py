"""A broker's plan judges only partitions that have changed."""

from __future__ import annotations

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.fetch_plan import NOTHING, FetchPlan, Judged
from mirror_connect.kafka_io.protocol.fetch import FetchPartition

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


class Partitions:
    """Judges, and counts how often it is asked."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = {TopicPartition("t", int(name[1:])): offset for name, offset in offsets.items()}
        self.recheck: set[TopicPartition] = set()
        self.full: set[TopicPartition] = set()
        self.asked: list[TopicPartition] = []

    def __call__(self, key: TopicPartition) -> Judged:
        self.asked.append(key)
        if key in self.full:
            return Judged(None, recheck=True, full=True)
        if key not in self.offsets:
            return NOTHING
        return Judged(FetchPartition(*key, self.offsets[key], 100), key in self.recheck)


def planned(partitions: Partitions) -> FetchPlan:
    plan = FetchPlan()
    for key in (ONE, TWO):
        plan.mark_dirty(key)
    plan.refresh(partitions)
    plan.asked()
    partitions.asked.clear()
    return plan


def test_a_quiet_partition_stays_wanted_without_a_look() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    plan.refresh(partitions)
    assert (partitions.asked, [each.offset for each in plan.wanted.values()], [*plan.changed]) == ([], [5, 7], [])


def test_a_dirty_partition_is_looked_at_once() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    partitions.offsets[TWO] = 8
    plan.mark_dirty(TWO)
    for _ in range(2):
        plan.refresh(partitions)
    assert (partitions.asked, plan.wanted[TWO].offset, [*plan.changed]) == ([TWO], 8, [TWO])


def test_a_partition_to_recheck_is_looked_at_until_it_is_quiet() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    partitions.recheck = {ONE}
    plan.mark_dirty(ONE)
    plan.refresh(partitions)
    partitions.recheck = set()
    for _ in range(2):
        plan.refresh(partitions)
    assert partitions.asked == [ONE, ONE]


def test_what_is_gone_is_no_longer_wanted_and_is_news() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    del partitions.offsets[ONE]
    plan.mark_dirty(ONE)
    plan.refresh(partitions)
    assert ([*plan.wanted], [*plan.changed]) == ([TWO], [ONE])


def test_news_stay_news_until_the_broker_is_asked() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    for key in (ONE, TWO):
        plan.mark_dirty(key)
        plan.refresh(partitions)
    assert [*plan.changed] == [ONE, TWO]


def test_a_partition_that_holds_too_much_is_told_at_each_look() -> None:
    partitions = Partitions(p1=5, p2=7)
    partitions.full = {TWO}
    plan = planned(partitions)
    assert ([plan.refresh(partitions) for _ in range(2)], [*plan.wanted]) == ([True, True], [ONE])
