"""Connectors that run in the worker: their secrets, failures, replacement."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from mirror_connect.app.errors import StartFailed
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.verified_records import VerifiedRecords
from tests.fakes.connect_worker import FakeConnectors, FakeWorker, eventually, source_config
from tests.fakes.running_connector import (
    TASK_0,
    running_a,
)


async def test_a_failed_connector_has_its_trace_and_the_others_run(worker: FakeWorker) -> None:
    worker.connectors.failing["b"] = "Boom: it broke"
    await worker.herder.configs.create("b", source_config(), None)
    await running_a(worker)
    await worker.state("b", "FAILED", [])
    assert (await worker.herder.connectors.status("b")).connector.trace == "Boom: it broke\n"


async def test_the_first_line_of_an_unforeseen_failure_is_its_error_and_the_log_has_that_line(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ValueError("no such thing: hunter2-hunter2")

    monkeypatch.setattr(FakeConnectors, "__call__", broken)
    await worker.herder.configs.create("a", source_config(my__note="${file:/secrets:password}"), None)
    await worker.state("a", "FAILED", [])
    trace = (await worker.herder.connectors.status("a")).connector.trace or ""
    assert trace.splitlines()[:2] == ["ValueError: no such thing: [hidden]", "Traceback (most recent call last):"]
    assert "hunter2" not in trace
    assert "Connector a is FAILED: ValueError: no such thing: [hidden]" in caplog.messages


async def test_a_new_config_that_fails_says_that_the_tasks_have_an_earlier_one(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.connectors.failing["a"] = "Boom: it broke\nat once"
    await worker.herder.configs.put("a", source_config(topics="other"))
    await worker.state("a", "FAILED")
    former = "its tasks still have an earlier config"
    assert (await worker.herder.connectors.status("a")).connector.trace == f"Boom: it broke; {former}\nat once\n"


async def test_a_secret_is_stored_as_its_reference_and_handed_to_the_part_resolved(worker: FakeWorker) -> None:
    reference = "${file:/secrets:password}"
    await running_a(worker, source__cluster__ssl__key__password=reference)
    assert not any("hunter2" in entry for entry in worker.written())
    assert worker.connectors.running["a"].resolved["source.cluster.ssl.key.password"] == "hunter2-hunter2"
    assert worker.supervisor.wanted[TASK_0].config["source.cluster.ssl.key.password"] == reference


async def test_a_trace_does_not_show_a_resolved_secret(worker: FakeWorker) -> None:
    worker.connectors.failing["a"] = "Boom: password hunter2-hunter2 is wrong"
    await worker.herder.configs.create("a", source_config(my__note="${file:/secrets:password}"), None)
    await worker.state("a", "FAILED")
    assert (await worker.herder.connectors.status("a")).connector.trace == "Boom: password [hidden] is wrong\n"


async def test_a_file_of_a_config_provider_that_vanished_fails_the_start(worker: FakeWorker) -> None:
    await running_a(worker, x="${file:/secrets:password}")
    worker.resolver.secrets.clear()
    with pytest.raises(StartFailed):
        await worker.herder.restarts.connector("a")


async def test_what_a_replaced_connector_still_says_is_not_heard(worker: FakeWorker) -> None:
    await running_a(worker)
    old = worker.connectors.running["a"]
    await worker.herder.configs.put("a", source_config(topics="other"))
    await eventually(lambda: worker.states("a") == ["RUNNING", "UNASSIGNED", "RUNNING"])
    old.context.raise_error("late")
    old.context.request_task_reconfiguration([])
    await asyncio.sleep(0.05)
    assert worker.states("a")[-1] == "RUNNING"
    assert len(worker.supervisor.wanted) == 1


async def test_a_slow_connector_start_keeps_nobody_waiting(worker: FakeWorker) -> None:
    worker.connectors.silent.add("slow")
    await worker.herder.configs.create("slow", source_config(), None)
    await running_a(worker)
    assert worker.statuses.connector("slow") is None


async def test_a_trouble_is_shown_with_the_state_and_vanishes_with_its_end(worker: FakeWorker) -> None:
    await running_a(worker)
    report = worker.connectors.running["a"].context.source_of_problems()

    def trace() -> str | None:
        status = worker.statuses.connector("a")
        assert status is not None
        return status.trace

    report([Problem("source", ProblemCode.CLUSTER_UNREACHABLE, "The source cluster does not answer")])
    await eventually(lambda: trace() is not None)
    report([])
    await eventually(lambda: trace() is None)
    assert set(worker.states("a")) == {"RUNNING"}


async def test_what_verification_has_counted_is_known_until_the_connector_pauses(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.connectors.running["a"].context.verified(VerifiedRecords(copied=5))
    told = worker.metrics.connector("a").verification
    assert (told.told is not None, told.total.copied) == (True, 5)
    await worker.herder.configs.pause("a")
    await worker.state("a", "PAUSED", ["PAUSED"])
    assert told.told is None
