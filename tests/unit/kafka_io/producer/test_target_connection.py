"""How much one connection to a broker is sent: less after a time-out or a throttle, more again when it answers quickly."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.target_connection import MUTE_S, PACED_S, TargetConnection


def test_a_request_that_timed_out_halves_what_the_next_one_carries() -> None:
    connection = TargetConnection("produce")
    connection.timed_out(now=30.0, sent_at=0.0, size=1000)
    assert connection.carries == 500
    connection.timed_out(now=60.0, sent_at=30.0, size=500)
    assert connection.carries == 250


def test_requests_lost_beside_one_that_timed_out_count_for_nothing() -> None:
    connection = TargetConnection("produce")
    connection.timed_out(now=30.0, sent_at=0.0, size=1000)
    connection.timed_out(now=30.0, sent_at=1.0, size=10)
    assert connection.carries == 500


@pytest.mark.parametrize(
    ("seconds", "carries"),
    [pytest.param(1.0, 1000, id="quick"), pytest.param(20.0, 500, id="slow")],
)
def test_only_a_quick_answer_lets_requests_grow(seconds: float, carries: int) -> None:
    connection = TargetConnection("produce", carries=500)
    connection.answered_after(seconds, timeout=30.0, largest=10_000)
    assert connection.carries == carries


def test_requests_that_have_grown_to_the_largest_have_no_limit_any_more() -> None:
    connection = TargetConnection("produce", carries=5_000)
    connection.answered_after(1.0, timeout=30.0, largest=10_000)
    assert connection.carries is None


def test_a_throttled_connection_gets_what_makes_it_stop_for_half_a_second() -> None:
    connection = TargetConnection("produce")
    connection.throttled(now=10.0, seconds=2.0, size=4_000)
    assert (connection.throttled_until, connection.paced_until) == (12.0, 12.0 + PACED_S)
    assert connection.paced_bytes == 4_000 * MUTE_S / 2.0
    assert connection.limits(now=11.9, most=5, largest=4_000) == (0, 4_000)
    assert connection.limits(now=12.0, most=5, largest=4_000) == (1, 1_000)
    assert connection.limits(now=12.0 + PACED_S, most=5, largest=4_000) == (5, 4_000)
