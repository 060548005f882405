"""How far away a broker of the target is, as it is measured."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.client.round_trip import FAR_S, FAR_TRIES, ROUND_TRIP_TRIES
from mirror_connect.kafka_io.producer.target_broker import TargetBroker
from tests.fakes.simulated_time import run_simulated


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


def measured(link: Link, for_s: float = 30.0, told: list[float] | None = None) -> TargetBroker:
    """A broker whose round trip was measured over this link. `told`: gets the round trip with which it has become far."""
    broker = TargetBroker(1)
    far = [] if told is None else told

    async def measure() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(for_s):
                await broker.keep_round_trip(
                    link,  # type: ignore[arg-type]
                    lambda: None,
                    lambda broker: far.append(broker.round_trip),
                )

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


def test_it_is_told_once_that_a_broker_is_far() -> None:
    told: list[float] = []
    measured(Link(itertools.repeat(0.05)), 200.0, told)
    assert told == [pytest.approx(0.05)]
    measured(Link(itertools.repeat(0.001)), 200.0, told)
    assert len(told) == 1


def test_the_first_answer_may_have_had_to_connect_and_never_counts() -> None:
    assert measured(Link(itertools.chain([0.001], itertools.repeat(0.08)))).round_trip == pytest.approx(0.08)


def test_a_link_that_breaks_while_it_is_measured_keeps_the_former_round_trip() -> None:
    assert measured(Link([0.001, 0.5, None, *[0.5] * 40])).round_trip == 0.0
