"""/admin/links …: the answers for made-up measures, what a standby knows, and refused requests."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from mirror_connect.app.errors import StartFailed, Unauthorized
from mirror_connect.app.rest.link_bodies import (
    LinkGroupsBody,
    LinkHistoryBody,
    LinkPartitionsBody,
    LinksBody,
    LinkTopicsBody,
)
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import RUNNING, TaskId, TaskReport
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, serving, source_config
from tests.fakes.made_up_links import answers, path_of, written

BODIES: dict[str, type[BaseModel]] = {
    "links": LinksBody,
    "topics": LinkTopicsBody,
    "topic": LinkPartitionsBody,
    "groups": LinkGroupsBody,
    "history": LinkHistoryBody,
}
LINK = "/admin/links/A-%3EB"


async def test_the_fixtures_are_what_the_worker_answers_and_what_the_contract_says() -> None:
    made = await answers()
    for name, body in made.items():
        BODIES[name].model_validate(body, strict=True, extra="forbid")
        stored = path_of(name).read_text("utf-8")
        assert json.loads(stored) == body, "run: python -m tests.fakes.made_up_links"
        assert stored == written(body)


@pytest.fixture
async def link(worker: FakeWorker) -> FakeWorker:
    """A worker with a link of one source connector with one task, which has told nothing yet."""
    await worker.herder.configs.create("c", source_config(), None)
    await worker.state("c", "RUNNING", ["RUNNING"])
    return worker


def report(worker: FakeWorker, *problems: Problem, secrets: frozenset[str] = frozenset()) -> None:
    told = TaskReport("attempt", 1, RUNNING, settled=True, problems=problems, more_problems=2)
    worker.metrics.take(TaskId("c", 0), told, secrets)


async def first(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/admin/links")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()["links"][0]
    return found


async def test_nothing_told_is_unknown_and_never_0(link: FakeWorker, client: httpx.AsyncClient) -> None:
    found = await first(client)
    assert (found["name"], found["state"], found["leads"]) == ("A->B", "RUNNING", True)
    assert found["lag"] == {"records": None, "seconds": None, "partitions_behind": 0, "partitions_unknown": 0}
    assert (found["rate"], found["latency_ms"], found["last_report_ms"], found["problems"]) == (None, None, None, [])
    assert (found["filtered"], found["skipped"]) == (None, None)


async def test_a_problem_begins_shows_no_secret_and_ends(link: FakeWorker, client: httpx.AsyncClient) -> None:
    problem = Problem("hunter2-hunter2-0", ProblemCode.PARTITION_UNREADABLE, "It can't be read", "hunter2-hunter2")
    report(link, problem, secrets=frozenset({"hunter2-hunter2"}))
    found = await first(client)
    shown = found["problems"][0]
    assert (shown["code"], shown["connector"], shown["task"]) == ("PARTITION_UNREADABLE", "c", 0)
    assert (shown["subject"], shown["line"]) == ("[hidden]-0", "It can't be read: [hidden]")
    assert found["more_problems"] == 2
    assert abs(shown["since_ms"] - link.metrics.now_ms()) < 10_000
    report(link)
    assert (await first(client))["problems"] == []


async def test_a_problem_of_the_connector_itself_has_no_task(link: FakeWorker, client: httpx.AsyncClient) -> None:
    context = link.connectors.running["c"].context
    show = context.source_of_problems()
    show([Problem("orders", ProblemCode.TOPIC_NOT_COPIED, "orders is not copied")])
    assert [(each["subject"], each["task"]) for each in (await first(client))["problems"]] == [("orders", None)]
    show([])
    assert (await first(client))["problems"] == []
    show([Problem("orders", ProblemCode.TOPIC_NOT_COPIED, "orders is not copied")])
    await link.herder.configs.pause("c")
    await link.state("c", "PAUSED", ["PAUSED"])
    assert (await first(client))["problems"] == []


async def test_a_standby_knows_states_and_the_leader_but_no_figures(link: FakeWorker) -> None:
    report(link, Problem("orders-0", ProblemCode.PARTITION_UNREADABLE, "It can't be read"))
    standby = FakeWorker(
        link.config_topic,
        link.status_topic,
        membership=FakeMembership(is_leader=False, leader_url="http://other:8083/"),
    )
    async with standby.running(), serving(standby.herder) as client:
        await eventually(lambda: standby.configs.snapshot().task_count("c") == 1)
        found = await first(client)
    assert (found["leads"], found["leader_url"]) == (False, "http://other:8083/")
    assert (found["state"], found["problems"], found["rate"]) == ("RUNNING", None, None)
    assert found["connectors"][0]["tasks"][0]["state"] == "RUNNING"


async def test_the_state_is_that_of_the_worst_and_has_a_beginning(link: FakeWorker, client: httpx.AsyncClient) -> None:
    before = (await first(client))["since_ms"]
    assert (await first(client))["since_ms"] == before
    link.supervisor.failing[TaskId("c", 0)] = "Boom: it broke"
    with pytest.raises(StartFailed):
        await link.herder.restarts.task("c", 0)
    await link.state("c", "RUNNING", ["FAILED"])
    found = await first(client)
    assert (found["state"], found["connectors"][0]["state"]) == ("FAILED", "RUNNING")
    assert found["since_ms"] >= before
    task = found["connectors"][0]["tasks"][0]
    assert task["trace"].startswith("Boom: it broke")
    failed = [each for each in link.status_topic.records if each.key == b"status-task-c-0"][-1]
    assert task["since_ms"] == failed.timestamp


async def test_a_deleted_connector_is_forgotten(link: FakeWorker, client: httpx.AsyncClient) -> None:
    report(link)
    await link.herder.configs.delete("c")
    await eventually(lambda: not link.configs.snapshot().connectors)
    assert (await client.get("/admin/links")).json()["links"] == []
    assert (await client.get(f"{LINK}/topics")).status_code == 404
    link.herder.links.forget_unused()
    assert (link.metrics.connectors, link.metrics.links) == ({}, {})


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/admin/links/A-%3EC/topics", 404, "Link A->C not found"),
        ("/admin/links/A-%3EC/history", 404, "Link A->C not found"),
        (f"{LINK}/topics/orders", 404, "Link A->B copies no topic orders"),
        (f"{LINK}/topics?sort=size", 400, "sort is size; lag, seconds, rate and name are known"),
        (f"{LINK}/topics?limit=-1", 400, "limit is -1; it must be a number that is not negative"),
        (f"{LINK}/groups?offset=x", 400, "offset is x; it must be a number that is not negative"),
        (f"{LINK}/history?minutes=1.5", 400, "minutes is 1.5; it must be a number that is not negative"),
    ],
)
async def test_what_is_not_there_or_makes_no_sense(
    link: FakeWorker, client: httpx.AsyncClient, path: str, status: int, message: str
) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()) == (status, {"error_code": status, "message": message})


async def test_only_reading_is_possible(client: httpx.AsyncClient) -> None:
    assert (await client.post("/admin/links")).status_code == 405


async def test_credentials_are_needed_as_elsewhere(worker: FakeWorker) -> None:
    class Strict:
        def check(self, authorization: str | None) -> None:
            if authorization != "Basic me":
                raise Unauthorized

    async with serving(worker.herder, [Strict()]) as client:
        assert (await client.get("/admin/links")).status_code == 401
        assert (await client.get("/admin/links", headers={"authorization": "Basic me"})).status_code == 200
