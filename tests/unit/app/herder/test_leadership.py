"""Who leads, who takes over, and what a worker without the lead does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mirror_connect.app.errors import (
    NotLeader,
)
from mirror_connect.app.herder import leadership
from mirror_connect.app.herder.interfaces import SteppedOut
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, source_config
from tests.fakes.running_connector import (
    SILENCE,
    TASK_0,
    left_behind,
    running_a,
)


async def test_the_log_says_who_leads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.herder")
    membership = FakeMembership(is_leader=False, leader_url="http://other")
    async with FakeWorker(membership=membership).running() as worker:
        await eventually(lambda: bool(caplog.records))
        worker.herder.membership_changed()
        await asyncio.sleep(0.01)
        membership.is_leader, membership.leader_url = True, "http://me"
        worker.herder.membership_changed()
        await eventually(lambda: len(caplog.records) > 2)
    assert [record.message for record in caplog.records] == [
        "This worker is in its group; the leader is http://other",
        "http://other no longer leads the group: it stopped, or sent no heartbeat within its session.timeout.ms. "
        "This worker leads now",
        "This worker leads its group",
    ]


async def test_a_status_without_its_connector_is_removed_by_the_leader() -> None:
    worker = FakeWorker()
    status = b'{"state":"RUNNING","trace":null,"worker_id":"x:1","generation":9,"version":"4.3.1"}'
    worker.status_topic.add(b"status-connector-old", status)
    worker.status_topic.add(b"status-task-old-0", status)
    async with worker.running():
        await eventually(lambda: worker.statuses.connectors() == frozenset())


async def test_a_standby_answers_reads_and_refuses_writes() -> None:
    leader = FakeWorker()
    standby = FakeWorker(
        leader.config_topic, leader.status_topic, membership=FakeMembership(is_leader=False, leader_url="http://other")
    )
    async with leader.running(), standby.running():
        await running_a(leader)
        await standby.state("a", "RUNNING", ["RUNNING"])
        assert await standby.herder.connectors.names() == ["a"]
        assert standby.connectors.log == []
        with pytest.raises(NotLeader, match=r"the leader, http://other$"):
            await standby.herder.configs.pause("a")


async def test_a_write_that_finds_no_leader_says_that_the_cluster_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    membership = FakeMembership()
    async with FakeWorker(membership=membership).running() as worker:
        await running_a(worker)
        monkeypatch.setattr(leadership, "LEADER_WAIT_S", 0.1)
        membership.is_leader, membership.leader_url, membership.silence = False, None, SILENCE
        worker.herder.membership_changed()
        with pytest.raises(NotLeader) as caught:
            await worker.herder.configs.stop("a")
    assert str(caught.value) == (
        "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway. This "
        "worker has had no contact with its own cluster since 2023-11-14 22:13:20 UTC: broker a:9092: Connection refused. "
        "Repeat the request when the cluster answers again"
    )
    assert caught.value.status == 409


async def test_a_write_waits_for_the_group_to_be_joined() -> None:
    membership = FakeMembership(is_leader=False, leader_url=None, generation=-1)
    async with FakeWorker(membership=membership).running() as worker:
        creation = asyncio.create_task(worker.herder.configs.create("a", source_config(), None))
        await asyncio.sleep(0.05)
        assert not creation.done()
        membership.is_leader, membership.leader_url, membership.generation = True, "http://me", 1
        worker.herder.membership_changed()
        await creation
        await worker.state("a", "RUNNING", ["RUNNING"])


async def test_a_worker_that_loses_its_place_stops_everything_and_says_nothing() -> None:
    membership = FakeMembership()
    async with FakeWorker(membership=membership).running() as worker:
        await running_a(worker)
        membership.is_leader, membership.leader_url = False, None
        worker.herder.membership_changed()
        await eventually(lambda: not worker.connectors.running and not worker.supervisor.wanted)
        assert worker.supervisor.retired
        assert (worker.states("a")[-1], worker.states("a-0")[-1]) == ("RUNNING", "RUNNING")
        membership.is_leader, membership.leader_url = True, "http://me"
        worker.herder.membership_changed()
        await eventually(lambda: worker.states("a-0")[1:] == ["RUNNING", "UNASSIGNED", "RUNNING"])


async def test_what_is_taken_over_says_so_in_its_trace() -> None:
    worker = FakeWorker()
    left_behind(worker)
    worker.connectors.silent.add("a")
    worker.supervisor.silent.add(TASK_0)
    async with worker.running():
        await worker.state("a", "UNASSIGNED", ["UNASSIGNED"])
        status = await worker.herder.connectors.status("a")
    traces = [state.trace for state in (status.connector, *status.tasks.values())]
    assert traces == ["This worker is taking it over."] * 2


async def test_a_standby_that_loses_its_place_says_so_and_when_it_has_one_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    membership = FakeMembership(is_leader=False, leader_url="http://other")
    async with FakeWorker(membership=membership).running() as worker:
        await eventually(lambda: len(caplog.messages) == 1, 60)
        membership.leader_url = None
        worker.herder.membership_changed()
        await eventually(lambda: len(caplog.messages) == 2, 60)
        membership.leader_url = "http://other"
        worker.herder.membership_changed()
        await eventually(lambda: len(caplog.messages) == 3, 60)
    assert caplog.messages[1] == "Lost group membership; rejoining. The last known leader is http://other"
    assert caplog.messages[0] == caplog.messages[2] == "This worker is in its group; the leader is http://other"


async def test_a_worker_that_has_left_its_group_by_itself_says_so_only_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    membership = FakeMembership(is_leader=False, leader_url="http://other")
    async with FakeWorker(membership=membership).running() as worker:
        await eventually(lambda: len(caplog.messages) == 1, 60)
        moved: list[bool] = []
        worker.herder.leadership.add_listener(lambda: moved.append(True))
        membership.leader_url, membership.silence = None, SteppedOut(1_700_000_000, "it is blind")
        worker.herder.membership_changed()
        await eventually(lambda: bool(moved), 60)
        assert (await worker.herder.health()).status == "unhealthy"
        assert "it is blind" in (await worker.herder.health()).message
        membership.leader_url, membership.silence = "http://other", None
        worker.herder.membership_changed()
        await eventually(lambda: len(caplog.messages) == 2, 60)
    assert caplog.messages == ["This worker is in its group; the leader is http://other"] * 2
