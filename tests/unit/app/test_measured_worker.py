"""What a scrape shows of a worker: only what it runs itself, and names that no two flows share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.exposition.exposition import ExpositionSettings, pieces_of
from mirror_connect.app.exposition.measured import MeasuredConnector, MeasuredProcess, MeasuredWorker
from mirror_connect.app.exposition.page import Format
from mirror_connect.app.herder.interfaces import OUTSIDE
from mirror_connect.app.measured_worker import measured_source, measured_worker
from mirror_connect.app.metrics.rebalances import RebalanceFigures
from mirror_connect.connectors.task_measures import Window
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeMembership, FakeWorker, source_config
from tests.fakes.measured_process import Told, measures, report, row
from tests.fakes.workers_of_group import SharingGroup


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    made = FakeWorker(membership=FakeMembership(lease_s=7.5))
    async with made.running():
        await made.herder.configs.create("c", source_config(metric__names__formats="legacy, new"), None)
        await made.state("c", "RUNNING", ["RUNNING"])
        yield made


def measured(worker: FakeWorker, flow: str = "", member: str | None = "connect-1") -> MeasuredWorker:
    configs = worker.configs.snapshot().connectors
    return measured_worker(worker.herder.links, configs, worker.membership, flow=flow, member=member)


async def test_a_leader_shows_its_connectors_with_their_formats(worker: FakeWorker) -> None:
    found = measured(worker)
    (connector,) = found.connectors
    assert (found.leads, found.lease_s, found.rebalancing, found.epoch) == (True, 7.5, False, 1)
    assert (connector.name, connector.kind, connector.source, connector.target) == ("c", "source", "A", "B")
    assert (connector.state, connector.tasks) == ("RUNNING", {0: "RUNNING"})
    assert connector.formats == {"legacy", "new"}


async def test_a_connector_shows_the_age_of_the_lookups_that_its_tasks_join_here(worker: FakeWorker) -> None:
    (connector,) = measured(worker).connectors
    assert connector.lookups == {}
    worker.supervisor.ages_of_lookups = {"c": {"regions": 12.5}, "other": {"regions": 3.0}}
    (connector,) = measured(worker, "A->B").connectors
    assert connector.lookups == {"regions": 12.5}


async def test_a_connector_of_a_flow_has_the_flow_before_its_name_and_its_clients_have_not(worker: FakeWorker) -> None:
    (connector,) = measured(worker, "A->B").connectors
    assert (connector.name, connector.bare_name) == ("A->B.c", "c")


async def test_a_standby_shows_no_connector_and_that_it_does_not_lead(worker: FakeWorker) -> None:
    worker.membership.is_leader = False
    worker.membership.leader_url = None
    found = measured(worker)
    assert (found.leads, found.connectors, found.lease_s, found.rebalancing) == (False, (), None, True)


async def test_a_worker_without_a_group_shows_nothing_of_one(worker: FakeWorker) -> None:
    found = measured(worker, member=None)
    assert (found.member, found.leader, found.rebalancing, found.epoch) == (None, None, None, None)


def test_a_source_of_mirror_maker_1_shows_the_tasks_that_report() -> None:
    told = Told()
    for number in range(2):
        told.metrics.take(TaskId("mm1", number), report(measures([row("orders", number)])), ())
    told.clock.s += 5
    told.metrics.take(TaskId("mm1", 1), report(None), ())
    told.clock.s += 6
    found = measured_source(told.metrics, flow="", name="source", lease_s=3.0)
    (connector,) = found.connectors
    assert (connector.source, connector.target, connector.tasks) == ("source", "target", {1: "RUNNING"})
    assert sorted(connector.partitions) == [("orders", 0), ("orders", 1)]


def shares(group: SharingGroup) -> list[tuple[MeasuredWorker, dict[str, MeasuredConnector]]]:
    found = [measured(worker) for worker in group.workers]
    return [(each, {connector.name: connector for connector in each.connectors}) for each in found]


async def test_each_worker_of_a_group_shows_its_share_and_together_they_show_all_once() -> None:
    async with SharingGroup(3).running([["orders-0"], ["orders-1"], ["orders-2"]]) as group:
        (leader, first), (_, second), (_, third) = shares(group)
        assert (leader.leads, leader.wanted_tasks) == (True, {("A", "B", "c"): 3})
        assert [each["c"].state for each in (first, second, third)] == ["RUNNING", None, None]
        assert [dict(each["c"].tasks) for each in (first, second, third)] == [
            {0: "RUNNING"},
            {1: "RUNNING"},
            {2: "RUNNING"},
        ]
        assert [list(each["c"].partitions) for each in (first, second, third)] == [
            [("orders", 0)],
            [("orders", 1)],
            [("orders", 2)],
        ]


async def test_the_leader_shows_what_is_assigned_to_nobody() -> None:
    async with SharingGroup(2).running([["orders-0"], ["orders-1"]]) as group:
        group.share({0: 0})
        (_, first), (other, second) = shares(group)
        assert (sorted(first["c"].tasks), sorted(first["c"].partitions)) == ([0, 1], [("orders", 0), ("orders", 1)])
        assert (second, dict(other.wanted_tasks)) == ({}, {})


async def test_a_worker_outside_the_group_shows_nothing_that_runs() -> None:
    async with SharingGroup(2).running([["orders-0"], ["orders-1"]]) as group:
        group.workers[1].membership.lease_s = 0.0
        group.workers[1].membership.assigned = OUTSIDE
        assert measured(group.workers[1]).connectors == ()


async def test_rebalances_have_kafkas_names(worker: FakeWorker) -> None:
    worker.membership.rebalanced = RebalanceFigures(True, 3, Window(100, 400, 500, 2), 7_500.0)
    told = measured(worker)
    assert told.rebalancing is True
    page = "".join(
        piece for piece in pieces_of(MeasuredProcess("1", (told,)), ExpositionSettings(), Format.TEXT) if piece
    )
    found = dict(
        line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("kafka_connect_worker_rebalance_")
    )
    assert {name.removeprefix("kafka_connect_worker_rebalance_"): float(value) for name, value in found.items()} == {
        "completed_rebalances_total": 3,
        "rebalance_avg_time_ms": 250,
        "rebalance_max_time_ms": 400,
        "time_since_last_rebalance_ms": 7_500,
        "rebalancing": 1,
        "epoch": 1,
        'leader_name{leader_name="http://worker-1:8083/"}': 1,
    }
