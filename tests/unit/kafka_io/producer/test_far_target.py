"""A target far away, in simulated time: what is merged for it, and how many requests are under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mirror_connect.kafka_io.producer.target_broker import FAR_S, LATENCY_BOUND, TargetBroker
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from tests.fakes.producer_rig import Feed, Rig, batch, batches, until
from tests.fakes.simulated_time import run_simulated
from tests.fakes.target_cluster import FakeTarget

AWAY_S = 0.1
# Long enough for every measurement of the round trip.
MEASURED_S = 10.0


class Merging(Feed):
    """Takes all that waits as one batch if it may be merged; `taken`: how many batches each time."""

    def __init__(self, batches: list[ProducerBatch]) -> None:
        super().__init__(batches)
        self.taken: list[int] = []

    def take(self, limit: int, *, latency_bound: bool) -> ProducerBatch | None:
        if not self.batches:
            return None
        self.taken.append(len(self.batches) if latency_bound else 1)
        if not latency_bound:
            return self.batches.popleft()
        first, last = self.batches[0], self.batches[-1]
        self.batches = deque()
        return batch(first.first_offset, [50] * (last.last_offset - first.first_offset + 1))


def at_a_distance(
    work: Callable[[Rig], Coroutine[Any, Any, None]], answers_s: float = AWAY_S, round_trip_s: float = AWAY_S
) -> Rig:
    """The rig after this work, on a target that is so far away and takes so long for a Produce request."""
    target = FakeTarget()
    target.round_trip, target.delay = round_trip_s, lambda: answers_s

    async def run() -> Rig:
        rig = Rig(target)
        await rig.producer.start()
        # The broker is known from its first partition on. The first answers show how long requests take.
        rig.feed(Feed(batches(5)), topic="a.first")
        await asyncio.sleep(MEASURED_S)
        await work(rig)
        await rig.producer.close()
        return rig

    return run_simulated(run())


def taken_of(count: int, **distance: float) -> list[int]:
    feed = Merging(batches(count))

    async def work(rig: Rig) -> None:
        # As if the broker had acknowledged a batch: else only one is in flight.
        rig.feed(feed).remembered_until = float("inf")
        await until(lambda: len(feed.acknowledged) == 3 * count)

    at_a_distance(work, **distance)
    return feed.taken


def test_while_the_window_has_room_batches_go_to_a_far_target_as_they_are() -> None:
    assert taken_of(4) == [1, 1, 1, 1]


def test_what_would_wait_for_an_answer_from_far_away_is_merged() -> None:
    assert taken_of(20) == [1, 1, 1, 1, 16]


def test_nothing_is_merged_for_a_near_target() -> None:
    assert taken_of(20, round_trip_s=FAR_S / 2, answers_s=FAR_S / 2) == [1] * 20


def test_nothing_is_merged_while_answers_take_longer_than_the_way() -> None:
    assert taken_of(20, answers_s=AWAY_S * LATENCY_BOUND * 1.2) == [1] * 20


@pytest.mark.parametrize(
    ("answers", "bound"),
    [
        pytest.param([], True, id="before_the_first_answer"),
        pytest.param([0.1, 0.12, 0.1], True, id="answers_after_a_round_trip"),
        pytest.param([0.1, 0.3, 0.1], True, id="one_late_answer"),
        pytest.param([0.1, *[0.3] * 4], False, id="late_answers"),
        pytest.param([*[0.3] * 4, *[0.1] * 9], True, id="quick_ones_again"),
    ],
)
def test_answers_show_whether_the_distance_alone_decides(answers: list[float], bound: bool) -> None:
    broker = TargetBroker(1, round_trip=0.1)
    for seconds in answers:
        broker.answered_after(seconds, timeout=30.0, largest=1)
    assert broker.latency_bound is bound
