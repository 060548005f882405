"""Brokers far away are asked by two fetches at a time where that helps; dividing loses and doubles nothing."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client import round_trip
from mirror_connect.kafka_io.consumer import fetch_distances
from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_distances import DIVIDED_BELOW, FILLED, UNDIVIDED_ABOVE, FetchDistances
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch, Fetcher
from tests.fakes.fetched_copy import fetching, until
from tests.fakes.source_cluster import FakeSource

SECOND = "fetch-second"
NEAR_LIMIT, ANSWER = 32 << 20, 16 << 20
AWAY_S = 0.1


class Seen:
    """What is done about brokers, in order."""

    def __init__(self, away_s: float, request_max: int = ANSWER) -> None:
        self.divided: list[bool] = []
        self.queues: Any = SimpleNamespace(divide=lambda _node, *, divided: self.divided.append(divided))
        self.budget = FetchBudget(NEAR_LIMIT, request_max, request_max)
        self.distances = FetchDistances(FakeSource(), self.queues, self.budget, request_max)  # type: ignore[arg-type]
        self.distances._round_trips[1] = away_s


@pytest.mark.parametrize(
    ("away_s", "answers", "divided"),
    [
        pytest.param(AWAY_S, [(0.2, ANSWER)], [True], id="far"),
        pytest.param(0.01, [(0.02, ANSWER)], [], id="near"),
        pytest.param(AWAY_S, [(0.2, FILLED - 1)], [], id="little_to_fetch"),
        pytest.param(AWAY_S, [(AWAY_S * DIVIDED_BELOW * 1.1, ANSWER)], [], id="slow"),
        pytest.param(AWAY_S, [(AWAY_S * UNDIVIDED_ABOVE, ANSWER)], [False], id="very_slow"),
    ],
)
def test_two_fetches_at_a_time_are_for_far_brokers_on_quick_links(
    away_s: float, answers: list[tuple[float, int]], divided: list[bool]
) -> None:
    seen = Seen(away_s)
    for seconds, size in answers:
        seen.distances.answered(1, seconds, size)
    assert seen.divided == divided


def test_two_at_a_time_may_take_twice_as_long() -> None:
    seen = Seen(AWAY_S)
    seen.distances.answered(1, AWAY_S * DIVIDED_BELOW, ANSWER)
    seen.distances.answered(1, 2 * AWAY_S * DIVIDED_BELOW, ANSWER)
    assert seen.divided == [True]


@pytest.mark.parametrize(
    ("away_s", "request_max", "limit"),
    [
        pytest.param(0.025, ANSWER, 45 << 20, id="not_so_far"),
        pytest.param(0.1, ANSWER, 64 << 20, id="far"),
        pytest.param(0.3, ANSWER, 64 << 20, id="four_answers_at_most"),
        pytest.param(0.1, 32 << 20, 83 << 20, id="larger_answers"),
        pytest.param(0.3, 32 << 20, 128 << 20, id="four_larger_answers_at_most"),
        pytest.param(0.3, 1 << 20, NEAR_LIMIT, id="never_less_than_near"),
    ],
)
def test_the_limit_of_memory_follows_the_distance(away_s: float, request_max: int, limit: int) -> None:
    seen = Seen(away_s, request_max)
    seen.distances.answered(1, 2 * away_s, FILLED)
    assert seen.budget.limit == pytest.approx(limit, rel=0.01)


def test_an_answer_from_far_away_may_be_larger() -> None:
    seen = Seen(AWAY_S)
    seen.distances = FetchDistances(FakeSource(), seen.queues, seen.budget, 2 * ANSWER)  # type: ignore[arg-type]
    seen.distances._round_trips[1] = AWAY_S
    assert seen.budget.reserve(2) == NEAR_LIMIT // 3
    seen.budget.unreserve(NEAR_LIMIT // 3)
    seen.distances.answered(1, 2 * AWAY_S, FILLED)
    assert seen.budget.reserve(2) == seen.budget.limit // 3 > ANSWER
    # More of a single partition at once would be slower: nothing of it is sent before all has come.
    assert seen.budget.partition_bytes(1 << 30) == ANSWER


class Copy:
    """A fetcher of partitions 0 to 7 of a topic, and the ranges that came of each, released at once."""

    def __init__(self) -> None:
        self.source = FakeSource()
        self.partitions = [TopicPartition("t", number) for number in range(8)]
        self.came: dict[TopicPartition, list[tuple[int, int]]] = {each: [] for each in self.partitions}
        self.notices: list[str] = []
        settings = {"retry.backoff.ms": "2", "retry.backoff.max.ms": "10", "fetch.max.wait.ms": "20"}
        self.fetcher = Fetcher(
            self.source,  # type: ignore[arg-type]
            settings,
            on_records=self.take,
            problems=Problems(self.notices.append),
            adapts=True,
        )
        for each in self.partitions:
            self.source.log(*each)
            self.fetcher.add(each, 0)

    def take(self, fetched: CompletedFetch) -> None:
        self.came[fetched.partition].append((fetched.fetch_offset, fetched.next_offset))
        fetched.release()

    def whole(self) -> bool:
        return all((self.came[each] or [(0, 0)])[-1][1] == self.source.logs[each].end for each in self.partitions)

    def asked_for(self, purpose: str) -> set[int]:
        return {partition for _, partition in self.source.sessions.get((1, purpose), {})}


async def test_a_far_broker_is_found_and_its_partitions_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "ROUND_TRIP_PAUSE_S", 0.0)
    monkeypatch.setattr(round_trip, "FAR_TRIES", 2)
    monkeypatch.setattr(fetch_distances, "FILLED", 1)
    copy = Copy()
    copy.source.round_trip_s = 2 * round_trip.FAR_S
    async with fetching(copy.fetcher):
        await until(lambda: bool(copy.fetcher._distances and copy.fetcher._distances._round_trips))
        copy.source.logs[copy.partitions[0]].append()
        await until(lambda: bool(copy.asked_for(SECOND)))
        for each in copy.partitions:
            copy.source.logs[each].append()
        await until(copy.whole)
    assert len(copy.asked_for(SECOND)) == 4
    assert copy.notices == []


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_or_doubled_however_often_partitions_are_divided(seed: int) -> None:
    dice = random.Random(seed)
    copy = Copy()
    async with fetching(copy.fetcher):
        for _ in range(150):
            for each in dice.sample(copy.partitions, dice.randrange(4)):
                copy.source.logs[each].append()
            if dice.random() < 0.3:
                copy.fetcher._queues.divide(1, divided=dice.random() < 0.5)
            await asyncio.sleep(dice.choice([0, 0.001, 0.003]))
        await until(copy.whole)
    assert SECOND in copy.source.purposes
    for each, ranges in copy.came.items():
        assert [low for low, _ in ranges] == [0, *(high for _, high in ranges[:-1])][: len(ranges)], each


async def test_a_broker_that_refuses_the_second_connection_serves_all_on_the_first() -> None:
    copy = Copy()
    copy.source.refused = {(1, SECOND)}
    async with fetching(copy.fetcher):
        await until(lambda: len(copy.asked_for("fetch")) == 8)
        copy.fetcher._queues.divide(1, divided=True)
        for each in copy.partitions:
            copy.source.logs[each].append()
        await until(copy.whole)
    assert copy.notices == []


def test_after_a_refusal_no_second_connection_is_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(AWAY_S)
    seen.distances.second_failed(1)
    seen.distances.answered(1, AWAY_S, ANSWER)
    assert seen.divided == [False]
    monkeypatch.setattr(fetch_distances, "AGAIN_AFTER_S", 0.0)
    seen.distances.second_failed(1)
    seen.distances.answered(1, AWAY_S, ANSWER)
    assert seen.divided == [False, False, True]
