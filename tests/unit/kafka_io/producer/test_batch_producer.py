"""The producer's retry and sequence logic, against a target in memory that checks sequences as a broker does."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator

import pytest

from mirror_connect.kafka_io.client.connection import RequestTimedOut
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer import target_partition
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.oversize import too_large
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, FenceLostError, PartitionRefusedError, advice
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.protocol.wire import Produce, ProduceResponse
from mirror_connect.kafka_io.records import record_rewrite
from mirror_connect.kafka_io.records.record_batch import NewRecord, Outgoing
from mirror_connect.kafka_io.records.record_rewrite import build
from tests.fakes.target_cluster import FakeTarget, lost

SETTINGS = ProducerSettings(retry_backoff_s=0.001)
NOT_LEADER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT, UNKNOWN_TOPIC, NO_LEADER = 6, 19, 7, 3, 5
OUT_OF_ORDER, UNKNOWN_PRODUCER_ID, INVALID_EPOCH, INVALID_RECORD, TOPIC_DENIED = 45, 59, 47, 87, 29


def batch(first: int, sizes: list[int]) -> Outgoing:
    """A batch of records whose values have these sizes, from source offset `first`."""
    outgoing = build([NewRecord(b"k", random.randbytes(size), int(time.time() * 1000)) for size in sizes])
    outgoing.first_offset, outgoing.last_offset = first, first + len(sizes) - 1
    return outgoing


class Feed:
    """Batches in a row; remembers what was acknowledged. `misplaced`: told to lie elsewhere than behind the one before.

    `unplaced`: batches of which it isn't known where they lie.
    """

    def __init__(self, batches: list[Outgoing] | None = None) -> None:
        self.batches = deque(batches or [])
        self.acknowledged: list[int] = []
        self.misplaced: list[int] = []
        self.unplaced = 0
        self.error: PartitionRefusedError | None = None

    def waiting(self) -> bool:
        return bool(self.batches)

    def take(self, limit: int, *, slow_link: bool) -> Outgoing | None:
        return self.batches.popleft() if self.batches else None

    def acked(self, outgoing: Outgoing, base_offset: int) -> None:
        self.unplaced += base_offset == -1
        if base_offset not in (-1, len(self.acknowledged)):
            self.misplaced.append(base_offset)
        self.acknowledged += range(outgoing.first_offset, outgoing.last_offset + 1)

    def failed(self, error: PartitionRefusedError) -> None:
        self.error = error


class Rig:
    """A started producer on a fake target."""

    def __init__(self, target: FakeTarget, settings: ProducerSettings = SETTINGS) -> None:
        self.target = target
        self.leased = True
        self.notices: list[str] = []
        self.producer = BatchProducer(
            target,  # type: ignore[arg-type]
            settings,
            "group-connector-0",
            lambda: self.leased,
            self.notices.append,
        )

    def feed(self, feed: Feed, partition: int = 0, topic: str = "a.orders") -> TargetPartition:
        side = self.producer.partition(topic, partition, feed)
        self.producer.wake(side)
        return side


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(FakeTarget())
    await made.producer.start()
    yield made
    await made.producer.close()


async def until(condition: object, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


def batches(count: int, records: int = 3, size: int = 50) -> list[Outgoing]:
    return [batch(number * records, [size] * records) for number in range(count)]


def sequences(target: FakeTarget, partition: int = 0) -> list[int]:
    return [b.sequence for b in target.log("a.orders", partition).batches]


async def test_batches_of_a_partition_arrive_in_order_with_dense_sequences(rig: Rig) -> None:
    feed = Feed(batches(20))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 60)
    assert sequences(rig.target) == list(range(0, 60, 3))


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


async def test_a_batch_that_is_too_large_is_split_and_what_is_behind_it_follows(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(0, [50] * 60), batch(60, [50] * 3), batch(63, [50] * 3)])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 66)
    assert feed.acknowledged == list(range(66))
    assert rig.target.log("a.orders", 0).end == 66


async def test_it_is_known_where_the_pieces_of_a_split_batch_lie_and_what_is_behind_them(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(0, [50]), batch(1, [50] * 60), batch(61, [50] * 3), batch(64, [50] * 3)])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 67)
    assert (feed.unplaced, feed.misplaced) == (0, [])


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


@pytest.mark.parametrize("told", [False, True], ids=["who_may_not_ask_for_it", "who_may_ask_for_it"])
async def test_the_log_has_one_line_of_each_topic_that_takes_no_batches_so_large(rig: Rig, told: bool) -> None:
    rig.target.limit, rig.target.describes = 2_000, told
    topics = ("a.orders", "a.bills")
    feeds = [(topic, partition, Feed(batches(2, records=100))) for topic in topics for partition in range(3)]
    size = feeds[0][2].batches[0].size
    for topic, partition, feed in feeds:
        rig.feed(feed, partition, topic)
    await until(lambda: all(len(feed.acknowledged) == 200 for _, _, feed in feeds) and len(rig.notices) >= len(topics))
    # A line for each batch that was refused would have come by now, and the first three of a topic were at once.
    await asyncio.sleep(0.05)
    assert sorted(rig.notices) == sorted(too_large(topic, size, 2_000 if told else None) for topic in topics)


async def test_what_a_topic_takes_is_still_known_when_a_partition_is_taken_again(rig: Rig) -> None:
    rig.target.limit, rig.target.describes = 2_000, True
    feed = Feed([batch(0, [50] * 100)])
    side = rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 100 and bool(rig.notices))
    await rig.producer.release([side], 1)
    before = len(rig.target.requests)
    back = Feed([batch(100, [50] * 100)])
    again = rig.feed(back)
    await until(lambda: len(back.acknowledged) == 100)
    sizes = [len(b"".join(each.batches[0].batch)) for each in rig.target.requests[before:]]
    assert (max(sizes) <= 2_000, len(sizes) > 1, again.limit) == (True, True, 2_000)


async def test_a_record_larger_than_half_a_batch_is_not_taken_for_too_large(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(0, [900, 100, 100])])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)
    assert feed.error is None


async def test_a_single_record_too_large_stops_its_partition_and_names_what_to_set(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(17, [5_000])])
    rig.feed(feed)
    await until(lambda: feed.error is not None)
    assert "offset 17" in str(feed.error)
    assert "max.message.bytes of topic a.orders" in str(feed.error)


async def test_a_batch_too_large_that_cannot_be_taken_apart_stops_its_partition_and_names_what_to_set(rig: Rig) -> None:
    rig.target.limit = 1_000
    whole = batch(17, [600, 600])
    whole.records, whole.codec = b"no zstd" + whole.records, 4
    feed, good = Feed([whole]), Feed(batches(5))
    rig.feed(feed)
    rig.feed(good, 1)
    await until(lambda: feed.error is not None and len(good.acknowledged) == 15)
    assert "offset 17" in str(feed.error)
    assert "can't be decompressed as zstd; raise max.message.bytes of topic a.orders" in str(feed.error)


async def test_a_batch_too_large_with_too_many_records_stops_its_partition_and_names_what_to_set(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rewrite, "SPLIT_RECORDS", 50)
    rig.target.limit = 1_000
    bomb, good = Feed([batch(0, [50] * 3), batch(3, [50] * 51), batch(54, [50])]), Feed([batch(0, [50] * 50)])
    rig.feed(bomb)
    rig.feed(good, 1)
    await until(lambda: bomb.error is not None and len(good.acknowledged) == 50)
    assert (bomb.acknowledged, rig.producer.failed.done()) == ([0, 1, 2], False)
    assert bomb.error is not None
    assert bomb.error.offset == 3
    assert "offset 3 for a.orders-0 has 51 records in" in str(bomb.error)
    assert "with more than 50 records it would hold the others up" in str(bomb.error)
    assert "raise max.message.bytes of topic a.orders" in str(bomb.error)


@pytest.mark.parametrize("known", [False, True], ids=["refused", "limit_known"])
async def test_batches_of_many_partitions_are_split_one_in_each_turn_of_the_loop(
    known: bool, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, split_in = 0, []

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def splitting(whole: Outgoing, limit: int) -> list[Outgoing]:
        split_in.append(turns)
        return record_rewrite.split(whole, limit)

    monkeypatch.setattr(target_partition, "split", splitting)
    rig.target.limit = 10_000
    turn()
    feeds = [Feed([batch(0, [50] * 300)]) for _ in range(5)]
    for number, feed in enumerate(feeds):
        side = rig.feed(feed, number)
        if known:
            side.told(10_000)
    await until(lambda: all(len(feed.acknowledged) == 300 for feed in feeds))
    assert len(split_in) >= 5
    assert len(set(split_in)) == len(split_in)
    assert [feed.acknowledged for feed in feeds] == [list(range(300))] * 5


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
    rig.producer._lease = lambda: next(looks, True)
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


async def test_what_goes_ahead_waits_behind_no_more_than_what_is_under_way() -> None:
    rig = Rig(FakeTarget(), ProducerSettings(retry_backoff_s=0.001, max_in_flight=1, max_request_bytes=1))
    await rig.producer.start()
    positions = Feed()
    ahead = rig.producer.partition("offsets", 0, positions, ahead=True)

    def before(_request: object) -> int:
        if len(rig.target.requests) == 3:
            positions.batches.append(batch(0, [10]))
            rig.producer.wake(ahead)
        return 0

    rig.target.before = before
    feeds = [Feed(batches(2)) for _ in range(10)]
    for number, feed in enumerate(feeds):
        rig.feed(feed, number)
    await until(lambda: all(len(feed.acknowledged) == 6 for feed in feeds))
    await rig.producer.close()
    order = [request.batches[0].topic for request in rig.target.requests]
    assert order.index("offsets") in (3, 4)


async def test_a_broker_that_throttles_gets_one_request_at_a_time(rig: Rig) -> None:
    rig.target.delay = lambda: 0.002
    rig.target.throttle_ms = 1
    feed = Feed(batches(5))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 15)
    rig.target.most_in_flight = 0
    feed.batches.extend(batches(10))
    rig.producer.wake(rig.producer._partitions["a.orders", 0])
    await until(lambda: len(feed.acknowledged) == 45)
    assert rig.target.most_in_flight == 1


async def test_a_broker_that_throttles_gets_no_more_at_once_than_it_takes_in_half_a_second(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror_connect.kafka_io.producer.target_broker.MUTE_S", 0.005)
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
            raise RequestTimedOut("broker fake:1: no answer to Produce within 30000 ms (request.timeout.ms)")
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
    await until(lambda: rig.target.refreshes > 3)
    rig.target.missing.clear()
    await until(lambda: len(feed.acknowledged) == 6)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        pytest.param(
            TOPIC_DENIED,
            "Not authorized to write to topic a.orders on the target: grant WRITE on topic a.orders to the producing user; "
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


async def test_settling_takes_no_more_from_the_feed(rig: Rig) -> None:
    rig.target.delay = lambda: 0.02
    feed = Feed(batches(100))
    side = rig.feed(feed)
    await until(lambda: bool(rig.target.requests))
    assert await rig.producer.settle([side], 5)
    assert len(feed.batches) > 80


async def test_a_refused_partition_is_released_when_what_is_behind_its_head_is_answered(rig: Rig) -> None:
    feed = Feed(batches(1))
    side = rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)  # from now on several are in flight
    answer = asyncio.Event()
    produce, refused = rig.target._produce, False

    async def the_head_first(request: Produce) -> ProduceResponse:
        nonlocal refused
        if not refused:
            refused = True
            rig.target.before = lambda _request: INVALID_RECORD
            try:
                return await produce(request)
            finally:
                rig.target.before = lambda _request: 0
        await answer.wait()
        return await produce(request)

    rig.target._produce = the_head_first  # type: ignore[method-assign]
    feed.batches.extend(batch(first, [50]) for first in (3, 4, 5))
    rig.producer.wake(side)
    await until(lambda: feed.error is not None)
    assert side.on_wire == 2
    releasing = asyncio.create_task(rig.producer.release([side], 1))
    for _ in range(20):
        await asyncio.sleep(0)
    released_early = releasing.done()
    answer.set()
    await releasing
    assert (released_early, side.on_wire) == (False, 0)


@pytest.mark.parametrize("acknowledged", [False, True], ids=["never_answered", "acknowledged_when_sent_again"])
async def test_a_partition_whose_request_was_lost_is_released_when_that_cannot_land_any_more(
    acknowledged: bool,
) -> None:
    rig = Rig(FakeTarget(), ProducerSettings(retry_backoff_s=0.001, request_timeout_ms=300))
    await rig.producer.start()
    loses = True

    def lose(_request: Produce) -> int:
        if loses:
            raise lost()
        return 0

    rig.target.before = lose
    feed = Feed(batches(1))
    side = rig.feed(feed)
    await until(lambda: side.failures_in_row > 0)
    if acknowledged:
        loses = False
        await until(lambda: len(feed.acknowledged) == 3)
    began = asyncio.get_running_loop().time()
    assert rig.producer.settled == acknowledged
    await rig.producer.release([side], 0.0)
    waited = asyncio.get_running_loop().time() - began
    assert rig.producer.settled
    await rig.producer.close()
    # What was acknowledged is known to the broker: it drops the copy that was lost.
    assert (waited < 0.2) == acknowledged


async def test_what_was_answered_with_an_error_is_waited_for_no_longer(rig: Rig) -> None:
    rig.target.before = lambda _request: TOPIC_DENIED
    side = rig.feed(Feed(batches(1)))
    await until(lambda: bool(side.trouble) and not side.on_wire)
    async with asyncio.timeout(5.0):  # less than request.timeout.ms
        await rig.producer.release([side], 0.0)


async def test_a_released_partition_that_comes_back_goes_on_with_its_sequences(rig: Rig) -> None:
    feed = Feed(batches(2))
    side = rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 6)
    await rig.producer.release([side], 1)
    back = Feed(batches(1))
    rig.feed(back)
    await until(lambda: len(back.acknowledged) == 3)
    assert sequences(rig.target) == [0, 3, 6]


async def test_without_idempotence_one_batch_of_a_partition_is_in_flight() -> None:
    rig = Rig(FakeTarget(), ProducerSettings(idempotent=False, retry_backoff_s=0.001))
    await rig.producer.start()
    rig.target.delay = lambda: 0.001
    feed = Feed(batches(10))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 30)
    await rig.producer.close()
    assert (rig.target.most_in_flight, {b.producer_id for b in rig.target.log("a.orders", 0).batches}) == (1, {-1})


async def test_without_the_right_to_the_transactional_id_it_goes_on_unfenced_and_says_so() -> None:
    target = FakeTarget()
    target.transactional_id_error = 53
    rig = Rig(target)
    await rig.producer.start()
    feed = Feed(batches(1))
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)
    await rig.producer.close()
    assert [line for line in rig.notices if "Not authorized to use the transactional id" in line]


async def test_a_producer_whose_right_is_revoked_writes_nothing_without_its_fence(rig: Rig) -> None:
    feed = Feed(batches(1))
    side = rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)
    rig.target.transactional_id_error = 53
    refusals = iter([OUT_OF_ORDER])
    rig.target.before = lambda _request: next(refusals, 0)
    feed.batches.append(batch(3, [10]))
    rig.producer.wake(side)
    with pytest.raises(FenceLostError, match="group-connector-0"):
        await asyncio.wait_for(rig.producer.failed, 60)
    assert (sequences(rig.target), rig.producer.fenceable) == ([0], True)


@pytest.mark.parametrize("turns", range(6))
async def test_it_closes_when_new_metadata_are_asked_for_in_that_very_moment(turns: int) -> None:
    rig = Rig(FakeTarget())
    await rig.producer.start()
    for _ in range(6):  # it waits for the first request
        await asyncio.sleep(0)
    rig.producer._stale.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await rig.producer.close()
