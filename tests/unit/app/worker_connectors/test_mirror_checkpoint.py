"""A checkpoint connector in the worker: which groups its tasks get when groups come, go, and can't be read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from mirror_connect.app.worker_connectors import mirror_checkpoint, scheduler
from mirror_connect.app.worker_connectors.mirror_checkpoint import MirrorCheckpointConnector
from mirror_connect.app.worker_connectors.source_groups import SeenGroups
from mirror_connect.app.worker_connectors.target_choice import Target, TargetChooser
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint, assigned_groups
from tests.fakes.connector_context import FakeContext


class Targets(TargetChooser):
    def __init__(self) -> None:
        pass

    def choose(self, config: object, timeout: float = 30.0) -> Target:
        return Target(True, {}, {"bootstrap.servers": "b"})


class Admin:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def cluster_id(self) -> str:
        return "id"


class World:
    """`seen`: what each look at the source finds, until something else is set."""

    def __init__(self) -> None:
        self.seen: SeenGroups | Exception = seen("g1", "g2", "g3")
        self.topics: list[object] = []
        self.connectors: list[MirrorCheckpointConnector] = []

    def look(self, *_: object) -> SeenGroups:
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    def make(self, _admin: object, *what: object) -> None:
        self.topics.append(what)

    def start(self, *previous: str, **more: str) -> FakeContext:
        config = {
            "name": "c",
            "connector.class": "MirrorCheckpoint",
            "source.cluster.alias": "A",
            "source.cluster.bootstrap.servers": "a:1",
            "refresh.groups.interval.seconds": "1",
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        settings, host = MirrorCheckpoint().settings(config), FakeContext()
        connector = MirrorCheckpointConnector(config, settings, Targets(), host, previous=previous)
        # A second is long for a test.
        connector._scheduler._every_s = min(connector._scheduler._every_s, 0.01)
        self.connectors.append(connector)
        connector.start()
        return host


def seen(*wanted: str, others: tuple[str, ...] = (), **more: dict[str, str]) -> SeenGroups:
    return SeenGroups(wanted, frozenset({*wanted, *others}), **more)


def assigned(host: FakeContext) -> list[list[str]]:
    return [assigned_groups(task) for task in host.tasks]


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    made = World()
    monkeypatch.setattr(mirror_checkpoint, "make_internal_topic", made.make)
    monkeypatch.setattr(mirror_checkpoint, "see_groups", made.look)
    monkeypatch.setattr(mirror_checkpoint, "ClusterAdmin", Admin)
    monkeypatch.setattr(scheduler, "RETRY_S", (0.01,))
    yield made
    for connector in made.connectors:
        await connector.stop()


Warnings = Callable[[], list[str]]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    return lambda: [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_groups_are_dealt_in_chunks_and_the_topic_is_made_once(world: World) -> None:
    host = world.start(tasks__max="2")
    await host.task_requests(2)
    topic = ("c", "A.checkpoints.internal", "checkpoints.topic.replication.factor", 3)
    assert (assigned(host), world.topics) == ([["g1", "g2"], ["g3"]], [topic])


async def test_a_group_that_appears_is_dealt(world: World) -> None:
    host = world.start()
    await host.task_requests()
    world.seen = seen("g1", "g2", "g3", "g4")
    await host.until(lambda _: assigned(host) == [["g1", "g2", "g3", "g4"]])


async def test_a_group_that_vanishes_is_named_once_and_its_task_goes(world: World, warnings: Warnings) -> None:
    host = world.start()
    await host.task_requests()
    world.seen = seen("g1", "g3")
    await host.until(lambda _: assigned(host) == [["g1", "g3"]])
    await host.task_requests(2)
    assert warnings() == [
        "Connector c: a group is gone from the source; what was translated for it stays on the target: g2"
    ]


async def test_a_group_that_vanished_while_nobody_looked_is_named_too(world: World, warnings: Warnings) -> None:
    host = world.start("g1", "gone")
    await host.task_requests()
    assert [line for line in warnings() if line.endswith(": gone")] != []


async def test_groups_that_match_nothing_are_told_once(world: World, warnings: Warnings) -> None:
    world.seen = seen(others=("shop",))
    host = world.start(groups="shp-.*")
    await host.task_requests(3)
    assert warnings() == [
        "Connector c: groups=shp-.* matches none of the 1 group of source cluster A, so nothing is translated; names and "
        "expressions stand for whole group names"
    ]


async def test_a_group_that_cannot_be_read_stays_where_it_was_and_the_others_are_dealt(world: World) -> None:
    host = world.start("g2")
    world.seen = seen("g1", others=("g2", "g9"), unreadable={"g2": "denied", "g9": "denied"})
    await host.task_requests()
    assert (assigned(host), host.heard[1]) == (
        [["g1", "g2"]],
        ("problem", "group g2 can't be read: denied; group g9 can't be read: denied"),
    )


async def test_groups_that_are_none_of_consumers_are_named_once(world: World, warnings: Warnings) -> None:
    world.seen = seen("g1", others=("s",), untranslatable={"s": "share", "t": "streams"})
    host = world.start()
    await host.task_requests(3)
    assert warnings() == [
        f"Connector c: no offsets of {kind} groups are translated, as they are not those of a consumer group: {name}"
        for kind, name in (("share", "s"), ("streams", "t"))
    ]


@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testConsumerGroupInitializeTimeout")
async def test_a_source_that_is_away_at_the_start_does_not_fail_the_connector(world: World) -> None:
    world.seen = ClusterUnreachable("away")
    host = world.start()
    await host.until(lambda heard: ("problem", "away") in heard)
    world.seen = seen("g1")
    await host.task_requests()
    assert ("started" in host.heard, assigned(host)) == (True, [["g1"]])


@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testReplicationDisabled")
async def test_a_disabled_connector_runs_without_tasks(world: World) -> None:
    host = world.start(enabled="false")
    assert (host.heard, world.topics) == (["started", []], [])


@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testNoConsumerGroup")
async def test_without_groups_there_are_no_tasks(world: World) -> None:
    world.seen = seen()
    host = world.start()
    await host.task_requests()
    assert assigned(host) == []


@pytest.mark.parametrize("never", [{"refresh__groups__enabled": "false"}, {"refresh__groups__interval__seconds": "0"}])
async def test_without_refreshing_it_looks_once(world: World, never: dict[str, str]) -> None:
    world.start(**never)
    going = world.connectors[0]._scheduler._going
    assert going is not None
    await going
