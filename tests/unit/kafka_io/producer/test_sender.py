"""The sender's retry and sequence logic, against a target in memory that checks sequences as a broker does."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from mirror_connect.kafka_io.client.connection import RequestTimedOut
from mirror_connect.kafka_io.client.copier_settings import WINDOW, ProducerSettings
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from mirror_connect.kafka_io.producer.sender import QUIET_S
from mirror_connect.kafka_io.protocol.error_codes import advice
from mirror_connect.kafka_io.protocol.produce import Produce
from tests.fakes.producer_rig import (
    INVALID_RECORD,
    NO_LEADER,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER,
    OUT_OF_ORDER,
    REQUEST_TIMED_OUT,
    TOPIC_DENIED,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_TOPIC,
    Feed,
    Rig,
    batch,
    batches,
    sequences,
    until,
)
from tests.fakes.simulated_time import run_simulated
from tests.fakes.target_cluster import FakeTarget, lost


async def test_batches_of_a_partition_arrive_in_order_with_dense_sequences(rig: Rig) -> None:
    feed = Feed(batches(20))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 60)
    assert sequences(rig.target) == list(range(0, 60, 3))


async def test_records_that_keep_the_times_of_their_producers_are_logged_once_for_a_topic(rig: Rig) -> None:
    feeds = [Feed(batches(6)), Feed(batches(3))]
    for each in (one for feed in feeds for one in feed.batches):
        each.append_time = each.max_timestamp + 5
    target, _ = (rig.feed(feed, number) for number, feed in enumerate(feeds))
    rig.target.log_append_time = 1_790_000_000_000
    await until(lambda: all(not feed.batches and not target.unacked for feed in feeds))
    assert (rig.notices, target.append_time) == ([], True)
    rig.target.log_append_time = -1
    for feed, number in zip(feeds, (4, 2), strict=True):
        feed.batches += batches(number)
        for each in feed.batches:
            each.append_time = each.max_timestamp + 5
    rig.producer.wake(target)
    await until(lambda: not feeds[0].batches and not target.unacked)
    assert ["a.orders-0" in line and "LogAppendTime" in line for line in rig.notices] == [True]
    assert not target.append_time


async def test_not_more_than_five_requests_are_in_flight_to_a_broker(rig: Rig) -> None:
    rig.target.delay = lambda: 0.01
    feed = Feed(batches(20))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 60)
    assert rig.target.most_in_flight == 5


async def test_one_request_carries_the_batches_of_many_partitions(rig: Rig) -> None:
    feeds = [Feed(batches(1)) for _ in range(10)]
    for number, feed in enumerate(feeds):
        rig.feed(feed, number)
    await until(lambda: all(feed.acknowledged for feed in feeds))
    assert [len(request.batches) for request in rig.target.requests] == [10]


@pytest.mark.parametrize("code", [NOT_LEADER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT, UNKNOWN_TOPIC, TOPIC_DENIED])
async def test_a_batch_refused_for_now_is_sent_again_before_those_behind_it(rig: Rig, code: int) -> None:
    refusals = iter([0, code, 0, code])
    rig.target.before = lambda _request: next(refusals, 0)
    feed = Feed(batches(10))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 30)
    assert sequences(rig.target) == list(range(0, 30, 3))


async def test_a_batch_whose_answer_was_lost_is_not_written_twice(rig: Rig) -> None:
    answers = iter([False, True, False, True, True])

    def after(_request: object) -> int:
        if next(answers, False):
            raise lost()
        return 0

    rig.target.after = after
    feed = Feed(batches(10))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 30)
    assert sequences(rig.target) == list(range(0, 30, 3))


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_fails_every_record_is_there_once_and_in_order(rig: Rig, seed: int) -> None:
    dice = random.Random(seed)

    def before(_request: object) -> int:
        if dice.random() < 0.1:
            raise lost()
        return dice.choice([NOT_LEADER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT, 14]) if dice.random() < 0.1 else 0

    def after(_request: object) -> int:
        if dice.random() < 0.1:
            raise lost()
        return REQUEST_TIMED_OUT if dice.random() < 0.1 else 0

    rig.target.before, rig.target.after = before, after
    rig.target.delay = lambda: dice.choice([0, 0, 0.001, 0.003])
    rig.target.limit = 2_000
    feeds = []
    for partition in range(4):
        made, first = [], 0
        for _ in range(25):
            sizes = [dice.randrange(0, 900) for _ in range(dice.randrange(1, 8))]
            made.append(batch(first, sizes))
            first += len(sizes)
        feeds.append((Feed(made), first))
        rig.feed(feeds[-1][0], partition)
    await until(lambda: all(len(feed.acknowledged) == total for feed, total in feeds))
    for partition, (feed, total) in enumerate(feeds):
        assert feed.acknowledged == list(range(total))
        assert rig.target.log("a.orders", partition).end == total
        assert feed.misplaced == []


@pytest.mark.parametrize(
    ("waits_s", "told"),
    [pytest.param(0.0, False, id="at_once"), pytest.param(QUIET_S, True, id="after_a_long_silence")],
)
def test_all_that_is_lost_with_a_connection_is_one_failure(waits_s: float, told: bool) -> None:
    async def run() -> Rig:
        rig = Rig(FakeTarget(), ProducerSettings(retry_backoff_s=0.1))
        await rig.producer.start()
        feed = Feed(batches(1))
        side = rig.feed(feed)
        await asyncio.sleep(1.0)
        send, five = rig.target.send, iter(range(WINDOW))

        async def lose(node_id: int, request: Any, *, purpose: str = "control") -> Any:
            if isinstance(request, Produce) and next(five, None) is not None:
                await asyncio.sleep(waits_s)
                raise lost()
            return await send(node_id, request, purpose=purpose)

        rig.target.send = lose  # type: ignore[method-assign]
        feed.batches.extend(batches(WINDOW + 1)[1:])
        rig.producer.wake(side)
        await asyncio.sleep(60.0)
        assert feed.acknowledged == list(range(3 * (WINDOW + 1)))
        await rig.producer.close()
        return rig

    assert bool(run_simulated(run()).notices) is told


@pytest.mark.parametrize("code", [OUT_OF_ORDER, UNKNOWN_PRODUCER_ID])
async def test_a_target_that_lost_the_sequence_is_met_with_a_new_epoch(rig: Rig, code: int) -> None:
    other = Feed(batches(2))
    rig.feed(other, 1)
    await until(lambda: len(other.acknowledged) == 6)
    refusals = iter([code])
    rig.target.before = lambda _request: next(refusals, 0)
    feed = Feed(batches(4))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 12)
    assert [(b.epoch, b.sequence) for b in rig.target.log("a.orders", 0).batches] == [(1, 0), (1, 3), (1, 6), (1, 9)]
    assert len(rig.notices) == 1
    assert rig.producer._sender._problems.shown("a.orders-0") == []


async def test_after_a_new_epoch_the_other_partitions_begin_at_sequence_zero_too(rig: Rig) -> None:
    other = Feed(batches(2))
    side = rig.feed(other, 1)
    await until(lambda: len(other.acknowledged) == 6)
    refusals = iter([OUT_OF_ORDER])
    rig.target.before = lambda _request: next(refusals, 0)
    feed = Feed(batches(1))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)
    other.batches.append(batch(6, [10]))
    rig.producer.wake(side)
    await until(lambda: len(other.acknowledged) == 7)
    assert [(b.epoch, b.sequence) for b in rig.target.log("a.orders", 1).batches] == [(0, 0), (0, 3), (1, 0)]


async def test_a_producer_that_was_fenced_stops_and_says_so(rig: Rig) -> None:
    rig.target.log("a.orders", 0).epoch = 5
    rig.feed(Feed(batches(3)))
    with pytest.raises(FencedError, match="group-connector-0"):
        await asyncio.wait_for(rig.producer.failed, 60)


async def test_it_is_not_known_where_a_batch_lies_that_may_have_been_written_before(rig: Rig) -> None:
    answers = iter([lost()])

    def lose_the_first(_: object) -> int:
        for error in answers:
            raise error
        return 0

    rig.target.after = lose_the_first
    feed = Feed([batch(0, [50])])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 1)
    assert feed.unplaced == 1


async def test_a_partition_that_is_refused_does_not_stop_another(rig: Rig) -> None:
    rig.target.limit = 1_000
    bad, good = Feed([batch(0, [5_000])]), Feed(batches(50))
    rig.feed(bad, 0)
    rig.feed(good, 1)
    await until(lambda: len(good.acknowledged) == 150)
    assert bad.acknowledged == []


async def test_a_batch_refused_for_good_tells_the_reason(rig: Rig) -> None:
    rig.target.before = lambda _request: INVALID_RECORD
    feed = Feed(batches(1))
    rig.feed(feed)
    await until(lambda: feed.error is not None)
    assert "a compacted topic takes no records without a key" in str(feed.error)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR (-1)"),
        (8, "BROKER_NOT_AVAILABLE (8)"),
        (31, "CLUSTER_AUTHORIZATION_FAILED (31)"),
        (35, "UNSUPPORTED_VERSION (35)"),
        (42, "INVALID_REQUEST (42)"),
        (49, "INVALID_PRODUCER_ID_MAPPING (49)"),
        (299, "error code (299)"),
    ],
)
async def test_a_code_that_is_fatal_to_java_ends_the_partition_in_one_line(rig: Rig, code: int, name: str) -> None:
    rig.target.before = lambda _request: code
    feed = Feed([batch(17, [50] * 3)])
    rig.feed(feed, partition=3)
    await until(lambda: feed.error is not None)
    line = str(feed.error)
    assert line.startswith(f"The target refused the batch at offset 17 for a.orders-3 with {name}")
    assert (line.count("\n"), line.endswith(f"; {advice(code)}"), len(rig.target.requests)) == (0, True, 1)


async def test_nothing_is_sent_while_the_lease_is_not_valid(rig: Rig) -> None:
    rig.leased = False
    feed = Feed(batches(3))
    rig.feed(feed)
    await asyncio.sleep(0.15)
    assert rig.target.requests == []
    rig.leased = True
    await until(lambda: len(feed.acknowledged) == 9)


async def test_a_lease_lost_between_taking_and_writing_keeps_the_batches_back(rig: Rig) -> None:
    looks = iter([True, False])  # when taken, when written
    rig.producer._sender._lease = lambda: next(looks, True)
    feed = Feed(batches(3))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 9)
    assert sequences(rig.target) == [0, 3, 6]


async def test_a_throttled_producer_waits_as_long_as_it_was_told(rig: Rig) -> None:
    rig.target.throttle_ms = 60_000
    feed = Feed(batches(1))
    side = rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)
    feed.batches.append(batch(3, [10]))
    rig.producer.wake(side)
    await asyncio.sleep(0.1)
    assert len(rig.target.requests) == 1


async def test_the_leader_is_looked_up_before_there_is_something_to_send(rig: Rig) -> None:
    rig.target.missing = {"a.orders": NO_LEADER, "offsets": NO_LEADER}
    rig.producer.expect("offsets")
    await asyncio.sleep(0.01)
    assert rig.target.refreshed == []
    rig.target.unreachable = 1
    rig.producer.partition("a.orders", 0, Feed())
    # The first of them failed.
    await until(lambda: rig.target.refreshed[:2] == [{"a.orders", "offsets"}] * 2)


async def test_a_broker_that_throttles_gets_one_request_at_a_time(rig: Rig) -> None:
    rig.target.delay = lambda: 0.002
    rig.target.throttle_ms = 1
    feed = Feed(batches(5))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 15)
    rig.target.most_in_flight = 0
    feed.batches.extend(batches(10))
    rig.producer.wake(rig.producer._sender.partitions["a.orders", 0])
    await until(lambda: len(feed.acknowledged) == 45)
    assert rig.target.most_in_flight == 1


async def test_a_broker_that_throttles_gets_no_more_at_once_than_it_takes_in_half_a_second(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror_connect.kafka_io.producer.target_connection.MUTE_S", 0.005)
    rig.target.throttle_ms = 20
    feeds = [Feed(batches(2, records=1)) for _ in range(12)]
    for number, feed in enumerate(feeds):
        rig.feed(feed, number)
    await until(lambda: all(len(feed.acknowledged) == 2 for feed in feeds))
    first, second, *_ = (len(request.batches) for request in rig.target.requests)
    assert first == 12
    assert second == 3


async def test_a_request_that_the_link_does_not_carry_in_time_is_made_smaller_and_grows_again(rig: Rig) -> None:
    carries = [100_000]
    sizes: list[int] = []

    def before(request: Produce) -> int:
        size = sum(len(part) for batch in request.batches for part in batch.batch)
        sizes.append(size)
        if size > carries[0]:
            raise RequestTimedOut("no answer to Produce within 30000 ms (request.timeout.ms)", "fake:1")
        return 0

    rig.target.before = before
    feeds = [Feed([batch(0, [40_000])]) for _ in range(20)]
    for partition, feed in enumerate(feeds):
        rig.feed(feed, partition)
    await until(lambda: all(feed.acknowledged for feed in feeds))
    assert max(sizes) > 700_000
    assert any(size <= 100_000 for size in sizes)
    carries[0] = 1 << 30
    sizes.clear()
    more = [Feed([batch(0, [40_000]) for _ in range(5)]) for _ in range(20)]
    for partition, feed in enumerate(more, 20):
        rig.feed(feed, partition)
    await until(lambda: all(len(feed.acknowledged) == 5 for feed in more))
    assert max(sizes) > 200_000


async def test_a_partition_without_a_leader_waits_for_one(rig: Rig) -> None:
    rig.target.missing["a.orders"] = NO_LEADER
    feed = Feed(batches(2))
    rig.feed(feed)
    await until(lambda: len(rig.target.refreshed) > 3)
    rig.target.missing.clear()
    await until(lambda: len(feed.acknowledged) == 6)


async def test_for_a_partition_without_a_leader_no_other_topics_are_asked_for(rig: Rig) -> None:
    for number in range(50):
        feed = Feed(batches(1))
        rig.feed(feed, topic=f"a.others-{number}")
    await until(lambda: len(feed.acknowledged) == 3)
    rig.target.missing["a.orders"] = NO_LEADER
    rig.feed(Feed(batches(2)))
    await until(lambda: len(rig.target.refreshed) > 3)
    assert set().union(*rig.target.refreshed) == {"a.orders"}


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param(
            TOPIC_DENIED,
            "Not authorized to write to topic a.orders on the target; grant WRITE on topic a.orders to the producing user; "
            "it is tried again",
            id="not_allowed",
        ),
        pytest.param(
            UNKNOWN_TOPIC,
            "a.orders-0 can't be written to at present: UNKNOWN_TOPIC_OR_PARTITION (3): "
            "the topic or partition does not exist on the target; it is tried again",
            id="not_there",
        ),
    ],
)
async def test_a_topic_that_is_hidden_from_us_is_told_and_written_to_when_it_is_seen(
    rig: Rig, code: int, line: str
) -> None:
    rig.target.missing["a.orders"] = code
    feed = Feed(batches(2))
    rig.feed(feed)
    await until(lambda: bool(rig.notices))
    rig.target.missing.clear()
    await until(lambda: len(feed.acknowledged) == 6)
    assert rig.notices == [line]
