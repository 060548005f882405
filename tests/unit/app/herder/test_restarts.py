"""Restarts of connectors and tasks, and what they answer."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.errors import (
    StartFailed,
    TaskWithoutOwner,
    UnknownTask,
)
from mirror_connect.app.herder.lifecycle import TargetState
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
from tests.fakes.running_connector import (
    TASK_0,
    keys,
    running_a,
)


async def test_a_plain_restart_writes_nothing_and_restarts_the_instance(worker: FakeWorker) -> None:
    await running_a(worker)
    before = worker.written()
    await worker.herder.restarts.connector("a")
    await eventually(lambda: worker.states("a") == ["RUNNING", "UNASSIGNED", "RUNNING"])
    assert (worker.written(), worker.supervisor.restarted) == (before, [])


async def test_a_restart_that_fails_again_says_so(worker: FakeWorker) -> None:
    worker.connectors.failing["a"] = "Boom"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    with pytest.raises(StartFailed, match=r"^Failed to start connector: a$"):
        await worker.herder.restarts.connector("a")


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
async def test_a_restart_does_not_change_what_was_asked_for(worker: FakeWorker, state: str) -> None:
    await worker.herder.configs.create("a", source_config(), TargetState(state))
    await worker.state("a", state)
    await worker.herder.restarts.connector("a")
    await eventually(lambda: worker.states("a") == [state, "UNASSIGNED", state])


async def test_who_was_told_restarting_does_not_read_the_failure_of_before(worker: FakeWorker) -> None:
    worker.connectors.failing["a"] = "Trace"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    worker.connectors.silent.add("a")
    await worker.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=True)
    assert (await worker.herder.connectors.status("a")).connector.state == "RESTARTING"


async def test_a_restart_with_tasks_is_written_and_answers_the_plan(worker: FakeWorker) -> None:
    await running_a(worker)
    plan = await worker.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=False)
    assert (plan.connector.state, plan.tasks[0].state) == ("RESTARTING", "RESTARTING")
    assert worker.written()[-1] == 'restart-connector-a={"include-tasks":true,"only-failed":false}'
    restarted = ["RUNNING", "UNASSIGNED", "RESTARTING", "RUNNING"]
    await eventually(lambda: worker.states("a") == restarted and worker.states("a-0")[1:] == restarted)


async def test_what_a_restart_ends_is_not_told_as_what_is_restarted(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.connectors.silent.add("a")
    await worker.herder.configs.put("a", source_config(topics="others"))
    await worker.state("a", "UNASSIGNED")
    assert (await worker.herder.connectors.status("a")).connector.trace
    plan = await worker.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=False)
    assert (plan.connector.state, plan.connector.trace) == ("RESTARTING", None)


async def test_a_restart_of_what_failed_leaves_what_runs(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.configs.create("a", source_config(tasks__max="2"), None)
    await worker.state("a", "RUNNING", ["FAILED", "RUNNING"])
    plan = await worker.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=True)
    assert plan.connector.state == "RUNNING"
    assert [(task.state, task.trace) for task in plan.tasks.values()] == [("RESTARTING", "Boom\n"), ("RUNNING", None)]
    await eventually(lambda: worker.supervisor.restarted == [TASK_0])


async def test_a_restart_of_what_failed_with_nothing_failed_writes_just_the_request(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.restarts.connector_and_tasks("a", include_tasks=False, only_failed=True)
    await asyncio.sleep(0.05)
    assert (keys(worker)[-1], worker.states("a")) == ("restart-connector-a", ["RUNNING"])


async def test_a_task_that_fails_again_says_so(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    with pytest.raises(StartFailed, match=r"^Failed to start task: a-0$"):
        await worker.herder.restarts.task("a", 0)


async def test_a_task_of_a_paused_connector_stays_paused_when_restarted(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    await worker.herder.restarts.task("a", 0)
    await eventually(lambda: worker.states("a-0")[1:] == ["RUNNING", "PAUSED", "UNASSIGNED", "PAUSED"])


async def test_a_task_that_existed_before_a_stop_has_no_owner(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.stop("a")
    with pytest.raises(TaskWithoutOwner):
        await worker.herder.restarts.task("a", 0)
    with pytest.raises(UnknownTask):
        await worker.herder.restarts.task("a", 7)
