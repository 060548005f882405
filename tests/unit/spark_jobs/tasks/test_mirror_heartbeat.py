"""A heartbeat task between clusters in memory: one record after the other."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from tests.fakes.writing_tasks import (
    REFUSED,
    World,
    running,
)


async def test_a_heartbeat_follows_the_other(world: World) -> None:
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: len(world.beats) >= 3)
        assert (task.link.state, task.link.topics) == (RUNNING, {"heartbeats"})


async def test_while_nothing_can_be_written_one_heartbeat_waits_and_no_queue_of_them(world: World) -> None:
    async with running(world, world.spec("Heartbeat"), lease=False) as task:
        await task.rounds()
        assert world.beats == []
        task.link.lease = True
        await task.until(lambda: world.beats)
        # The one that waited, and the one that was due meanwhile.
        assert len(world.beats) <= 2


async def test_a_topic_that_refuses_heartbeats_fails_the_task(world: World) -> None:
    world.target.producers.before = lambda _: REFUSED
    async with running(world, world.spec("Heartbeat")) as task:
        with pytest.raises(PartitionRefusedError, match="heartbeats-0"):
            await asyncio.wait_for(task.task, 60)
