"""Statuses that are written."""

from __future__ import annotations

import asyncio

from mirror_connect.app.herder.lifecycle import State, TargetState
from mirror_connect.app.storage.status import CONNECT_VERSION
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import FakeWorker, source_config
from tests.fakes.running_connector import TASK_0, running_a


async def test_statuses_tell_worker_and_generation(worker: FakeWorker) -> None:
    await running_a(worker)
    status = worker.statuses.connector("a")
    assert status is not None
    assert (status.worker_id, status.generation, status.trace) == ("worker-1:8083", 1, None)


async def test_statuses_are_written_when_the_cluster_is_back(worker: FakeWorker) -> None:
    await worker.herder.configs.create("a", source_config(), TargetState.STOPPED)
    await worker.state("a", "STOPPED")
    worker.status_topic.failure = ClusterUnreachable("gone")
    await worker.herder.configs.resume("a")
    await asyncio.sleep(0.05)
    worker.status_topic.failure = None
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_as_in_connect_a_task_that_failed_while_it_ran_keeps_its_version(worker: FakeWorker) -> None:
    await running_a(worker)
    events = worker.supervisor.events
    assert events is not None
    for trace in ("Boom\n", "Boom again\n"):
        events.task_state(TASK_0, State.FAILED, trace)
        await worker.state("a", "RUNNING", ["FAILED"])
        await worker.herder.connectors.task_status("a", 0)
        await asyncio.sleep(0.05)
        status = worker.statuses.task(TASK_0)
        assert status is not None
        assert (status.trace, status.version) == (trace, CONNECT_VERSION)
