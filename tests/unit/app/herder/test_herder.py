"""What the herder writes and runs, in the order that FORMATS.md §3.1 has seen of a real worker."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping

import pytest

from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    ConnectorExists,
    ConnectorNotFound,
    InvalidConfig,
    NoStatus,
    NotLeader,
    RestartOfUnknownConnector,
    StartFailed,
    TaskWithoutOwner,
    UnknownConnector,
    UnknownTask,
)
from mirror_connect.app.herder import standing
from mirror_connect.app.herder.herder import TopicTracking
from mirror_connect.app.herder.last_heard import Silence, as_last_heard
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.storage import config_records
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.status import Status
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, source_config
from tests.fakes.topic_log import FakeTopic

TASK_0 = TaskId("a", 0)
PAUSED = 'target-state-a={"state":"PAUSED","state.v2":"PAUSED"}'
STOPPED = 'target-state-a={"state":"PAUSED","state.v2":"STOPPED"}'
STARTED = 'target-state-a={"state":"STARTED","state.v2":"STARTED"}'


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        yield running


def keys(worker: FakeWorker) -> list[str]:
    return [entry.partition("={")[0] for entry in worker.written()]


async def running_a(worker: FakeWorker, **more: str) -> None:
    await worker.herder.create("a", source_config(**more), None)
    await worker.state("a", "RUNNING", ["RUNNING"] * int(more.get("tasks__max", "1")))


async def test_a_new_connector_is_written_then_its_tasks_then_their_commit(worker: FakeWorker) -> None:
    await running_a(worker, tasks__max="2")
    assert keys(worker) == ["connector-a", "task-a-0", "task-a-1", "commit-a"]


async def test_a_new_connector_is_said_to_be_running_once(worker: FakeWorker) -> None:
    await running_a(worker)
    assert (worker.states("a"), worker.states("a-0")) == (["RUNNING"], ["UNASSIGNED", "RUNNING"])


async def test_tasks_are_seen_before_they_run_and_the_line_goes_when_they_do(worker: FakeWorker) -> None:
    worker.supervisor.silent.add(TASK_0)
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["UNASSIGNED"])
    waiting = (await worker.herder.status("a")).tasks[0]
    assert worker.supervisor.events is not None
    worker.supervisor.events.task_state(TASK_0, "UNASSIGNED", "Waits for Spark")
    await eventually(lambda: worker.trace("a-0") == "Waits for Spark")
    worker.supervisor.events.task_state(TASK_0, "RUNNING", None)
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert (waiting.trace, worker.trace("a-0")) == ("It is being started on Spark.", None)


SILENCE = Silence(1_700_000_000, "broker a:9092: Connection refused")


async def test_without_word_from_its_cluster_a_worker_shows_what_it_ran_as_not_running(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.membership.silence = SILENCE
    status = await worker.herder.status("a")
    for shown in (status.connector, status.tasks[0], await worker.herder.task_status("a", 0)):
        assert (shown.state, shown.trace) == (
            "UNASSIGNED",
            "This worker has no word from its own cluster since 2023-11-14 22:13:20 UTC: broker a:9092: Connection refused; "
            "what it ran is stopped until it has",
        )
    worker.membership.silence = None
    assert (await worker.herder.status("a")).tasks[0].state == "RUNNING"


async def test_without_word_from_its_cluster_a_failed_task_stays_failed_with_its_trace(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "It broke"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    worker.membership.silence = SILENCE
    shown = (await worker.herder.status("a")).tasks[0]
    assert shown.state == "FAILED"
    assert shown.trace is not None
    assert (shown.trace.splitlines()[0], shown.trace.endswith("this is what was so then")) == ("It broke", True)


def test_what_another_worker_ran_keeps_the_state_that_was_heard_last() -> None:
    shown = as_last_heard(Status("RUNNING", "worker-2:8083", 1), "worker-1:8083", SILENCE)
    assert (shown.state, shown.trace and shown.trace.endswith("this is what was so then")) == ("RUNNING", True)


async def test_without_word_from_its_cluster_a_worker_is_not_healthy(worker: FakeWorker) -> None:
    worker.membership.silence = SILENCE
    health = await worker.herder.health()
    assert (health.status, "no word from its own cluster" in health.message) == ("unhealthy", True)


async def test_a_task_that_waits_for_spark_while_it_restarts_stays_restarting(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.silent.add(TASK_0)
    await worker.herder.restart_with_tasks("a", include_tasks=True, only_failed=False)
    await worker.state("a", "RUNNING", ["RESTARTING"])
    assert worker.supervisor.events is not None
    worker.supervisor.events.task_state(TASK_0, "UNASSIGNED", "Waits for Spark")
    await eventually(lambda: worker.trace("a-0") == "Waits for Spark")
    assert worker.states("a-0")[-2:] == ["RESTARTING", "RESTARTING"]


async def test_the_log_has_a_line_for_everything_that_is_asked_and_no_value_of_a_config(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.herder")
    herder = worker.herder
    await running_a(worker)
    await herder.put("a", source_config(topics="a-word"))
    await herder.put("a", source_config(topics="a-word"))
    await herder.patch("a", {"topics": "a-word-2"})
    await herder.patch("a", {})
    await herder.patch("a", {"topics": "a-word-2", "tasks.max": None})
    await worker.state("a", "RUNNING", ["RUNNING"])
    await herder.pause("a")
    await herder.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    await herder.restart("a")
    await herder.restart_with_tasks("a", include_tasks=True, only_failed=False)
    await herder.restart_with_tasks("a", include_tasks=True, only_failed=True)
    await herder.restart_task("a", 0)
    await herder.stop_connector("a")
    await herder.delete("a")
    asked = [record.message for record in caplog.records if record.name.endswith("herder.herder")]
    assert [line.removeprefix("Connector a: ") for line in asked] == [
        "created",
        "config changed",
        "same config again",
        "config changed (topics)",
        "same config again",
        "same config again",
        "asked to pause",
        "asked to resume",
        "restarted, without its tasks",
        "restarted the connector, task a-0",
        "nothing to restart, as nothing has failed",
        "Task a-0: restarted",
        "asked to stop",
        "deleted",
    ]
    assert "a-word" not in caplog.text


async def test_what_is_asked_stands_in_the_log_before_what_follows_from_it(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.herder")
    log, want = logging.getLogger("mirror_connect.app.herder.supervisor"), worker.supervisor.want

    def said(tasks: Mapping[TaskId, WantedTask]) -> None:
        log.info("%d wanted", len(tasks))
        want(tasks)

    monkeypatch.setattr(worker.supervisor, "want", said)
    await running_a(worker)
    await worker.herder.pause("a")
    await worker.herder.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    await worker.herder.stop_connector("a")
    lines = [line for line in caplog.messages if line.endswith((" wanted", "to pause", "to resume", "to stop"))]
    # Between two requests each line may be there more than once.
    told = [line for line, before in zip(lines, ["", *lines], strict=False) if line != before]
    assert told[told.index("1 wanted") :] == [
        "1 wanted",
        "Connector a: asked to pause",
        "0 wanted",
        "Connector a: asked to resume",
        "1 wanted",
        "Connector a: asked to stop",
        "0 wanted",
    ]


async def test_what_was_asked_and_can_not_be_written_is_told_as_that(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    await running_a(worker)
    worker.config_topic.failure = ClusterUnreachable("the cluster is away")
    with pytest.raises(ConnectError):
        await worker.herder.pause("a")
    worker.config_topic.failure = None
    line = "Connector a: the config topic did not take that, it may not have happened (asked to pause): the cluster is away"
    assert line in caplog.messages


async def test_the_log_says_who_leads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.herder")
    membership = FakeMembership(is_leader=False, leader_url="http://other")
    async with FakeWorker(membership=membership).running() as worker:
        await eventually(lambda: bool(caplog.records))
        worker.herder.standing_changed()
        await asyncio.sleep(0.01)
        membership.is_leader, membership.leader_url = True, "http://me"
        worker.herder.standing_changed()
        await eventually(lambda: len(caplog.records) > 2)
    assert [record.message for record in caplog.records] == [
        "This worker stands by; the leader is http://other",
        "http://other leads the group no more, as it has stopped or was not heard for its session.timeout.ms: "
        "this worker takes over",
        "This worker leads its group and has no connectors to run yet",
    ]


async def test_an_initial_state_is_written_in_front_of_the_connector(worker: FakeWorker) -> None:
    await worker.herder.create("a", source_config(), TargetState.STOPPED)
    await worker.state("a", "STOPPED")
    assert worker.written()[0] == STOPPED
    assert keys(worker)[1:] == ["connector-a"]


async def test_a_paused_creation_makes_no_tasks_until_it_is_resumed(worker: FakeWorker) -> None:
    await worker.herder.create("a", source_config(), TargetState.PAUSED)
    await worker.state("a", "PAUSED", [])
    assert worker.parts.log == []
    await worker.herder.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_the_same_config_again_restarts_the_instance_but_writes_no_tasks(worker: FakeWorker) -> None:
    await running_a(worker)
    created, _ = await worker.herder.put("a", source_config())
    await eventually(lambda: worker.states("a") == ["RUNNING", "UNASSIGNED", "RUNNING"])
    assert not created
    assert keys(worker) == ["connector-a", "task-a-0", "commit-a", "connector-a"]


async def test_another_config_writes_tasks_anew_and_restarts_them(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.put("a", source_config(topics="other"))
    await eventually(lambda: worker.states("a-0")[1:] == ["RUNNING", "UNASSIGNED", "RUNNING"])
    assert keys(worker)[3:] == ["connector-a", "task-a-0", "commit-a"]
    assert worker.supervisor.wanted[TASK_0].config["topics"] == "other"


async def test_a_setting_of_the_connector_alone_counts_as_a_change_of_its_tasks(worker: FakeWorker) -> None:
    await running_a(worker)
    part = worker.parts.running["a"]
    unchanged = part.task_configs()
    await worker.herder.put("a", source_config(errors__tolerance="all"))
    await eventually(lambda: "a" in worker.parts.running and worker.parts.running["a"] is not part)
    worker.parts.running["a"].host.reconfigure("a", unchanged)
    await eventually(lambda: keys(worker).count("commit-a") >= 2)


async def test_fewer_tasks_take_the_statuses_of_the_others_away(worker: FakeWorker) -> None:
    await running_a(worker, tasks__max="2")
    await worker.herder.patch("a", {"tasks.max": "1"})
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert worker.states("a-1")[-2:] == ["UNASSIGNED", "gone"]


async def test_a_pause_keeps_the_task_configs_and_says_paused(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    assert worker.written()[3:] == [PAUSED]
    assert worker.supervisor.wanted == {}
    assert len(await worker.herder.tasks("a")) == 1


async def test_a_resume_writes_no_task_configs(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    await worker.herder.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert worker.written()[3:] == [PAUSED, STARTED]


async def test_a_stop_takes_the_tasks_away_before_it_asks_for_stopped(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.stop_connector("a")
    await worker.state("a", "STOPPED", [])
    assert worker.written()[3:] == ['commit-a={"tasks":0}', STOPPED]
    assert worker.states("a-0")[-2:] == ["UNASSIGNED", "gone"]


async def test_a_resume_from_stopped_makes_the_tasks_anew(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.stop_connector("a")
    await worker.state("a", "STOPPED", [])
    await worker.herder.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert keys(worker)[-3:] == ["target-state-a", "task-a-0", "commit-a"]


async def test_a_stopped_connector_can_be_paused_and_has_no_tasks(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.stop_connector("a")
    await worker.herder.pause("a")
    await worker.state("a", "PAUSED", [])


async def test_a_deletion_is_two_tombstones_and_forgets_the_statuses(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.wrote(TASK_0, ["A.orders"])
    await eventually(lambda: len(worker.statuses.topics("a")) == 1)
    await worker.herder.delete("a")
    await eventually(lambda: worker.statuses.connector("a") is None and not worker.statuses.tasks("a"))
    assert worker.written()[3:] == ["connector-a", "target-state-a"]
    assert worker.states("a")[-2:] == ["UNASSIGNED", "gone"]
    assert worker.statuses.topics("a") == []
    assert worker.parts.running == {}


async def test_a_connector_created_again_at_once_ends_up_running(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.delete("a")
    await worker.herder.create("a", source_config(), None)
    await eventually(lambda: worker.states("a")[-2:] == ["gone", "RUNNING"])
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_statuses_tell_worker_and_generation(worker: FakeWorker) -> None:
    await running_a(worker)
    status = worker.statuses.connector("a")
    assert status is not None
    assert (status.worker_id, status.generation, status.trace) == ("worker-1:8083", 1, None)


async def test_a_failed_connector_has_its_trace_and_the_others_run(worker: FakeWorker) -> None:
    worker.parts.failing["b"] = "Boom: it broke"
    await worker.herder.create("b", source_config(), None)
    await running_a(worker)
    await worker.state("b", "FAILED", [])
    assert (await worker.herder.status("b")).connector.trace == "Boom: it broke\n"


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
        assert (await worker.herder.status("a")).connector.trace == "RecursionError: too deep\n"


async def test_a_failed_connector_stays_failed_when_it_is_paused_and_resumed(worker: FakeWorker) -> None:
    worker.parts.failing["a"] = "Boom"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    await worker.herder.pause("a")
    await worker.herder.resume("a")
    await asyncio.sleep(0.05)
    assert worker.states("a") == ["FAILED"]


async def test_a_failed_connector_becomes_stopped(worker: FakeWorker) -> None:
    worker.parts.failing["a"] = "Boom"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    await worker.herder.stop_connector("a")
    await worker.state("a", "STOPPED")


async def test_a_failed_task_leaves_its_connector_running(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    task = await worker.herder.task_status("a", 0)
    assert (task.trace, task.version) == ("Boom\n", None)


async def test_a_changed_config_heals_a_failed_task(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    worker.supervisor.failing.clear()
    await worker.herder.put("a", source_config(topics="other"))
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_a_plain_restart_writes_nothing_and_restarts_the_instance(worker: FakeWorker) -> None:
    await running_a(worker)
    before = worker.written()
    await worker.herder.restart("a")
    await eventually(lambda: worker.states("a") == ["RUNNING", "UNASSIGNED", "RUNNING"])
    assert (worker.written(), worker.supervisor.restarted) == (before, [])


async def test_a_restart_that_fails_again_says_so(worker: FakeWorker) -> None:
    worker.parts.failing["a"] = "Boom"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    with pytest.raises(StartFailed, match=r"^Failed to start connector: a$"):
        await worker.herder.restart("a")


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
async def test_a_restart_does_not_change_what_was_asked_for(worker: FakeWorker, state: str) -> None:
    await worker.herder.create("a", source_config(), TargetState(state))
    await worker.state("a", state)
    await worker.herder.restart("a")
    await eventually(lambda: worker.states("a") == [state, "UNASSIGNED", state])


async def test_who_was_told_restarting_does_not_read_the_failure_of_before(worker: FakeWorker) -> None:
    worker.parts.failing["a"] = "Trace"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "FAILED")
    worker.parts.silent.add("a")
    await worker.herder.restart_with_tasks("a", include_tasks=True, only_failed=True)
    assert (await worker.herder.status("a")).connector.state == "RESTARTING"


async def test_a_restart_with_tasks_is_written_and_answers_the_plan(worker: FakeWorker) -> None:
    await running_a(worker)
    plan = await worker.herder.restart_with_tasks("a", include_tasks=True, only_failed=False)
    assert (plan.connector.state, plan.tasks[0].state) == ("RESTARTING", "RESTARTING")
    assert worker.written()[-1] == 'restart-connector-a={"include-tasks":true,"only-failed":false}'
    restarted = ["RUNNING", "UNASSIGNED", "RESTARTING", "RUNNING"]
    await eventually(lambda: worker.states("a") == restarted and worker.states("a-0")[1:] == restarted)


async def test_what_a_restart_ends_is_not_told_as_what_is_restarted(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.parts.silent.add("a")
    await worker.herder.put("a", source_config(topics="others"))
    await worker.state("a", "UNASSIGNED")
    assert (await worker.herder.status("a")).connector.trace
    plan = await worker.herder.restart_with_tasks("a", include_tasks=True, only_failed=False)
    assert (plan.connector.state, plan.connector.trace) == ("RESTARTING", None)


async def test_a_restart_of_what_failed_leaves_what_runs(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.create("a", source_config(tasks__max="2"), None)
    await worker.state("a", "RUNNING", ["FAILED", "RUNNING"])
    plan = await worker.herder.restart_with_tasks("a", include_tasks=True, only_failed=True)
    assert plan.connector.state == "RUNNING"
    assert [(task.state, task.trace) for task in plan.tasks.values()] == [("RESTARTING", "Boom\n"), ("RUNNING", None)]
    await eventually(lambda: worker.supervisor.restarted == [TASK_0])


async def test_a_restart_of_what_failed_with_nothing_failed_writes_just_the_request(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.restart_with_tasks("a", include_tasks=False, only_failed=True)
    await asyncio.sleep(0.05)
    assert (keys(worker)[-1], worker.states("a")) == ("restart-connector-a", ["RUNNING"])


async def test_a_task_that_fails_again_says_so(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "Boom\n"
    await worker.herder.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    with pytest.raises(StartFailed, match=r"^Failed to start task: a-0$"):
        await worker.herder.restart_task("a", 0)


async def test_a_task_of_a_paused_connector_stays_paused_when_restarted(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    await worker.herder.restart_task("a", 0)
    await eventually(lambda: worker.states("a-0")[1:] == ["RUNNING", "PAUSED", "UNASSIGNED", "PAUSED"])


async def test_a_task_that_existed_before_a_stop_has_no_owner(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.stop_connector("a")
    with pytest.raises(TaskWithoutOwner):
        await worker.herder.restart_task("a", 0)
    with pytest.raises(UnknownTask):
        await worker.herder.restart_task("a", 7)


async def test_nothing_is_written_for_an_invalid_config(worker: FakeWorker) -> None:
    with pytest.raises(InvalidConfig) as caught:
        await worker.herder.put("a", source_config(tasks__max="abc"))
    assert worker.written() == []
    assert str(caught.value).splitlines()[1:3] == [
        "Invalid value abc for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
    ]


async def test_exactly_once_is_not_promised_by_a_worker_without_it(worker: FakeWorker) -> None:
    config = source_config(**{"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"})
    with pytest.raises(InvalidConfig, match="does not have exactly-once source support"):
        await worker.herder.put("s", config)


async def test_an_invalid_value_of_a_config_provider_is_quoted_as_its_reference(worker: FakeWorker) -> None:
    with pytest.raises(InvalidConfig) as caught:
        await worker.herder.put("a", source_config(tasks__max="${file:/secrets:number}"))
    assert "${file:/secrets:number}" in str(caught.value)
    assert "not-a-number" not in str(caught.value)


async def test_a_secret_is_stored_as_its_reference_and_handed_to_the_part_resolved(worker: FakeWorker) -> None:
    reference = "${file:/secrets:password}"
    await running_a(worker, source__cluster__ssl__key__password=reference)
    assert not any("hunter2" in entry for entry in worker.written())
    assert worker.parts.running["a"].resolved["source.cluster.ssl.key.password"] == "hunter2-hunter2"
    assert worker.supervisor.wanted[TASK_0].config["source.cluster.ssl.key.password"] == reference


async def test_a_trace_does_not_show_a_resolved_secret(worker: FakeWorker) -> None:
    worker.parts.failing["a"] = "Boom: password hunter2-hunter2 is wrong"
    await worker.herder.create("a", source_config(my__note="${file:/secrets:password}"), None)
    await worker.state("a", "FAILED")
    assert (await worker.herder.status("a")).connector.trace == "Boom: password [hidden] is wrong\n"


async def test_the_secrets_in_use_are_those_of_stored_configs_and_of_what_runs(worker: FakeWorker) -> None:
    reference = "${file:/secrets:password}"
    await running_a(worker, my__password="in-clear", source__cluster__ssl__key__password=reference)
    running = await worker.herder.secrets()
    await worker.herder.pause("a")
    await worker.state("a", "PAUSED")
    await eventually(lambda: not worker.parts.running)
    paused = await worker.herder.secrets()
    await worker.herder.delete("a")
    gone = await worker.herder.secrets()
    found = [{"in-clear", "hunter2-hunter2"} & each for each in (running, paused, gone)]
    assert found == [{"in-clear", "hunter2-hunter2"}, {"in-clear"}, set()]


async def test_a_file_of_a_config_provider_that_is_gone_refuses_the_config(worker: FakeWorker) -> None:
    with pytest.raises(BadRequest, match="Could not read properties from file /nowhere"):
        await worker.herder.put("a", source_config(x="${file:/nowhere:k}"))


async def test_a_file_of_a_config_provider_that_vanished_fails_the_start(worker: FakeWorker) -> None:
    await running_a(worker, x="${file:/secrets:password}")
    worker.resolver.secrets.clear()
    with pytest.raises(StartFailed):
        await worker.herder.restart("a")


async def test_a_patch_keeps_the_rest_and_null_takes_away(worker: FakeWorker) -> None:
    await running_a(worker, my__a="1", my__b="2")
    info = await worker.herder.patch("a", {"my.a": None, "my.c": "3"})
    assert {name: value for name, value in info.config.items() if name.startswith("my.")} == {"my.b": "2", "my.c": "3"}


async def test_patches_at_once_lose_nothing(worker: FakeWorker) -> None:
    await running_a(worker)
    await asyncio.gather(*(worker.herder.patch("a", {f"my.{number}": "x"}) for number in range(20)))
    config = await worker.herder.config("a")
    assert sum(name.startswith("my.") for name in config) == 20


async def test_an_existing_connector_is_not_created_again(worker: FakeWorker) -> None:
    await running_a(worker)
    with pytest.raises(ConnectorExists, match=r"^Connector a already exists$"):
        await worker.herder.create("a", source_config(), None)


async def test_the_name_in_the_config_has_to_be_the_connectors(worker: FakeWorker) -> None:
    message = r"^Connector name configuration \(b\) doesn't match connector name in the URL \(a\)$"
    with pytest.raises(BadRequest, match=message):
        await worker.herder.put("a", source_config(name="b"))


async def test_a_config_too_large_for_the_topic_is_refused(worker: FakeWorker) -> None:
    with pytest.raises(BadRequest, match="bytes long"):
        await worker.herder.put("a", source_config(my__note="x" * 2_000_000))


async def test_unknown_connectors_are_told_in_three_wordings(worker: FakeWorker) -> None:
    with pytest.raises(ConnectorNotFound):
        await worker.herder.connector("none")
    with pytest.raises(UnknownConnector):
        await worker.herder.pause("none")
    with pytest.raises(RestartOfUnknownConnector):
        await worker.herder.restart("none")
    with pytest.raises(NoStatus):
        await worker.herder.status("none")


async def test_written_topics_are_told_and_forgotten_on_request(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.wrote(TASK_0, ["A.orders", "A.bills"])
    await eventually(lambda: len(worker.statuses.topics("a")) == 2)
    assert await worker.herder.topics("a") == ["A.bills", "A.orders"]
    await worker.herder.reset_topics("a")
    await eventually(lambda: not worker.statuses.topics("a"))


async def test_topics_are_not_tracked_when_that_is_switched_off() -> None:
    async with FakeWorker(tracking=TopicTracking(enabled=False)).running() as worker:
        await running_a(worker)
        worker.supervisor.wrote(TASK_0, ["A.orders"])
        await asyncio.sleep(0.02)
        assert worker.statuses.topics("a") == []


async def test_a_worker_goes_on_with_what_the_topics_hold() -> None:
    first = FakeWorker()
    async with first.running():
        await running_a(first)
        await first.herder.create("p", source_config(), TargetState.PAUSED)
        await first.state("p", "PAUSED")
    assert (first.states("a")[-1], first.states("a-0")[-1]) == ("UNASSIGNED", "UNASSIGNED")
    written = first.written()
    second = FakeWorker(first.config_topic, first.status_topic)
    async with second.running():
        await second.state("a", "RUNNING", ["RUNNING"])
        await second.state("p", "PAUSED")
    assert second.written() == written


async def test_tasks_of_which_compaction_kept_only_some_are_made_anew() -> None:
    worker = FakeWorker()
    config = json.dumps({"properties": {**source_config(tasks__max="2"), "name": "a"}}).encode()
    worker.config_topic.add(b"connector-a", config)
    worker.config_topic.add(b"task-a-1", config)
    worker.config_topic.add(b"commit-a", b'{"tasks":2}')
    async with worker.running():
        await worker.state("a", "RUNNING", ["RUNNING", "RUNNING"])


async def test_a_status_without_its_connector_is_removed_by_the_leader() -> None:
    worker = FakeWorker()
    status = b'{"state":"RUNNING","trace":null,"worker_id":"x:1","generation":9,"version":"4.3.1"}'
    worker.status_topic.add(b"status-connector-old", status)
    worker.status_topic.add(b"status-task-old-0", status)
    async with worker.running():
        await eventually(lambda: worker.statuses.connectors() == frozenset())


async def test_a_standby_answers_reads_and_refuses_writes() -> None:
    leader = FakeWorker()
    standby = FakeWorker(
        leader.config_topic, leader.status_topic, membership=FakeMembership(is_leader=False, leader_url="http://other")
    )
    async with leader.running(), standby.running():
        await running_a(leader)
        await standby.state("a", "RUNNING", ["RUNNING"])
        assert await standby.herder.connectors() == ["a"]
        assert standby.parts.log == []
        with pytest.raises(NotLeader, match=r"the leader, http://other$"):
            await standby.herder.pause("a")


async def test_a_write_that_finds_no_leader_says_that_the_cluster_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    membership = FakeMembership()
    async with FakeWorker(membership=membership).running() as worker:
        await running_a(worker)
        monkeypatch.setattr(standing, "LEADER_WAIT_S", 0.1)
        membership.is_leader, membership.leader_url, membership.silence = False, None, SILENCE
        worker.herder.standing_changed()
        with pytest.raises(NotLeader) as caught:
            await worker.herder.stop_connector("a")
    assert str(caught.value) == (
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance). This worker has no word from "
        "its own cluster since 2023-11-14 22:13:20 UTC: broker a:9092: Connection refused. It is tried again; repeat the "
        "request when the cluster answers"
    )
    assert caught.value.status == 409


async def test_a_write_waits_for_the_group_to_be_joined() -> None:
    membership = FakeMembership(is_leader=False, leader_url=None, generation=-1)
    async with FakeWorker(membership=membership).running() as worker:
        creation = asyncio.create_task(worker.herder.create("a", source_config(), None))
        await asyncio.sleep(0.05)
        assert not creation.done()
        membership.is_leader, membership.leader_url, membership.generation = True, "http://me", 1
        worker.herder.standing_changed()
        await creation
        await worker.state("a", "RUNNING", ["RUNNING"])


async def test_a_worker_that_loses_the_lead_stops_everything_and_says_nothing() -> None:
    membership = FakeMembership()
    async with FakeWorker(membership=membership).running() as worker:
        await running_a(worker)
        membership.is_leader = False
        worker.herder.standing_changed()
        await eventually(lambda: not worker.parts.running and not worker.supervisor.wanted)
        assert worker.supervisor.retired
        assert (worker.states("a")[-1], worker.states("a-0")[-1]) == ("RUNNING", "RUNNING")
        membership.is_leader = True
        worker.herder.standing_changed()
        await eventually(lambda: worker.states("a-0")[1:] == ["RUNNING", "UNASSIGNED", "RUNNING"])


RUNNING_BEFORE = b'{"state":"RUNNING","trace":null,"worker_id":"killed:1","generation":0,"version":"4.3.1"}'


def left_behind(worker: FakeWorker) -> None:
    """The topics of a connector whose worker was killed."""
    config = json.dumps({"properties": {**source_config(), "name": "a"}}).encode()
    for key in (b"connector-a", b"task-a-0"):
        worker.config_topic.add(key, config)
    worker.config_topic.add(b"commit-a", b'{"tasks":1}')
    for key in (b"status-connector-a", b"status-task-a-0"):
        worker.status_topic.add(key, RUNNING_BEFORE)


async def test_what_is_taken_over_says_so_in_its_trace() -> None:
    worker = FakeWorker()
    left_behind(worker)
    worker.parts.silent.add("a")
    worker.supervisor.silent.add(TASK_0)
    async with worker.running():
        await worker.state("a", "UNASSIGNED", ["UNASSIGNED"])
        status = await worker.herder.status("a")
    traces = [state.trace for state in (status.connector, *status.tasks.values())]
    assert traces == ["It is being taken over by this worker."] * 2


async def test_a_standby_that_loses_its_place_says_so_and_when_it_has_one_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    membership = FakeMembership(is_leader=False, leader_url="http://other")
    async with FakeWorker(membership=membership).running() as worker:
        await eventually(lambda: len(caplog.messages) == 1, 60)
        membership.leader_url = None
        worker.herder.standing_changed()
        await eventually(lambda: len(caplog.messages) == 2, 60)
        membership.leader_url = "http://other"
        worker.herder.standing_changed()
        await eventually(lambda: len(caplog.messages) == 3, 60)
    assert "it has no place in its group, which http://other led when" in caplog.messages[1]
    assert caplog.messages[0] == caplog.messages[2] == "This worker stands by; the leader is http://other"


async def test_what_is_started_anew_says_why_until_it_runs(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.parts.silent.add("a")
    worker.supervisor.silent.add(TASK_0)
    restarts = [
        asyncio.create_task(worker.herder.restart("a")),
        asyncio.create_task(worker.herder.restart_task("a", 0)),
    ]
    await eventually(lambda: worker.trace("a") == worker.trace("a-0") == "It is being restarted.", 60)
    for restart in restarts:
        restart.cancel()
    await worker.herder.put("a", source_config(topics="other"))
    await eventually(lambda: worker.trace("a") == "It is being started with its changed config.", 60)


async def test_a_stopped_worker_leaves_word_of_what_follows() -> None:
    worker = FakeWorker()
    async with worker.running():
        await running_a(worker)
    line = "Its worker has stopped; another worker of its group takes it over, or the next one that is started."
    assert (worker.trace("a"), worker.trace("a-0")) == (line, line)


async def test_a_worker_stopped_in_the_middle_of_its_takeover_starts_nothing_and_leaves_nothing_running() -> None:
    worker, topic_is_read = FakeWorker(), asyncio.Event()
    left_behind(worker)
    refresh = worker.statuses.refresh

    async def slow_refresh() -> None:
        await topic_is_read.wait()
        await refresh()

    worker.statuses.refresh = slow_refresh  # type: ignore[method-assign]
    async with worker.running():
        await asyncio.sleep(0.01)
        await worker.herder.end_parts()
        topic_is_read.set()
        await asyncio.sleep(0.05)
    assert (worker.parts.log, worker.states("a")[-1], worker.states("a-0")[-1]) == ([], "UNASSIGNED", "UNASSIGNED")


async def test_a_worker_stopped_as_it_starts_to_answer_leaves_nothing_running() -> None:
    worker = FakeWorker()
    left_behind(worker)
    async with worker.running():
        pass
    assert (worker.states("a")[-1], worker.states("a-0")[-1]) == ("UNASSIGNED", "UNASSIGNED")


async def test_a_standby_that_is_stopped_says_nothing_of_what_runs_elsewhere() -> None:
    worker = FakeWorker(membership=FakeMembership(is_leader=False, leader_url="http://other"))
    left_behind(worker)
    async with worker.running():
        await asyncio.sleep(0.01)
    assert (worker.states("a"), worker.states("a-0")) == (["RUNNING"], ["RUNNING"])


async def test_what_a_replaced_part_still_says_is_not_heard(worker: FakeWorker) -> None:
    await running_a(worker)
    old = worker.parts.running["a"]
    await worker.herder.put("a", source_config(topics="other"))
    await eventually(lambda: worker.states("a") == ["RUNNING", "UNASSIGNED", "RUNNING"])
    old.host.failed("a", "late")
    old.host.reconfigure("a", [])
    await asyncio.sleep(0.05)
    assert worker.states("a")[-1] == "RUNNING"
    assert len(worker.supervisor.wanted) == 1


async def test_a_slow_connector_start_keeps_nobody_waiting(worker: FakeWorker) -> None:
    worker.parts.silent.add("slow")
    await worker.herder.create("slow", source_config(), None)
    await running_a(worker)
    assert worker.statuses.connector("slow") is None


async def test_a_trouble_is_shown_with_the_state_and_vanishes_with_its_end(worker: FakeWorker) -> None:
    await running_a(worker)
    host = worker.parts.running["a"].host

    def trace() -> str | None:
        status = worker.statuses.connector("a")
        assert status is not None
        return status.trace

    host.troubled("a", "The source cluster does not answer")
    await eventually(lambda: trace() is not None)
    host.troubled("a", None)
    await eventually(lambda: trace() is None)
    assert set(worker.states("a")) == {"RUNNING"}


async def test_a_config_topic_that_can_not_be_written_is_told_to_the_caller(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.config_topic.failure = ClusterUnreachable("no broker of b:9092 answers")
    with pytest.raises(Exception, match="no broker of b:9092 answers"):
        await worker.herder.pause("a")
    worker.config_topic.failure = None


async def test_statuses_are_written_when_the_cluster_is_back(worker: FakeWorker) -> None:
    await worker.herder.create("a", source_config(), TargetState.STOPPED)
    await worker.state("a", "STOPPED")
    worker.status_topic.failure = ClusterUnreachable("gone")
    await worker.herder.resume("a")
    await asyncio.sleep(0.05)
    worker.status_topic.failure = None
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_task_configs_are_written_when_the_cluster_is_back(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.config_topic.failure = ClusterUnreachable("gone")
    part = worker.parts.running["a"]
    part.host.reconfigure("a", [*part.task_configs(), *part.task_configs()])
    await asyncio.sleep(0.05)
    worker.config_topic.failure = None
    await worker.state("a", "RUNNING", ["RUNNING", "RUNNING"])


async def test_a_config_that_is_too_large_is_not_judged_any_further(worker: FakeWorker) -> None:
    with pytest.raises(BadRequest, match="bytes long"):
        await worker.herder.put("a", {"connector.class": "org.example.Nowhere", "filler": "x" * 1_000_000})
    assert worker.written() == []
