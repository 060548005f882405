"""Leaders that are far away, and asked which batches of this producer they have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.copier_settings import WINDOW, ProducerSettings
from mirror_connect.kafka_io.producer.produce_outcome import Outcome
from mirror_connect.kafka_io.producer.target_partition import (
    RESUMES,
    InFlightBatch,
    ProducerIdAndEpoch,
    TargetPartition,
)
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


# What follows from what it tells.

PRODUCER = ProducerIdAndEpoch(7, 0)
COUNT = 20


def lost_in_flight(*, acknowledged: bool = True) -> tuple[TargetPartition, Feed, list[InFlightBatch]]:
    """Batches of three records, all of them sent but none answered but the first; then their connection broke."""
    feed = Feed(batches(1 + COUNT))
    target = TargetPartition("a.orders", 0, feed, WINDOW, 1_000_000, wide=True)
    first = target.next_batch(PRODUCER, latency_bound=False)
    assert first is not None
    target.answered(first, Outcome.WRITTEN, base_offset=0 if acknowledged else -1)
    sent = [target.next_batch(PRODUCER, latency_bound=False) for _ in range(COUNT)]
    found = [each for each in sent if each is not None]
    for each in found:
        target.answered(each, Outcome.RETRY)
    assert target.unclear
    assert not target.sendable()
    return target, feed, found


def next_of(target: TargetPartition) -> InFlightBatch | None:
    return target.next_batch(PRODUCER, latency_bound=False) if target.sendable() else None


def test_it_goes_on_with_the_last_batch_that_the_leader_has() -> None:
    target, feed, sent = lost_in_flight()
    target.resume(sent[11].last_sequence)
    assert feed.acknowledged == [0, 1, 2]
    assert next_of(target) is sent[11]
    target.answered(sent[11], Outcome.WRITTEN, base_offset=sent[11].sequence)
    assert feed.acknowledged == list(range(3 + 12 * 3))
    assert next_of(target) is sent[12]


def test_also_when_the_leader_may_forget_the_producer_meanwhile() -> None:
    target, _, sent = lost_in_flight()
    target.remembered_until = 0.0
    target.resume(sent[11].last_sequence)
    assert next_of(target) is sent[11]
    assert next_of(target) is None


def test_what_lies_elsewhere_than_behind_the_former_batches_shows_that_some_are_missing() -> None:
    target, feed, sent = lost_in_flight()
    target.resume(sent[11].last_sequence)
    next_of(target)
    target.answered(sent[11], Outcome.WRITTEN, base_offset=sent[10].sequence)
    assert target.state_lost
    assert not target.sendable()
    target.restamp(ProducerIdAndEpoch(7, 1), fenced=True)
    assert feed.acknowledged == [0, 1, 2]
    assert next_of(target) is sent[0]


@pytest.mark.parametrize("last", [None, 1, 2, 10_000], ids=["nothing", "less_than_it_had", "none_of_these", "no_such"])
def test_with_anything_else_all_are_sent_again(last: int | None) -> None:
    target, _, sent = lost_in_flight()
    target.resume(last)
    assert next_of(target) is sent[0]


def test_without_the_offset_of_the_former_batch_all_are_sent_again() -> None:
    target, _, sent = lost_in_flight(acknowledged=False)
    target.resume(sent[11].last_sequence)
    assert next_of(target) is sent[0]


def test_it_does_not_ask_for_ever_when_the_batch_is_refused() -> None:
    target, _, sent = lost_in_flight()
    for _ in range(RESUMES):
        assert target.unclear
        target.resume(sent[11].last_sequence)
        assert next_of(target) is sent[11]
        target.resume_refused(sent[11])
        target.answered(sent[11], Outcome.RETRY)
    assert not target.unclear
    assert next_of(target) is sent[0]


def test_what_was_certainly_not_written_is_sent_again_without_a_question() -> None:
    target = TargetPartition("a.orders", 0, Feed(batches(1 + COUNT)), WINDOW, 1_000_000, wide=True)
    first = next_of(target)
    assert first is not None
    target.answered(first, Outcome.WRITTEN, base_offset=0)
    sent = [next_of(target) for _ in range(COUNT)]
    for each in sent:
        assert each is not None
        target.answered(each, Outcome.RETRY, absent=True)
    assert not target.unclear
    assert next_of(target) is sent[0]


def test_a_partition_that_is_taken_away_asks_nothing() -> None:
    target, _, _ = lost_in_flight()
    target.abandon()
    assert not target.unclear
