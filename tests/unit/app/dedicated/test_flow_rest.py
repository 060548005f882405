"""The internal REST of dedicated mode: where a flow's resources are, and what changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mirror_connect.app.dedicated.flow_rest import FlowsApplication, flow_path


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    path, raw = scope["path"], scope["raw_path"].decode()
    await JSONResponse({"method": scope["method"], "path": path, "raw": raw})(scope, receive, send)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    def up() -> ASGIApp | None:
        return echo

    flows = {"A->B": (flow_path("A", "B"), up), "A->B 2": (flow_path("A", "B 2"), lambda: None)}
    transport = httpx.ASGITransport(FlowsApplication(flows))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as made:
        yield made


async def test_the_root_names_the_flows_and_their_paths(client: httpx.AsyncClient) -> None:
    body = (await client.get("/")).json()
    assert body["flows"] == {"A->B": "/A/B", "A->B 2": "/A/B%202"}
    assert {"version", "commit"} <= body.keys()


@pytest.mark.parametrize(
    ("path", "seen"),
    [("/A/B", "/"), ("/A/B/", "/"), ("/A/B/connectors", "/connectors"), ("/A/B/connectors/a%20b", "/connectors/a%20b")],
)
async def test_a_flow_answers_below_its_path(client: httpx.AsyncClient, path: str, seen: str) -> None:
    assert (await client.get(path)).json()["raw"] == seen


@pytest.mark.parametrize("path", ["/A", "/A/C", "/A/BB/connectors", "/connectors", "/B/A/connectors", "/admin/loggers"])
async def test_other_paths_are_not_found(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


async def test_a_flow_that_is_not_up_says_so(client: httpx.AsyncClient) -> None:
    answer = await client.get("/A/B%202/connectors")
    assert (answer.status_code, "Flow A->B 2 is not up" in answer.json()["message"]) == (503, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/A/B/connectors/c/config"), ("DELETE", "/A/B/connectors/c"), ("POST", "/A/B/connectors"), ("POST", "/")],
)
async def test_nothing_changes_a_connector(client: httpx.AsyncClient, method: str, path: str) -> None:
    assert (await client.request(method, path)).status_code == 405


@pytest.mark.parametrize(("method", "path"), [("POST", "/connectors/c/tasks"), ("PUT", "/connectors/c/fence")])
async def test_what_kafkas_workers_call_is_left_to_the_herder(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    assert (await client.request(method, f"/A/B{path}")).json() == {"method": method, "path": path, "raw": path}
