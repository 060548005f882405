"""Refusals as Jetty writes them: a page, a JSON object or nothing, by the method and what the caller accepts."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request

from mirror_connect.app.rest.jetty_errors import bad_header, bad_uri


def request(method: str = "GET", *accept: str, host: str | None = "worker:8083") -> Request:
    headers = [(b"accept", each.encode()) for each in accept]
    if host is not None:
        headers.append((b"host", host.encode()))
    return Request(
        {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": "/a b",
            "raw_path": b"/a%20b",
            "query_string": b"",
            "server": ("10.0.0.1", 8083),
            "headers": headers,
        }
    )


@pytest.mark.parametrize(
    "accept", [(), ("text/html",), ("TEXT/*",), ("*/*",), ("application/json", "text/html"), ("application/json, */*",)]
)
def test_who_may_read_pages_gets_one(accept: tuple[str, ...]) -> None:
    response = bad_uri(request("GET", *accept), "Ambiguous URI")
    assert response.headers["content-type"] == "text/html;charset=iso-8859-1"
    assert b"<h2>HTTP ERROR 400 Ambiguous URI</h2>" in response.body
    assert b"<tr><th>URI:</th><td>/badURI</td></tr>" in response.body


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_who_reads_json_gets_an_object(method: str) -> None:
    response = bad_uri(request(method, "application/json"), "Ambiguous URI")
    assert json.loads(response.body) == {"message": "Ambiguous URI", "url": "/badURI", "status": "400"}


@pytest.mark.parametrize(
    ("method", "accept"),
    [("PUT", "text/html"), ("DELETE", "application/json"), ("GET", "image/png")],
)
def test_others_get_a_status_alone(method: str, accept: str) -> None:
    response = bad_uri(request(method, accept), "Ambiguous URI")
    assert (response.status_code, response.body) == (400, b"")


def test_only_a_path_that_cannot_be_read_ends_the_connection() -> None:
    assert bad_uri(request(), "x").headers["connection"] == "close"
    assert "connection" not in bad_header(request()).headers


@pytest.mark.parametrize(("host", "shown"), [("worker:8083", "worker:8083"), (None, "10.0.0.1:8083")])
def test_a_bad_header_is_answered_with_the_address_as_it_was_sent(host: str | None, shown: str) -> None:
    response = bad_header(request("GET", "application/json", host=host))
    assert json.loads(response.body)["url"] == f"http://{shown}/a%20b"


def test_no_refusal_is_kept_by_caches() -> None:
    for response in (bad_header(request()), bad_uri(request("PUT"), "x")):
        assert response.headers["cache-control"] == "must-revalidate,no-cache,no-store"


def test_an_address_does_not_become_markup() -> None:
    assert b"<td>http://&lt;b&gt;/a%20b</td>" in bad_header(request(host="<b>")).body
