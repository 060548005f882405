"""What is told to a broker within a fetch session, and what isn't told again."""

from __future__ import annotations

from mirror_connect.kafka_io.wire import FetchPartition
from mirror_connect.spark_jobs.fetch_session import FetchSession

A = FetchPartition("a", 0, 10, 1000, 1)
B = FetchPartition("b", 0, 20, 1000, 1)
BOTH = {("a", 0): A, ("b", 0): B}


def begun() -> FetchSession:
    session = FetchSession()
    session.request(BOTH)
    session.answered(77)
    return session


def test_the_first_request_names_every_partition_and_asks_for_a_session() -> None:
    assert FetchSession().request(BOTH) == ([A, B], [], 0, 0)


def test_later_requests_name_only_what_has_changed() -> None:
    moved = B._replace(offset=21)
    assert begun().request({**BOTH, ("b", 0): moved}) == ([moved], [], 77, 1)


def test_partitions_left_out_are_forgotten_by_name() -> None:
    assert begun().request({("a", 0): A}) == ([], [("b", 0)], 77, 1)


def test_a_forgotten_partition_is_named_again_when_it_is_back() -> None:
    session = begun()
    session.request({("a", 0): A})
    session.answered(77)
    assert session.request(BOTH) == ([B], [], 77, 2)


def test_a_broker_that_keeps_no_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    session.request(BOTH)
    session.answered(0)
    assert session.request(BOTH) == ([A, B], [], 0, 0)


def test_after_a_lost_answer_a_new_session_replaces_the_old_one() -> None:
    session = begun()
    session.request(BOTH)
    session.failed()
    assert session.request(BOTH) == ([A, B], [], 77, 0)


def test_a_session_unknown_to_the_broker_is_not_named_again() -> None:
    session = begun()
    session.request(BOTH)
    session.failed(70)
    assert session.request(BOTH) == ([A, B], [], 0, 0)


def test_epochs_wrap_to_one_because_zero_begins_a_session() -> None:
    session = begun()
    session._epoch = 2**31 - 1
    session.request(BOTH)
    session.answered(77)
    assert session.request(BOTH).session_epoch == 1
