"""How answers leave: members that are set, the address of a connector, and the errors that a route declares."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel
from starlette.requests import Request

from mirror_connect.app.rest.answers import answer, errors, location, no_body


class Body(BaseModel):
    name: str
    trace: str | None = None


def request(host: str | None) -> Request:
    headers = [] if host is None else [(b"host", host.encode())]
    return Request(
        {"type": "http", "scheme": "https", "path": "/connectors", "server": ("10.0.0.1", 8443), "headers": headers}
    )


def test_members_that_were_not_set_are_left_out_and_nulls_that_were_set_stay() -> None:
    assert json.loads(answer(Body(name="a")).body) == {"name": "a"}
    assert json.loads(answer(Body(name="a", trace=None)).body) == {"name": "a", "trace": None}


def test_an_answer_has_its_status_and_headers_and_is_one_line() -> None:
    response = answer(Body(name="a"), 201, {"Location": "/x"})
    assert (response.status_code, response.headers["location"]) == (201, "/x")
    assert b"\n" not in response.body


def test_an_answer_without_a_body_is_empty() -> None:
    assert (no_body(204).status_code, no_body(204).body) == (204, b"")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("orders", "orders"),
        ("a b", "a%20b"),
        ("a;b", "a%3Bb"),
        ("a/b:@!$&'()*+,=-._~", "a/b:@!$&'()*+,=-._~"),
        ("é?#%", "%C3%A9%3F%23%25"),
    ],
)
def test_a_connectors_address_is_escaped_as_java_does_and_semicolons_too(name: str, path: str) -> None:
    assert location(request("worker:8083"), name) == {"Location": f"https://worker:8083/connectors/{path}"}


def test_without_a_host_the_address_is_the_sockets() -> None:
    assert location(request(None), "a") == {"Location": "https://10.0.0.1:8443/connectors/a"}


def test_a_route_declares_its_own_errors_among_those_of_any_route() -> None:
    assert list(errors(404, 409)) == [400, 401, 404, 406, 409, 415, 500, 503]


def test_only_what_is_refused_before_a_route_may_be_a_page() -> None:
    declared = errors()
    assert [code for code, each in declared.items() if "text/html" in each["content"]] == [400]
    assert declared[401]["content"] == {"application/json": {}}
