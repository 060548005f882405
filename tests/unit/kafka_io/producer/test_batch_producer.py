"""What a task asks of the producer: settle, release, take a partition again, end."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.produce_outcome import FenceLostError
from mirror_connect.kafka_io.protocol.produce import Produce, ProduceResponse
from tests.fakes.producer_rig import (
    INVALID_RECORD,
    OUT_OF_ORDER,
    TOPIC_DENIED,
    Feed,
    Rig,
    batch,
    batches,
    sequences,
    until,
)
from tests.fakes.target_cluster import FakeTarget, lost


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
    rig = Rig(FakeTarget(), ProducerSettings(retry_backoff_s=0.001, request_timeout_ms=2_000))
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
    assert (waited < 1.5) == acknowledged


async def test_what_was_answered_with_an_error_is_waited_for_no_longer(rig: Rig) -> None:
    rig.target.before = lambda _request: TOPIC_DENIED
    side = rig.feed(Feed(batches(1)))
    await until(lambda: bool(side.problem) and not side.on_wire)
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
    rig.producer._sender.wanted.want_all()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await rig.producer.close()
