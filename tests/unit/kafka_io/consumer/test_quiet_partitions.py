"""Of many partitions at a broker the quiet ones are asked for on a connection of their own; moving loses nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.consumer import fetch_queues
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch, Fetcher
from tests.fakes.source_cluster import FakeSource

QUIET = "fetch-quiet"


class Copy:
    """A fetcher with partitions 0 to `count` - 1 of a topic, and the ranges that came of each, released at once."""

    def __init__(self, count: int) -> None:
        self.source = FakeSource()
        self.notices: list[str] = []
        self.partitions = [TopicPartition("t", number) for number in range(count)]
        self.came: dict[TopicPartition, list[tuple[int, int]]] = {each: [] for each in self.partitions}
        for each in self.partitions:
            self.source.log(*each)
        settings = {"retry.backoff.ms": "2", "retry.backoff.max.ms": "10", "fetch.max.wait.ms": "20"}
        self.fetcher = Fetcher(self.source, settings, on_records=self.take, problems=Problems(self.notices.append))
        for each in self.partitions:
            self.fetcher.add(each, 0)

    def take(self, fetched: CompletedFetch) -> None:
        self.came[fetched.partition].append((fetched.fetch_offset, fetched.next_offset))
        fetched.release()

    def asked_for(self, purpose: str) -> set[int]:
        """The partitions that a connection's session holds."""
        sessions = [held for (_, its), held in self.source.sessions.items() if its == purpose]
        return {partition for held in sessions for _, partition in held}

    def whole(self, ends: dict[TopicPartition, int]) -> bool:
        return all((self.came[each] or [(0, 0)])[-1][1] == end for each, end in ends.items())

    async def until(self, true: Callable[[], bool]) -> None:
        running = asyncio.create_task(self.fetcher.run())
        try:
            async with asyncio.timeout(60):
                while not true():
                    await asyncio.sleep(0.002)
                    assert not running.done(), running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_queues, "MANY", 4)
    monkeypatch.setattr(fetch_queues, "QUIET_AFTER_S", 0.05)
    monkeypatch.setattr(fetch_queues, "BUSY_AGAIN_S", 30.0)


async def test_few_partitions_share_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_queues, "QUIET_AFTER_S", 0.01)
    copy = Copy(5)
    await copy.until(lambda: len(copy.source.purposes) > 10)
    assert QUIET not in copy.source.purposes


@pytest.mark.usefixtures("soon")
async def test_partitions_without_records_leave_the_connection_of_the_busy_ones() -> None:
    copy = Copy(5)
    await copy.until(lambda: copy.asked_for(QUIET) == set(range(5)))
    assert QUIET in copy.source.purposes


@pytest.mark.usefixtures("soon")
async def test_one_that_has_records_again_and_again_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Copy(5)
    first = copy.partitions[0]

    def back() -> bool:
        if copy.asked_for(QUIET) == set(range(5)):
            # From now on nothing becomes quiet any more.
            monkeypatch.setattr(fetch_queues, "QUIET_AFTER_S", 1000.0)
            copy.source.logs[first].append()
        return 0 in copy.asked_for("fetch") and 0 not in copy.asked_for(QUIET) and copy.came[first] != []

    await copy.until(back)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_or_doubled_however_partitions_move(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(fetch_queues, "QUIET_AFTER_S", 0.01)
    copy = Copy(8)
    ends = dict.fromkeys(copy.partitions, 0)
    rounds = 0

    def written() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds < 400:
            for each in dice.sample(copy.partitions, dice.randrange(4)):
                copy.source.logs[each].append()
                ends[each] = copy.source.logs[each].end
        return rounds >= 400 and copy.whole(ends)

    await copy.until(written)
    assert {"fetch", QUIET} <= set(copy.source.purposes)
    for each, ranges in copy.came.items():
        assert [low for low, _ in ranges] == [0, *(high for _, high in ranges[:-1])][: len(ranges)], each


@pytest.mark.usefixtures("soon")
async def test_a_broker_that_refuses_the_second_connection_is_told_of_once_and_serves_the_busy_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = Copy(5)
    copy.source.refused = {(1, QUIET)}
    busy = copy.partitions[0]
    # It stays where it is, however slow this machine is.
    copy.fetcher._states[busy].records_at += 1000.0

    def served() -> bool:
        if copy.notices:
            monkeypatch.setattr(fetch_queues, "QUIET_AFTER_S", 1000.0)
            copy.source.logs[busy].append()
        return len(copy.came[busy]) > 50

    await copy.until(served)
    assert len(copy.notices) == 1
