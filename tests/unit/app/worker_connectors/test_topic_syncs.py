"""Syncs of configs and ACLs: when they begin, and how their problems are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from mirror_connect.app.worker_connectors import topic_syncs
from mirror_connect.app.worker_connectors.acl_sync import AclSync
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from tests.fakes.source_connector import FakeCluster, World


class Follower:
    """Stands for ConfigSync: answers what it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.links: list[Mapping[str, str]] = []
        self.answers: list[list[str] | Exception] = []

    def __call__(self, settings: Any) -> Follower:
        return self

    def sync(self, source: FakeCluster, target: FakeCluster, links: Mapping[str, str]) -> list[str]:
        self.links.append(links)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch) -> Follower:
    made = Follower()
    monkeypatch.setattr(topic_syncs, "ConfigSync", made)
    return made


SYNCED = {"sync__topic__configs__enabled": "true", "sync__topic__configs__interval__seconds": "1"}


async def test_remote_topics_follow_their_sources_on_a_schedule_of_their_own(world: World, follower: Follower) -> None:
    world.start(**SYNCED, refresh__topics__enabled="false")
    await world.until(lambda _: len(follower.links) == 2)
    assert follower.links == [{"orders": "A.orders"}] * 2


async def test_a_topic_that_is_not_on_the_target_is_not_followed(world: World, follower: Follower) -> None:
    world.target.refusals["A.orders"] = AdminError("no", 1)
    world.start(**SYNCED, topics="orders,other")
    await world.until(lambda _: bool(follower.links))
    assert follower.links[0] == {"other": "A.other"}


async def test_a_sync_that_is_switched_off_is_not_begun(world: World, follower: Follower) -> None:
    world.start()
    await world.until(lambda heard: len(heard) == 2)
    await asyncio.sleep(0.02)
    assert follower.links == []


@pytest.mark.parametrize("error", [ClusterUnreachable("away"), NotAuthorized("no right"), AdminError("no", 1)])
async def test_a_sync_that_fails_is_a_line_and_not_the_connectors_end(
    world: World, follower: Follower, error: Exception
) -> None:
    follower.answers = [error]
    world.start(**SYNCED)
    await world.until(lambda heard: ("problem", None) in heard)
    assert world.host.heard == [
        "started",
        ["orders-0,orders-1"],
        ("problem", f"topic configs are not synced: {error}"),
        ("problem", None),
    ]


async def test_troubles_of_topics_and_of_their_configs_stand_side_by_side(world: World, follower: Follower) -> None:
    world.target.refusals["A.orders"] = AdminError("no", 1)
    follower.answers = [["not that config"]] * 9
    world.start(**SYNCED, topics="orders,other")
    await world.until(lambda heard: ("problem", "no; not that config") in heard)


async def test_who_copies_acls_knows_the_workers_own_topics(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Collection[str]] = []

    def sync(_: AclSync, __: object, ___: object, ____: object, kept: Collection[str]) -> list[str]:
        heard.append(kept)
        return []

    monkeypatch.setattr(AclSync, "sync", sync)
    world.start(sync__topic__acls__enabled="true")
    await world.until(lambda _: bool(heard))
    assert heard[0] == {"connect-configs", "connect-status"}
