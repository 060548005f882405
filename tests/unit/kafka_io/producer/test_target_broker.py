"""How much one broker of the target is sent: less after a time-out or a throttle, more again when it answers quickly."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.target_broker import MUTE_S, PACED_S, TargetBroker


def test_a_request_that_timed_out_halves_what_the_next_one_carries() -> None:
    broker = TargetBroker(1)
    broker.timed_out(now=30.0, sent_at=0.0, size=1000)
    assert broker.carries == 500
    broker.timed_out(now=60.0, sent_at=30.0, size=500)
    assert broker.carries == 250


def test_requests_lost_beside_one_that_timed_out_count_for_nothing() -> None:
    broker = TargetBroker(1)
    broker.timed_out(now=30.0, sent_at=0.0, size=1000)
    broker.timed_out(now=30.0, sent_at=1.0, size=10)
    assert broker.carries == 500


@pytest.mark.parametrize(
    ("seconds", "carries"),
    [pytest.param(1.0, 1000, id="quick"), pytest.param(20.0, 500, id="slow")],
)
def test_only_a_quick_answer_lets_requests_grow(seconds: float, carries: int) -> None:
    broker = TargetBroker(1, carries=500)
    broker.answered_after(seconds, timeout=30.0, largest=10_000)
    assert broker.carries == carries


def test_requests_that_have_grown_to_the_largest_have_no_limit_any_more() -> None:
    broker = TargetBroker(1, carries=5_000)
    broker.answered_after(1.0, timeout=30.0, largest=10_000)
    assert broker.carries is None


def test_a_throttled_broker_gets_what_makes_it_stop_for_half_a_second() -> None:
    broker = TargetBroker(1)
    broker.throttled(now=10.0, seconds=2.0, size=4_000)
    assert (broker.throttled_until, broker.paced_until) == (12.0, 12.0 + PACED_S)
    assert broker.paced_bytes == 4_000 * MUTE_S / 2.0
