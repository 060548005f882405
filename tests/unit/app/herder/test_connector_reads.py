"""What a worker answers of its connectors, with and without contact to its cluster."""

from __future__ import annotations

import pytest

from mirror_connect.app.errors import (
    ConnectorNotFound,
    NoStatus,
    RestartOfUnknownConnector,
    UnknownConnector,
)
from mirror_connect.app.herder.connector_reads import as_last_known
from mirror_connect.app.storage.status import Status
from tests.fakes.connect_worker import FakeWorker, source_config
from tests.fakes.running_connector import (
    SILENCE,
    TASK_0,
    running_a,
)


async def test_without_word_from_its_cluster_a_worker_shows_what_it_ran_as_not_running(worker: FakeWorker) -> None:
    await running_a(worker)
    worker.membership.silence = SILENCE
    status = await worker.herder.connectors.status("a")
    for shown in (status.connector, status.tasks[0], await worker.herder.connectors.task_status("a", 0)):
        # Its beginning is that of RUNNING.
        assert shown.since_ms is None
        assert (shown.state, shown.trace) == (
            "UNASSIGNED",
            "This worker has had no contact with its own cluster since 2023-11-14 22:13:20 UTC: broker a:9092: Connection "
            "refused; stopped until the cluster answers again.",
        )
    worker.membership.silence = None
    assert (await worker.herder.connectors.status("a")).tasks[0].state == "RUNNING"


async def test_without_word_from_its_cluster_a_failed_task_stays_failed_with_its_trace(worker: FakeWorker) -> None:
    worker.supervisor.failing[TASK_0] = "It broke"
    await worker.herder.configs.create("a", source_config(), None)
    await worker.state("a", "RUNNING", ["FAILED"])
    worker.membership.silence = SILENCE
    shown = (await worker.herder.connectors.status("a")).tasks[0]
    assert shown.state == "FAILED"
    assert shown.trace is not None
    assert (shown.trace.splitlines()[0], shown.trace.endswith("showing the last known status.")) == ("It broke", True)


def test_what_another_worker_ran_keeps_the_state_that_was_heard_last() -> None:
    shown = as_last_known(Status("RUNNING", "worker-2:8083", 1), "worker-1:8083", SILENCE)
    assert (shown.state, shown.trace and shown.trace.endswith("showing the last known status.")) == ("RUNNING", True)


async def test_unknown_connectors_are_told_in_three_wordings(worker: FakeWorker) -> None:
    with pytest.raises(ConnectorNotFound):
        await worker.herder.connectors.info("none")
    with pytest.raises(UnknownConnector):
        await worker.herder.configs.pause("none")
    with pytest.raises(RestartOfUnknownConnector):
        await worker.herder.restarts.connector("none")
    with pytest.raises(NoStatus):
        await worker.herder.connectors.status("none")
