"""Restarts and task configs reach the worker that they concern, and of others none writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import httpx
import pytest

from mirror_connect.app.errors import Forbidden
from mirror_connect.app.herder import restarts
from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.rest.application import create_application
from mirror_connect.app.rest_client import RestClient
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, served, source_config
from tests.fakes.forwarding_group import NO_TLS, Place


@dataclass
class Three:
    """The leader runs nothing, `owner` runs connector a with its tasks, `follower` nothing either."""

    leader: FakeWorker
    owner: FakeWorker
    follower: FakeWorker
    at_leader: httpx.AsyncClient
    at_owner: httpx.AsyncClient
    at_follower: httpx.AsyncClient


@contextlib.asynccontextmanager
async def group_of_three() -> AsyncIterator[Three]:
    places = [Place() for _ in range(3)]
    first: FakeWorker | None = None
    workers: list[FakeWorker] = []
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for number, place in enumerate(places):
            worker = FakeWorker(
                first.config_topic if first else None,
                first.status_topic if first else None,
                membership=FakeMembership(is_leader=number == 0, leader_url=places[0].url),
                worker_id=f"w{number}:1",
                link=WorkersLink(place.url, client=RestClient(NO_TLS)),
            )
            first = first or worker
            workers.append(await stack.enter_async_context(worker.running()))
            clients.append(await stack.enter_async_context(served(create_application(worker.herder), place.listener)))
        await eventually(lambda: workers[0].herder.leadership.term is not None)
        assert (await clients[2].put("/connectors/a/config", json=source_config(tasks__max="2"))).status_code == 201
        tasks = frozenset({TaskId("a", 0), TaskId("a", 1)})
        members = tuple(
            GroupMember(place.url, f"w{number}:1", *((frozenset({"a"}), tasks) if number == 1 else ()))
            for number, place in enumerate(places)
        )
        for number, worker in enumerate(workers):
            member = members[number]
            worker.membership.assigned = GroupAssignment(
                7, number == 0, places[0].url, member.connectors, member.tasks, members
            )
            worker.herder.membership_changed()
        await workers[0].state("a", "RUNNING", ["RUNNING", "RUNNING"])
        yield Three(*workers, *clients)


async def test_task_configs_of_a_connector_elsewhere_reach_the_config_topic() -> None:
    async with group_of_three() as three:
        # Who runs it has made them; who leads has written them.
        assert three.owner.connectors.running.keys() == {"a"}
        assert three.leader.connectors.running.keys() == set()
        assert three.leader.configs.snapshot().task_count("a") == 2
        assert {status.worker_id for status in three.leader.statuses.tasks("a").values()} == {"w1:1"}


async def test_a_restart_reaches_whoever_runs_it_in_two_hops() -> None:
    async with group_of_three() as three:
        for number, client in enumerate((three.at_follower, three.at_leader, three.at_owner), 1):
            before = three.owner.connectors.log.count("start a")
            assert (await client.post("/connectors/a/restart")).status_code == 204
            assert three.owner.connectors.log.count("start a") == before + 1
            assert (await client.post("/connectors/a/tasks/1/restart")).status_code == 204
            assert three.owner.supervisor.restarted == [TaskId("a", 1)] * number
        assert three.leader.supervisor.restarted == three.follower.supervisor.restarted == []


async def test_a_restart_that_fails_elsewhere_is_told_here() -> None:
    async with group_of_three() as three:
        three.owner.connectors.failing["a"] = "ConfigError: no"
        answer = await three.at_follower.post("/connectors/a/restart")
    assert (answer.status_code, answer.json()["message"]) == (500, "Failed to start connector: a")


async def test_a_restart_of_what_nobody_has_is_found_unknown_at_each_worker() -> None:
    async with group_of_three() as three:
        for client in (three.at_follower, three.at_leader, three.at_owner):
            answers = [
                await client.post("/connectors/none/restart"),
                await client.post("/connectors/a/tasks/9/restart"),
            ]
            assert [each.json()["message"] for each in answers] == ["Unknown connector: none", "Unknown task: a-9"]


async def test_a_restart_of_what_moves_waits_for_its_next_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "ASSIGNED_WAIT_S", 0.3)
    async with group_of_three() as three:
        whole = three.leader.membership.assigned
        assert whole is not None
        three.leader.membership.assigned = replace(whole, workers=())
        answer = await three.at_follower.post("/connectors/a/restart")
        assert (answer.status_code, "momentarily" in answer.json()["message"]) == (409, True)
        monkeypatch.setattr(restarts, "ASSIGNED_WAIT_S", 20)
        asked = asyncio.create_task(three.at_follower.post("/connectors/a/restart"))
        await asyncio.sleep(0.2)
        three.leader.membership.assigned = whole
        assert (await asked).status_code == 204


async def test_the_former_worker_of_a_connector_writes_no_task_configs() -> None:
    async with group_of_three() as three:
        with pytest.raises(Forbidden, match="w1:1 runs it now"):
            await three.follower.herder.worker_client.put_task_configs("a", [])
        await three.owner.herder.worker_client.put_task_configs("a", [{"x": "1"}])
