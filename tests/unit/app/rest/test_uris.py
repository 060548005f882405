"""What becomes of a path and a query before routing: expectations recorded from Kafka Connect 4.3.1."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.rest.uris import RefusedPath, first_of_each, routed_path
from tests.fakes.connect_worker import FakeWorker, serving, source_config


async def asked(path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body of an answer to exactly this path: clients follow dots."""
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        await client.put("/connectors/x/config", json=source_config())
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body.decode()


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        pytest.param(b"/", "/", id="root"),
        pytest.param(b"/connectors/", "/connectors", id="trailing_slash"),
        pytest.param(b"/connectors/a+b", "/connectors/a+b", id="plus_is_no_space"),
        pytest.param(b"/connectors/a..b", "/connectors/a..b", id="dots_inside_a_name"),
        pytest.param(b"/connectors/..", "/connectors/..", id="dots_are_a_name"),
        pytest.param(b"/connectors/x;a=b/status;c", "/connectors/x/status", id="parameters"),
        pytest.param(b"/connectors;a=%2F|%zz", "/connectors", id="parameters_of_any_kind"),
        pytest.param(b"/connectors/;a", "/connectors", id="parameters_of_nothing"),
        pytest.param(b"/connectors#a/b", "/connectors", id="fragment"),
    ],
)
def test_a_path_is_what_jersey_would_match(raw: bytes, path: str) -> None:
    assert routed_path(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        b"//connectors",
        b"/connectors//a",
        b"/connectors//",
        b"/;a/connectors",
        b"/connectors/;a/status",
        b"/connectors/a%2Fb",
        b"/connectors/a%2fb",
        b"/connectors/a%25",
        b"/connectors/%00",
        b"/connectors/a%0Ab",
        b"/connectors/a%1f",
        b"/connectors/a%5Cb",
        b"/connectors/a%7F",
        b"/connectors/%zz",
        b"/connectors/%2",
        b"/connectors/%2e%2e/connectors",
        b"/connectors/.%2E/connectors",
        b"/connectors/%2e/a",
        b"/connectors/..;a",
        b"/connectors/.;",
        b"/..",
        b"/../etc/passwd",
        b"/connectors/../../x",
        b"/connectors/%ff",
        b"/connectors/%C0%AF",
        b"/connectors/%ED%A0%80",
        b"/connectors/\xc3\xb6",
        b"connectors",
        b"*",
        b"",
        *(b"/connectors/a" + bytes([char]) for char in b'"<>[\\]^`{|}'),
    ],
)
def test_a_path_that_servers_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(RefusedPath):
        routed_path(raw)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/connectors/a%20b", "a b"),
        ("/connectors/a%3EB", "a>B"),
        ("/connectors/%C3%B6", "\u00f6"),
        ("/connectors/%73tatus", "status"),
        ("/connectors/x%3By", "x;y"),
        ("/connectors/..", ".."),
        ("/connectors/a;b", "a"),
    ],
)
async def test_a_name_is_decoded_once(path: str, name: str) -> None:
    assert await asked(path) == (404, f'{{"error_code":404,"message":"Connector {name} not found"}}')


@pytest.mark.parametrize(
    "path",
    ["/%63onnectors", "/connectors/x/%73tatus", "/connectors/./x", "/connectors/x/../x", "/admin/%6Coggers/root"],
)
async def test_the_words_of_a_path_are_written_plainly(path: str) -> None:
    assert await asked(path) == (404, '{"error_code":404,"message":"HTTP 404 Not Found"}')


@pytest.mark.parametrize("path", ["/connectors/x;a=b", "/connectors;a/x/;b", "/connectors/%78"])
async def test_a_connector_is_found_by_each_way_of_writing_its_path(path: str) -> None:
    assert (await asked(path))[0] == 200


@pytest.mark.parametrize(("method", "has_page"), [("GET", True), ("POST", True), ("PUT", False), ("OPTIONS", False)])
async def test_a_refused_path_has_a_page_where_one_is_shown(method: str, has_page: bool) -> None:
    status, text = await asked("/connectors//x", method)
    assert (status, "Ambiguous URI empty segment" in text) == (400, has_page)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (b"", b""),
        (b"a=1&b=2", b"a=1&b=2"),
        (b"a=1&b=2&a=3", b"a=1&b=2"),
        (b"a&%61=3", b"a"),
        (b"a=1#&b=2", b"a=1"),
        (b"expand=info&expand=status", b"expand=info&expand=status"),
    ],
)
def test_of_a_parameter_given_twice_the_first_counts(query: bytes, kept: bytes) -> None:
    assert first_of_each(query) == kept
