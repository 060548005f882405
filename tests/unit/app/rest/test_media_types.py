"""Content-Type and Accept as Kafka Connect 4.3.1 was seen to read them."""

from __future__ import annotations

import httpx
import pytest

from mirror_connect.app.rest.media_types import BadMediaType, MediaType, accepted, content_type
from tests.fakes.connect_worker import FakeWorker, serving


async def asked(method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        return await client.request(method, path, headers=headers)


@pytest.mark.parametrize(
    "header",
    [
        "application/json",
        "APPLICATION/JSON",
        " application/json; charset=utf-8",
        'application/json;charset="utf-8"',
        "application/json;",
        "application/json ; ;",
    ],
)
def test_a_content_type_is_json_whatever_its_parameters_say(header: str) -> None:
    assert content_type(header) == MediaType("application", "json")


@pytest.mark.parametrize(
    "header",
    [
        *(
            "",
            "*",
            "json",
            "application/",
            "application/ json",
            "application /json",
            "application/json foo",
            "a/b, c/d",
        ),
        *("application/json;foo", "application/json;a = b", 'application/json;a="b', "a/b/c"),
    ],
)
def test_a_content_type_that_is_none_is_refused(header: str) -> None:
    with pytest.raises(BadMediaType):
        content_type(header)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", []),
        ("*", ["*/*"]),
        ("json", ["json/*"]),
        ("text/html;q=0.9,*/*;q=0", ["text/html", "*/*"]),
        ("image/png,", ["image/png"]),
        ('application/json;q="0.5"', ["application/json"]),
        ("application/json;q=.5;v=1 , a/b", ["application/json", "a/b"]),
    ],
)
def test_accepted_types_are_listed_whatever_their_weight(header: str, wanted: list[str]) -> None:
    assert [f"{each.type}/{each.subtype}" for each in accepted(header)] == wanted


@pytest.mark.parametrize(
    "header",
    [
        "application/json, ,",
        "a/b;q=2",
        "a/b;q=-1",
        "a/b;q=",
        "a/b;q=x",
        "a/b;q=1.1",
        "a/b;q=0.1234",
        "a/b/c",
        "/",
        "a/",
    ],
)
def test_a_list_of_types_that_is_none_is_refused(header: str) -> None:
    with pytest.raises(BadMediaType):
        accepted(header)


@pytest.mark.parametrize("header", ["a/b" + ";" * 60_000 + "x", "a/b" + "; " * 30_000 + "x", " " * 60_000 + "/"])
def test_a_header_made_to_take_long_is_refused_like_any_other(header: str) -> None:
    with pytest.raises(BadMediaType):
        accepted(header)


async def test_a_content_type_that_is_none_is_refused_before_the_path_is_looked_at() -> None:
    assert (await asked("POST", "/nope", {"Content-Type": "*"})).status_code == 400


@pytest.mark.parametrize(("method", "status"), [("GET", 400), ("OPTIONS", 400), ("POST", 404)])
async def test_an_accept_that_is_none_is_refused_where_there_is_something(method: str, status: int) -> None:
    path = "/connectors" if status == 400 else "/nope"
    assert (await asked(method, path, {"Accept": "/"})).status_code == status


async def test_of_two_content_types_none_counts() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        headers = [("Content-Type", "application/json")] * 2
        assert (await client.get("/connectors", headers=headers)).status_code == 400


async def test_a_refusal_is_json_for_who_reads_json() -> None:
    answer = await asked("GET", "/connectors", {"Accept": "application/json;q=2"})
    assert (answer.status_code, answer.json()["status"]) == (400, "400")
