"""A source task with many partitions looks only at those that something has happened to."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mirror_connect.connectors.records.offset_syncs import OffsetSyncQueue
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_ranges import RangeRecorder
from mirror_connect.kafka_io.consumer.fetcher import Fetcher
from mirror_connect.kafka_io.producer.batch_producer import RECORDS_IN_SLICE
from mirror_connect.kafka_io.records.batch_builder import BatchBuilder
from mirror_connect.spark_jobs.copy import source_offsets_writer
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.source_offsets_writer import NEW_KEY, OFFSETS_IN_SLICE, LastOffset
from mirror_connect.spark_jobs.mapping.offset_mapping import NOTED_IN_SLICE
from mirror_connect.spark_jobs.mapping.offset_ranges_writer import KNOWN_IN_SLICE, SEGMENTS_IN_SLICE
from mirror_connect.spark_jobs.mapping.offset_syncs_writer import SYNCS_IN_SLICE
from mirror_connect.spark_jobs.mapping.partition_ranges import PartitionRanges
from mirror_connect.spark_jobs.tasks import source_assignment, source_commits
from mirror_connect.spark_jobs.tasks.source_assignment import ADDED_IN_SLICE, FETCHED_IN_SLICE
from mirror_connect.spark_jobs.tasks.source_parts import FLOWS_IN_SLICE
from tests.fakes.loop_turns import LoopTurns
from tests.fakes.mapped_task import MappedWorld
from tests.fakes.source_task import OFFSETS, SourceTaskWorld

PARTITIONS = 300
QUIET_LOOKS = 5
MANY = 600


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SourceTaskWorld:
    world = SourceTaskWorld()
    world.source.topic("orders", PARTITIONS)
    world.source.ids["orders"] = b"i" * 16
    world.target.topic("A.orders", PARTITIONS)
    world.patch(monkeypatch)
    return world


async def test_a_commit_of_all_partitions_is_made_in_slices_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world, turns = MappedWorld(), LoopTurns()
    world.source.topic("orders", MANY)
    world.target.topic("A.orders", MANY)
    world.patch(monkeypatch)
    # One commit has all of them.
    monkeypatch.setattr(source_commits, "COMMIT_S", 0.5)
    work = (
        (PartitionFlow, "moved", FLOWS_IN_SLICE),
        # The commit and the writer of offset syncs ask for them, each in slices of its own.
        (OffsetSyncQueue, "continued", 2 * NOTED_IN_SLICE),
        (RangeRecorder, "changed", SEGMENTS_IN_SLICE),
        (BatchBuilder, "add", RECORDS_IN_SLICE + SYNCS_IN_SLICE),
        (source_offsets_writer, "source_offset_key", OFFSETS_IN_SLICE // NEW_KEY),
    )
    committed = [world.target.logs[OFFSETS, number] for number in range(5)]
    assigned = [TaskPartition("orders", number, "A.orders") for number in range(MANY)]
    spec = world.spec_of(assigned, {"offset.lag.max": "100"}, commit_interval_ms=60_000)
    async with world.running(spec):
        for owner, name, _ in work:
            turns.count(monkeypatch, owner, name)
        turns.start()
        for times in (1, 2):
            for number in range(MANY):
                world.source.put("orders", (b"k", b"v"), partition=number)
            turns.forget_this_turn()
            await world.until(lambda: sum(log.end for log in committed) >= MANY * times)  # noqa: B023
        await world.finish()
    for _, name, most in work:
        assert turns.whole[name] >= MANY, name
        assert turns.most[name] <= most, name
    newest = {key: value for number in range(5) for key, value in world.target.records(OFFSETS, number)}
    assert (len(newest), set(newest.values())) == (MANY, {b'{"offset":1}'})
    assert {each.partition for each in world.segments} == set(range(MANY))


async def test_partitions_that_come_are_added_in_slices_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world, turns = MappedWorld(), LoopTurns()
    world.source.topic("orders", PARTITIONS)
    world.target.topic("A.orders", PARTITIONS)
    world.patch(monkeypatch)
    work = (
        (source_assignment, "PartitionFlow", ADDED_IN_SLICE),
        # The reader of the topic of offset ranges has one of its own.
        (Fetcher, "add", FETCHED_IN_SLICE + 1),
        (PartitionRanges, "known", KNOWN_IN_SLICE),
    )
    for owner, name, _ in work:
        turns.count(monkeypatch, owner, name)
    turns.start()
    assigned = [TaskPartition("orders", number, "A.orders") for number in range(PARTITIONS)]
    for number in range(PARTITIONS):
        world.source.put("orders", (b"k", b"v"), partition=number)
    half = world.spec_of(assigned[: PARTITIONS // 2], {})
    async with world.running(half):
        await world.until(lambda: copied(world) == PARTITIONS // 2)
        # The others come while these are copied.
        world.link.assign(replace(half, assigned=tuple(assigned), assignment_version=half.assignment_version + 1))
        await world.until(lambda: copied(world) == PARTITIONS)
        await world.finish()
    assert {each.partition for each in world.segments} == set(range(PARTITIONS))
    for _, name, most in work:
        assert turns.whole[name] >= PARTITIONS, name
        assert turns.most[name] <= most, name


def copied(world: SourceTaskWorld) -> int:
    """How many partitions have a record on the target."""
    return sum(1 for number in range(PARTITIONS) if world.target.logs["A.orders", number].end)


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
