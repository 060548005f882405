"""/openapi.json."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.rest.application import Surface
from tests.fakes.connect_worker import FakeWorker, serving


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with FakeWorker().running() as worker, serving(worker.herder) as connected:
        yield connected


async def test_the_contract_lists_what_is_served(client: httpx.AsyncClient) -> None:
    found = (await client.get("/openapi.json")).json()
    assert {"/connectors", "/connectors/{name}/offsets", "/admin/loggers/{logger}"} <= set(found["paths"])


async def test_the_contract_has_no_admin_where_that_is_elsewhere() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder, (), Surface(admin=False)) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    assert not [path for path in paths if path.startswith("/admin/loggers")]
    assert "/admin/links" in paths  # of our own, and only reads
