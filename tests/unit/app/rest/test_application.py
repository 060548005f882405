"""The REST interface over a real socket: what holds for all resources, as Kafka Connect 4.3.1 was seen to answer."""

from __future__ import annotations

import httpx
import pytest

from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, serving, source_config
from tests.fakes.rest_answers import error, raw


@pytest.mark.parametrize("path", ["/", "/health", "/connectors", "/connectors/a/topics", "/connector-plugins"])
async def test_head_is_answered_wherever_get_is(client: httpx.AsyncClient, path: str) -> None:
    got, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize("path", ["/nope", "/connectors/none/nope", "/connectors/none/tasks-config", "/Connectors"])
async def test_an_unknown_path_is_404(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()) == (404, error(404, "HTTP 404 Not Found"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/"),
        ("PUT", "/health"),
        ("DELETE", "/connectors"),
        ("POST", "/connectors/a/pause"),
        ("GET", "/connectors/a/tasks/0/restart"),
        ("GET", "/connectors/a/topics/reset"),
        ("DELETE", "/connectors/a/topics"),
        ("POST", "/connector-plugins"),
        ("HEAD", "/connectors/a/pause"),
    ],
)
async def test_a_wrong_method_is_405(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    if method != "HEAD":
        assert answer.json() == error(405, "HTTP 405 Method Not Allowed")


async def test_options_lists_the_methods(client: httpx.AsyncClient) -> None:
    answer = await client.request("OPTIONS", "/connectors")
    assert answer.headers["content-type"].startswith("text/plain")
    assert set(answer.headers["allow"].split(",")) == {"HEAD", "GET", "POST", "OPTIONS"} == set(answer.text.split(", "))


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/xml", 406),
        ("application/json;q=0", 200),
        ("application/json;q=2", 400),
        ("json", 406),
        ("*", 200),
        ("text/html;q=0.9, application/json;q=0.5", 200),
        ("application/*", 200),
        ("*/*", 200),
        ("application/json; charset=utf-8", 200),
    ],
)
async def test_who_reads_no_json_gets_406(client: httpx.AsyncClient, accept: str, status: int) -> None:
    assert (await client.get("/connectors", headers={"Accept": accept})).status_code == status


@pytest.mark.parametrize("content_type", ["text/plain", "application/vnd.demo+json", "application/*", "*/*", None])
async def test_a_body_that_is_not_called_json_is_415(client: httpx.AsyncClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = await client.post("/connectors", content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()) == (415, error(415, "HTTP 415 Unsupported Media Type"))


@pytest.mark.parametrize("path", [b"//connectors", b"/connectors/a%2Fb", b"/connectors/%00", b"/connectors/%2e%2e/x"])
async def test_an_ambiguous_path_is_refused_with_a_page(client: httpx.AsyncClient, path: bytes) -> None:
    answer = await raw(client, path)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (400, "text/html")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[]", id="array"),
        pytest.param(b'"c"', id="text"),
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no_member"),
        pytest.param(b'{"name":"a"}', id="no_config"),
        pytest.param(b'{"name":"a","config":[]}', id="config_array"),
        pytest.param(b'{"name":"a","config":"x"}', id="config_text"),
        pytest.param(b'{"name":"a","config":{"a":{}}}', id="value_object"),
        pytest.param(b'{"name":"a","config":{},"extra":1}', id="unknown_member"),
        pytest.param(b'{"name":"a","config":{},"initial_state":"BANANA"}', id="unknown_state"),
        pytest.param(b'{"name":"a","config":{},"initial_state":1}', id="number_state"),
        pytest.param(b'{"name":', id="malformed"),
        pytest.param(b"[" * 100_000, id="nested"),
    ],
)
async def test_a_body_that_makes_no_sense_is_400_with_a_text(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/connectors", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == answer.json()["error_code"] == 400
    assert len(answer.json()["message"]) > 20


async def test_a_body_of_any_size_is_not_taken(client: httpx.AsyncClient) -> None:
    body = b'{"name":"a","config":{"x":"' + b"x" * (17 << 20) + b'"}}'
    answer = await client.post("/connectors", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


async def test_without_credentials_only_what_does_not_exist_is_told(worker: FakeWorker) -> None:
    async with serving(worker.herder, [UsersFile({"admin": "s3cret"})]) as client:
        refused = [
            await client.get("/"),
            await client.get("/health"),
            await client.request("OPTIONS", "/connectors"),
            await client.put("/connectors/a/config", json={}),
        ]
        assert {(answer.status_code, answer.text) for answer in refused} == {(401, "User cannot access the resource.")}
        assert not any("www-authenticate" in answer.headers for answer in refused)
        assert (await client.get("/nope")).status_code == 404
        assert (await client.head("/", auth=("admin", "s3cret"))).status_code == 200
        assert (await client.head("/", auth=("admin", "wrong"))).status_code == 401


async def test_a_mistake_of_ours_is_a_500_that_tells_nothing(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(name: str) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(worker.herder.connectors, "config", mistaken)
    async with serving(worker.herder) as client:
        answer = await client.get("/connectors/a/config")
    assert answer.status_code == answer.json()["error_code"] == 500
    assert "hunter2" not in answer.text


async def test_a_worker_that_ends_says_so_and_writes_nothing(worker: FakeWorker) -> None:
    async with serving(worker.herder) as client:
        await worker.herder.stop_connectors()
        answer = await client.put("/connectors/a/config", json=source_config())
    assert (answer.status_code, answer.json()) == (503, error(503, "The worker is shutting down"))
    assert worker.written() == []
