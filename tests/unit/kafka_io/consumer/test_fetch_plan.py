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
        # With how many loaded partitions at most it may have room.
        self.full: dict[TopicPartition, int] = {}
        self.asked: list[TopicPartition] = []

    def __call__(self, key: TopicPartition) -> Judged:
        self.asked.append(key)
        if key in self.full:
            return Judged(None, recheck=False, full_above=self.full[key])
        if key not in self.offsets:
            return NOTHING
        return Judged(FetchPartition(*key, self.offsets[key], 100), key in self.recheck)


def planned(partitions: Partitions) -> FetchPlan:
    plan = FetchPlan()
    for key in (ONE, TWO):
        plan.mark_dirty(key)
    plan.refresh(partitions, 9)
    plan.asked()
    partitions.asked.clear()
    return plan


def test_a_quiet_partition_stays_wanted_without_a_look() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    plan.refresh(partitions, 9)
    assert (partitions.asked, [each.offset for each in plan.wanted.values()], [*plan.changed]) == ([], [5, 7], [])


def test_a_dirty_partition_is_looked_at_once() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    partitions.offsets[TWO] = 8
    plan.mark_dirty(TWO)
    for _ in range(2):
        plan.refresh(partitions, 9)
    assert (partitions.asked, plan.wanted[TWO].offset, [*plan.changed]) == ([TWO], 8, [TWO])


def test_a_partition_to_recheck_is_looked_at_until_it_is_quiet() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    partitions.recheck = {ONE}
    plan.mark_dirty(ONE)
    plan.refresh(partitions, 9)
    partitions.recheck = set()
    for _ in range(2):
        plan.refresh(partitions, 9)
    assert partitions.asked == [ONE, ONE]


def test_what_is_gone_is_no_longer_wanted_and_is_news() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    del partitions.offsets[ONE]
    plan.mark_dirty(ONE)
    plan.refresh(partitions, 9)
    assert ([*plan.wanted], [*plan.changed]) == ([TWO], [ONE])


def test_news_stay_news_until_the_broker_is_asked() -> None:
    partitions = Partitions(p1=5, p2=7)
    plan = planned(partitions)
    for key in (ONE, TWO):
        plan.mark_dirty(key)
        plan.refresh(partitions, 9)
    assert [*plan.changed] == [ONE, TWO]


def test_a_partition_that_holds_too_much_is_left_out_without_a_look_until_it_changes() -> None:
    partitions = Partitions(p1=5, p2=7)
    partitions.full = {TWO: -1}
    plan = planned(partitions)
    assert ([plan.refresh(partitions, 1) for _ in range(2)], [*plan.wanted], partitions.asked) == (
        [True] * 2,
        [ONE],
        [],
    )
    del partitions.full[TWO]
    plan.mark_dirty(TWO)
    assert not plan.refresh(partitions, 1)
    assert ([*plan.wanted], partitions.asked) == ([ONE, TWO], [TWO])


def test_partitions_that_hold_too_much_are_looked_at_when_so_few_others_are_loaded_that_one_may_have_room() -> None:
    partitions = Partitions(p1=5, p2=7)
    partitions.full = {ONE: 2, TWO: 5}
    plan = planned(partitions)
    assert plan.refresh(partitions, 6)
    assert partitions.asked == []
    del partitions.full[TWO]
    assert plan.refresh(partitions, 5)
    assert ([*plan.wanted], sorted(partitions.asked)) == ([TWO], [ONE, TWO])
    partitions.asked.clear()
    assert plan.refresh(partitions, 3)
    assert partitions.asked == []


def test_a_partition_that_was_left_out_and_is_gone_is_left_out_no_longer() -> None:
    partitions = Partitions(p1=5, p2=7)
    partitions.full = {TWO: -1}
    plan = planned(partitions)
    partitions.full, partitions.offsets = {}, {ONE: 5}
    plan.mark_dirty(TWO)
    assert not plan.refresh(partitions, 9)
