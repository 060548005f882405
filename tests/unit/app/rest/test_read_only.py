"""`rest.read.only`: what changes something is refused, what reads or validates is not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.rest.application import Surface, create_admin_application
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, served, serving, source_config

READ_ONLY = Surface(refuses_writes=True)
REFUSED = {
    "error_code": 403,
    "message": "This worker's REST changes nothing: its properties have rest.read.only=true. Ask a worker without it, or "
    "change the property and start the worker again",
}


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        await running.herder.configs.create("c", source_config(), None)
        await running.state("c", "RUNNING", ["RUNNING"])
        yield running


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(worker.herder, (), READ_ONLY) as connected:
        yield connected


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/connectors"),
        ("DELETE", "/connectors/c"),
        ("PUT", "/connectors/c/config"),
        ("PATCH", "/connectors/c/config"),
        ("POST", "/connectors/c/restart"),
        ("POST", "/connectors/c/tasks/0/restart"),
        ("PUT", "/connectors/c/pause"),
        ("PUT", "/connectors/c/resume"),
        ("PUT", "/connectors/c/stop"),
        ("PUT", "/connectors/c/topics/reset"),
        ("PATCH", "/connectors/c/offsets"),
        ("DELETE", "/connectors/c/offsets"),
        ("PUT", "/admin/loggers/root"),
    ],
)
async def test_a_change_is_refused(worker: FakeWorker, client: httpx.AsyncClient, method: str, path: str) -> None:
    before = worker.written()
    answer = await client.request(method, path, json=source_config())
    assert (answer.status_code, answer.json()) == (403, REFUSED)
    assert worker.written() == before


async def test_no_other_route_changes_anything(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    """Each route of the contract that does not only read, but for those that validate or are refused anyway."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    names = {
        "name": "c",
        "task": "0",
        "plugin": "MirrorSourceConnector",
        "logger": "root",
        "link": "A-%3EB",
        "topic": "t",
    }
    for path, methods in paths.items():
        for method in methods.keys() - {"get"}:
            answer = await client.request(method.upper(), path.format(**names), json=source_config())
            allowed = "/config/validate" in path or path.endswith(("/fence", "{name}/tasks", "/figures"))
            assert (answer.json() == REFUSED) != allowed, (method, path)


async def test_reading_and_validating_go_on(client: httpx.AsyncClient) -> None:
    assert (await client.get("/connectors/c/status")).status_code == 200
    found = await client.put("/connector-plugins/MirrorSourceConnector/config/validate", json=source_config(name="c"))
    assert found.status_code == 200
    assert (await client.get("/admin/links")).json()["worker"]["read_only"] is True


async def test_the_page_of_a_worker_that_writes_sees_that_it_does(worker: FakeWorker) -> None:
    async with serving(worker.herder) as client:
        assert (await client.get("/admin/links")).json()["worker"]["read_only"] is False


async def test_credentials_come_first(worker: FakeWorker) -> None:
    async with serving(worker.herder, [UsersFile({"admin": "s3cret"})], READ_ONLY) as client:
        assert (await client.put("/connectors/c/pause")).status_code == 401


async def test_admin_listeners_refuse_changes_too(worker: FakeWorker) -> None:
    async with served(create_admin_application(worker.herder, (), READ_ONLY)) as client:
        assert (await client.put("/admin/loggers/root", json={"level": "DEBUG"})).status_code == 403
        assert (await client.get("/admin/links")).json()["worker"]["read_only"] is True
