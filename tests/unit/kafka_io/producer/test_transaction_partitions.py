"""The partitions of a transaction: how they are added, and those that can't be written to or are released."""

from __future__ import annotations

import asyncio
from typing import Any

from mirror_connect.kafka_io.producer.transaction_errors import AbortCause
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn
from tests.fakes.producer_rig import until
from tests.fakes.transactional_target import (
    ID,
    NumberFeed,
    TransactionalRig,
    aborted,
    commit_up_to,
    lost,
    numbers,
    transactional_rig,
)

# The producer has transactions here, by the old protocol and the new one.
rig = transactional_rig


async def test_the_old_protocol_adds_each_partition_once_and_the_new_one_none(rig: TransactionalRig) -> None:
    feed = NumberFeed(30)
    rig.feed(feed)
    await commit_up_to(rig, feed, 30)
    added = [each.partitions for each in rig.target.asked(AddPartitionsToTxn)]
    assert len(added) == (0 if rig.target.broker.protocol.gives_epochs else 1)
    assert {each.transactional_id for each in rig.target.asked(Produce)} == {ID}


async def test_a_partition_without_a_leader_holds_nothing_back(rig: TransactionalRig) -> None:
    feed, stuck = NumberFeed(3), NumberFeed(0)
    rig.feed(feed)
    side = rig.feed(stuck, topic="a.stuck")
    rig.target.broker.refuses["a.stuck"] = 19
    await rig.transactions.begin()
    stuck.end = 6
    rig.producer.wake(side)
    await until(lambda: feed.acknowledged == 3 and side.problem is not None)
    await rig.transactions.commit()
    assert (feed.final, stuck.final, stuck.acknowledged) == (3, 0, 0)
    rig.target.broker.refuses.clear()
    await rig.transactions.begin()
    await until(lambda: stuck.acknowledged == 6)
    await rig.transactions.commit()
    await until(lambda: numbers(rig.target.log("a.stuck")) == list(range(6)))
    assert rig.transactions.aborts == 0


async def test_a_topic_without_the_right_stalls_alone(rig: TransactionalRig) -> None:
    feed, denied = NumberFeed(3), NumberFeed(3)
    rig.target.broker.denied.add("a.denied")
    rig.feed(feed)
    side = rig.feed(denied, topic="a.denied")
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3 and side.problem is not None)
    await rig.transactions.commit()
    assert (feed.final, denied.acknowledged) == (3, 0)
    await rig.transactions.begin()
    await rig.transactions.commit()  # of that topic alone
    assert rig.transactions.aborts == 0


async def test_a_refused_batch_fails_its_partition_and_the_rest_is_committed(rig: TransactionalRig) -> None:
    feed, bad = NumberFeed(3), NumberFeed(3)
    rig.feed(feed)
    rig.feed(bad, topic="a.bad")
    rig.target.broker.refuses["a.bad"] = 87
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3 and bad.error is not None)
    await rig.transactions.commit()
    assert (feed.final, bad.next) == (3, 0)


async def test_a_batch_that_is_refused_after_an_unanswered_try_is_not_dropped(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    answers = iter([0, 87])

    def after(request: Any) -> int:
        if not isinstance(request, Produce):
            return 0
        code = next(answers, None)
        if code == 0:
            raise lost()
        return code or 0

    rig.target.after = after
    await rig.transactions.begin()
    await rig.transactions.broken.wait()
    assert (await aborted(rig)).cause is AbortCause.REFUSED_AFTER_DOUBT
    assert feed.error is None
    await commit_up_to(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))


async def test_a_batch_that_is_too_large_is_split_within_the_transaction(rig: TransactionalRig) -> None:
    feed = NumberFeed(0, size=64)
    rig.feed(feed)
    rig.target.broker.limit = 400
    await commit_up_to(rig, feed, 64)
    await until(lambda: numbers(rig.target.log()) == list(range(64)))
    assert len(rig.target.log().entries) > 2


async def test_a_partition_that_is_released_unsettled_aborts_the_transaction(rig: TransactionalRig) -> None:
    feed, other = NumberFeed(3), NumberFeed(3)
    side = rig.feed(feed)
    rig.feed(other, topic="a.other")
    rig.target.broker.hides["a.orders"] = 7
    await rig.transactions.begin()
    await until(lambda: side.failures_in_row and other.acknowledged == 3)
    await rig.producer.release([side], 0.05)
    assert [each.cause for each in other.aborted_with] == [AbortCause.GIVEN_UP]
    await commit_up_to(rig, other, 6)
    await until(lambda: numbers(rig.target.log("a.other")) == list(range(6)))
    assert numbers(rig.target.log()) == []


async def test_a_partition_is_released_between_transactions_and_comes_back(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    side = rig.feed(feed)
    await commit_up_to(rig, feed, 3)
    rig.target.before = lambda request: 19 if isinstance(request, Produce) else 0
    await rig.transactions.begin()
    feed.end = 6
    rig.producer.wake(side)
    await until(lambda: side.failures_in_row)
    await rig.transactions.commit()
    async with asyncio.timeout(20):
        await rig.producer.release([side], 30)
    rig.target.before = lambda _request: 0
    again = NumberFeed(3)
    again.next = again.acknowledged = again.final = 3
    rig.feed(again)
    await commit_up_to(rig, again, 9)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))
    assert rig.transactions.aborts == 0
