"""The internal REST of dedicated mode: where a flow's resources are, and what changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror_connect.app.dedicated.flow_rest import FlowsApplication, flow_path
from mirror_connect.app.errors import Unauthorized
from mirror_connect.app.exposition.exposition import Exposition
from mirror_connect.app.rest.application import BY_THE_FILE, Surface, create_application, create_metrics_of_flows
from tests.fakes.measured_process import whole


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
    assert answer.json()["message"].startswith("HTTP 404 Not Found. GET / has the flows' paths. ")


async def test_a_flow_that_is_not_up_says_so(client: httpx.AsyncClient) -> None:
    answer = await client.get("/A/B%202/connectors")
    assert (answer.status_code, "Flow A->B 2 is not up" in answer.json()["message"]) == (503, True)


async def test_the_page_and_the_links_of_all_flows_are_at_the_root() -> None:
    application = FlowsApplication({"A->B": (flow_path("A", "B"), lambda: None)}, links=echo)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://node") as client:
        for path in ("/ui", "/ui/main.js", "/admin/links", "/admin/links/A-%3EB/topics"):
            assert (await client.get(path)).json()["raw"] == path
        assert (await client.get("/uis")).status_code == 404


async def test_the_metrics_of_all_flows_are_at_the_root() -> None:
    flows = {"A->B": (flow_path("A", "B"), lambda: None)}
    application = FlowsApplication(flows, metrics=create_metrics_of_flows(Exposition(whole().process)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://node") as client:
        found = await client.get("/metrics")
        assert (found.status_code, (await client.get("/metrics/x")).status_code) == (200, 404)
    assert "mirror_connect_lag_seconds" in found.text


async def test_each_flow_has_the_page_of_its_own_connectors() -> None:
    application = create_application(MagicMock(), (), Surface(admin=False, docs=False, read_only=True))
    applications = FlowsApplication({"A->B": (flow_path("A", "B"), lambda: application)})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(applications), base_url="http://node") as client:
        assert [(await client.get(path)).status_code for path in ("/A/B/ui", "/A/B/ui/main.js")] == [200, 200]
        assert (await client.get("/A/B/ui/")).headers["location"] == "../ui"


class Recorded:
    """What a herder was asked to change, through the real application of a flow."""

    def __init__(self) -> None:
        self.applications = FlowsApplication({"A->B": (flow_path("A", "B"), self._application)})
        self.herder = MagicMock()

    def _application(self) -> ASGIApp:
        return create_application(self.herder, (), Surface(admin=False, docs=False, read_only=True))

    async def answer(self, method: str, target: str) -> tuple[int, dict[str, Any]]:
        """Status and body of a request whose target arrives as it is, like that of a client that follows no rules."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b'{"name": "c"}', "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"node"), (b"content-type", b"application/json")]
        raw = target.encode()
        scope = {
            "type": "http",
            "method": method,
            "raw_path": raw,
            "path": target,
            "headers": headers,
            "query_string": b"",
        }
        await self.applications({**scope, "http_version": "1.1", "scheme": "http", "root_path": ""}, receive, send)
        return int(sent[0]["status"]), json.loads(sent[1]["body"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/connectors/c/config"),
        ("PUT", "/connectors/c/config#/fence"),
        ("PUT", "/connectors/c/stop#/fence"),
        ("PUT", "/connectors/c/pause"),
        ("PATCH", "/connectors/c/offsets"),
        ("DELETE", "/connectors/c"),
        ("POST", "/connectors"),
        ("POST", "/connectors#/tasks"),
        ("POST", "/connectors/c/restart"),
        ("POST", "/connectors/c/tasks/0/restart"),
        ("PUT", "/connectors/c/topics/reset"),
        ("PUT", "/connector-plugins/MirrorSourceConnector/config/validate#/fence"),
    ],
)
async def test_nothing_changes_a_connector(method: str, path: str) -> None:
    recorded = Recorded()
    status, body = await recorded.answer(method, f"/A/B{path}")
    changes = [call for call in recorded.herder.mock_calls if not call[0].startswith("connectors.has")]
    assert (status in (404, 405), changes) == (True, [])
    # As Connect's, and then what to do.
    assert body["error_code"] == status
    assert body["message"].startswith(f"HTTP {status} ")
    assert body["message"].endswith(f". {BY_THE_FILE}")


async def test_a_path_that_connect_does_not_have_either_is_only_not_found() -> None:
    assert await Recorded().answer("GET", "/A/B/nope") == (404, {"error_code": 404, "message": "HTTP 404 Not Found"})


async def test_the_links_of_all_flows_are_at_the_root(client: httpx.AsyncClient) -> None:
    async def links(scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse({"path": scope["path"]})(scope, receive, send)

    flows = {"A->B": (flow_path("A", "B"), lambda: None), "admin->links": (flow_path("admin", "links"), lambda: echo)}
    transport = httpx.ASGITransport(FlowsApplication(flows, (), links))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as made:
        assert (await made.get("/admin/links/x/topics")).json()[
            "path"
        ] == "/x/topics"  # a flow of that name comes first
        assert (await made.get("/admin/linksx")).status_code == 404
    transport = httpx.ASGITransport(FlowsApplication({}, (), links))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as made:
        for path in ("/admin/links", "/admin/links/A-%3EB/topics"):
            assert (await made.get(path)).json()["path"] == path.replace("%3E", ">")
        assert (await made.get("/admin/loggers")).status_code == 404


async def test_the_root_changes_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.post("/")
    assert (answer.status_code, BY_THE_FILE in answer.json()["message"]) == (405, True)


async def test_who_may_not_see_the_clusters_sees_none() -> None:
    class Nobody:
        def check(self, _authorization: str | None) -> None:
            raise Unauthorized

    application = FlowsApplication({"A->B": (flow_path("A", "B"), lambda: None)}, [Nobody()])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://node") as made:
        answers = [await made.get(path) for path in ("/", "/A/B/connectors", "/nothing")]
    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert "A" not in "".join(answer.text for answer in answers).replace("User cannot access the resource", "")


@pytest.mark.parametrize(("method", "path"), [("POST", "/connectors/c/tasks"), ("PUT", "/connectors/c/fence")])
async def test_what_kafkas_workers_call_is_left_to_the_herder(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    assert (await client.request(method, f"/A/B{path}")).json() == {"method": method, "path": path, "raw": path}
