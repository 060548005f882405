"""How much one broker of the target is sent: less after a time-out or a throttle, more again when it answers quickly."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.client.round_trip import FAR_S, FAR_TRIES, ROUND_TRIP_TRIES
from mirror_connect.kafka_io.producer.target_broker import MUTE_S, PACED_S, TargetBroker
from tests.fakes.simulated_time import run_simulated


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


class Link:
    """What TargetBroker uses of a Cluster: each request takes the next of these seconds; None: no answer."""

    def __init__(self, seconds: Iterable[float | None]) -> None:
        self.requests = 0
        self._seconds = iter(seconds)

    async def send(self, _node: int, _request: object) -> None:
        self.requests += 1
        seconds = next(self._seconds)
        if seconds is None:
            raise ClusterUnreachable("no answer")
        await asyncio.sleep(seconds)


def measured(link: Link, for_s: float = 30.0) -> TargetBroker:
    """A broker whose round trip was measured over this link."""
    broker = TargetBroker(1)

    async def measure() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(for_s):
                await broker.keep_round_trip(link, lambda: None)  # type: ignore[arg-type]

    run_simulated(measure())
    return broker


def test_a_quick_link_is_asked_a_few_times() -> None:
    link = Link(itertools.repeat(0.001))
    assert measured(link).round_trip == pytest.approx(0.001)
    assert link.requests == ROUND_TRIP_TRIES + 1


def test_a_link_with_one_quick_answer_is_not_slow_whatever_delays_the_others() -> None:
    link = Link([0.5] * (FAR_TRIES - 1) + [0.002] + [0.5] * 9)
    assert measured(link).round_trip == pytest.approx(0.002)
    assert measured(Link(itertools.repeat(0.5))).round_trip > FAR_S


def test_the_first_answer_may_have_had_to_connect_and_never_counts() -> None:
    assert measured(Link(itertools.chain([0.001], itertools.repeat(0.08)))).round_trip == pytest.approx(0.08)


def test_a_link_that_breaks_while_it_is_measured_keeps_the_former_round_trip() -> None:
    assert measured(Link([0.001, 0.5, None, *[0.5] * 40])).round_trip == 0.0
