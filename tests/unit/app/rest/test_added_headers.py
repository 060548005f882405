"""CORS and configured headers over a real socket, as Kafka Connect 4.3.1 was recorded with the same three settings."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.config.cross_origins import CrossOrigins
from mirror_connect.app.config.response_headers import header_rules
from mirror_connect.app.rest.application import Surface
from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, serving

ORIGIN = "https://ui.example.org"
SURFACE = Surface(
    cross_origins=CrossOrigins.of(ORIGIN, "GET,POST,PUT,DELETE"),
    header_rules=header_rules(
        'add X-Demo: one, set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", add Content-Type: text/x'
    ),
)
PREFLIGHT = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with FakeWorker().running() as worker, serving(worker.herder, (), SURFACE) as connected:
        yield connected


def cors(answer: httpx.Response) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.startswith("access-control") or name == "vary"
    }


async def test_an_allowed_origin_may_read(client: httpx.AsyncClient) -> None:
    answer = await client.get("/connectors", headers={"Origin": ORIGIN})
    assert cors(answer) == {"vary": "Origin", "access-control-allow-origin": ORIGIN}


@pytest.mark.parametrize("headers", [{}, {"Origin": "https://evil.example.org"}], ids=["no_origin", "another"])
async def test_others_get_the_answer_alone(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    answer = await client.get("/connectors", headers=headers)
    assert (answer.json(), cors(answer)) == ([], {"vary": "Origin"})


async def test_a_preflight_is_told_what_is_allowed_and_goes_on_to_the_resource(client: httpx.AsyncClient) -> None:
    answer = await client.options("/connectors", headers={"Origin": ORIGIN, **PREFLIGHT})
    assert cors(answer) == {
        "vary": "Origin",
        "access-control-allow-origin": ORIGIN,
        "access-control-allow-methods": "GET,POST,PUT,DELETE",
        "access-control-allow-headers": "Content-Type",
        "access-control-max-age": "60",
    }
    assert (answer.status_code, set(answer.text.split(", "))) == (200, {"HEAD", "POST", "GET", "OPTIONS"})


async def test_a_preflight_from_elsewhere_is_told_nothing(client: httpx.AsyncClient) -> None:
    answer = await client.options("/connectors", headers={"Origin": "https://evil.example.org", **PREFLIGHT})
    assert (answer.status_code, cors(answer)) == (200, {"vary": "Origin"})


@pytest.mark.parametrize(
    ("path", "status"),
    [("/connectors", 200), ("/connectors/none", 404), ("/nope", 404), ("/a//b", 400), ("/connectors/a/pause", 405)],
)
async def test_configured_headers_are_on_every_answer(client: httpx.AsyncClient, path: str, status: int) -> None:
    answer = await client.get(path)
    found = [answer.headers[name] for name in ("x-demo", "x-frame-options")]
    assert (answer.status_code, found) == (status, ["one", "DENY"])


async def test_a_refused_path_has_its_own_word_on_caches(client: httpx.AsyncClient) -> None:
    answers = [await client.get(path) for path in ("/connectors", "/a//b")]
    assert [answer.headers["cache-control"] for answer in answers] == [
        "no-cache, no-store",
        "must-revalidate,no-cache,no-store",
    ]


async def test_a_resource_knows_its_content_type_better_than_a_rule(client: httpx.AsyncClient) -> None:
    assert (await client.get("/connectors")).headers.get_list("content-type") == ["application/json"]


async def test_a_preflight_needs_credentials_where_everything_does() -> None:
    async with (
        FakeWorker().running() as worker,
        serving(worker.herder, [UsersFile({"admin": "s3cret"})], SURFACE) as client,
    ):
        answer = await client.options("/connectors", headers={"Origin": ORIGIN, **PREFLIGHT})
        assert (answer.status_code, answer.text) == (401, "User cannot access the resource.")
        assert answer.headers["content-type"].startswith("text/plain")
