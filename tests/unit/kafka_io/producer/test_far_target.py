"""A target far away, in simulated time: what is merged for it, and how much is under way.

Where its brokers don't tell this producer what they have, five batches of a partition are in flight, and larger ones merged.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.client.round_trip import FAR_S
from mirror_connect.kafka_io.producer import target_broker
from mirror_connect.kafka_io.producer.target_broker import (
    FAR_REQUESTS,
    FEWEST_BYTES,
    LATENCY_BOUND,
    MERGED_BYTES_PER_S,
    NEAR_REQUESTS,
    TargetBroker,
)
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_states import ProducersOfPartition, ProducerState
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from tests.fakes.producer_rig import (
    NOT_LEADER,
    REQUEST_TIMED_OUT,
    SETTINGS,
    TOPIC_DENIED,
    Feed,
    Rig,
    batch,
    batches,
    until,
)
from tests.fakes.simulated_time import SimulatedLoop, run_simulated
from tests.fakes.target_cluster import HEADER, FakeTarget, lost

AWAY_S = 0.1
# Long enough for every measurement of the round trip.
MEASURED_S = 10.0


class Merging(Feed):
    """Takes all that waits as one batch if it may be merged; `taken`: how many batches each time."""

    def __init__(self, batches: list[ProducerBatch]) -> None:
        super().__init__(batches)
        self.taken: list[int] = []

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        if not self.batches:
            return None
        self.taken.append(len(self.batches) if latency_bound else 1)
        if not latency_bound:
            return self.batches.popleft()
        first, last = self.batches[0], self.batches[-1]
        self.batches = deque()
        return batch(first.first_offset, [50] * (last.last_offset - first.first_offset + 1))


def at_a_distance(
    work: Callable[[Rig], Coroutine[Any, Any, None]],
    answers_s: float = AWAY_S,
    round_trip_s: float = AWAY_S,
    settings: ProducerSettings = SETTINGS,
) -> Rig:
    """The rig after this work, on a target that is so far away and takes so long for a Produce request."""
    target = FakeTarget()
    target.round_trip, target.delay = round_trip_s, lambda: answers_s

    async def run() -> Rig:
        rig = Rig(target, settings)
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
        broker.data.answered_after(seconds, timeout=30.0, largest=1)
    assert broker.latency_bound is bound


@pytest.mark.parametrize(
    ("round_trip_s", "sent", "merges"),
    [
        pytest.param(0.1, 0.09 * MERGED_BYTES_PER_S, True, id="little_under_way"),
        pytest.param(0.1, 0.12 * MERGED_BYTES_PER_S, False, id="much_under_way"),
        pytest.param(0.025, 0.03 * MERGED_BYTES_PER_S, False, id="much_for_the_distance"),
        pytest.param(FAR_S, 1, False, id="near"),
    ],
)
def test_where_batches_bring_much_as_they_are_nothing_is_merged(round_trip_s: float, sent: float, merges: bool) -> None:
    broker = TargetBroker(1, round_trip=round_trip_s)
    for _ in range(20):
        broker.data.sent(int(sent))
        broker.data.ended(int(sent))
    assert broker.merges is merges


class Line(FakeTarget):
    """A target behind a line of 1 Gbit/s; a request arrives when those before it have."""

    BYTES_PER_S = 125e6

    def __init__(self) -> None:
        super().__init__()
        self.round_trip = AWAY_S
        self.ends: Counter[TopicPartition] = Counter()
        self.arrived = self.most_waiting = 0
        self._waiting = 0
        self._free_at = 0.0

    async def _produce(self, request: Produce) -> ProduceResponse:
        now = asyncio.get_running_loop().time()
        size = sum(len(part) for each in request.batches for part in each.batch)
        self._free_at = max(now, self._free_at) + size / self.BYTES_PER_S
        self._waiting += size
        # What is under way before the distance is measured says nothing.
        if now > MEASURED_S:
            self.most_waiting = max(self.most_waiting, self._waiting)
        await asyncio.sleep(self._free_at - now + self.round_trip)
        self._waiting -= size
        self.requests.clear()
        self.arrived += size
        answers = []
        for each in request.batches:
            place = TopicPartition(each.topic, each.partition)
            base = self.ends[place]
            self.ends[place] += HEADER.unpack_from(each.batch[0])[12]
            answers.append(ProducedPartition(*place, 0, base, -1, 0, ""))
        return ProduceResponse(answers, 0)

    def _told(self, partition: TopicPartition) -> ProducersOfPartition:
        known = ProducerState(self.producer_id, self.epoch, self.ends[partition] - 1)
        told = super()._told(partition)
        return told if told.error else told._replace(producers=[known])


class Backlog(Feed):
    """Batches of 100 KB without end, or ten in one; a merge takes 18 ms. `merged`: how many of `taken` were."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = self.merged = 0

    def waiting(self) -> bool:
        return True

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        many = 10 if latency_bound else 1
        self.taken += many
        if latency_bound:
            self.merged += many
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulatedLoop)
            loop.now += 0.018
        made = copy(LARGE if latency_bound else USUAL)
        made.first_offset = made.last_offset = self.taken
        return made

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        pass


USUAL, LARGE = batch(0, [100_000]), batch(0, [999_000])


def copied_in_a_second(partitions: int, *, tells: bool, line: Line | None = None) -> tuple[float, float]:
    """Bytes in a second over the line, when it has come to rest, and the part of the batches that were merged."""
    seconds = 3.0
    line = line or Line()

    async def run() -> tuple[float, float]:
        line.telling_error = 0 if tells else TOPIC_DENIED
        rig = Rig(line)
        await rig.producer.start()
        feeds = [Backlog() for _ in range(partitions)]
        for number, feed in enumerate(feeds):
            rig.feed(feed, number).remembered_until = float("inf")
        await asyncio.sleep(MEASURED_S)
        for feed in feeds:
            feed.taken = feed.merged = 0
        loop = asyncio.get_running_loop()
        line.arrived, began = 0, loop.time()
        await asyncio.sleep(seconds)
        found = (
            line.arrived / (loop.time() - began),
            sum(feed.merged for feed in feeds) / sum(feed.taken for feed in feeds),
        )
        await rig.producer.close()
        return found

    return run_simulated(run())


def test_one_partition_of_a_far_target_is_merged_and_several_times_as_fast_as_unmerged() -> None:
    rate, merged = copied_in_a_second(1, tells=False)
    # Five batches of 100 KB in each round trip are 5 MB/s.
    assert rate > 20e6
    assert merged > 0.9


def test_eight_partitions_of_a_far_target_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_broker, "MERGED_BYTES_PER_S", 32 << 20)
    rate, merged = copied_in_a_second(8, tells=False)
    assert rate > 30e6
    assert merged == 0


@pytest.mark.parametrize("partitions", [1, 8])
def test_batches_as_they_are_fill_a_line_whose_broker_tells_what_it_has(partitions: int) -> None:
    rate, merged = copied_in_a_second(partitions, tells=True)
    assert rate > 0.9 * Line.BYTES_PER_S
    assert merged == 0


@pytest.mark.parametrize("bytes_per_s", [2e6, 20e6])
def test_on_a_thin_line_little_more_is_under_way_than_it_carries(bytes_per_s: float) -> None:
    line = Line()
    line.BYTES_PER_S = bytes_per_s
    rate, _ = copied_in_a_second(8, tells=True, line=line)
    assert rate > 0.9 * bytes_per_s
    assert line.most_waiting < 3 * AWAY_S * bytes_per_s + 2 * FEWEST_BYTES


# Requests in flight.


async def one_by_one(rig: Rig, partitions: int) -> None:
    """A batch of each partition, a millisecond after the one before: each finds the others' requests on their way."""
    feeds = []
    for partition in range(partitions):
        feeds.append(Feed(batches(1)))
        rig.feed(feeds[-1], partition)
        await asyncio.sleep(0.001)
    await until(lambda: all(feed.acknowledged for feed in feeds))


@pytest.mark.parametrize(
    ("distance", "most"),
    [
        pytest.param({}, FAR_REQUESTS, id="far"),
        pytest.param({"round_trip_s": FAR_S / 2}, NEAR_REQUESTS, id="near"),
        pytest.param({"answers_s": AWAY_S * LATENCY_BOUND * 1.2}, NEAR_REQUESTS, id="far_and_full"),
        pytest.param({"settings": replace(SETTINGS, max_in_flight=7)}, 7, id="far_with_a_limit_of_the_users"),
        pytest.param({"settings": replace(SETTINGS, max_in_flight=1)}, 1, id="far_and_one_at_a_time"),
    ],
)
def test_partitions_of_a_far_target_do_not_wait_for_answers_to_each_other(distance: dict[str, Any], most: int) -> None:
    rig = at_a_distance(lambda rig: one_by_one(rig, 50), **distance)
    assert rig.target.most_in_flight == most


@pytest.mark.parametrize(
    ("round_trip_s", "buffer", "most"),
    [
        pytest.param(0.05, 64 << 20, 16 << 20, id="not_so_far"),
        pytest.param(0.2, 64 << 20, 51.2 * (1 << 20), id="far"),
        pytest.param(0.3, 32 << 20, 32 << 20, id="up_to_buffer_memory"),
        pytest.param(0.3, 1, 16 << 20, id="never_less_than_near"),
    ],
)
def test_bytes_under_way_follow_the_distance(round_trip_s: float, buffer: int, most: int) -> None:
    settings = replace(SETTINGS, buffer_bytes=buffer)
    limits = []

    async def look(rig: Rig) -> None:
        limits.append(rig.producer._sender._wire_limit())

    at_a_distance(look, round_trip_s=round_trip_s, answers_s=round_trip_s, settings=settings)
    assert limits == [pytest.approx(most)]


@pytest.mark.parametrize("seed", range(15))
def test_whatever_fails_far_away_every_record_is_there_once_and_in_order(seed: int) -> None:
    dice = random.Random(seed)
    feeds: list[tuple[Feed, int]] = []

    def fails(target: FakeTarget) -> None:
        def before(_: object) -> int:
            if dice.random() < 0.03:
                raise lost()
            return NOT_LEADER if dice.random() < 0.03 else 0

        def after(_: object) -> int:
            if dice.random() < 0.03:
                raise lost()
            return REQUEST_TIMED_OUT if dice.random() < 0.03 else 0

        target.before, target.after = before, after
        # Late answers now and then: the link counts as full, and as free again.
        target.delay = lambda: AWAY_S * dice.choice([1, 1, 1, 1.1, 3])

    async def comes(rig: Rig, feed: Feed, made: list[ProducerBatch], partition: int) -> None:
        side = rig.feed(feed, partition)
        for each in made:
            await asyncio.sleep(dice.choice([0, 0, 0.002, 0.05]))
            feed.batches.append(each)
            rig.producer.wake(side)

    async def work(rig: Rig) -> None:
        fails(rig.target)
        coming = []
        for partition in range(24):
            made, first = [], 0
            for _ in range(12):
                made.append(batch(first, [50] * dice.randrange(1, 8)))
                first = made[-1].last_offset + 1
            feeds.append((Feed(), first))
            coming.append(comes(rig, feeds[-1][0], made, partition))
        await asyncio.gather(*coming)
        await until(lambda: all(len(feed.acknowledged) == total for feed, total in feeds), 600)

    rig = at_a_distance(work)
    for partition, (feed, total) in enumerate(feeds):
        assert feed.acknowledged == list(range(total))
        assert rig.target.log("a.orders", partition).end == total
        assert feed.misplaced == []
    assert NEAR_REQUESTS < rig.target.most_in_flight <= FAR_REQUESTS
