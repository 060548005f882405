"""What runs follows from what the config topic asks for, and the status topic says so."""

from __future__ import annotations

import asyncio
import json

import pytest

from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.storage import config_records
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
from tests.fakes.running_connector import (
    TASK_0,
    keys,
    running_a,
)
from tests.fakes.topic_log import FakeTopic


async def test_a_new_connector_is_said_to_be_running_once(worker: FakeWorker) -> None:
    await running_a(worker)
    assert (worker.states("a"), worker.states("a-0")) == (["RUNNING"], ["UNASSIGNED", "RUNNING"])


async def test_tasks_are_seen_before_they_run_and_the_line_goes_when_they_do(worker: FakeWorker) -> None:
    worker.supervisor.silent.add(TASK_0)
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["UNASSIGNED"])
    waiting = (await worker.herder.connectors.status("a")).tasks[0]
    assert worker.supervisor.events is not None
    worker.supervisor.events.task_state(TASK_0, "UNASSIGNED", "Waits for Spark")
    await eventually(lambda: worker.trace("a-0") == "Waits for Spark")
    worker.supervisor.events.task_state(TASK_0, "RUNNING", None)
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert (waiting.trace, worker.trace("a-0")) == ("It is being started on Spark.", None)


async def test_a_task_that_waits_for_spark_while_it_restarts_stays_restarting(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.silent.add(TASK_0)
    await worker.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=False)
    await worker.state("a", "RUNNING", ["RESTARTING"])
    assert worker.supervisor.events is not None
    worker.supervisor.events.task_state(TASK_0, "UNASSIGNED", "Waits for Spark")
    await eventually(lambda: worker.trace("a-0") == "Waits for Spark")
    assert worker.states("a-0")[-2:] == ["RESTARTING", "RESTARTING"]


async def test_a_restarted_task_that_waits_for_something_is_unassigned_and_says_why(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.silent.add(TASK_0)
    await worker.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=False)
    await worker.state("a", "RUNNING", ["RESTARTING"])
    assert worker.supervisor.events is not None
    worker.supervisor.events.task_state(TASK_0, "UNASSIGNED", "Lookup regions: no such file", waits=True)
    await worker.state("a", "RUNNING", ["UNASSIGNED"])
    assert worker.trace("a-0") == "Lookup regions: no such file"


async def test_the_same_config_again_restarts_the_instance_but_writes_no_tasks(worker: FakeWorker) -> None:
    await running_a(worker)
    created, _ = await worker.herder.configs.put("a", source_config())
    await eventually(lambda: worker.states("a") == ["RUNNING", "UNASSIGNED", "RUNNING"])
    assert not created
    assert keys(worker) == ["connector-a", "task-a-0", "commit-a", "connector-a"]


async def test_another_config_writes_tasks_anew_and_restarts_them(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.put("a", source_config(topics="other"))
    await eventually(lambda: worker.states("a-0")[1:] == ["RUNNING", "UNASSIGNED", "RUNNING"])
    assert keys(worker)[3:] == ["connector-a", "task-a-0", "commit-a"]
    assert worker.supervisor.wanted[TASK_0].config["topics"] == "other"


async def test_a_setting_of_the_connector_alone_counts_as_a_change_of_its_tasks(worker: FakeWorker) -> None:
    await running_a(worker)
    connector = worker.connectors.running["a"]
    unchanged = connector.task_configs()
    await worker.herder.configs.put("a", source_config(errors__tolerance="all"))
    await eventually(lambda: "a" in worker.connectors.running and worker.connectors.running["a"] is not connector)
    worker.connectors.running["a"].context.request_task_reconfiguration(unchanged)
    await eventually(lambda: keys(worker).count("commit-a") >= 2)


async def test_fewer_tasks_take_the_statuses_of_the_others_away(worker: FakeWorker) -> None:
    await running_a(worker, tasks__max="2")
    await worker.herder.configs.patch("a", {"tasks.max": "1"})
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert worker.states("a-1")[-2:] == ["UNASSIGNED", "gone"]


async def test_a_connector_that_can_not_be_taken_over_has_its_trace_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_over = Reconciler._take_over

    def trip(self: Reconciler, name: str, snapshot: ConfigSnapshot) -> None:
        if name == "a":
            raise RecursionError("too deep")
        take_over(self, name, snapshot)

    monkeypatch.setattr(Reconciler, "_take_over", trip)
    topic = FakeTopic()
    for name in ("a", "b"):
        topic.add(*config_records.connector_entry(name, source_config()))
    async with FakeWorker(topic).running() as worker:
        await worker.state("b", "RUNNING", ["RUNNING"])
        await worker.state("a", "FAILED", [])
        assert (await worker.herder.connectors.status("a")).connector.trace == "RecursionError: too deep\n"


async def test_a_failed_connector_stays_failed_when_it_is_paused_and_resumed(worker: FakeWorker) -> None:
    worker.connectors.failing["a"] = "Boom"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    await worker.herder.configs.pause("a")
    await worker.herder.configs.resume("a")
    await asyncio.sleep(0.05)
    assert worker.states("a") == ["FAILED"]


async def test_a_failed_connector_becomes_stopped(worker: FakeWorker) -> None:
    worker.connectors.failing["a"] = "Boom"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    await worker.herder.configs.stop("a")
    await worker.state("a", "STOPPED")


async def test_a_failed_task_leaves_its_connector_running(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    task = await worker.herder.connectors.task_status("a", 0)
    assert (task.trace, task.version) == ("Boom\n", None)


async def test_a_changed_config_heals_a_failed_task(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    worker.supervisor.failing.clear()
    await worker.herder.configs.put("a", source_config(topics="other"))
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_tasks_of_which_compaction_kept_only_some_are_made_anew() -> None:
    worker = FakeWorker()
    config = json.dumps({"properties": {**source_config(tasks__max="2"), "name": "a"}}).encode()
    worker.config_topic.add(b"connector-a", config)
    worker.config_topic.add(b"task-a-1", config)
    worker.config_topic.add(b"commit-a", b'{"tasks":2}')
    async with worker.running():
        await worker.state("a", "RUNNING", ["RUNNING", "RUNNING"])


async def test_what_is_started_anew_says_why_until_it_runs(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.connectors.silent.add("a")
    worker.supervisor.silent.add(TASK_0)
    restarts = [
        asyncio.create_task(worker.herder.restarts.connector("a")),
        asyncio.create_task(worker.herder.restarts.task("a", 0)),
    ]
    await eventually(lambda: worker.trace("a") == worker.trace("a-0") == "It is being restarted.", 60)
    for restart in restarts:
        restart.cancel()
    await worker.herder.configs.put("a", source_config(topics="other"))
    await eventually(lambda: worker.trace("a") == "It is being started with its changed config.", 60)


async def test_task_configs_are_written_when_the_cluster_is_back(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.config_topic.failure = ClusterUnreachable("gone")
    connector = worker.connectors.running["a"]
    connector.context.request_task_reconfiguration([*connector.task_configs(), *connector.task_configs()])
    await asyncio.sleep(0.05)
    worker.config_topic.failure = None
    await worker.state("a", "RUNNING", ["RUNNING", "RUNNING"])
