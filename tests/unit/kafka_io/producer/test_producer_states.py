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
) -> Rig:
    """Whose target was sent 40 batches, some of them before it was asked."""
    target, feed = FakeTarget(), Feed()
    target.round_trip, target.delay = away_s, lambda: away_s
    target.before_telling, target.telling_error = tells, error

    async def run() -> Rig:
        rig = Rig(target, settings)
        await rig.producer.start()
        side = rig.feed(feed)
        for first, last, seconds in ((0, 1, MEASURED_S), (1, 2, 1.0), (2, 3, 1.0), (3, 40, 10.0)):
            feed.batches.extend(batches(last)[first:])
            rig.producer.wake(side)
            await asyncio.sleep(seconds)
        await rig.producer.close()
        return rig

    rig = run_simulated(run())
    assert feed.acknowledged == list(range(120))
    return rig


def nothing() -> None: ...


def test_a_leader_that_tells_is_asked_once_and_gets_more_than_it_remembers() -> None:
    rig = sent_when_asked(nothing)
    assert rig.target.told == 1
    assert rig.target.most_in_flight > WINDOW
    assert rig.notices == []


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
    target = sent_when_asked(tells, error).target
    assert target.asked == 1
    assert target.most_in_flight == WINDOW


def test_a_missing_right_to_read_is_told_once_with_what_to_grant() -> None:
    [line] = sent_when_asked(nothing, TOPIC_DENIED).notices
    assert "may not read a.orders" in line
    assert "grant READ on topic a.orders to the producing user" in line


@pytest.mark.parametrize("configured", [1, 5, 7])
def test_a_limit_of_the_users_is_told_once_when_the_target_is_far(configured: int) -> None:
    rig = sent_when_asked(nothing, settings=replace(SETTINGS, max_in_flight=configured))
    [line] = rig.notices
    assert f"(100 ms). max.in.flight.requests.per.connection={configured} keeps" in line
    assert f" {min(configured, WINDOW)} batch" in line
    assert sent_when_asked(nothing, settings=replace(SETTINGS, max_in_flight=configured), away_s=0.01).notices == []


def test_who_does_not_lead_or_answer_is_asked_again() -> None:
    failures = [lost(), lost()]

    def tells() -> None:
        if failures:
            raise failures.pop()

    assert sent_when_asked(tells).target.most_in_flight > WINDOW
    assert sent_when_asked(nothing, NOT_LEADER).target.asked > 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"settings": replace(SETTINGS, max_in_flight=7)}, id="a_limit_of_the_users"),
        pytest.param({"settings": replace(SETTINGS, idempotent=False)}, id="no_sequences"),
        pytest.param({"away_s": 0.01}, id="near"),
    ],
)
def test_who_needs_no_more_in_flight_asks_nothing(changes: dict[str, Any]) -> None:
    assert sent_when_asked(nothing, **changes).target.asked == 0
