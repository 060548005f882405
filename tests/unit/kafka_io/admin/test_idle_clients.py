"""An admin client that nobody uses has no connection and no thread of librdkafka's. The next call makes another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from weakref import ReferenceType, ref

import pytest

from mirror_connect.kafka_io.admin import admin
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.idle_clients import IDLE_S, IdleClients


class FakeClient:
    """Stands for librdkafka's."""

    def __init__(self, world: World) -> None:
        self._world = world

    def poll(self, _seconds: float) -> None: ...

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Future[None]]:
        self._world.asked()
        done = Future[None]()
        done.set_result(None)
        return {topics[0].topic: done}


class World:
    """`look`: what the thread does every some seconds. The thread itself waits for the end of the test.

    `clients`: of each client that was made, whether it is still there. `asked`: what a call does.
    """

    def __init__(self, idle: IdleClients) -> None:
        self.now = 1_000.0
        self.idle = idle
        self.asked: Callable[[], None] = lambda: None
        self._made: list[ReferenceType[FakeClient]] = []

    def client(self, _config: object, **_: object) -> FakeClient:
        made = FakeClient(self)
        self._made.append(ref(made))
        return made

    @property
    def clients(self) -> list[bool]:
        return [each() is not None for each in self._made]

    def look(self) -> None:
        given_up = self.idle._look()
        if given_up is not None:
            given_up.clear()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    ended = threading.Event()
    world = World(IdleClients(lambda _: ended.wait(60) and None))
    monkeypatch.setattr(admin, "AdminClient", world.client)
    monkeypatch.setattr(admin, "_idle_clients", world.idle)
    monkeypatch.setattr(admin, "time", SimpleNamespace(monotonic=lambda: world.now))
    yield world
    world.idle._open.clear()
    thread = world.idle._thread
    ended.set()
    if thread is not None:
        thread.join(60)


def admin_of() -> ClusterAdmin:
    return ClusterAdmin({"bootstrap.servers": "a:1"}, "target cluster")


def test_a_client_that_is_idle_ends_and_the_next_call_makes_another(world: World) -> None:
    cluster = admin_of()
    for _ in range(2):
        cluster.create_topic("a", 1, 1)
        world.now += IDLE_S - 1
        world.look()
    assert world.clients == [True]
    world.now += 1
    world.look()
    assert world.clients == [False]
    cluster.create_topic("c", 1, 1)
    assert (world.clients, list(world.idle._open)) == ([False, True], [cluster])


def test_a_client_stays_during_a_call_however_long(world: World) -> None:
    cluster, during = admin_of(), []

    def asked() -> None:
        world.now += 10 * IDLE_S
        world.look()
        during.append(world.clients)

    world.asked = asked
    cluster.create_topic("a", 1, 1)
    world.look()
    assert (during, world.clients) == ([[True]], [True])


def test_one_that_is_being_made_is_not_waited_for(world: World) -> None:
    cluster = admin_of()
    cluster.create_topic("a", 1, 1)
    world.now += IDLE_S
    with cluster._creating:
        world.look()
    assert world.clients == [True]


def test_an_owner_that_is_gone_is_forgotten(world: World) -> None:
    admin_of().create_topic("a", 1, 1)
    assert list(world.idle._open) == []


def test_one_thread_looks_at_all_and_ends_with_the_last_client(monkeypatch: pytest.MonkeyPatch) -> None:
    class Owner:
        idle = False

        def let_go_if_idle(self, _seconds: float) -> tuple[bool, object]:
            return self.idle, None

    looked = threading.Semaphore(0)
    idle = IdleClients(lambda _: looked.release() or time.sleep(0.001))
    owners = [Owner() for _ in range(3)]
    for owner in owners:
        idle.opened(owner)
    thread = idle._thread
    assert thread is not None
    for _ in range(3):
        looked.acquire()
    assert idle._thread is thread
    Owner.idle = True
    thread.join(60)
    assert (thread.is_alive(), idle._thread) == (False, None)
    idle.opened(owners[0])
    again = idle._thread
    assert again is not None
    again.join(60)
    assert not again.is_alive()
