"""A heartbeat connector in the worker: its topic and its one task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from mirror_connect.app.worker_connectors import mirror_heartbeat, scheduler
from mirror_connect.app.worker_connectors.mirror_heartbeat import MirrorHeartbeatConnector
from mirror_connect.app.worker_connectors.target_choice import Target, TargetChooser
from mirror_connect.connectors.mirror.mirror_heartbeat import MirrorHeartbeat
from tests.fakes.connector_context import FakeContext

Start = Callable[..., FakeContext]


class Targets(TargetChooser):
    def __init__(self) -> None:
        pass

    def choose(self, config: object, timeout: float = 30.0) -> Target:
        return Target(True, {}, {"bootstrap.servers": "b"})


@pytest.fixture
def refusals() -> list[str | None]:
    """What the next creations of a topic answer; none is refused when they are used up."""
    return []


@pytest.fixture
def made() -> list[tuple[object, ...]]:
    return []


@pytest.fixture
async def start(
    monkeypatch: pytest.MonkeyPatch, refusals: list[str | None], made: list[tuple[object, ...]]
) -> AsyncIterator[Start]:
    connectors: list[MirrorHeartbeatConnector] = []

    def make(_admin: object, *what: object) -> str | None:
        made.append(what)
        return refusals.pop(0) if refusals else None

    monkeypatch.setattr(mirror_heartbeat, "make_internal_topic", make)
    monkeypatch.setattr(mirror_heartbeat, "ClusterAdmin", lambda *_, **__: None)
    monkeypatch.setattr(scheduler, "RETRY_S", (0.01,))

    def started(**more: str) -> FakeContext:
        config = {"name": "c", "connector.class": "MirrorHeartbeat", "source.cluster.alias": "A"}
        config |= {name.replace("__", "."): value for name, value in more.items()}
        host = FakeContext()
        connectors.append(MirrorHeartbeatConnector(config, MirrorHeartbeat().settings(config), Targets(), host))
        connectors[-1].start()
        return host

    yield started
    for connector in connectors:
        await connector.stop()


async def test_the_topic_is_made_and_there_is_one_task(start: Start, made: list[tuple[object, ...]]) -> None:
    host = start(heartbeats__topic__replication__factor="2")
    await host.task_requests()
    assert (len(host.tasks), made) == (1, [("c", "heartbeats", "heartbeats.topic.replication.factor", 2)])


@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testReplicationDisabled")
async def test_a_disabled_connector_beats_nevertheless_as_in_java(start: Start) -> None:
    host = start(enabled="false")
    await host.task_requests()
    assert len(host.tasks) == 1


@pytest.mark.kafka_test("MirrorHeartBeatConnectorTest.testMirrorHeartbeatConnectorDisabled")
async def test_without_heartbeats_there_is_neither_topic_nor_task(start: Start, made: list[tuple[object, ...]]) -> None:
    host = start(emit__heartbeats__enabled="false")
    assert (host.heard, made) == (["started", []], [])


async def test_a_refused_topic_is_told_and_tried_again_while_the_task_waits_for_it(
    start: Start, refusals: list[str | None]
) -> None:
    refusals.append("a policy forbids it")
    host = start()
    await host.until(lambda heard: ("problem", None) in heard)
    assert (host.heard[1], len(host.tasks)) == (("problem", "a policy forbids it"), 1)
