"""Offset topics of other clusters: one for each cluster and login, closed when nobody asked for a while."""

from __future__ import annotations

import asyncio
from typing import cast

from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.offset_stores import OffsetStores, OpenStore
from mirror_connect.app.worker_connectors.target_choice import Target


class Clusters:
    """Opens stores that are no more than names."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    async def open(self, target: Target) -> OpenStore:
        name = f"{target.producer['bootstrap.servers']}/{target.producer['sasl.jaas.config']}{target.offsets_topic}"
        self.opened.append(name)

        async def close() -> None:
            self.closed.append(name)

        return OpenStore(cast("OffsetStore", name), target.offsets_topic or "connect-offsets", 1, close)

    def stores(self, idle_s: float = 600.0) -> OffsetStores:
        return OffsetStores(lambda: OpenStore(cast("OffsetStore", "own"), "connect-offsets", 1), self.open, idle_s)


def target(login: str = "a", *, own: bool = False, topic: str = "") -> Target:
    return Target(own, {"bootstrap.servers": "b:1", "sasl.jaas.config": login}, {}, offsets_topic=topic)


async def test_the_same_way_to_a_cluster_is_opened_once() -> None:
    clusters = Clusters()
    stores = clusters.stores()
    await asyncio.gather(stores.of(target()), stores.of(target()))
    assert clusters.opened == ["b:1/a"]


async def test_two_logins_to_one_address_have_a_store_each() -> None:
    clusters = Clusters()
    stores = clusters.stores()
    found = [(await stores.of(target(login))).store for login in ("a", "b")]
    assert found == ["b:1/a", "b:1/b"]


async def test_a_store_nobody_asks_for_is_closed_and_opened_again_when_needed() -> None:
    clusters = Clusters()
    stores = clusters.stores(idle_s=0)
    await stores.of(target())
    while not clusters.closed:
        await asyncio.sleep(0)
    await stores.of(target())
    assert clusters.opened == ["b:1/a", "b:1/a"]


async def test_a_store_in_use_stays_open() -> None:
    clusters = Clusters()
    stores = clusters.stores()
    await stores.of(target())
    await stores.of(target())
    assert clusters.closed == []


async def test_all_are_closed_at_the_end_and_the_workers_own_is_left_alone() -> None:
    clusters = Clusters()
    stores = clusters.stores()
    await stores.of(target())
    await stores.of(target(own=True))
    await stores.stop()
    assert clusters.closed == ["b:1/a"]


async def test_a_connectors_own_topic_is_opened_beside_the_workers() -> None:
    clusters = Clusters()
    stores = clusters.stores()
    found = await stores.of(target(own=True, topic="/mine"))
    await stores.of(target(own=True, topic="/mine"))
    assert (clusters.opened, found.topic) == (["b:1/a/mine"], "/mine")
    await stores.stop()
    assert clusters.closed == ["b:1/a/mine"]


async def test_a_connectors_own_topic_on_another_cluster_lies_above_the_common_one_there() -> None:
    clusters = Clusters()
    await clusters.stores().of(target(topic="/mine"))
    assert clusters.opened == ["b:1/a", "b:1/a/mine"]
