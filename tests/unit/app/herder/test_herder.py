"""A worker's start and end, its health, and the secrets that are in use."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.supervisor.readiness import Readiness
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, source_config
from tests.fakes.running_connector import (
    SILENCE,
    left_behind,
    running_a,
)


async def test_without_word_from_its_cluster_a_worker_is_not_healthy(worker: FakeWorker) -> None:
    await eventually(lambda: worker.herder.leadership.term is not None)
    await asyncio.sleep(0.01)
    # Nobody has asked for its health before.
    worker.membership.is_leader, worker.membership.leader_url, worker.membership.silence = False, None, SILENCE
    health = await worker.herder.health()
    assert (health.status, "no contact with its own cluster" in health.message) == ("unhealthy", True)


async def test_a_worker_that_has_not_joined_its_group_is_starting_though_it_answers() -> None:
    # As after a kill: the broker waits for the session of the killed process.
    worker = FakeWorker(membership=FakeMembership(is_leader=False, leader_url=None, generation=-1))
    async with worker.running():
        assert (await worker.herder.server_info()).kafka_cluster_id
        before = await worker.herder.health()
        worker.membership.is_leader = True
        worker.herder.membership_changed()
        await eventually(lambda: worker.herder.leadership.term is not None)
        after = await worker.herder.health()
        # A rebalance later on is no start.
        worker.membership.is_leader = False
        later = await worker.herder.health()
    assert [each.status for each in (before, after, later)] == ["starting", "healthy", "healthy"]


async def test_a_standby_is_healthy_as_soon_as_it_knows_who_leads() -> None:
    worker = FakeWorker(membership=FakeMembership(is_leader=False))
    async with worker.running():
        assert (await worker.herder.health()).status == "healthy"


async def test_the_secrets_in_use_are_those_of_stored_configs_and_of_what_runs(worker: FakeWorker) -> None:
    reference = "${file:/secrets:password}"
    await running_a(worker, my__password="in-clear", source__cluster__ssl__key__password=reference)
    running = await worker.herder.secrets()
    await worker.herder.configs.pause("a")
    await worker.state("a", "PAUSED")
    await eventually(lambda: not worker.connectors.running)
    paused = await worker.herder.secrets()
    await worker.herder.configs.delete("a")
    gone = await worker.herder.secrets()
    found = [{"in-clear", "hunter2-hunter2"} & each for each in (running, paused, gone)]
    assert found == [{"in-clear", "hunter2-hunter2"}, {"in-clear"}, set()]


async def test_a_worker_goes_on_with_what_the_topics_hold() -> None:
    first = FakeWorker()
    async with first.running():
        await running_a(first)
        await first.herder.configs.create("p", source_config(), TargetState.PAUSED)
        await first.state("p", "PAUSED")
    assert (first.states("a")[-1], first.states("a-0")[-1]) == ("UNASSIGNED", "UNASSIGNED")
    written = first.written()
    second = FakeWorker(first.config_topic, first.status_topic)
    async with second.running():
        await second.state("a", "RUNNING", ["RUNNING"])
        await second.state("p", "PAUSED")
    assert second.written() == written


async def test_a_stopped_worker_leaves_word_of_what_follows() -> None:
    worker = FakeWorker()
    async with worker.running():
        await running_a(worker)
    line = "Its worker has stopped. Another worker of the group takes over, or the next one that starts."
    assert (worker.trace("a"), worker.trace("a-0")) == (line, line)


async def test_a_worker_stopped_in_the_middle_of_its_takeover_starts_nothing_and_leaves_nothing_running() -> None:
    worker, topic_is_read = FakeWorker(), asyncio.Event()
    left_behind(worker)
    refresh = worker.statuses.refresh

    async def slow_refresh() -> None:
        await topic_is_read.wait()
        await refresh()

    worker.statuses.refresh = slow_refresh  # type: ignore[method-assign]
    async with worker.running():
        await asyncio.sleep(0.01)
        await worker.herder.stop_connectors()
        topic_is_read.set()
        await asyncio.sleep(0.05)
    assert (worker.connectors.log, worker.states("a")[-1], worker.states("a-0")[-1]) == ([], "UNASSIGNED", "UNASSIGNED")


async def test_a_worker_stopped_as_it_starts_to_answer_leaves_nothing_running() -> None:
    worker = FakeWorker()
    left_behind(worker)
    async with worker.running():
        pass
    assert (worker.states("a")[-1], worker.states("a-0")[-1]) == ("UNASSIGNED", "UNASSIGNED")


async def test_a_standby_that_is_stopped_says_nothing_of_what_runs_elsewhere() -> None:
    worker = FakeWorker(membership=FakeMembership(is_leader=False, leader_url="http://other"))
    left_behind(worker)
    async with worker.running():
        await asyncio.sleep(0.01)
    assert (worker.states("a"), worker.states("a-0")) == (["RUNNING"], ["RUNNING"])


@pytest.mark.parametrize("readiness", Readiness)
async def test_health_says_whether_tasks_can_begin(worker: FakeWorker, readiness: Readiness) -> None:
    await eventually(lambda: worker.herder.leadership.complete)
    worker.supervisor.readiness = readiness
    health = await worker.herder.health()
    assert health.status == "healthy"
    assert health.message.startswith("Worker has completed startup and is ready to handle requests.")
    assert health.message.endswith("no task can begin on it.") == (readiness is not Readiness.READY)
    # Why is a line of its Spark.
    worker.supervisor.absence = "spark.master=spark://m:7077 can't be reached."
    told = (await worker.herder.health()).message
    assert told.endswith("begin on it. spark.master=spark://m:7077 can't be reached.") == (
        readiness is not Readiness.READY
    )
