"""Connectors with names that no path can hold as they are."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.connect_worker import FakeWorker, serving, source_config

JSON = {"Content-Type": "application/json"}


async def ask(client: httpx.AsyncClient, method: str, path: str) -> int:
    # The path as it is: httpx would follow dot segments.
    url = client.base_url.copy_with(raw_path=path.encode())
    return (await client.request(method, url, headers=JSON)).status_code


async def created(client: httpx.AsyncClient, name: str) -> int:
    return (await client.post("/connectors", json={"name": name, "config": source_config()})).status_code


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "a%2Fb"),
        ("a/b", "a%2fb"),
        ("../x", "..%2Fx"),
        ("../x", "%2E%2E%2Fx"),
        ("..", "%2e%2e"),
        (".", "%2E"),
        ("50%", "50%25"),
        ("a%2Fb", "a%252Fb"),
        ("//", "%2F%2F"),
    ],
)
async def test_what_post_has_made_is_found_and_deleted_by_its_encoded_path(name: str, path: str) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        answers = [
            await created(client, name),
            await ask(client, "GET", f"/connectors/{path}/config"),
            await ask(client, "PUT", f"/connectors/{path}/pause"),
            await ask(client, "DELETE", f"/connectors/{path}"),
        ]
        assert (answers, await worker.herder.connectors.names()) == ([201, 200, 202, 204], [])


@pytest.mark.parametrize("path", ["a%2Fb", "..%2Fx", "%2e%2e", "50%25", "%00", "a%2Fb/config", "%zz"])
async def test_a_path_of_no_connector_is_refused_as_by_connect(path: str) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        assert await ask(client, "GET", f"/connectors/{path}") == 400


async def test_a_name_with_a_slash_hides_no_other_path() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        await created(client, "a")
        await created(client, "a/config")
        assert (await client.get("/connectors/a/config")).json()["name"] == "a"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        pytest.param("", 400, id="empty"),
        pytest.param(" \t\n ", 400, id="blank"),
        pytest.param("a\nb", 400, id="control_character_inside"),
        pytest.param("a\u0085b", 400, id="control_character_beyond_ascii"),
        pytest.param("a b", 201, id="space_inside"),
    ],
)
async def test_names_are_taken_and_refused_as_by_connect(name: str, status: int) -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        assert await created(client, name) == status


async def test_spaces_and_control_characters_at_the_ends_of_a_posted_name_go() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        await created(client, "\t a\u0001 ")
        assert await worker.herder.connectors.names() == ["a"]
