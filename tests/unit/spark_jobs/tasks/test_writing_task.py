"""How a task that writes records of its own ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mirror_connect.connectors.records.heartbeats import heartbeat_offset_key
from tests.fakes.writing_tasks import (
    World,
    running,
)


async def test_told_to_finish_it_leaves_its_place(world: World) -> None:
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: world.beats)
        await task.finish()
    assert world.places == [b'["c",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]']


async def test_told_to_abandon_it_writes_nothing_more(world: World) -> None:
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: world.beats)
        task.link.abandon()
        await asyncio.wait_for(task.task, 60)
    assert world.places == []


async def test_nothing_is_written_without_a_lease(world: World) -> None:
    world.syncs((100, 200))
    synced = world.spec("Checkpoint", "g", sync__group__offsets__enabled="true")
    async with running(world, synced, lease=False) as task:
        await task.rounds()
        assert (world.checkpoints, world.target.groups) == ([], {})


async def test_a_task_that_reports_its_source_offsets_writes_none(world: World) -> None:
    spec = replace(world.spec("Heartbeat"), offsets_topic="", offsets_partitions=0)
    async with running(world, spec) as task:
        await task.until(lambda: task.link.offset_keys)
        await task.finish()
    assert set(task.link.offset_keys) == {heartbeat_offset_key("c", "A", "B")}
    assert (world.places, bool(world.beats)) == ([], True)
