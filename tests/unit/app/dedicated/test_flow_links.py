"""The links of all flows of a process: those that are up, and those that are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mirror_connect.app.dedicated.flow_links import NOT_UP, FlowLinks
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.errors import LinkNotFound, NotReady, Unauthorized
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.rest.application import create_links_application
from tests.fakes.connect_worker import FakeWorker, served, source_config


@dataclass
class Runner:
    """A flow, with its worker if there is one."""

    flow: Flow
    worker: FakeWorker | None = None
    up: bool = False
    metrics: WorkerMetrics = field(default_factory=WorkerMetrics)


def flow(source: str, target: str) -> Flow:
    return Flow(source, target, enabled=True, worker={}, connectors={})


@pytest.fixture
async def runners() -> AsyncIterator[list[Runner]]:
    """B->A and C->A are up, without connectors the latter; A->B starts, and A->C is not there at all."""
    async with FakeWorker().running() as worker, FakeWorker().running() as empty, FakeWorker().running() as starting:
        config = source_config(source__cluster__alias="B", target__cluster__alias="A")
        await worker.herder.configs.create("MirrorSourceConnector", config, None)
        await worker.state("MirrorSourceConnector", "RUNNING", ["RUNNING"])
        yield [
            Runner(flow("B", "A"), worker, up=True),
            Runner(flow("C", "A"), empty, up=True),
            Runner(flow("A", "B"), starting),
            Runner(flow("A", "C")),
        ]


@pytest.fixture
def links(runners: list[Runner]) -> FlowLinks:
    return FlowLinks(cast("Any", runners), "me:8083")


async def test_every_flow_is_shown_and_says_whether_it_is_up(links: FlowLinks) -> None:
    found = {view.name: (view.state, view.leads, view.trace) for view in await links.all()}
    assert found == {
        "A->B": ("UNASSIGNED", False, NOT_UP),
        "A->C": ("UNASSIGNED", False, NOT_UP),
        "B->A": ("RUNNING", True, None),
        "C->A": ("UNASSIGNED", False, None),
    }


async def test_a_flow_has_a_beginning_of_being_away(links: FlowLinks) -> None:
    before = {view.name: view.since_ms for view in await links.all()}
    assert {view.name: view.since_ms for view in await links.all()} == before


async def test_the_rest_is_asked_of_the_flow(links: FlowLinks) -> None:
    assert await links.topics("B->A", limit=5) == (0, [])
    assert await links.groups("B->A", limit=5) == (0, [])
    assert await links.history("B->A", 60) == []
    with pytest.raises(LinkNotFound):
        await links.topics("X->A", limit=5)
    for away in ("A->B", "A->C"):
        with pytest.raises(NotReady):
            await links.history(away, 60)


async def test_rest_serves_them_to_those_who_may_see_them(links: FlowLinks) -> None:
    class Strict:
        def check(self, authorization: str | None) -> None:
            if authorization != "Basic me":
                raise Unauthorized

    async with served(create_links_application(links, [Strict()])) as client:
        assert (await client.get("/admin/links")).status_code == 401
        headers = {"authorization": "Basic me"}
        body = (await client.get("/admin/links", headers=headers)).json()
        assert (body["worker"]["id"], body["worker"]["kafka_cluster_id"], body["worker"]["read_only"]) == (
            "me:8083",
            None,
            True,
        )
        assert [each["name"] for each in body["links"]] == ["A->B", "A->C", "B->A", "C->A"]
        answer = await client.get("/admin/links/A-%3EB/topics", headers=headers)
        assert (answer.status_code, answer.json()["message"][:27]) == (503, "The worker is still startin")
        assert (await client.get("/connectors", headers=headers)).status_code == 404
