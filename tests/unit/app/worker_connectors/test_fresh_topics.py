"""What was just created counts as there, until the brokers tell of it or it is plain that they never will."""

from __future__ import annotations

from mirror_connect.app.worker_connectors.fresh_topics import FRESH_S, FreshTopics


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_topic_that_was_just_created_is_there() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    assert fresh.added_to({"u": 1}) == {"u": 1, "t": 3}


def test_a_topic_that_has_just_grown_has_its_new_partitions() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    assert fresh.added_to({"t": 1}) == {"t": 3}


def test_a_topic_that_brokers_have_told_of_is_gone_when_they_say_so() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    fresh.added_to({"t": 3})
    assert fresh.added_to({}) == {}


def test_a_topic_that_grows_further_has_what_brokers_tell() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    assert fresh.added_to({"t": 5}) == {"t": 5}


def test_one_that_nobody_ever_tells_of_is_not_believed_in_for_ever() -> None:
    clock = Clock()
    fresh = FreshTopics(clock)
    fresh.made({"t": 3})
    clock.now += FRESH_S
    assert fresh.added_to({}) == {}
