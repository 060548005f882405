"""/docs and /openapi.json."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.rest.application import Surface
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, serving

LOGIN = httpx.BasicAuth("admin", "s3cret")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with FakeWorker().running() as worker, serving(worker.herder) as connected:
        yield connected


@pytest.fixture
async def guarded() -> AsyncIterator[httpx.AsyncClient]:
    async with FakeWorker().running() as worker, serving(worker.herder, [UsersFile({"admin": "s3cret"})]) as connected:
        yield connected


async def test_the_contract_lists_what_is_served(client: httpx.AsyncClient) -> None:
    found = (await client.get("/openapi.json")).json()
    assert {"/connectors", "/connectors/{name}/offsets", "/admin/loggers/{logger}"} <= set(found["paths"])


async def test_the_contract_has_no_admin_where_that_is_elsewhere() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder, (), Surface(admin=False)) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    assert not [path for path in paths if path.startswith("/admin/loggers")]
    assert "/admin/links" in paths  # of our own, and only reads


async def test_the_page_is_html_for_a_browser(client: httpx.AsyncClient) -> None:
    answer = await client.get("/docs", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


async def test_the_page_runs_nothing_from_elsewhere_but_files_whose_digest_it_names(client: httpx.AsyncClient) -> None:
    page = (await client.get("/docs")).text
    foreign = re.findall(r"<(?:script|link)[^>]*https://[^>]*>", page)
    assert len(foreign) == 2
    assert all(re.search(r'integrity="sha384-[\w+/]{64}"', tag) for tag in foreign)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_both_need_credentials_and_let_a_browser_ask_for_them(guarded: httpx.AsyncClient, path: str) -> None:
    refused, right = await guarded.get(path), await guarded.get(path, auth=LOGIN)
    assert (refused.status_code, right.status_code) == (401, 200)
    assert refused.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_both_can_be_switched_off(path: str) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder, (), Surface(docs=False)) as client:
        assert (await client.get(path)).status_code == 404
