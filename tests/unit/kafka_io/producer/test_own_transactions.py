"""A task's own records in transactions: all of a write or nothing, once, and again after an abort."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.kafka_io.producer.own_transactions import OwnTransactions
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.transactions import EndTxn
from mirror_connect.kafka_io.records.record_batch import NewRecord
from tests.fakes.encoded_batches import decode
from tests.fakes.producer_rig import until
from tests.fakes.transaction_broker import OUT_OF_ORDER, Protocol
from tests.fakes.transactional_target import TransactionalRig, TransactionalTarget

BEATS, OFFSETS = ("heartbeats", 0), ("connect-offsets", 3)


class Writing:
    def __init__(self, protocol: Protocol = Protocol.NEW) -> None:
        self.target = TransactionalTarget(protocol)
        self.rig = TransactionalRig(self.target)
        self.own = OwnTransactions(self.rig.producer)

    def committed(self, place: tuple[str, int]) -> list[bytes | None]:
        return [record.value for each in self.target.log(*place).committed() for record in decode(each.payload)]

    async def beat(self, number: int) -> None:
        record = NewRecord(b"k", b"%d" % number, 1)
        await self.own.write({BEATS: [record], OFFSETS: [NewRecord(b"o", b"%d" % number, 1)]})


@pytest.mark.parametrize("protocol", Protocol)
async def test_each_write_is_a_transaction_with_all_its_records(protocol: Protocol) -> None:
    writing = Writing(protocol)
    await writing.rig.producer.start()
    for number in range(3):
        await writing.beat(number)
    await until(lambda: writing.committed(BEATS) == writing.committed(OFFSETS) == [b"0", b"1", b"2"])
    assert [each.committed for each in writing.target.asked(EndTxn)] == [True] * 3
    await writing.rig.producer.close()


async def test_what_is_aborted_is_written_again_and_read_once() -> None:
    writing = Writing()
    await writing.rig.producer.start()
    await writing.beat(0)
    refused = iter((OUT_OF_ORDER,))

    def before(request: Any) -> int:
        return next(refused, 0) if isinstance(request, Produce) else 0

    writing.target.before = before
    await writing.beat(1)
    await writing.beat(2)
    await until(lambda: writing.committed(BEATS) == writing.committed(OFFSETS) == [b"0", b"1", b"2"])
    assert writing.rig.transactions.aborts == 1
    await writing.rig.producer.close()


async def test_writes_at_the_same_time_wait_for_each_other() -> None:
    writing = Writing()
    await writing.rig.producer.start()
    await asyncio.gather(*(writing.beat(number) for number in range(5)))
    wanted = [b"%d" % number for number in range(5)]
    await until(lambda: sorted(writing.committed(BEATS), key=str) == wanted)
    assert writing.rig.transactions.commits == 5
    await writing.rig.producer.close()


async def test_a_refused_record_leaves_nothing_of_the_others() -> None:
    writing = Writing()
    await writing.rig.producer.start()
    writing.target.broker.refuses[OFFSETS[0]] = 87
    with pytest.raises(PartitionRefusedError):
        await writing.beat(1)
    await writing.own.write({BEATS: [NewRecord(b"k", b"2", 1)]})
    await until(lambda: writing.committed(BEATS) == [b"2"])
    await writing.rig.producer.close()


async def test_a_write_that_is_cancelled_does_not_keep_the_next_one_from_beginning() -> None:
    writing = Writing()
    await writing.rig.producer.start()
    writing.target.broker.refuses[OFFSETS[0]] = 19
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await writing.beat(1)
    writing.target.broker.refuses.clear()
    await writing.beat(2)
    await until(lambda: writing.committed(BEATS) == writing.committed(OFFSETS) == [b"2"])
    await writing.rig.producer.close()
