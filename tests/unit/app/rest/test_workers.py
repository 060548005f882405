"""GET /admin/workers: who leads, what runs where, lease ages, and what the answering worker does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.app.herder.interfaces import OUTSIDE, LostMember
from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.rest.workers import WorkersBody
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeWorker, serving, source_config
from tests.fakes.workers_of_group import CONNECTOR, SharingGroup


async def told(worker: FakeWorker) -> dict[str, Any]:
    async with serving(worker.herder) as client:
        answer = await client.get("/admin/workers")
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    WorkersBody.model_validate(body, strict=True, extra="forbid")
    return body


@pytest.mark.parametrize("asked", [0, 1])
async def test_any_worker_tells_of_all(asked: int) -> None:
    async with SharingGroup(2).running([["orders-0"], ["orders-1"], ["orders-2"]]) as group:
        group.workers[1].membership.lease_s = 5.0
        body = await told(group.workers[asked])
    assert (body["answering"], body["leader_url"], body["generation"]) == (f"w{asked}:8083", "http://w0:8083/", 1)
    first, second = body["workers"]
    assert [(each["worker_id"], each["leads"], each["version"]) for each in (first, second)] == [
        ("w0:8083", True, API_VERSION),
        ("w1:8083", False, API_VERSION),
    ]
    assert (first["connectors"], second["connectors"]) == ([CONNECTOR], [])
    assert [[task["task"] for task in each["tasks"]] for each in (first, second)] == [[0, 2], [1]]
    assert (first["lease_ms"], second["lease_ms"]) == (8_000, 5_000)
    assert (body["lost"], body["delay_ms"]) == ([], None)


async def test_each_worker_tells_whether_its_spark_is_ready_and_where_its_tasks_run() -> None:
    async with SharingGroup(2).running([["orders-0"], ["orders-1"], ["orders-2"]]) as group:
        group.workers[0].supervisor.readiness = Readiness.STARTING
        group.workers[0].supervisor.on_executors = [TaskPlace(CONNECTOR, 2, "7", "host7")]
        group.workers[1].supervisor.readiness = Readiness.FAILING
        group.workers[1].supervisor.on_executors = [TaskPlace(CONNECTOR, 1, "3", "host3")]
        first, second = (await told(group.workers[0]))["workers"]
    assert (first["spark"], second["spark"]) == ("STARTING", "FAILING")
    assert [[(task["executor"], task["host"]) for task in each["tasks"]] for each in (first, second)] == [
        [(None, None), ("7", "host7")],
        [("3", "host3")],
    ]


async def test_a_lease_that_was_told_gets_shorter_and_ends() -> None:
    async with SharingGroup(2).running([["orders-0"], ["orders-1"]]) as group:
        await told(group.workers[0])
        group.wire.away.add("http://w1:8083/")
        group.hand.s += 6
        assert (await told(group.workers[0]))["workers"][1]["lease_ms"] == 2_000
        group.hand.s += 3
        assert (await told(group.workers[0]))["workers"][1]["lease_ms"] == 0
        group.hand.s += 3
        second = (await told(group.workers[0]))["workers"][1]
        assert (second["lease_ms"], second["version"], second["told_ms"], len(second["tasks"])) == (None, None, None, 1)


async def test_who_was_lost_and_for_how_long_its_work_waits() -> None:
    async with SharingGroup(1).running([["orders-0"], ["orders-1"]]) as group:
        now, membership = boot_clock(), group.workers[0].membership
        assert membership.assigned is not None
        lost = LostMember("w9:8083", frozenset({TaskId(CONNECTOR, 1)}), {}, now - 12)
        membership.assigned = replace(membership.assigned, lost=(lost,), delayed_until=now + 60)
        body = await told(group.workers[0])
    (only,) = body["lost"]
    assert (only["worker_id"], only["tasks"]) == ("w9:8083", [{"connector": CONNECTOR, "task": 1}])
    assert 12_000 <= only["lost_ago_ms"] < 60_000
    assert 0 < body["delay_ms"] <= 60_000


async def test_a_worker_outside_of_its_group_tells_of_itself() -> None:
    async with SharingGroup(2).running([["orders-0"], ["orders-1"]]) as group:
        membership = group.workers[1].membership
        membership.assigned, membership.lease_s, membership.leader_url = OUTSIDE, 0.0, None
        body = await told(group.workers[1])
    (only,) = body["workers"]
    assert (body["leader_url"], body["generation"]) == (None, None)
    assert (only["worker_id"], only["leads"], only["tasks"], only["lease_ms"]) == ("w1:8083", False, [], 0)


async def test_a_leader_that_shares_nothing_runs_everything() -> None:
    async with FakeWorker().running() as worker:
        await worker.herder.configs.create("c", source_config(), None)
        await worker.state("c", "RUNNING", ["RUNNING"])
        (only,) = (await told(worker))["workers"]
    assert (only["leads"], only["connectors"], only["tasks"]) == (
        True,
        ["c"],
        [{"connector": "c", "task": 0, "executor": None, "host": None}],
    )
