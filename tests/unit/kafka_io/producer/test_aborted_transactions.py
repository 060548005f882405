"""Transactions that are aborted, and producers that another one or a lost right ends. All is given again and seen once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, FenceLostError
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from tests.fakes.producer_rig import until
from tests.fakes.transaction_broker import LAST_EPOCH, Protocol, State
from tests.fakes.transactional_target import (
    ID,
    NumberFeed,
    TransactionalRig,
    TransactionalTarget,
    aborted,
    commit_up_to,
    lost,
    numbers,
    once,
    position,
    transactional_rig,
)

# The producer has transactions here, by the old protocol and the new one.
rig = transactional_rig


@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "on_the_wire"])
async def test_after_an_abort_all_is_given_again_and_seen_once(rig: TransactionalRig, acknowledged: bool) -> None:
    feed, other = NumberFeed(0), NumberFeed(0)
    rig.feed(feed)
    side = rig.feed(other, 1)
    await commit_up_to(rig, feed, 3)
    await rig.transactions.begin()
    feed.end = other.end = 9
    for target in rig.producer._sender.partitions.values():
        rig.producer.wake(target)
    await until(lambda: (other.acknowledged if acknowledged else other.next) == 9)
    await rig.transactions.abort("a test wants it")
    assert [each.cause for each in other.aborted_with] == [AbortCause.GIVEN_UP]
    assert (feed.next, other.next) == (3, 0)
    await rig.transactions.begin()
    rig.producer.wake(side)
    await until(lambda: feed.acknowledged == other.acknowledged == 9)
    await rig.transactions.commit()
    await until(lambda: numbers(rig.target.log()) == list(range(9)) == numbers(rig.target.log(partition=1)))
    assert rig.transactions.problem is None


async def test_only_repeated_aborts_are_a_problem_until_the_next_commit(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    rig.target.before = once(Produce, code=120, times=2)
    for expected in (False, True):
        await rig.transactions.begin()
        feed.end = 3
        rig.producer.wake(next(iter(rig.producer._sender.partitions.values())))
        await rig.transactions.broken.wait()
        await aborted(rig)
        assert (rig.producer.problem is not None) == expected
    assert len([line for line in rig.notices if "A transaction was aborted" in line]) == 1
    await commit_up_to(rig, feed, 6)
    assert rig.producer.problem is None


async def test_own_records_of_an_aborted_transaction_are_not_written_later(rig: TransactionalRig) -> None:
    positions = OwnRecords(rig.producer, "offsets", 0)
    rig.target.before = once(Produce, code=19, times=1000)
    await rig.transactions.begin()
    writing = asyncio.create_task(positions.write([position(1)]))
    await until(lambda: rig.target.asked(Produce))
    await rig.transactions.abort("a test wants it")
    with pytest.raises(TransactionAbortedError):
        await writing
    rig.target.before = lambda _request: 0
    await rig.transactions.begin()
    await positions.write([position(2)])
    await rig.transactions.commit()
    await until(lambda: numbers(rig.target.log("offsets")) == [2])


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (47, AbortCause.EPOCH_REFUSED),
        (90, AbortCause.EPOCH_REFUSED),
        (48, AbortCause.BY_TARGET),
        (49, AbortCause.BY_TARGET),
        (120, AbortCause.BY_TARGET),
    ],
)
@pytest.mark.parametrize("asked", ["first", Produce, EndTxn])
async def test_a_code_that_ends_the_transaction_leads_to_an_abort_and_the_next_one(
    rig: TransactionalRig, asked: str | type, code: int, cause: AbortCause
) -> None:
    # A transaction begins with another request in each protocol.
    first = Produce if rig.target.broker.protocol.gives_epochs else AddPartitionsToTxn
    kind = asked if isinstance(asked, type) else first
    feed = NumberFeed(0)
    rig.feed(feed)
    await commit_up_to(rig, feed, 3)
    rig.target.before = once(kind, code=code)
    await rig.transactions.begin()
    feed.end = 6
    rig.producer.wake(next(iter(rig.producer._sender.partitions.values())))
    await until(lambda: feed.acknowledged == 6 or rig.transactions.broken.is_set())
    error = await aborted(rig)
    assert (error.cause, rig.transactions.broken.is_set()) == (cause, True)
    assert "\n" not in str(error)
    await commit_up_to(rig, feed, 9)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))


@pytest.mark.parametrize("code", [45, 59])
async def test_a_lost_producer_state_leads_to_an_abort(rig: TransactionalRig, code: int) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    rig.target.before = once(Produce, code=code)
    await rig.transactions.begin()
    await rig.transactions.broken.wait()
    assert (await aborted(rig)).cause is AbortCause.STATE_LOST
    await commit_up_to(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))


async def test_an_id_that_the_target_has_forgotten_costs_one_abort_and_no_record(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    await commit_up_to(rig, feed, 3)
    await until(lambda: rig.target.broker.ids[ID].state is State.COMMITTED)
    # transactional.id.expiration.ms is over.
    del rig.target.broker.ids[ID]
    await rig.transactions.begin()
    feed.end = 6
    for target in rig.producer._sender.partitions.values():
        rig.producer.wake(target)
    await asyncio.wait_for(rig.transactions.broken.wait(), 60)
    with pytest.raises(TransactionAbortedError, match=r"transactional\.id\.expiration\.ms"):
        await rig.transactions.commit()
    for end in (6, 9):
        await commit_up_to(rig, feed, end)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))
    assert rig.transactions.aborts == 1


async def test_an_abort_by_the_target_at_the_last_epoch_leads_to_another_producer_id(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    known = rig.target.broker.ids[ID]
    known.epoch, known.last = LAST_EPOCH - 1, LAST_EPOCH - 2
    rig.producer._sender.producer = replace(rig.producer._sender.producer, epoch=LAST_EPOCH - 1)
    await rig.transactions.begin()
    feed.end = 3
    for target in rig.producer._sender.partitions.values():
        rig.producer.wake(target)
    await until(lambda: feed.acknowledged == 3)
    rig.target.broker._fence(ID, known)
    with pytest.raises(TransactionAbortedError):
        await rig.transactions.commit()
    for end in (3, 6):
        await commit_up_to(rig, feed, end)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))
    assert len({entry.producer[0] for entry in rig.target.log().entries}) == 2


async def test_the_targets_timeout_is_told_from_another_owner(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    rig.target.broker.ids[ID].began -= 1000
    rig.target.broker.expire()
    error = await aborted(rig)
    assert error.cause in (AbortCause.EPOCH_REFUSED, AbortCause.BY_TARGET)
    await commit_up_to(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))


async def test_a_transaction_that_is_open_for_too_long_is_aborted_by_the_producer() -> None:
    rig = TransactionalRig(TransactionalTarget(Protocol.OLD), timeout_ms=50)
    await rig.producer.start()
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await rig.transactions.broken.wait()
    error = await aborted(rig)
    assert error.cause is AbortCause.TIMED_OUT
    assert "transaction.timeout.ms (50)" in str(error)
    await commit_up_to(rig, feed, 6)
    await rig.producer.close()


@pytest.mark.parametrize("opens", [True, False], ids=["in_its_transaction", "between_two"])
async def test_another_owner_ends_the_producer(rig: TransactionalRig, opens: bool) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    if opens:
        await rig.transactions.begin()
        await until(lambda: feed.acknowledged == 3)
    successor = TransactionalRig(rig.target)
    await successor.producer.start()
    theirs = NumberFeed(3)
    successor.feed(theirs)
    await commit_up_to(successor, theirs, 3)
    if not opens:
        await rig.transactions.begin()
    with pytest.raises(FencedError):
        await rig.transactions.commit() if opens else await asyncio.wait_for(rig.producer.failed, 60)
    await commit_up_to(successor, theirs, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))
    await successor.producer.close()


async def test_if_another_owner_came_while_the_commit_was_unanswered_the_task_ends(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    known = rig.target.broker.ids[ID]

    def taken_over(request: Any) -> int:
        # It is completed, and another owner comes, before the commit is asked for again.
        if isinstance(request, EndTxn) and len(rig.target.asked(EndTxn)) == 1:
            known.state = State.COMMITTED
            rig.target.broker.init(InitProducerId(ID))
            raise lost()
        return 0

    rig.target.after = taken_over
    with pytest.raises(FencedError):
        await rig.transactions.commit()


async def test_a_revoked_right_ends_the_producer(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    rig.target.before = once(EndTxn, code=53)
    with pytest.raises(FenceLostError):
        await rig.transactions.commit()
