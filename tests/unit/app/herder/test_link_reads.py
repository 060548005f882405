"""Topics, partitions and groups of a link: their order, pages and problems, and what is forgotten."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence

import pytest

from mirror_connect.app.errors import LinkNotFound, NotFound
from mirror_connect.app.herder.link_views import TopicOrder, worst
from mirror_connect.app.herder.link_watch import LinkWatch
from mirror_connect.app.herder.links import aliases_of, kind_of
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_measures import BUCKETS, PartitionMeasures, TaskMeasures
from mirror_connect.connectors.task_protocol import RUNNING, TaskId, TaskReport
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
from tests.fakes.made_up_links import Hand

TASK = TaskId("c", 0)
LINK = "A->B"


class World:
    """A worker with a link of one source connector, whose one task tells what a test wants."""

    def __init__(self, worker: FakeWorker, hand: Hand) -> None:
        self.worker = worker
        self.hand = hand
        self.links = worker.herder.links
        self.metrics = worker.metrics

    async def assign(self, *partitions: str) -> None:
        running = self.worker.connectors.running["c"]
        joined = ",".join(partitions)
        # The task goes on with them: nothing else of its config changes.
        config = {**running.raw, "task.index": "0", ASSIGNED_PARTITIONS: joined}
        running.context.request_task_reconfiguration([config])
        await eventually(lambda: self.worker.configs.snapshot().tasks("c")[0].get(ASSIGNED_PARTITIONS) == joined)

    def tell(
        self,
        *rows: tuple[str, int, int | None, int, int | None],
        problems: Sequence[Problem] = (),
        latency_counts: tuple[int, ...] = (),
    ) -> None:
        """Rows of topic, partition, lag, records, age of the oldest missing record in seconds."""
        told = tuple(
            PartitionMeasures(
                topic,
                partition,
                f"A.{topic}",
                records - 1,
                None if lag is None else records + lag,
                lag,
                None if age_s is None else self.hand.ms - age_s * 1000,
                0,
                records,
                records * 100,
            )
            for topic, partition, lag, records, age_s in rows
        )
        measures = TaskMeasures(self.hand.ms, told, latency_counts=latency_counts)
        report = TaskReport("x", 1, RUNNING, settled=True, problems=tuple(problems), measures=measures)
        self.metrics.take(TASK, report, ())
        self.hand.s += 0.5


@pytest.fixture
async def world() -> AsyncIterator[World]:
    hand = Hand()
    async with FakeWorker(metrics=WorkerMetrics(hand.clock, hand.wall_clock)).running() as worker:
        worker.herder._link_watch.stop()  # time passes here by hand
        await worker.herder.configs.create("c", source_config(), None)
        await worker.state("c", "RUNNING", ["RUNNING"])
        yield World(worker, hand)


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (TopicOrder.LAG, ["much", "old", "dead", "untold", "fast", "rest"]),
        (TopicOrder.SECONDS, ["old", "much", "dead", "untold", "fast", "rest"]),
        (TopicOrder.RATE, ["fast", "much", "old", "untold", "dead", "rest"]),
        (TopicOrder.NAME, ["dead", "fast", "much", "old", "rest", "untold"]),
    ],
)
async def test_the_largest_comes_first_and_the_unknown_before_0(
    world: World, order: TopicOrder, names: list[str]
) -> None:
    await world.assign("much-0", "old-0", "fast-0", "rest-0", "dead-0", "untold-0")
    told = [("much", 0, 900, 5, 3), ("old", 0, 1, 4, 90), ("fast", 0, 0, 99, None), ("rest", 0, 0, 0, None)]
    world.tell(*told, ("dead", 0, None, 0, None))
    total, rows = await world.links.topics(LINK, order=order, limit=10)
    assert (total, [row.topic for row in rows]) == (6, names)


async def test_a_page_and_its_search_by_both_names(world: World) -> None:
    await world.assign("orders-0", "orders-1", "payments-0", "orders.eu-0")
    world.tell(("orders", 0, 0, 1, None), ("payments", 0, 3, 1, 1))
    page = await world.links.topics(LINK, order=TopicOrder.NAME, limit=1, offset=1)
    assert (page[0], [row.topic for row in page[1]]) == (3, ["orders.eu"])
    assert (await world.links.topics(LINK, search="ORDERS", limit=10))[0] == 2
    # The remote topic of orders.eu is not told yet.
    assert (await world.links.topics(LINK, search="a.orders", limit=10))[0] == 1
    assert (await world.links.topics(LINK, search="nothing", limit=10)) == (0, [])


async def test_the_lag_of_a_topic_is_that_of_its_partitions(world: World) -> None:
    await world.assign("orders-0", "orders-1", "orders-2")
    world.tell(("orders", 0, 5, 10, 8), ("orders", 1, 7, 20, 3))
    row = (await world.links.topics(LINK, limit=10))[1][0]
    assert (row.lag.records, row.lag.behind, row.lag.unknown, row.partitions) == (12, 2, 1, 3)
    assert row.lag.seconds == pytest.approx(8.5)
    assert (row.remote_topic, row.latency) == ("A.orders", None)
    assert row.rate is not None


async def test_partitions_of_a_topic(world: World) -> None:
    await world.assign("orders-0", "orders-1")
    world.tell(("orders", 0, 5, 10, 8))
    remote_topic, (first, second) = await world.links.topic(LINK, "orders")
    assert remote_topic == "A.orders"
    assert (first.source_offset, first.log_end, first.lag_records, first.records, first.bytes) == (9, 15, 5, 10, 1_000)
    assert (first.task, second.task, second.lag_records, second.records) == (0, 0, None, None)
    with pytest.raises(NotFound):
        await world.links.topic(LINK, "payments")
    with pytest.raises(LinkNotFound):
        await world.links.topic("A->C", "orders")


@pytest.mark.parametrize(
    ("subject", "code", "topics"),
    [
        ("source partition orders-0", ProblemCode.PARTITION_UNREADABLE, {"orders"}),
        ("orders-1", ProblemCode.PARTITION_STALLED_BATCH_CORRUPT, {"orders"}),
        ("A.orders-0", ProblemCode.PRODUCER_STATE_LOST, {"orders"}),
        ("target partition A.orders-1", ProblemCode.PARTITION_UNWRITABLE, {"orders"}),
        ("A.orders", ProblemCode.PARTITION_WRITE_DENIED, {"orders"}),
        ("1", ProblemCode.TOPIC_NOT_COPIED, {"1"}),
        ("broker 1", ProblemCode.BROKER_UNREACHABLE, set()),
        # A group of the same name.
        ("orders", ProblemCode.GROUP_UNREADABLE, set()),
        ("source cluster A", ProblemCode.CLUSTER_UNREACHABLE, set()),
    ],
)
async def test_a_problem_is_shown_with_the_topic_that_it_names(
    world: World, subject: str, code: ProblemCode, topics: set[str]
) -> None:
    await world.assign("orders-0", "orders-1", "1-0")
    problem = Problem(subject, code, "It can't be read")
    world.tell(("orders", 0, 0, 1, None), ("orders", 1, 0, 1, None), ("1", 0, 0, 1, None), problems=[problem])
    rows = (await world.links.topics(LINK, limit=10))[1]
    assert {row.topic for row in rows if row.problem == "It can't be read"} == topics


async def test_groups_are_known_before_their_task_tells_of_them(world: World) -> None:
    running = world.worker.connectors.running["c"]
    running.context.request_task_reconfiguration([{**running.raw, "task.assigned.groups": "beta,alpha"}])
    await eventually(lambda: "task.assigned.groups" in world.worker.configs.snapshot().tasks("c")[0])
    total, rows = await world.links.groups(LINK, limit=1)
    assert (total, [row.group for row in rows], rows[0].read_again) == (2, ["alpha"], None)
    assert (await world.links.groups(LINK, search="BET", limit=9))[0] == 1


async def test_partitions_that_nobody_copies_any_more_are_forgotten_and_their_counts_are_not(world: World) -> None:
    await world.assign("orders-0", "orders-1")
    world.tell(("orders", 0, 0, 10, None), ("orders", 1, 0, 20, None))
    await world.assign("orders-0")
    for _ in range(2):  # nothing has changed at the second time
        world.links.forget_unused()
    connector = world.metrics.connector("c")
    assert set(connector.partitions) == {TopicPartition("orders", 0)}
    assert connector.growth.records == 30
    # A late row of one that is gone.
    world.tell(("orders", 1, 0, 25, None))
    world.links.forget_unused()
    assert set(connector.partitions) == {TopicPartition("orders", 0)}


async def test_a_stopped_connector_keeps_its_counts(world: World) -> None:
    await world.assign("orders-0")
    world.tell(("orders", 0, 0, 10, None))
    await world.worker.herder.configs.stop("c")
    await world.worker.state("c", "STOPPED", [])
    world.links.forget_unused()
    assert world.metrics.connector("c").partitions[TopicPartition("orders", 0)].growth.records == 10
    view = (await world.links.all())[0]
    assert (view.state, view.partitions) == ("STOPPED", 0)


class Text(str):
    """Knows how often it was written in small letters."""

    __slots__ = ()
    times = 0

    def lower(self) -> str:
        type(self).times += 1
        return super().lower()


async def test_a_long_search_costs_no_more_for_many_groups(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    members = [each for link in world.links.present() for each in link.members]
    groups = tuple(f"group-{number}" for number in range(500))
    many = [dataclasses.replace(each, assigned=dataclasses.replace(each.assigned, groups=groups)) for each in members]
    link = dataclasses.replace(world.links.present()[0], members=tuple(many))
    monkeypatch.setattr(world.links, "present", lambda: [link])
    assert (await world.links.groups(LINK, search=Text("GROUP-49"), limit=2))[0] == 11
    assert Text.times == 1


async def test_a_history_has_rates_of_its_steps_and_unknown_where_nothing_was_told(world: World) -> None:
    await world.assign("orders-0")
    watch = LinkWatch(world.links)
    counts = [0] * BUCKETS
    for step in range(4):
        counts[3] += 100
        world.tell(("orders", 0, 7, 100 * step, 2), latency_counts=tuple(counts))
        await watch.look()
        world.hand.s += 9.5
    world.hand.s += 10
    await watch.look()
    points = await world.links.history(LINK, 60)
    # Nothing is known of the first step, which may have had any length.
    assert [point.records for point in points] == [10.0, 10.0, 10.0, None]
    assert [point.lag_records for point in points] == [7, 7, 7, None]
    assert points[0].latency_p50_ms is not None
    assert points[0].latency_p50_ms <= 10
    assert points[-1].latency_p50_ms is None
    assert {point.time_ms % 10_000 for point in points} == {0}
    assert {point.state for point in points} == {"RUNNING"}


async def test_a_history_has_no_0_while_a_partition_is_unknown(world: World) -> None:
    await world.assign("orders-0", "orders-1")
    watch = LinkWatch(world.links)
    at_rest = [("orders", number, 0, 5, None) for number in range(2)]
    for rows in (at_rest[:1], at_rest[:1], at_rest):
        world.tell(*rows)
        await watch.look()
        world.hand.s += 9.5
    assert [point.lag_seconds for point in await world.links.history(LINK, 60)] == [None, 0]


async def test_a_look_within_a_step_adds_no_point(world: World) -> None:
    watch = LinkWatch(world.links)
    for _ in range(25):
        await watch.look()
        world.hand.s += 1.0
    assert len(await world.links.history(LINK, 60)) == 2


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["RUNNING", "FAILED", "UNASSIGNED"], "FAILED"),
        (["RUNNING", "UNASSIGNED", "PAUSED"], "UNASSIGNED"),
        (["PAUSED", "RESTARTING"], "RESTARTING"),
        (["STOPPED", "PAUSED"], "PAUSED"),
        (["RUNNING", "STOPPED"], "STOPPED"),
        (["RUNNING"], "RUNNING"),
        ([], "UNASSIGNED"),
    ],
)
def test_the_worst_state_counts(states: list[str], state: str) -> None:
    assert worst(states) == state


def test_a_link_is_what_has_the_same_aliases() -> None:
    assert aliases_of({"source.cluster.alias": "A"}) == ("A", "target")
    assert aliases_of({"source.cluster.alias": "${file:/x:y}", "target.cluster.alias": "B"}) == ("${file:/x:y}", "B")
    assert aliases_of({"source.cluster.alias": None}) == ("?", "target")
    assert kind_of({"connector.class": "MirrorHeartbeat"})[1] == "heartbeat"
    assert kind_of({"connector.class": "com.example.Other"}) == ("com.example.Other", None)
