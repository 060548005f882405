"""How much one connection to a broker is sent: less after a time-out or a throttle, more again when it answers quickly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.kafka_io.client.connection import RequestTimedOut
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.sender import QUIET_RETRIES
from mirror_connect.kafka_io.producer.target_connection import MUTE_S, PACED_S, TargetConnection
from mirror_connect.kafka_io.protocol.produce import Produce
from tests.fakes.producer_rig import INVALID_RECORD, Feed, Rig, batch, batches, until
from tests.fakes.target_cluster import FakeTarget, lost


def test_a_request_that_timed_out_halves_what_the_next_one_carries() -> None:
    connection = TargetConnection("produce")
    connection.timed_out(now=30.0, sent_at=0.0, size=1000)
    assert connection.carries == 500
    connection.timed_out(now=60.0, sent_at=30.0, size=500)
    assert connection.carries == 250


def test_requests_lost_beside_one_that_timed_out_count_for_nothing() -> None:
    connection = TargetConnection("produce")
    connection.timed_out(now=30.0, sent_at=0.0, size=1000)
    connection.timed_out(now=30.0, sent_at=1.0, size=10)
    assert connection.carries == 500


@pytest.mark.parametrize(
    ("seconds", "carries"),
    [pytest.param(1.0, 1000, id="quick"), pytest.param(20.0, 500, id="slow")],
)
def test_only_a_quick_answer_lets_requests_grow(seconds: float, carries: int) -> None:
    connection = TargetConnection("produce", carries=500)
    connection.answered_after(seconds, timeout=30.0, largest=10_000)
    assert connection.carries == carries


def test_requests_that_have_grown_to_the_largest_have_no_limit_any_more() -> None:
    connection = TargetConnection("produce", carries=5_000)
    connection.answered_after(1.0, timeout=30.0, largest=10_000)
    assert connection.carries is None


def test_a_throttled_connection_gets_what_makes_it_stop_for_half_a_second() -> None:
    connection = TargetConnection("produce")
    connection.throttled(now=10.0, seconds=2.0, size=4_000)
    assert (connection.throttled_until, connection.paced_until) == (12.0, 12.0 + PACED_S)
    assert connection.paced_bytes == 4_000 * MUTE_S / 2.0
    assert connection.limits(now=11.9, most=5, largest=4_000) == (0, 4_000)
    assert connection.limits(now=12.0, most=5, largest=4_000) == (1, 1_000)
    assert connection.limits(now=12.0 + PACED_S, most=5, largest=4_000) == (5, 4_000)


@pytest.mark.parametrize("most", [None, 1])
async def test_what_goes_ahead_waits_for_nothing_that_is_under_way(most: int | None) -> None:
    target = FakeTarget()
    rig = Rig(target, ProducerSettings(retry_backoff_s=0.001, max_in_flight=most, max_request_bytes=1))
    sent, answered = target.send, asyncio.Event()

    async def send(node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if purpose == "produce":
            await answered.wait()
        return await sent(node_id, request, purpose=purpose)

    target.send = send  # type: ignore[method-assign]
    await rig.producer.start()
    feeds = [Feed(batches(2)) for _ in range(10)]
    for number, feed in enumerate(feeds):
        rig.feed(feed, number)
    await asyncio.sleep(0.01)
    positions = Feed(batches(10))
    rig.producer.wake(rig.producer.partition("offsets", 0, positions, ahead=True))
    await until(lambda: len(positions.acknowledged) == 30)
    assert not any(feed.acknowledged for feed in feeds)
    answered.set()
    await until(lambda: all(len(feed.acknowledged) == 6 for feed in feeds))
    await rig.producer.close()


@pytest.mark.parametrize("most", [None, 2])
async def test_what_goes_ahead_has_no_more_requests_in_flight_than_data(most: int | None) -> None:
    rig = Rig(FakeTarget(), ProducerSettings(retry_backoff_s=0.001, max_in_flight=most, max_request_bytes=1))
    rig.target.delay = lambda: 0.01
    await rig.producer.start()
    feeds = [Feed(batches(2)) for _ in range(10)]
    for number, feed in enumerate(feeds):
        rig.producer.wake(rig.producer.partition("offsets", number, feed, ahead=True))
    await until(lambda: all(len(feed.acknowledged) == 6 for feed in feeds))
    assert rig.target.most_in_flight == (most or 5)
    await rig.producer.close()


async def test_a_throttle_of_what_goes_ahead_leaves_data_as_it_is(rig: Rig) -> None:
    rig.target.throttle_ms = 60_000
    ahead, feed = Feed(batches(1)), Feed(batches(1))
    rig.producer.wake(rig.producer.partition("offsets", 0, ahead, ahead=True))
    await until(lambda: len(ahead.acknowledged) == 3)
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)


async def test_what_a_throttle_holds_back_is_not_under_way(rig: Rig) -> None:
    rig.target.throttle_ms = 60_000
    feed = Feed(batches(2))
    ahead = rig.producer.partition("offsets", 0, feed, ahead=True)
    rig.producer.wake(ahead)
    await until(lambda: bool(feed.acknowledged))
    feed.batches.extend(batches(2))
    rig.producer.wake(ahead)
    await asyncio.sleep(0.01)
    sent = len(rig.target.requests)
    async with asyncio.timeout(60):
        await rig.producer.release([ahead], 0.0)
    assert (rig.producer.settled, len(rig.target.requests)) == (True, sent)


@pytest.mark.parametrize("refused", ["produce", "produce-ahead"])
async def test_a_connection_that_answers_does_not_speak_for_the_other_one(rig: Rig, refused: str) -> None:
    sent, refuses = rig.target.send, True

    async def send(node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if refuses and purpose == refused:
            raise lost()
        return await sent(node_id, request, purpose=purpose)

    rig.target.send = send  # type: ignore[method-assign]
    ahead, data = Feed(batches(1)), Feed(batches(1))
    sides = rig.producer.partition("offsets", 0, ahead, ahead=True), rig.feed(data)
    rig.producer.wake(sides[0])
    answering, side = (ahead, sides[0]) if refused == "produce" else (data, sides[1])
    await until(lambda: any("can't be written to" in line for line in rig.notices))
    for _ in range(20):
        count = len(answering.acknowledged)
        answering.batches.extend(batches(1))
        rig.producer.wake(side)
        await until(lambda count=count: len(answering.acknowledged) > count)
    assert len(rig.notices) == 1
    refuses = False
    await until(lambda: bool(ahead.acknowledged and data.acknowledged))
    await until(lambda: not rig.producer._sender._nodes[1].reported)


@pytest.mark.parametrize("ahead", [False, True], ids=["data", "ahead"])
async def test_a_connection_without_an_answer_in_time_ends_idle_ones_and_gets_less_itself(
    rig: Rig, ahead: bool
) -> None:
    late = [True]

    def before(_request: Produce) -> int:
        if late:
            late.clear()
            raise RequestTimedOut("no answer to Produce within 30000 ms (request.timeout.ms)", "fake:1")
        return 0

    carried: list[tuple[int | None, int | None]] = []

    def close_idle(node_id: int) -> None:
        node = rig.producer._sender._nodes[node_id]
        carried.append((node.ahead.carries, node.data.carries))

    rig.target.before = before
    rig.target.close_idle = close_idle  # type: ignore[method-assign]
    rig.producer.wake(rig.producer.partition("offsets", 0, Feed([batch(0, [40_000])]), ahead=ahead))
    await until(lambda: bool(carried))
    assert [each is None for each in carried[0]] == [not ahead, ahead]
    assert len(carried) == 1


async def test_a_broker_that_refuses_a_batch_for_good_can_be_written_to_again(rig: Rig) -> None:
    losses = [lost()] * QUIET_RETRIES

    def before(_request: Produce) -> int:
        if losses:
            raise losses.pop()
        return INVALID_RECORD

    rig.target.before = before
    feed = Feed(batches(1))
    rig.feed(feed)
    await until(lambda: feed.error is not None)
    assert any("can't be written to" in line for line in rig.notices)
    await until(lambda: not rig.producer._sender._nodes[1].reported)
