"""Source offsets in a transaction: what changed is written, and an aborted one was not written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from mirror_connect.spark_jobs.copy.transactional_source_offsets import TransactionalSourceOffsets
from tests.fakes.encoded_batches import decode
from tests.fakes.source_spec import OFFSETS, source_spec
from tests.fakes.transaction_broker import Protocol
from tests.fakes.transactional_target import TransactionalRig, TransactionalTarget

ORDERS, PARCELS = TaskPartition("orders", 0, "A.orders"), TaskPartition("parcels", 0, "A.parcels")


class Writing:
    def __init__(self) -> None:
        self.target = TransactionalTarget(Protocol.NEW)
        self.rig = TransactionalRig(self.target)
        spec = source_spec({"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}, (ORDERS, PARCELS))
        self.offsets = TransactionalSourceOffsets(self.rig.producer, spec)

    async def commit(self, *noted: tuple[TaskPartition, int]) -> None:
        await self.rig.transactions.begin()
        for partition, offset in noted:
            self.offsets.note(partition, LastOffset(offset, None))
        await self.offsets.prepare()
        await self.offsets.write()
        await self.rig.transactions.commit()
        self.offsets.committed()

    @property
    def values(self) -> list[bytes | None]:
        """All that was written, aborted or not."""
        entries = [each for each in self.target.log(OFFSETS).entries if not each.marker]
        return [record.value for each in entries for record in decode(each.payload)]


@pytest.fixture
async def writing() -> AsyncIterator[Writing]:
    writing = Writing()
    await writing.rig.producer.start()
    yield writing
    await writing.offsets.close()
    await writing.rig.producer.close()


async def test_only_what_changed_since_the_last_commit_is_written(writing: Writing) -> None:
    await writing.commit((ORDERS, 5), (PARCELS, 7))
    await writing.commit((ORDERS, 5), (PARCELS, 9))
    assert writing.values == [b'{"offset":5}', b'{"offset":7}', b'{"offset":9}']
    assert writing.offsets.commits == 2


async def test_after_an_abort_it_is_written_again_but_for_what_is_copied_again(writing: Writing) -> None:
    await writing.rig.transactions.begin()
    writing.offsets.note(ORDERS, LastOffset(5, None))
    writing.offsets.note(PARCELS, LastOffset(7, None))
    await writing.offsets.prepare()
    await writing.offsets.write()
    await writing.rig.transactions.abort("a test")
    writing.offsets.take_back(ORDERS)
    writing.offsets.aborted()
    assert writing.offsets.changed
    await writing.commit()
    assert writing.values[2:] == [b'{"offset":7}']
    assert not writing.offsets.changed


async def test_nothing_is_changed_by_what_is_committed_already(writing: Writing) -> None:
    await writing.commit((ORDERS, 5))
    writing.offsets.note(ORDERS, LastOffset(5, None))
    writing.offsets.note(PARCELS, LastOffset(-1, None))
    assert not writing.offsets.changed


async def test_a_refusal_ends_the_task(writing: Writing) -> None:
    writing.target.before = lambda request: 87 if hasattr(request, "batches") else 0
    await writing.rig.transactions.begin()
    writing.offsets.note(ORDERS, LastOffset(5, None))
    await writing.offsets.prepare()
    with pytest.raises(PartitionRefusedError):
        await writing.offsets.write()
    with pytest.raises(PartitionRefusedError):
        writing.offsets.failure.result()
