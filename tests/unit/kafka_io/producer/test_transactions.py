"""A producer's transactions over a target in memory, by the old protocol and the new one: their course and their end."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer import transaction_coordinator
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.transactions import TransactionState
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from tests.fakes.producer_rig import Feed, until
from tests.fakes.transaction_broker import LAST_EPOCH, State
from tests.fakes.transactional_target import (
    ID,
    NumberFeed,
    TransactionalRig,
    commit_up_to,
    numbers,
    once,
    position,
    transactional_rig,
)

# The producer has transactions here, by the old protocol and the new one.
rig = transactional_rig


async def test_nothing_is_sent_before_a_transaction_begins(rig: TransactionalRig) -> None:
    rig.feed(NumberFeed(9))
    await asyncio.sleep(0.02)
    assert rig.target.asked(Produce) == []
    await rig.transactions.begin()
    await until(lambda: rig.target.asked(Produce))


async def test_batches_of_all_partitions_and_own_records_are_committed_together(rig: TransactionalRig) -> None:
    first, second = NumberFeed(9), NumberFeed(6)
    rig.feed(first)
    rig.feed(second, 1)
    positions = OwnRecords(rig.producer, "offsets", 0)
    await rig.transactions.begin()
    await until(lambda: first.next == 9 and second.next == 6)
    await rig.transactions.drain()
    assert (first.acknowledged, second.acknowledged) == (9, 6)
    await positions.write([position(9)])
    logs = rig.target.log(), rig.target.log(partition=1), rig.target.log("offsets")
    assert [numbers(log) for log in logs] == [[], [], []]
    await rig.transactions.commit()
    await until(lambda: rig.target.broker.ids[ID].state is State.COMMITTED)
    assert [numbers(log) for log in logs] == [list(range(9)), list(range(6)), [9]]
    assert (first.final, rig.transactions.commits) == (9, 1)


async def test_transactions_follow_each_other_in_order_with_markers_between(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    for end in (5, 20, 21):
        await commit_up_to(rig, feed, end)
    await until(lambda: numbers(rig.target.log()) == list(range(21)))
    # A marker takes one offset.
    assert [feed.placed[number] for number in (0, 5, 20)] == [0, 6, 22]
    epochs = [entry.producer[1] for entry in rig.target.log().entries if not entry.marker]
    new = rig.target.broker.protocol.gives_epochs
    assert sorted(set(epochs)) == ([0, 1, 2] if new else [0])
    assert {entry.sequence for entry in rig.target.log().entries} >= ({0, 3} if new else {0, 3, 5, 20})


async def test_after_the_last_epoch_another_producer_id_comes(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    await commit_up_to(rig, feed, 3)
    await until(lambda: rig.target.broker.ids[ID].state is State.COMMITTED)
    known = rig.target.broker.ids[ID]
    known.epoch, known.last = LAST_EPOCH, LAST_EPOCH - 1
    rig.producer._sender.producer = replace(rig.producer._sender.producer, epoch=LAST_EPOCH)
    await commit_up_to(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))
    assert len({entry.producer[0] for entry in rig.target.log().entries}) == 2


async def test_a_transaction_without_batches_asks_the_target_nothing(rig: TransactionalRig) -> None:
    rig.feed(NumberFeed(0))
    await rig.transactions.begin()
    assert rig.transactions.empty
    await rig.transactions.commit()
    assert rig.target.asked(EndTxn) == []


async def test_nothing_is_taken_between_drain_and_the_next_transaction(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    side = rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    await rig.transactions.drain()
    feed.end = 6
    rig.producer.wake(side)
    await asyncio.sleep(0.02)
    await rig.transactions.commit()
    await asyncio.sleep(0.02)
    assert (feed.next, numbers(rig.target.log())) == (3, [0, 1, 2])
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 6)


async def test_own_records_wait_for_the_next_transaction(rig: TransactionalRig) -> None:
    positions = OwnRecords(rig.producer, "offsets", 0)
    writing = asyncio.create_task(positions.write([position(1)]))
    await asyncio.sleep(0.02)
    assert not writing.done()
    await rig.transactions.begin()
    await writing
    await rig.transactions.commit()


async def test_a_feed_that_cannot_give_its_batches_again_is_refused(rig: TransactionalRig) -> None:
    with pytest.raises(TypeError, match="can't give its batches again"):
        rig.producer.partition("a.orders", 0, Feed())


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_of_the_commit_is_asked_for_again_and_a_new_epoch_follows(
    rig: TransactionalRig, when: str
) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    await commit_up_to(rig, feed, 3)
    setattr(rig.target, when, once(EndTxn))
    await commit_up_to(rig, feed, 6)
    await commit_up_to(rig, feed, 9)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))
    assert rig.transactions.aborts == 0
    by_base = {entry.base: entry.producer[1] for entry in rig.target.log().entries if not entry.marker}
    epochs = [by_base[feed.placed[number]] for number in (0, 3, 6)]
    assert epochs == ([0, 1, 2] if rig.target.broker.protocol.gives_epochs else [0, 0, 1])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", [AddPartitionsToTxn, Produce])
async def test_a_lost_answer_within_a_transaction_changes_nothing(rig: TransactionalRig, when: str, kind: type) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    setattr(rig.target, when, once(kind))
    await commit_up_to(rig, feed, 30)
    await until(lambda: numbers(rig.target.log()) == list(range(30)))
    assert rig.transactions.aborts == 0


@pytest.mark.parametrize("code", [14, 15, 16, 7, 51, -1])
async def test_a_commit_that_is_not_decided_yet_is_asked_for_again(rig: TransactionalRig, code: int) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    rig.target.before = once(EndTxn, code=code, times=2)
    await commit_up_to(rig, feed, 3)
    await commit_up_to(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))
    assert rig.transactions.aborts == 0


async def test_a_commit_that_is_no_longer_waited_for_goes_on(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    rig.target.before = once(EndTxn, code=15, times=3)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await rig.transactions.commit()
    assert rig.transactions.state is TransactionState.COMMITTING
    await rig.transactions.commit()
    assert feed.final == 3


async def test_a_coordinator_that_does_not_answer_is_a_problem(
    rig: TransactionalRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_coordinator, "_QUIET_S", 0.02)
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    rig.target.before = lambda request: 15 if isinstance(request, EndTxn) else 0
    committing = asyncio.create_task(rig.transactions.commit())
    await until(lambda: rig.producer.problem is not None)
    assert "COORDINATOR_NOT_AVAILABLE (15)" in rig.notices[-1]
    rig.target.before = lambda _request: 0
    await committing
    assert rig.producer.problem is None


async def test_nothing_is_committed_without_a_lease(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    rig.leased = False
    committing = asyncio.create_task(rig.transactions.commit())
    await asyncio.sleep(0.1)
    assert (rig.target.asked(EndTxn), committing.done()) == ([], False)
    rig.leased = True
    await committing
    assert feed.final == 3


async def test_a_closed_producer_leaves_nothing_open(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    await rig.transactions.close(5)
    await until(lambda: rig.target.broker.ids[ID].state in (State.EMPTY, State.ABORTED))
    assert rig.target.log().stable_end == rig.target.log().end
    with pytest.raises(RuntimeError, match="closed"):
        await rig.transactions.begin()


async def test_a_successor_aborts_what_its_predecessor_left_open(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    successor = TransactionalRig(rig.target)
    await successor.producer.start()
    assert (rig.target.log().stable_end, numbers(rig.target.log())) == (rig.target.log().end, [])
    with contextlib.suppress(ConnectionLost):
        await successor.producer.close()
