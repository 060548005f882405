"""A task's own records: written in order in batches, each write returns with its acknowledgements or its refusal."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.kafka_io.producer import own_records
from mirror_connect.kafka_io.producer.batch_producer import RECORDS_IN_SLICE
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.records.batch_builder import BatchBuilder
from mirror_connect.kafka_io.records.record_batch import NewRecord
from tests.fakes.encoded_batches import NOW
from tests.fakes.loop_turns import LoopTurns
from tests.fakes.producer_rig import INVALID_RECORD, Feed, Rig, batch, until

TOPIC = "heartbeats"


def records(*values: bytes) -> list[NewRecord]:
    return [NewRecord(b"k", value, NOW) for value in values]


def written(rig: Rig) -> list[int]:
    """How many records each batch on the target has."""
    return [each.count for each in rig.target.log(TOPIC, 0).batches]


async def test_a_write_returns_when_the_target_has_its_records(rig: Rig) -> None:
    answer = asyncio.Event()
    rig.target.before = lambda _request: 0 if answer.is_set() else 7
    writing = asyncio.create_task(OwnRecords(rig.producer, TOPIC, 0).write(records(b"1", b"2")))
    await until(lambda: len(rig.target.requests) > 1)
    assert not writing.done()
    answer.set()
    await writing
    assert written(rig) == [2]


async def test_nothing_is_sent_for_no_records(rig: Rig) -> None:
    await OwnRecords(rig.producer, TOPIC, 0).write([])
    assert rig.target.requests == []


async def test_many_bytes_are_written_in_several_batches_in_order(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_records, "BATCH_BYTES", 20)
    own = OwnRecords(rig.producer, TOPIC, 0)
    await own.write(records(b"x" * 15, b"y" * 15, b"z" * 15))
    assert written(rig) == [2, 1]


async def test_batches_of_several_writes_have_offsets_that_rise(rig: Rig) -> None:
    own = OwnRecords(rig.producer, TOPIC, 0)
    taken = []
    give = own.take

    def take(limit: int, *, latency_bound: bool, append_time: bool) -> object:
        found = give(limit, latency_bound=latency_bound, append_time=append_time)
        taken.append((found.first_offset, found.last_offset) if found else None)
        return found

    own.take = take  # type: ignore[method-assign, assignment]
    await own.write(records(b"1", b"2"))
    await own.write(records(b"3"))
    assert [each for each in taken if each] == [(0, 1), (2, 2)]


async def test_a_write_of_many_records_is_made_in_slices_and_a_later_one_comes_after_it(rig: Rig) -> None:
    own, turns = OwnRecords(rig.producer, TOPIC, 0), LoopTurns()
    turns.start()
    with pytest.MonkeyPatch.context() as patch:
        turns.count(patch, BatchBuilder, "add")
        await asyncio.gather(own.write(records(*[b"%d" % each for each in range(1_000)])), own.write(records(b"last")))
    assert (turns.whole["add"], turns.most["add"]) == (1_001, RECORDS_IN_SLICE)
    assert written(rig) == [1_000, 1]


async def test_writes_of_many_partitions_share_the_slices(rig: Rig) -> None:
    turns, size = LoopTurns(), RECORDS_IN_SLICE // 2 + 1
    turns.start()
    with pytest.MonkeyPatch.context() as patch:
        turns.count(patch, BatchBuilder, "add")
        many = [OwnRecords(rig.producer, TOPIC, number) for number in range(2)]
        await asyncio.gather(*(each.write(records(*[b"v"] * size)) for each in many))
    assert (turns.whole["add"], turns.most["add"]) == (2 * size, size)


@pytest.mark.parametrize("slices", [1, 2])
async def test_what_is_dropped_between_two_slices_is_not_written_later(rig: Rig, slices: int) -> None:
    own, other = (OwnRecords(rig.producer, TOPIC, number) for number in range(2))
    before = asyncio.create_task(other.write(records(*[b"v"] * RECORDS_IN_SLICE)))
    writing = asyncio.create_task(own.write(records(*[b"v"] * RECORDS_IN_SLICE * slices)))
    await asyncio.sleep(0)
    own.aborted(TransactionAbortedError(AbortCause.GIVEN_UP, "made up"))
    with pytest.raises(TransactionAbortedError):
        await writing
    assert not own.waiting()
    await before
    await own.write(records(b"next"))
    assert written(rig) == [1]


async def test_own_records_go_before_those_that_were_there_earlier(rig: Rig) -> None:
    rig.leased = False
    rig.feed(Feed([batch(0, [50])]))
    writing = asyncio.create_task(OwnRecords(rig.producer, TOPIC, 0).write(records(b"1")))
    await asyncio.sleep(0)
    rig.leased = True
    await writing
    assert [each.topic for request in rig.target.requests for each in request.batches] == [TOPIC, "a.orders"]


async def test_a_batch_that_was_split_is_acknowledged_with_its_last_piece(rig: Rig) -> None:
    own = OwnRecords(rig.producer, TOPIC, 0)
    writing = asyncio.create_task(own.write(records(b"1", b"2", b"3")))
    await asyncio.sleep(0)
    given = own.take(1_000, latency_bound=False, append_time=False)
    assert given is not None
    for first, last, done in ((0, 1, False), (2, 2, True)):
        piece = batch(first, [1] * (last - first + 1))
        own.acked(piece, -1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert writing.done() is done
    await writing


async def test_a_refusal_fails_all_waiting_writes_and_all_later_ones(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_records, "BATCH_BYTES", 1)
    rig.target.before = lambda _request: INVALID_RECORD
    own = OwnRecords(rig.producer, TOPIC, 0)
    writes = [asyncio.create_task(own.write(records(b"1", b"2"))) for _ in range(3)]
    found = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(each) for each in found] == [PartitionRefusedError] * 3
    rig.target.before = lambda _request: 0
    with pytest.raises(PartitionRefusedError):
        await own.write(records(b"3"))
    assert (own.waiting(), written(rig)) == (False, [])


async def test_an_acknowledgement_after_a_cancelled_write_is_no_error(rig: Rig) -> None:
    answer = asyncio.Event()
    rig.target.before = lambda _request: 0 if answer.is_set() else 7
    own = OwnRecords(rig.producer, TOPIC, 0)
    cancelled = asyncio.create_task(own.write(records(b"1")))
    await until(lambda: bool(rig.target.requests))
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    answer.set()
    await own.write(records(b"2"))
    assert written(rig) == [1, 1]
