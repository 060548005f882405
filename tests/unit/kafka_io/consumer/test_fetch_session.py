"""A fetch session sends a partition only when something about it has changed."""

from __future__ import annotations

import random

from mirror_connect.kafka_io.consumer.fetch_session import FetchSession
from mirror_connect.kafka_io.protocol.fetch import FetchPartition

A = FetchPartition("a", 0, 10, 1000, 1)
B = FetchPartition("b", 0, 20, 1000, 1)
BOTH = {("a", 0): A, ("b", 0): B}


def begun() -> FetchSession:
    session = FetchSession()
    session.request(BOTH)
    session.answered(77)
    return session


def test_the_first_request_names_every_partition_and_asks_for_a_session() -> None:
    assert FetchSession().request(BOTH) == ([A, B], [], 0, 0, None)


def test_later_requests_name_only_what_has_changed() -> None:
    moved = B._replace(offset=21)
    assert begun().request({**BOTH, ("b", 0): moved}) == ([moved], [], 77, 1, None)


def test_partitions_left_out_are_forgotten_by_name() -> None:
    assert begun().request({("a", 0): A}) == ([], [("b", 0, b"")], 77, 1, None)


def test_a_forgotten_partition_is_named_again_when_it_is_back() -> None:
    session = begun()
    session.request({("a", 0): A})
    session.answered(77)
    assert session.request(BOTH) == ([B], [], 77, 2, None)


def test_a_broker_that_keeps_no_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    session.request(BOTH)
    session.answered(0)
    assert session.request(BOTH) == ([A, B], [], 0, 0, None)


def test_after_a_lost_answer_a_new_session_replaces_the_old_one() -> None:
    session = begun()
    session.request(BOTH)
    session.failed()
    assert session.request(BOTH) == ([A, B], [], 77, 0, None)


def test_a_session_unknown_to_the_broker_is_not_named_again() -> None:
    session = begun()
    session.request(BOTH)
    session.failed(70)
    assert session.request(BOTH) == ([A, B], [], 0, 0, None)


def test_epochs_wrap_to_one_because_zero_begins_a_session() -> None:
    session = begun()
    session._epoch = 2**31 - 1
    session.request(BOTH)
    session.answered(77)
    assert session.request(BOTH).session_epoch == 1


IDENTIFIED = {key: wanted._replace(topic_id=wanted.topic.encode() * 16) for key, wanted in BOTH.items()}
NAMES = {b"a" * 16: "a", b"b" * 16: "b"}


def test_topics_are_named_by_id_when_all_have_one() -> None:
    assert FetchSession().request(IDENTIFIED).names == NAMES


def test_one_topic_without_an_id_has_all_named_by_name() -> None:
    assert FetchSession().request({**IDENTIFIED, ("b", 0): B}).names is None


def test_a_topic_made_again_is_asked_for_by_its_new_id_and_the_old_one_forgotten() -> None:
    session = FetchSession()
    session.request(IDENTIFIED)
    session.answered(77)
    anew = IDENTIFIED["b", 0]._replace(offset=0, topic_id=b"c" * 16)
    assert session.request({**IDENTIFIED, ("b", 0): anew}) == (
        [anew],
        [("b", 0, b"b" * 16)],
        77,
        1,
        {**NAMES, b"c" * 16: "b"},
    )


def test_a_topic_without_an_id_that_joins_begins_a_session_by_name() -> None:
    session = FetchSession()
    session.request({("a", 0): IDENTIFIED["a", 0]})
    session.answered(77)
    assert session.request({("a", 0): IDENTIFIED["a", 0], ("b", 0): B}) == ([IDENTIFIED["a", 0], B], [], 77, 0, None)


def test_told_where_to_look_it_says_what_a_look_at_everything_would() -> None:
    dice = random.Random(11)
    told, looking = FetchSession(), FetchSession()
    wanted: dict[tuple[str, int], FetchPartition] = {}
    for _ in range(300):
        changed = {("t", dice.randrange(6)) for _ in range(dice.randrange(4))}
        for key in changed:
            if dice.random() < 0.3:
                wanted.pop(key, None)
            else:
                wanted[key] = FetchPartition(*key, dice.randrange(3), 100, 0, dice.choice((b"a" * 16, b"b" * 16)))
        one, other = told.request(wanted, changed), looking.request(wanted)
        assert (sorted(one.partitions), sorted(one.forgotten), one[2:]) == (
            sorted(other.partitions),
            sorted(other.forgotten),
            other[2:],
        )
        for session in (told, looking):
            session.answered(7)
