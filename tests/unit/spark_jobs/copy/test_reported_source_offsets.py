"""A task whose worker stores its source offsets reports what the target has acknowledged, and writes them nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.spark_jobs.copy.reported_source_offsets import ReportedSourceOffsets
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
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
    offsets.commit()
    # Nothing is known of a partition without a position.
    assert link.copied_to == {}
    offsets.known(COPIED, LastOffset(999, None))
    offsets.note(COPIED, LastOffset(-1, None))
    offsets.commit()
    assert link.copied_to == {("orders", 1): -1}


async def test_the_topic_and_the_history_of_an_offset_are_reported_with_it(world: SourceTaskWorld) -> None:
    link = FakeWorkerLink(world.spec_of([COPIED], CONFIG))
    offsets = ReportedSourceOffsets(link)
    offsets.note(COPIED, LastOffset(7, b"0123456789abcdef", 3))
    offsets.commit()
    assert link.origins == {("orders", 1): (topic_id_text(b"0123456789abcdef"), 3)}
    link.origins.clear()
    # The same offset in a topic that was made again is another one.
    offsets.note(COPIED, LastOffset(7, b"fedcba9876543210", 0))
    offsets.commit()
    assert link.origins == {("orders", 1): (topic_id_text(b"fedcba9876543210"), 0)}
