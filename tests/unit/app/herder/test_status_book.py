"""Statuses that are written."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.herder import status_book
from mirror_connect.app.herder.lifecycle import State, TargetState
from mirror_connect.app.storage.status import CONNECT_VERSION, Status
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
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


async def test_a_failure_is_told_although_a_former_worker_had_a_newer_generation(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group's generations begin again when its coordinator has lost them, and the worker has another address by now."""
    monkeypatch.setattr(status_book, "RETRY_S", 0.02)
    await worker.herder.configs.create("a", source_config(), TargetState.STOPPED)
    await worker.state("a", "STOPPED")
    await worker.statuses.put_task(TASK_0, Status("RUNNING", "former:8083", 1_000_000, None))
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.configs.resume("a")
    await eventually(lambda: worker.statuses.task(TASK_0) == Status("FAILED", "worker-1:8083", 1, "Boom\n", None), 20)


async def test_what_another_worker_has_by_then_hides_a_late_failure(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_book, "RETRY_S", 0.02)
    await running_a(worker)
    theirs = Status("RUNNING", "other:8083", 2, None)
    await worker.statuses.put_task(TASK_0, theirs)
    events = worker.supervisor.events
    assert events is not None
    events.task_state(TASK_0, State.FAILED, "Boom\n")
    worker.herder._reconciler.retire()
    await asyncio.sleep(0.1)
    assert worker.statuses.task(TASK_0) == theirs
