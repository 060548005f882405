"""A source task with many partitions looks only at those that something has happened to."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from tests.fakes.source_task import OFFSETS, SourceTaskWorld

PARTITIONS = 300
QUIET_LOOKS = 5


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SourceTaskWorld:
    world = SourceTaskWorld()
    world.source.topic("orders", PARTITIONS)
    world.source.ids["orders"] = b"i" * 16
    world.target.topic("A.orders", PARTITIONS)
    world.patch(monkeypatch)
    return world


async def test_a_commit_looks_at_the_partitions_that_were_copied_and_at_no_other(
    world: SourceTaskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[tuple[str, int]] = []
    moved = PartitionFlow.moved

    def counted(self: PartitionFlow) -> LastOffset | None:
        looked_at.append(self.source)
        return moved(self)

    monkeypatch.setattr(PartitionFlow, "moved", counted)
    assigned = [TaskPartition("orders", number, "A.orders") for number in range(PARTITIONS)]
    world.source.put("orders", (b"k", b"first"))
    async with world.running(world.spec_of(assigned, {"emit.offset-syncs.enabled": "false"})):
        await world.until(lambda: len(world.target.records(OFFSETS)) == 1)
        quiet = 0
        async with asyncio.timeout(60):
            while quiet < QUIET_LOOKS:
                # Something of the start may still have been under way.
                looked_at.clear()
                await asyncio.sleep(0.03)
                quiet = quiet + 1 if not looked_at else 0
        world.source.put("orders", (b"k", b"second"))
        await world.until(lambda: len(world.target.records(OFFSETS)) == 2)
        assert set(looked_at) == {("orders", 0)}
        await world.finish()
    assert world.target.records(OFFSETS)[-1][1] == b'{"offset":1}'
