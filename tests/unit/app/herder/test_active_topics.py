"""The topics that a connector has written to."""

from __future__ import annotations

import asyncio

from mirror_connect.app.herder.active_topics import TopicTracking
from tests.fakes.connect_worker import FakeWorker, eventually
from tests.fakes.running_connector import (
    TASK_0,
    running_a,
)


async def test_written_topics_are_told_and_forgotten_on_request(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.wrote(TASK_0, ["A.orders", "A.bills"])
    await eventually(lambda: len(worker.statuses.topics("a")) == 2)
    assert await worker.herder.active_topics.of("a") == ["A.bills", "A.orders"]
    await worker.herder.active_topics.reset("a")
    await eventually(lambda: not worker.statuses.topics("a"))


async def test_topics_are_not_tracked_when_that_is_switched_off() -> None:
    async with FakeWorker(tracking=TopicTracking(enabled=False)).running() as worker:
        await running_a(worker)
        worker.supervisor.wrote(TASK_0, ["A.orders"])
        await asyncio.sleep(0.02)
        assert worker.statuses.topics("a") == []
