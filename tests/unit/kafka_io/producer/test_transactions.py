"""A producer's transactions over a target in memory, by the old protocol and the new one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer import transaction_coordinator
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, FenceLostError
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.producer.transactions import TransactionState
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from mirror_connect.kafka_io.records.record_batch import NewRecord
from tests.fakes.producer_rig import Feed, until
from tests.fakes.transaction_broker import LAST_EPOCH, Protocol, State
from tests.fakes.transactional_target import (
    ID,
    NUMBER,
    NumberFeed,
    TransactionalRig,
    TransactionalTarget,
    lost,
    numbers,
)


@pytest.fixture(params=Protocol, ids=lambda protocol: protocol.name)
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[TransactionalRig]:
    made = TransactionalRig(TransactionalTarget(request.param))
    await made.producer.start()
    yield made
    await made.producer.close()


def position(number: int) -> NewRecord:
    return NewRecord(b"position", NUMBER.pack(number), 1)


def once(kind: type, *, times: int = 1, code: int = 0) -> Callable[[Any], int]:
    """Answers the next requests of a kind with a code, or loses them."""
    left = times

    def look(request: Any) -> int:
        nonlocal left
        if isinstance(request, kind) and left:
            left -= 1
            if not code:
                raise lost()
            return code
        return 0

    return look


async def one(rig: TransactionalRig, feed: NumberFeed, end: int) -> None:
    """Feeds up to a number in one transaction."""
    await rig.transactions.begin()
    feed.end = end
    for target in rig.producer._sender.partitions.values():
        rig.producer.wake(target)
    await until(lambda: feed.next == end)
    await rig.transactions.commit()


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
        await one(rig, feed, end)
    await until(lambda: numbers(rig.target.log()) == list(range(21)))
    # A marker takes one offset.
    assert [feed.placed[number] for number in (0, 5, 20)] == [0, 6, 22]
    epochs = [entry.producer[1] for entry in rig.target.log().entries if not entry.marker]
    new = rig.target.broker.protocol.gives_epochs
    assert sorted(set(epochs)) == ([0, 1, 2] if new else [0])
    assert {entry.sequence for entry in rig.target.log().entries} >= ({0, 3} if new else {0, 3, 5, 20})


async def test_the_old_protocol_adds_each_partition_once_and_the_new_one_none(rig: TransactionalRig) -> None:
    feed = NumberFeed(30)
    rig.feed(feed)
    await one(rig, feed, 30)
    added = [each.partitions for each in rig.target.asked(AddPartitionsToTxn)]
    assert len(added) == (0 if rig.target.broker.protocol.gives_epochs else 1)
    assert {each.transactional_id for each in rig.target.asked(Produce)} == {ID}


async def test_after_the_last_epoch_another_producer_id_comes(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    await one(rig, feed, 3)
    await until(lambda: rig.target.broker.ids[ID].state is State.COMMITTED)
    known = rig.target.broker.ids[ID]
    known.epoch, known.last = LAST_EPOCH, LAST_EPOCH - 1
    rig.producer._sender.producer = replace(rig.producer._sender.producer, epoch=LAST_EPOCH)
    await one(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))
    assert len({entry.producer[0] for entry in rig.target.log().entries}) == 2


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
        await one(rig, feed, end)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))
    assert len({entry.producer[0] for entry in rig.target.log().entries}) == 2


async def test_an_id_that_the_target_has_forgotten_costs_one_abort_and_no_record(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    await one(rig, feed, 3)
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
        await one(rig, feed, end)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))
    assert rig.transactions.aborts == 1


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


# What is lost.


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lost_answer_of_the_commit_is_asked_for_again_and_a_new_epoch_follows(
    rig: TransactionalRig, when: str
) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    await one(rig, feed, 3)
    setattr(rig.target, when, once(EndTxn))
    await one(rig, feed, 6)
    await one(rig, feed, 9)
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
    await one(rig, feed, 30)
    await until(lambda: numbers(rig.target.log()) == list(range(30)))
    assert rig.transactions.aborts == 0


@pytest.mark.parametrize("code", [14, 15, 16, 7, 51, -1])
async def test_a_commit_that_is_not_decided_yet_is_asked_for_again(rig: TransactionalRig, code: int) -> None:
    feed = NumberFeed(0)
    rig.feed(feed)
    rig.target.before = once(EndTxn, code=code, times=2)
    await one(rig, feed, 3)
    await one(rig, feed, 6)
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


# What is aborted.


async def aborted(rig: TransactionalRig) -> TransactionAbortedError:
    with pytest.raises(TransactionAbortedError) as raised:
        await rig.transactions.commit()
    assert any("A transaction was aborted" in line for line in rig.notices)
    return raised.value


@pytest.mark.parametrize("acknowledged", [True, False], ids=["acknowledged", "on_the_wire"])
async def test_after_an_abort_all_is_given_again_and_seen_once(rig: TransactionalRig, acknowledged: bool) -> None:
    feed, other = NumberFeed(0), NumberFeed(0)
    rig.feed(feed)
    side = rig.feed(other, 1)
    await one(rig, feed, 3)
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
    await one(rig, feed, 6)
    assert rig.producer.problem is None


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
    await one(rig, feed, 3)
    rig.target.before = once(kind, code=code)
    await rig.transactions.begin()
    feed.end = 6
    rig.producer.wake(next(iter(rig.producer._sender.partitions.values())))
    await until(lambda: feed.acknowledged == 6 or rig.transactions.broken.is_set())
    error = await aborted(rig)
    assert (error.cause, rig.transactions.broken.is_set()) == (cause, True)
    assert "\n" not in str(error)
    await one(rig, feed, 9)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))


@pytest.mark.parametrize("code", [45, 59])
async def test_a_lost_producer_state_leads_to_an_abort(rig: TransactionalRig, code: int) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    rig.target.before = once(Produce, code=code)
    await rig.transactions.begin()
    await rig.transactions.broken.wait()
    assert (await aborted(rig)).cause is AbortCause.STATE_LOST
    await one(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))


async def test_the_targets_timeout_is_told_from_another_owner(rig: TransactionalRig) -> None:
    feed = NumberFeed(3)
    rig.feed(feed)
    await rig.transactions.begin()
    await until(lambda: feed.acknowledged == 3)
    rig.target.broker.ids[ID].began -= 1000
    rig.target.broker.expire()
    error = await aborted(rig)
    assert error.cause in (AbortCause.EPOCH_REFUSED, AbortCause.BY_TARGET)
    await one(rig, feed, 6)
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
    await one(rig, feed, 6)
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
    await one(successor, theirs, 3)
    if not opens:
        await rig.transactions.begin()
    with pytest.raises(FencedError):
        await rig.transactions.commit() if opens else await asyncio.wait_for(rig.producer.failed, 60)
    await one(successor, theirs, 6)
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


# Partitions that can't be written to.


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
    await one(rig, feed, 6)
    await until(lambda: numbers(rig.target.log()) == list(range(6)))


async def test_a_batch_that_is_too_large_is_split_within_the_transaction(rig: TransactionalRig) -> None:
    feed = NumberFeed(0, size=64)
    rig.feed(feed)
    rig.target.broker.limit = 400
    await one(rig, feed, 64)
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
    await one(rig, other, 6)
    await until(lambda: numbers(rig.target.log("a.other")) == list(range(6)))
    assert numbers(rig.target.log()) == []


async def test_a_partition_is_released_between_transactions_and_comes_back(rig: TransactionalRig) -> None:
    feed = NumberFeed(0)
    side = rig.feed(feed)
    await one(rig, feed, 3)
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
    await one(rig, again, 9)
    await until(lambda: numbers(rig.target.log()) == list(range(9)))
    assert rig.transactions.aborts == 0


# The lease, and the end.


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
