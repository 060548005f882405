"""Offset syncs are written best effort: with a lease, newest kept after a failure, one problem while it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import ProblemCode, Problems
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.rights import SOURCE_USER, to_create
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.spark_jobs.mapping import offset_syncs_writer
from mirror_connect.spark_jobs.mapping.offset_syncs_writer import BACKOFF_MAX_S, BACKOFF_S, QUIET_TRIES, OffsetSyncs
from tests.fakes.producer_rig import until
from tests.fakes.target_cluster import lost
from tests.fakes.whole_cluster import FakeBroker, FakeCluster

TOPIC = "mm2-offset-syncs.B.internal"
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOT_LEADER, TIMED_OUT, DENIED = 6, 7, 29


class World:
    """A source cluster with the topic, and the writer of a task."""

    def __init__(self) -> None:
        self.source = FakeBroker()
        self.source.topic(TOPIC)
        self.cluster = FakeCluster(self.source)
        self.leased = True
        self.notices: list[str] = []
        self.counters: dict[str, int] = {}
        self.writer: OffsetSyncs

    def create(self) -> None:
        self.writer = OffsetSyncs(
            {"bootstrap.servers": "a"},
            "syncs",
            TOPIC,
            "source cluster A",
            0,
            user=SOURCE_USER,
            lease=lambda: self.leased,
            problems=Problems(self.notices.append),
            counters=self.counters,
        )

    def acked(self, *offsets: int, partition: TopicPartition = P) -> None:
        """Records were acknowledged, each of them a sync."""
        for offset in offsets:
            self.writer.queue.acked(partition, offset, offset)

    @property
    def written(self) -> list[int]:
        return [OffsetSync.decode(*record).upstream for record in self.source.records(TOPIC)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.writer.run())
        try:
            yield
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(offset_syncs_writer, "Cluster", lambda *_: made.cluster)
    monkeypatch.setattr(offset_syncs_writer, "PACE_S", 0.002)
    monkeypatch.setattr(offset_syncs_writer, "BACKOFF_S", 0.002)
    monkeypatch.setattr(offset_syncs_writer, "BACKOFF_MAX_S", 0.004)
    made.create()
    return made


def failing(error: int, times: int) -> Callable[[Produce], int]:
    """The first requests get this error."""
    codes = [error] * times
    return lambda _request: codes.pop() if codes else 0


async def test_syncs_are_written_in_order_and_counted(world: World) -> None:
    world.acked(3, 5, 8)
    await world.writer.flush(60)
    assert (world.written, world.counters) == ([3, 5, 8], {"syncs": 3})


async def test_without_syncs_nothing_is_sent(world: World) -> None:
    await world.writer.flush(60)
    assert world.source.producers.requests == []


async def test_without_a_lease_syncs_wait(world: World) -> None:
    world.acked(3)
    world.leased = False
    await world.writer.flush(60)
    assert world.written == []
    world.leased = True
    await world.writer.flush(60)
    assert world.written == [3]


async def test_requests_stay_small_and_what_one_has_written_is_not_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_syncs_writer, "SYNCS_IN_REQUEST", 2)
    world.acked(1, 3, 5)
    world.acked(11, 13, partition=Q)
    codes = [0, TIMED_OUT]
    world.source.producers.before = lambda _request: codes.pop(0) if codes else 0
    async with world.running():
        await until(lambda: len(world.written) >= 4)
    assert world.written == [1, 3, 5, 13]


async def test_after_a_failure_only_the_newest_sync_of_each_partition_is_written_again(world: World) -> None:
    world.acked(1, 3, 5)
    world.acked(11, 13, partition=Q)
    world.source.producers.before = failing(NOT_LEADER, 1)
    async with world.running():
        await until(lambda: len(world.written) >= 2)
    assert world.written == [5, 13]


async def test_a_task_that_ends_does_not_wait_for_a_topic_that_has_failed(world: World) -> None:
    world.acked(1)
    world.source.producers.before = failing(TIMED_OUT, 1)
    await world.writer.flush(60)
    await world.writer.flush(60)
    assert (len(world.source.producers.requests), world.written) == (1, [])


async def test_a_task_that_ends_waits_no_longer_than_it_has_time(world: World) -> None:
    world.acked(1)
    world.source.producers.delay = lambda: 600.0
    await asyncio.wait_for(world.writer.flush(0.01), 60)
    assert world.written == []


async def test_metadata_is_read_once_and_again_after_a_failure(world: World) -> None:
    refreshes = []
    for _ in range(2):
        world.acked(len(refreshes) * 10 + 1)
        await world.writer.flush(60)
        refreshes.append(world.cluster.refreshes)
    world.acked(31)
    world.source.producers.before = failing(NOT_LEADER, 1)
    async with world.running():
        await until(lambda: 31 in world.written)
    assert [*refreshes, world.cluster.refreshes] == [1, 1, 2]


@pytest.mark.parametrize(
    ("failures", "lines"), [(QUIET_TRIES, 0), (QUIET_TRIES + 1, 2)], ids=["a_few_failures", "one_more"]
)
async def test_a_topic_is_a_problem_after_some_failures_until_it_is_written(
    world: World, failures: int, lines: int
) -> None:
    shown = []
    before = failing(TIMED_OUT, failures)

    def watch(request: Produce) -> int:
        shown.append(world.writer.problem)
        return before(request)

    world.source.producers.before = watch
    world.acked(1)
    async with world.running():
        await until(lambda: bool(world.written))
        await until(lambda: world.writer.problem is None)
    codes = [problem.code for problem in shown if problem is not None]
    assert codes == [ProblemCode.OFFSET_SYNCS_UNWRITTEN] * (lines // 2)
    assert len(world.notices) == lines
    assert world.notices[1:] == [f"Offset syncs are written again to topic {TOPIC} on the source cluster A"] * (
        lines // 2
    )


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        pytest.param(
            lambda broker: broker.logs.clear(),
            f"it does not exist there; its connector creates it: {to_create(TOPIC).grant(SOURCE_USER)}",
            id="no_topic",
        ),
        pytest.param(
            lambda broker: setattr(broker.producers, "before", lambda _request: DENIED),
            f"not authorized: grant WRITE on topic {TOPIC} to the source user",
            id="no_right",
        ),
        pytest.param(lambda broker: setattr(broker, "away", True), "no broker answers at fake:1", id="unreachable"),
    ],
)
async def test_the_problem_has_the_cause(world: World, spoil: Callable[[FakeBroker], None], cause: str) -> None:
    spoil(world.source)
    world.acked(1)
    async with world.running():
        await until(lambda: world.writer.problem is not None)
    assert world.writer.problem is not None
    assert cause in world.writer.problem.line


async def test_a_lost_connection_is_no_end(world: World) -> None:
    losses = [lost(), lost()]

    def lose(_request: Produce) -> int:
        if losses:
            raise losses.pop()
        return 0

    world.source.producers.before = lose
    world.acked(1)
    async with world.running():
        await until(lambda: world.written == [1])


async def test_pauses_between_tries_double_up_to_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_syncs_writer, "BACKOFF_S", BACKOFF_S)
    monkeypatch.setattr(offset_syncs_writer, "BACKOFF_MAX_S", BACKOFF_MAX_S)
    world.source.away = True
    world.acked(1)
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds >= BACKOFF_S:
            pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    async with world.running(), asyncio.timeout(10):
        while len(pauses) < 7:
            await sleep(0)
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
