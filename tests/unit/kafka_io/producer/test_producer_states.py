"""Leaders that are far away, and asked which batches of this producer they have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.copier_settings import WINDOW, ProducerSettings
from tests.fakes.producer_rig import NOT_LEADER, SETTINGS, TOPIC_DENIED, Feed, Rig, batches
from tests.fakes.simulated_time import run_simulated
from tests.fakes.target_cluster import FakeTarget, lost

AWAY_S = 0.1
MEASURED_S = 10.0


def sent_when_asked(
    tells: Callable[[], None], error: int = 0, settings: ProducerSettings = SETTINGS, away_s: float = AWAY_S
) -> FakeTarget:
    """A target that was sent 40 batches, some of them before it was asked."""
    target, feed = FakeTarget(), Feed()
    target.round_trip, target.delay = away_s, lambda: away_s
    target.before_telling, target.telling_error = tells, error

    async def run() -> None:
        rig = Rig(target, settings)
        await rig.producer.start()
        side = rig.feed(feed)
        for first, last, seconds in ((0, 1, MEASURED_S), (1, 2, 1.0), (2, 3, 1.0), (3, 40, 10.0)):
            feed.batches.extend(batches(last)[first:])
            rig.producer.wake(side)
            await asyncio.sleep(seconds)
        await rig.producer.close()

    run_simulated(run())
    assert feed.acknowledged == list(range(120))
    return target


def nothing() -> None: ...


def test_a_leader_that_tells_is_asked_once_and_gets_more_than_it_remembers() -> None:
    target = sent_when_asked(nothing)
    assert target.told == 1
    assert target.most_in_flight > WINDOW


def unsupported() -> None:
    raise UnsupportedByBroker("DescribeProducers")


@pytest.mark.parametrize(
    ("tells", "error"),
    [
        pytest.param(nothing, TOPIC_DENIED, id="without_the_right_to_read"),
        pytest.param(unsupported, 0, id="an_old_broker"),
    ],
)
def test_a_leader_that_does_not_tell_is_asked_once_and_gets_five(tells: Callable[[], None], error: int) -> None:
    target = sent_when_asked(tells, error)
    assert target.asked == 1
    assert target.most_in_flight == WINDOW


def test_who_does_not_lead_or_answer_is_asked_again() -> None:
    failures = [lost(), lost()]

    def tells() -> None:
        if failures:
            raise failures.pop()

    assert sent_when_asked(tells).most_in_flight > WINDOW
    assert sent_when_asked(nothing, NOT_LEADER).asked > 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"settings": replace(SETTINGS, max_in_flight=7)}, id="a_limit_of_the_users"),
        pytest.param({"settings": replace(SETTINGS, idempotent=False)}, id="no_sequences"),
        pytest.param({"away_s": 0.01}, id="near"),
    ],
)
def test_who_needs_no_more_in_flight_asks_nothing(changes: dict[str, Any]) -> None:
    assert sent_when_asked(nothing, **changes).asked == 0
