"""A task whose worker stores its source offsets reports what the target has acknowledged, and writes them nowhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.spark_jobs.copy.reported_source_offsets import OFFSETS_IN_SLICE, ReportedSourceOffsets
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from tests.fakes.loop_turns import LoopTurns
from tests.fakes.producer_rig import until
from tests.fakes.source_task import OFFSETS, SourceTaskWorld
from tests.fakes.worker_link import FakeWorkerLink

COPIED = TaskPartition("orders", 1, "orders", remote_partition=0)
CONFIG = {"emit.offset-syncs.enabled": "false"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SourceTaskWorld:
    world = SourceTaskWorld()
    world.source.topic("orders", 2)
    world.target.topic("orders")
    world.patch(monkeypatch)
    put(world, b"a", b"b", b"c")
    return world


def put(world: SourceTaskWorld, *values: bytes) -> None:
    """Into partition 1 of the source: the fake writes only to the first one."""
    logs = world.source.logs
    logs["orders", 0], logs["orders", 1] = logs["orders", 1], logs["orders", 0]
    world.source.put("orders", *((b"k", value) for value in values))
    logs["orders", 0], logs["orders", 1] = logs["orders", 1], logs["orders", 0]


async def test_it_reports_the_last_offset_that_the_target_has_and_writes_none(world: SourceTaskWorld) -> None:
    spec = replace(world.spec_of([COPIED], CONFIG), offsets_topic="", transactional_id="")
    async with world.running(spec, lambda _topic, _partition: 0):
        await world.until(lambda: bool(world.link.copied_to))
        assert world.link.copied_to == {("orders", 1): 2}
        await world.finish()
    assert world.link.committed
    assert world.target.records(OFFSETS) == []


async def test_a_partition_may_go_to_another_number_on_the_target(world: SourceTaskWorld) -> None:
    spec = replace(world.spec_of([COPIED], CONFIG), offsets_topic="", transactional_id="")
    async with world.running(spec, lambda _topic, _partition: -1):
        await world.until(lambda: len(world.target.records("orders")) == 3)
        await world.finish()
    assert world.target.records("orders") == [(b"k", b"a"), (b"k", b"b"), (b"k", b"c")]


async def test_nothing_is_reported_that_the_target_has_not_acknowledged(world: SourceTaskWorld) -> None:
    spec = replace(world.spec_of([COPIED], CONFIG), offsets_topic="", transactional_id="")
    async with world.running(spec, lambda _topic, _partition: 0):
        await world.until(lambda: bool(world.link.copied_to))
        world.link.copied_to.clear()
        world.target.away = True
        put(world, b"d")
        fetched = world.source.fetched
        await world.until(lambda: world.source.fetched > fetched + 5)
        assert world.link.copied_to == {}
        world.target.away = False
        await world.until(lambda: world.link.copied_to == {("orders", 1): 3})


async def test_a_new_topic_of_the_same_name_is_reported_although_it_is_empty(world: SourceTaskWorld) -> None:
    link = FakeWorkerLink(world.spec_of([COPIED], CONFIG))
    offsets = ReportedSourceOffsets(link)
    offsets.note(COPIED, LastOffset(-1, None))
    assert await offsets.flush(1)
    # Nothing is known of a partition without a position.
    assert link.copied_to == {}
    offsets.known(COPIED, LastOffset(999, None))
    offsets.note(COPIED, LastOffset(-1, None))
    assert await offsets.flush(1)
    assert link.copied_to == {("orders", 1): -1}


async def test_the_topic_and_the_history_of_an_offset_are_reported_with_it(world: SourceTaskWorld) -> None:
    link = FakeWorkerLink(world.spec_of([COPIED], CONFIG))
    offsets = ReportedSourceOffsets(link)
    offsets.note(COPIED, LastOffset(7, b"0123456789abcdef", 3))
    assert await offsets.flush(1)
    assert link.origins == {("orders", 1): (topic_id_text(b"0123456789abcdef"), 3)}
    link.origins.clear()
    # The same offset in a topic that was made again is another one.
    offsets.note(COPIED, LastOffset(7, b"fedcba9876543210", 0))
    assert await offsets.flush(1)
    assert link.origins == {("orders", 1): (topic_id_text(b"fedcba9876543210"), 0)}


async def test_a_commit_of_many_partitions_is_made_in_slices_and_has_what_was_noted_when_it_began(
    world: SourceTaskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, turns = 3 * OFFSETS_IN_SLICE, LoopTurns()
    partitions = [TaskPartition("orders", number, "orders") for number in range(many)]
    link = FakeWorkerLink(world.spec_of([], CONFIG))
    offsets = ReportedSourceOffsets(link)
    turns.count(monkeypatch, FakeWorkerLink, "copied")
    for each in partitions:
        offsets.note(each, LastOffset(7, b"i" * 16))
    assert offsets.commit()
    turns.start()
    await asyncio.sleep(0)
    # There is one commit at a time. What comes meanwhile is of the next one, and what is forgotten of none.
    for each in partitions:
        offsets.note(each, LastOffset(8, b"i" * 16))
    assert not offsets.commit()
    offsets.forget(partitions[-1])
    assert len(link.copied_to) < many
    await until(lambda: len(link.copied_to) == many - 1)
    assert set(link.copied_to.values()) == {7}
    assert await offsets.flush(1)
    assert (set(link.copied_to.values()), len(link.copied_to), offsets.commits) == ({8}, many - 1, 2)
    assert turns.whole["copied"] == 2 * (many - 1)
    assert turns.most["copied"] <= OFFSETS_IN_SLICE


async def test_who_waits_for_a_commit_may_be_cancelled_and_the_commit_goes_on(world: SourceTaskWorld) -> None:
    many = 3 * OFFSETS_IN_SLICE
    link = FakeWorkerLink(world.spec_of([], CONFIG))
    offsets = ReportedSourceOffsets(link)
    for number in range(many):
        offsets.note(TaskPartition("orders", number, "orders"), LastOffset(7, None))
    waiting = asyncio.create_task(offsets.flush(1))
    await until(lambda: bool(link.copied_to))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await offsets.flush(1)
    assert len(link.copied_to) == many
