"""What an assignment of the group says of the other workers."""

from __future__ import annotations

from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember, LostMember
from mirror_connect.app.herder.other_workers import group_news
from mirror_connect.app.supervisor.other_workers import OtherWorker
from mirror_connect.connectors.task_protocol import TaskId

C0, C1, D0 = TaskId("c", 0), TaskId("c", 1), TaskId("d", 0)


def test_who_held_nothing_when_it_joined_begins_by_what_the_leader_had_read() -> None:
    own = GroupMember("http://a", "a:1", frozenset(), frozenset({C0}))
    other = GroupMember("http://b", "b:1", frozenset(), frozenset({C1, D0}), {"d": 7, "e": 5})
    assignment = GroupAssignment(
        3, tasks=frozenset({C0}), workers=(own, other), config_offset=20, leader_url="http://b"
    )
    assert group_news(assignment, "a:1", 0.0) == ((OtherWorker("b:1", {"c": 20, "d": 7, "e": 5}),), {"c": 20})


def test_what_a_lost_worker_had_no_time_to_confirm_is_unknown() -> None:
    lost = LostMember("b:1", frozenset({C1, D0}), {"d": 7}, lost_at=90.0)
    news = group_news(GroupAssignment(3, lost=(lost,), config_offset=20), "a:1", 100.0)
    assert news == ((OtherWorker("b:1", {"c": -1, "d": 7}, 10.0),), {})


def test_who_names_the_same_address_by_mistake_is_another_worker() -> None:
    own = GroupMember("http://a", "a:1", frozenset(), frozenset({C0}))
    twin = GroupMember("http://a", "a:1", frozenset(), frozenset({C1}))
    assignment = GroupAssignment(3, tasks=frozenset({C0}), workers=(twin, own), config_offset=20)
    assert group_news(assignment, "a:1", 0.0).others == (OtherWorker("a:1", {"c": 20}),)


def test_of_two_with_one_address_the_one_with_nothing_is_this_one() -> None:
    own, twin = GroupMember("http://a", "a:1"), GroupMember("http://a", "a:1", frozenset({"c"}), frozenset({C0, C1}))
    for workers in ((own, twin), (twin, own)):
        news = group_news(GroupAssignment(3, workers=workers, config_offset=20), "a:1", 0.0)
        assert news == ((OtherWorker("a:1", {"c": 20}),), {})
