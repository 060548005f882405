"""Where /admin is served: with the rest, alone, or nowhere."""

from __future__ import annotations

import httpx
import pytest

from mirror_connect.app.rest.application import Surface, create_admin_application
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, served, serving

NOT_FOUND = {"error_code": 404, "message": "HTTP 404 Not Found"}


async def test_the_main_listeners_have_it_unless_told_otherwise() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        assert (await client.get("/admin/loggers/root")).status_code == 200


@pytest.mark.parametrize("path", ["/admin/loggers", "/admin/loggers/root", "/admin"])
async def test_they_have_nothing_of_it_where_it_has_listeners_of_its_own(path: str) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder, (), Surface(admin=False)) as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()) == (404, NOT_FOUND)


async def test_admin_listeners_answer_for_loggers() -> None:
    async with FakeWorker().running() as worker, served(create_admin_application(worker.herder)) as client:
        answer = await client.get("/admin/loggers/root")
        assert (answer.status_code, set(answer.json())) == (200, {"level", "last_modified"})


@pytest.mark.parametrize("path", ["/", "/health", "/connectors", "/connector-plugins", "/docs", "/openapi.json"])
async def test_admin_listeners_have_nothing_else(path: str) -> None:
    async with FakeWorker().running() as worker, served(create_admin_application(worker.herder)) as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()) == (404, NOT_FOUND)


async def test_admin_listeners_ask_for_credentials_too() -> None:
    async with (
        FakeWorker().running() as worker,
        served(create_admin_application(worker.herder, [UsersFile({"admin": "s3cret"})])) as client,
    ):
        right = httpx.BasicAuth("admin", "s3cret")
        answers = [(await client.get("/admin/loggers", auth=auth)).status_code for auth in (None, right)]
        assert answers == [401, 200]
