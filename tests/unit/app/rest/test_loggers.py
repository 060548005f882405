"""/admin/loggers over a real socket, and the records that carry a level to all workers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.herder.log_levels import LogLevels
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, serving


@pytest.fixture
def loggers() -> logging.Manager:
    return logging.Manager(logging.RootLogger(logging.INFO))


@pytest.fixture
async def worker(loggers: logging.Manager) -> AsyncIterator[FakeWorker]:
    async with FakeWorker(log_levels=LogLevels(loggers)).running() as running:
        yield running


async def test_a_level_is_set_told_and_listed(client: httpx.AsyncClient) -> None:
    changed = await client.put("/admin/loggers/demo.one", json={"level": "debug"})
    told = (await client.get("/admin/loggers/demo.one")).json()
    listed = (await client.get("/admin/loggers")).json()
    assert (changed.status_code, changed.json(), told["level"], listed["demo.one"]) == (
        200,
        ["demo.one"],
        "DEBUG",
        told,
    )
    assert isinstance(told["last_modified"], int)
    assert listed["root"] == {"level": "INFO", "last_modified": None}


@pytest.mark.parametrize("query", ["", "?scope=worker", "?scope=banana"])
async def test_a_level_of_this_worker_is_not_told_to_others(
    client: httpx.AsyncClient, worker: FakeWorker, query: str
) -> None:
    assert (await client.put(f"/admin/loggers/demo{query}", json={"level": "WARN"})).json() == ["demo"]
    assert worker.written() == []


async def test_a_level_for_the_cluster_is_a_record_and_in_force_when_answered(
    client: httpx.AsyncClient, worker: FakeWorker, loggers: logging.Manager
) -> None:
    answer = await client.put("/admin/loggers/demo?scope=Cluster", json={"level": "warn"})
    assert (answer.status_code, answer.content, loggers.getLogger("demo").level) == (204, b"", logging.WARNING)
    assert worker.written() == ['logger-cluster-demo={"level":"WARN"}']


async def test_a_standby_writes_a_level_for_the_cluster_too(loggers: logging.Manager) -> None:
    membership = FakeMembership(is_leader=False, leader_url="http://other:8083/")
    async with FakeWorker(membership=membership, log_levels=LogLevels(loggers)).running() as standby:
        async with serving(standby.herder) as client:
            assert (await client.put("/admin/loggers/a?scope=cluster", json={"level": "WARN"})).status_code == 204
        assert standby.written() == ['logger-cluster-a={"level":"WARN"}']


async def test_a_level_that_another_worker_wrote_is_obeyed(worker: FakeWorker, loggers: logging.Manager) -> None:
    worker.config_topic.add(b"logger-cluster-demo", b'{"level":"TRACE"}')
    await eventually(lambda: loggers.getLogger("demo").level == 5)


async def test_a_level_from_before_the_start_and_one_that_is_none_change_nothing(loggers: logging.Manager) -> None:
    worker = FakeWorker(log_levels=LogLevels(loggers))
    worker.config_topic.add(b"logger-cluster-early", b'{"level":"TRACE"}')
    async with worker.running():
        worker.config_topic.add(b"logger-cluster-odd", b'{"level":"LOUD"}')
        worker.config_topic.add(b"logger-cluster-late", b'{"level":"TRACE"}')
        await eventually(lambda: loggers.getLogger("late").level == 5)
    assert not {"early", "odd"} & loggers.loggerDict.keys()


@pytest.mark.parametrize("query", ["", "?scope=cluster"])
@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ('{"level":"BANANA"}', 404, "invalid log level 'BANANA'."),
        ('{"level":5}', 404, "invalid log level '5'."),
        ('{"level":null}', 400, "Desired 'level' parameter was not specified in request."),
        ('{"level":""}', 400, "Illegal null or empty Level name."),
        ("{}", 400, "Desired 'level' parameter was not specified in request."),
        ("", 400, "The request has no body; a JSON object is needed"),
        ("[]", 400, "The request body must be a JSON object of settings and not an array"),
    ],
)
async def test_a_level_that_is_none_is_refused(
    client: httpx.AsyncClient, worker: FakeWorker, *, body: str, status: int, message: str, query: str
) -> None:
    answer = await client.put(f"/admin/loggers/x{query}", content=body, headers={"Content-Type": "application/json"})
    assert answer.json() == {"error_code": status, "message": message}
    assert worker.written() == []


async def test_an_unknown_logger_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.get("/admin/loggers/no.such.logger")
    assert answer.json() == {"error_code": 404, "message": "Logger no.such.logger not found."}


async def test_a_level_that_can_not_be_written_is_told(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    worker.config_topic.failure = ClusterUnreachable("The worker's cluster does not answer")
    answer = await client.put("/admin/loggers/x?scope=cluster", json={"level": "WARN"})
    worker.config_topic.failure = None
    assert (answer.status_code, answer.json()["message"]) == (500, "The worker's cluster does not answer")
