"""What requests write to the config topic, in Connect's order of records, and what they refuse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    ConnectorExists,
    InvalidConfig,
)
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.storage.partition_owners import PartitionOwners
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
from tests.fakes.running_connector import (
    PAUSED,
    STARTED,
    STOPPED,
    TASK_0,
    keys,
    running_a,
)

# The modules that log what users ask for.
ASKED_OF = ("herder.config_writes", "herder.restarts")


async def test_a_new_connector_is_written_then_its_tasks_then_their_commit(worker: FakeWorker) -> None:
    await running_a(worker, tasks__max="2")
    assert keys(worker) == ["connector-a", "task-a-0", "task-a-1", "commit-a"]


async def test_the_log_has_a_line_for_everything_that_is_asked_and_no_value_of_a_config(
    worker: FakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.herder")
    herder = worker.herder
    await running_a(worker)
    await herder.configs.put("a", source_config(topics="a-word"))
    await herder.configs.put("a", source_config(topics="a-word"))
    await herder.configs.patch("a", {"topics": "a-word-2"})
    await herder.configs.patch("a", {})
    await herder.configs.patch("a", {"topics": "a-word-2", "tasks.max": None})
    await worker.state("a", "RUNNING", ["RUNNING"])
    await herder.configs.pause("a")
    await herder.configs.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    await herder.restarts.connector("a")
    await herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=False)
    await herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=True)
    await herder.restarts.task("a", 0)
    await herder.configs.stop("a")
    await herder.configs.delete("a")
    asked = [record.message for record in caplog.records if record.name.endswith(ASKED_OF)]
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

    before = -1

    def said(tasks: Mapping[TaskId, WantedTask], owners: Mapping[str, PartitionOwners], read: float) -> None:
        nonlocal before
        # The same may be wanted again at any time.
        if len(tasks) != before:
            log.info("%d wanted", len(tasks))
        before = len(tasks)
        want(tasks, owners, read)

    monkeypatch.setattr(worker.supervisor, "want", said)
    await running_a(worker)
    await worker.herder.configs.pause("a")
    await worker.herder.configs.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    await worker.herder.configs.stop("a")
    told = [line for line in caplog.messages if line.endswith((" wanted", "to pause", "to resume", "to stop"))]
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
        await worker.herder.configs.pause("a")
    worker.config_topic.failure = None
    line = "Connector a: it is unknown whether the config topic has this change (asked to pause): the cluster is away"
    assert line in caplog.messages


async def test_an_initial_state_is_written_in_front_of_the_connector(worker: FakeWorker) -> None:
    await worker.herder.configs.create("a", source_config(), TargetState.STOPPED)
    await worker.state("a", "STOPPED")
    assert worker.written()[0] == STOPPED
    assert keys(worker)[1:] == ["connector-a"]


async def test_a_paused_creation_makes_no_tasks_until_it_is_resumed(worker: FakeWorker) -> None:
    await worker.herder.configs.create("a", source_config(), TargetState.PAUSED)
    await worker.state("a", "PAUSED", [])
    assert worker.connectors.log == []
    await worker.herder.configs.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_a_pause_keeps_the_task_configs_and_says_paused(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    assert worker.written()[3:] == [PAUSED]
    assert worker.supervisor.wanted == {}
    assert len(await worker.herder.connectors.tasks("a")) == 1


async def test_a_resume_writes_no_task_configs(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    await worker.herder.configs.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert worker.written()[3:] == [PAUSED, STARTED]


async def test_a_stop_takes_the_tasks_away_before_it_asks_for_stopped(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.stop("a")
    await worker.state("a", "STOPPED", [])
    assert worker.written()[3:] == ['commit-a={"tasks":0}', STOPPED]
    assert worker.states("a-0")[-2:] == ["UNASSIGNED", "gone"]


async def test_a_resume_from_stopped_makes_the_tasks_anew(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.stop("a")
    await worker.state("a", "STOPPED", [])
    await worker.herder.configs.resume("a")
    await worker.state("a", "RUNNING", ["RUNNING"])
    assert keys(worker)[-3:] == ["target-state-a", "task-a-0", "commit-a"]


async def test_a_stopped_connector_can_be_paused_and_has_no_tasks(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.stop("a")
    await worker.herder.configs.pause("a")
    await worker.state("a", "PAUSED", [])


async def test_a_deletion_is_two_tombstones_and_forgets_the_statuses(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.supervisor.wrote(TASK_0, ["A.orders"])
    await eventually(lambda: len(worker.statuses.topics("a")) == 1)
    await worker.herder.configs.delete("a")
    await eventually(lambda: worker.statuses.connector("a") is None and not worker.statuses.tasks("a"))
    assert worker.written()[3:] == ["connector-a", "target-state-a"]
    assert worker.states("a")[-2:] == ["UNASSIGNED", "gone"]
    assert worker.statuses.topics("a") == []
    assert worker.connectors.running == {}


async def test_a_connector_created_again_at_once_ends_up_running(worker: FakeWorker) -> None:
    await running_a(worker)
    await worker.herder.configs.delete("a")
    await worker.herder.configs.create("a", source_config(), None)
    await eventually(lambda: worker.states("a")[-2:] == ["gone", "RUNNING"])
    await worker.state("a", "RUNNING", ["RUNNING"])


async def test_nothing_is_written_for_an_invalid_config(worker: FakeWorker) -> None:
    with pytest.raises(InvalidConfig) as caught:
        await worker.herder.configs.put("a", source_config(tasks__max="abc"))
    assert worker.written() == []
    assert str(caught.value).splitlines()[1:3] == [
        "Invalid value abc for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
    ]


async def test_exactly_once_is_not_promised_by_a_worker_without_it(worker: FakeWorker) -> None:
    config = source_config(**{"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"})
    with pytest.raises(InvalidConfig, match="does not have exactly-once source support"):
        await worker.herder.configs.put("s", config)


async def test_an_invalid_value_of_a_config_provider_is_quoted_as_its_reference(worker: FakeWorker) -> None:
    with pytest.raises(InvalidConfig) as caught:
        await worker.herder.configs.put("a", source_config(tasks__max="${file:/secrets:number}"))
    assert "${file:/secrets:number}" in str(caught.value)
    assert "not-a-number" not in str(caught.value)


async def test_a_file_of_a_config_provider_that_is_gone_refuses_the_config(worker: FakeWorker) -> None:
    with pytest.raises(BadRequest, match="Could not read properties from file /nowhere"):
        await worker.herder.configs.put("a", source_config(x="${file:/nowhere:k}"))


async def test_a_patch_keeps_the_rest_and_null_takes_away(worker: FakeWorker) -> None:
    await running_a(worker, my__a="1", my__b="2")
    info = await worker.herder.configs.patch("a", {"my.a": None, "my.c": "3"})
    assert {name: value for name, value in info.config.items() if name.startswith("my.")} == {"my.b": "2", "my.c": "3"}


async def test_patches_at_once_lose_nothing(worker: FakeWorker) -> None:
    await running_a(worker)
    await asyncio.gather(*(worker.herder.configs.patch("a", {f"my.{number}": "x"}) for number in range(20)))
    config = await worker.herder.connectors.config("a")
    assert sum(name.startswith("my.") for name in config) == 20


async def test_an_existing_connector_is_not_created_again(worker: FakeWorker) -> None:
    await running_a(worker)
    with pytest.raises(ConnectorExists, match=r"^Connector a already exists$"):
        await worker.herder.configs.create("a", source_config(), None)


async def test_the_name_in_the_config_has_to_be_the_connectors(worker: FakeWorker) -> None:
    message = r"^Connector name configuration \(b\) doesn't match connector name in the URL \(a\)$"
    with pytest.raises(BadRequest, match=message):
        await worker.herder.configs.put("a", source_config(name="b"))


async def test_a_config_too_large_for_the_topic_is_refused(worker: FakeWorker) -> None:
    with pytest.raises(BadRequest, match="bytes long"):
        await worker.herder.configs.put("a", source_config(my__note="x" * 2_000_000))


async def test_a_config_topic_that_can_not_be_written_is_told_to_the_caller(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.config_topic.failure = ClusterUnreachable("no broker of b:9092 answers")
    with pytest.raises(Exception, match="no broker of b:9092 answers"):
        await worker.herder.configs.pause("a")
    worker.config_topic.failure = None


async def test_a_config_that_is_too_large_is_not_judged_any_further(worker: FakeWorker) -> None:
    with pytest.raises(BadRequest, match="bytes long"):
        await worker.herder.configs.put("a", {"connector.class": "org.example.Nowhere", "filler": "x" * 1_000_000})
    assert worker.written() == []
