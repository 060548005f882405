"""What people send who mean harm, or whose scripts run wild: nothing gets through, and nothing is left half done.

Over a real socket, against the real herder on topics in memory.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import logging
import re
from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest

from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest import basic_auth
from mirror_connect.app.rest.application import create_api
from mirror_connect.app.rest.basic_auth import UsersFile
from mirror_connect.app.rest.docs import contract
from tests.fakes.connect_worker import FakeWorker, serving, source_config

# Requests between workers are signed instead.
SIGNED = {
    ("post", "/connectors/{name}/tasks"),
    ("put", "/connectors/{name}/fence"),
    ("post", "/admin/workers/figures"),
}
ROUTES = [
    (method.upper(), path.replace("{name}", "a").replace("{task}", "0"))
    for path, operations in contract(create_api(cast(Herder, None)))["paths"].items()
    for method in operations
    if (method, path) not in SIGNED
]
NO_ACCESS = (401, "User cannot access the resource.")
NAME = "n" * 10_000


def basic(credentials: str) -> str:
    return "Basic " + base64.b64encode(credentials.encode()).decode()


@pytest.fixture
async def guarded(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    """A worker that asks for credentials, with a connector `a` in it."""
    async with serving(worker.herder, [UsersFile({"admin": "s3cret"})]) as connected:
        body = {"name": "a", "config": source_config()}
        made = await connected.post("/connectors", json=body, headers={"Authorization": basic("admin:s3cret")})
        assert made.status_code == 201
        await worker.state("a", "RUNNING", ["RUNNING"])
        yield connected


async def raw(client: httpx.AsyncClient, head: bytes) -> bytes:
    """The answer to a request whose head is sent as it stands."""
    port = client.base_url.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head + b"Connection: close\r\n\r\n")
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


# Who may ask.


@pytest.mark.parametrize(
    ("authorization", "refusal"),
    [
        pytest.param(None, NO_ACCESS, id="none"),
        pytest.param(basic("admin:wrong"), NO_ACCESS, id="wrong_password"),
        pytest.param(basic("admin:s3cret\0"), NO_ACCESS, id="more_behind_the_password"),
        pytest.param("Bearer s3cret", NO_ACCESS, id="another_scheme"),
        pytest.param(
            "Basic !!!", (500, '{"error_code":500,"message":"Illegal base64 character 21"}'), id="broken_base64"
        ),
    ],
)
async def test_no_resource_says_or_does_anything_without_credentials(
    guarded: httpx.AsyncClient, worker: FakeWorker, authorization: str | None, refusal: tuple[int, str]
) -> None:
    before = (worker.written(), worker.status_topic.entries())
    headers = {"Authorization": authorization} if authorization else {}
    for method, path in ROUTES:
        body = {"level": "OFF", "connector.class": "x"} if method in ("PUT", "POST", "PATCH") else None
        answer = await guarded.request(method, path, headers=headers, json=body)
        assert (method, path, answer.status_code, answer.text) == (method, path, *refusal)
    assert (worker.written(), worker.status_topic.entries()) == before


def test_passwords_are_compared_in_a_time_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def note(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    compare = hmac.compare_digest
    monkeypatch.setattr(basic_auth.hmac, "compare_digest", note)
    users = UsersFile({"admin": "s3cret"})
    for credentials in ("admin:s", "admin:s3cret-and-more", "nobody:s3cret"):
        with pytest.raises(basic_auth.Unauthorized):
            users.check(basic(credentials))
    assert compared == [(32, 32)] * 3


# Paths and headers.


@pytest.mark.parametrize(
    "path",
    [
        "/connectors/../admin/loggers",
        "/connectors/%2e%2e/admin/loggers",
        "/connectors/..%2fadmin%2floggers",
        "/connectors/a/../../admin/loggers",
        "/connectors/..;/admin/loggers",
        "/docs/../connectors",
        "/openapi.json/../connectors/a/config",
        "/%63onnectors",
        "//connectors",
        "/connectors/a%00",
        "/connectors/..%5c..%5cetc%5cpasswd",
        "/../../../../etc/passwd",
        "/connectors/%252e%252e",
        "/connectors/a/fence/../config",
    ],
)
async def test_no_way_of_writing_a_path_leads_around_the_credentials(guarded: httpx.AsyncClient, path: str) -> None:
    answer = await raw(guarded, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode())
    assert answer.partition(b" ")[2][:3] in (b"400", b"401", b"404", b"405")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a\r\nX-Evil: 1", id="a_header"),
        pytest.param("a\nb", id="a_line_feed"),
        pytest.param("a\n", id="a_line_feed_at_the_end"),
        pytest.param("\r\n\r\n<html>", id="the_end_of_a_head"),
        pytest.param("a\x7fb", id="a_delete"),
        pytest.param("a\x85", id="a_next_line"),
    ],
)
async def test_a_name_with_control_characters_is_refused(
    client: httpx.AsyncClient, worker: FakeWorker, name: str
) -> None:
    path = f"/connectors/{quote(name, safe='')}/config"
    answer = await client.put(path, json=source_config())
    assert (answer.status_code, "x-evil" in answer.headers) == (400, False)
    assert worker.written() == []


@pytest.mark.parametrize("name", ["<b>&\"'", "\u2028\u202e", "\u00fc\u2603", "a b;c,d"], ids=ascii)
async def test_a_strange_name_is_escaped_where_it_stands_in_a_header(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/connectors", json={"name": name, "config": source_config()})
    assert answer.status_code == 201
    location = answer.headers["location"]
    assert re.fullmatch(r"[!-~]+", location)
    assert (await client.get(location)).json()["name"] == name


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"Host: a/b\r\n", id="a_path"),
        pytest.param(b"Host: <script>\r\n", id="markup"),
        pytest.param(b"Host: a b\r\n", id="a_blank"),
        pytest.param(b"Host: user@a\r\n", id="a_user"),
        pytest.param(b"Host: a\r\nHost: b\r\n", id="two"),
        pytest.param(b"", id="none"),
        pytest.param(b"Host: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n", id="two_lengths"),
        pytest.param(b"Host: a\r\n X: folded\r\n\x00: y\r\n", id="a_nul"),
    ],
)
async def test_a_request_that_can_be_read_in_two_ways_is_refused(client: httpx.AsyncClient, line: bytes) -> None:
    answer = await raw(client, b"GET / HTTP/1.1\r\n" + line)
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_who_forwards_is_not_believed(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil", "X-Forwarded-For": "10.0.0.1"}
    body = {"name": "a", "config": source_config()}
    answer = await client.post("/connectors", json=body, headers=headers)
    assert answer.headers["location"] == f"{client.base_url}/connectors/a"


# Sizes.

BIG = {**source_config(), "filler": "x" * 5_000_000}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/connectors", {"name": "big", "config": BIG}, id="create"),
        pytest.param("PUT", "/connectors/big/config", BIG, id="put"),
        pytest.param("PUT", "/connectors/big/config", {**source_config(), "k" * 5_000_000: "v"}, id="a_key"),
    ],
)
async def test_a_config_of_5_mb_is_refused_with_a_word_and_leaves_nothing(
    client: httpx.AsyncClient, worker: FakeWorker, method: str, path: str, body: dict[str, Any]
) -> None:
    before = worker.written()
    answer = await client.request(method, path, json=body)
    message = answer.json()["message"]
    assert (answer.status_code, "bytes" in message, len(message) < 1000) == (400, True, True)
    assert worker.written() == before
    assert (await client.get("/connectors")).json() == []


async def test_a_config_of_5_mb_can_be_validated(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connector-plugins/MirrorSourceConnector/config/validate", json={**BIG, "name": "big"})
    assert (answer.status_code, answer.json()["error_count"]) == (200, 0)


@pytest.mark.parametrize("path", ["/connectors/a/config", "/connector-plugins/MirrorSource/config/validate"])
async def test_a_body_without_end_is_answered_and_then_cut_off(client: httpx.AsyncClient, path: str) -> None:
    """The test ends when the server closes the connection: the client would go on for ever."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)

    async def send_without_end() -> None:
        writer.write(f"PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n".encode())
        writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()

    sending = asyncio.create_task(send_without_end())
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(ConnectionError):
            await sending
    writer.transport.abort()
    assert answer.startswith(b"HTTP/1.1 413 ")


NESTED = {
    "arrays": b"[" * 200_000,
    "closed_arrays": b"[" * 200_000 + b"]" * 200_000,
    "objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "in_a_value": b'{"name":' + b"[" * 500 + b"]" * 500 + b"}",
}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/connectors"),
        ("PUT", "/connectors/a/config"),
        ("PUT", "/connector-plugins/MirrorSource/config/validate"),
        ("PUT", "/admin/loggers/root"),
        ("PATCH", "/connectors/a/offsets"),
    ],
)
@pytest.mark.parametrize("body", list(NESTED.values()), ids=list(NESTED))
async def test_json_that_is_nested_without_end_is_refused_with_a_short_word(
    client: httpx.AsyncClient, worker: FakeWorker, method: str, path: str, body: bytes
) -> None:
    before = worker.written()
    answer = await client.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 404)
    assert len(answer.json()["message"]) < 2000
    assert worker.written() == before


async def test_a_number_of_800000_digits_is_no_number(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    body = json.dumps(source_config(tasks__max="NUMBER")).replace('"NUMBER"', "9" * 800_000).encode()
    answer = await client.put("/connectors/a/config", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, "Not a number of type INT" in answer.text) == (400, True)
    assert worker.written() == []


async def test_a_name_of_10000_letters_works_like_any_other(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    made = await client.post("/connectors", json={"name": NAME, "config": source_config()})
    await worker.state(NAME, "RUNNING", ["RUNNING"])
    read = await client.get(f"/connectors/{NAME}/config")
    gone = await client.delete(f"/connectors/{NAME}")
    assert (made.status_code, read.json()["name"], gone.status_code) == (201, NAME, 204)
    assert (await client.get("/connectors")).json() == []


@pytest.mark.parametrize("path", ["/connectors/{}", "/connectors/{}/status", "/connector-plugins/{}/config", "/{}"])
async def test_a_long_name_that_is_unknown_is_404(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path.format(NAME))).status_code == 404


async def test_a_head_without_end_is_refused(client: httpx.AsyncClient) -> None:
    """The server needn't read all of it, so that the client may see a reset in the place of the answer."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        answer = await raw(client, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 1_000_000 + b"\r\n")
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


# Many at once.


def configs_written(worker: FakeWorker, name: str) -> list[dict[str, str]]:
    prefix = f"connector-{name}="
    return [json.loads(line.removeprefix(prefix))["properties"] for line in worker.written() if line.startswith(prefix)]


async def test_fifty_puts_at_once_leave_the_last_one_that_was_written(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    puts = [client.put("/connectors/a/config", json=source_config(topics=f"t{n}")) for n in range(50)]
    answers = await asyncio.gather(*puts)
    statuses = sorted(answer.status_code for answer in answers)
    written = configs_written(worker, "a")
    assert statuses == [200] * 49 + [201]
    assert len(written) == 50
    assert (await client.get("/connectors/a/config")).json() == written[-1]


async def test_the_tasks_are_those_of_the_last_of_fifty_puts(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await asyncio.gather(
        *(
            client.put("/connectors/a/config", json=source_config(topics=f"t{n}", tasks__max=str(n % 4 + 1)))
            for n in range(50)
        )
    )
    last = configs_written(worker, "a")[-1]
    count = int(last["tasks.max"])
    await worker.state("a", "RUNNING", ["RUNNING"] * count)
    async with asyncio.timeout(60):
        while True:
            tasks = (await client.get("/connectors/a/tasks")).json()
            if [task["config"]["topics"] for task in tasks] == [last["topics"]] * count:
                break
            await asyncio.sleep(0.01)


async def test_fifty_creations_at_once_make_one_connector(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    bodies = [{"name": "a", "config": source_config(topics=f"t{n}")} for n in range(50)]
    answers = await asyncio.gather(*(client.post("/connectors", json=body) for body in bodies))
    made = [answer.json()["config"] for answer in answers if answer.status_code == 201]
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 49
    assert configs_written(worker, "a") == made


async def test_puts_and_deletes_at_once_end_with_one_or_the_other(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    requests = [
        client.put("/connectors/a/config", json=source_config(topics=f"t{n}"))
        if n % 2
        else client.delete("/connectors/a")
        for n in range(50)
    ]
    answers = await asyncio.gather(*requests)
    assert {answer.status_code for answer in answers} <= {200, 201, 204, 404, 409}
    found = await client.get("/connectors/a/config")
    newest = [line for line in worker.written() if line.startswith("connector-a")][-1]
    assert found.status_code == (404 if newest == "connector-a" else 200)


# What the log says.


async def test_nothing_of_a_refused_request_is_taken_for_a_mistake_of_ours(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    for body in NESTED.values():
        await client.put("/connectors/a/config", content=body, headers={"Content-Type": "application/json"})
    assert caplog.records == []
