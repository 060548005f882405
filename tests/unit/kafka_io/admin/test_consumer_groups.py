"""The consumer groups of a cluster: a problem of one group or broker does not hide the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.partitions import CommittedOffset
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.admin import consumer_groups
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups, GroupKind, ListedGroup
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.groups import (
    FetchedOffset,
    GroupEntry,
    ListGroups,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)

NOT_COORDINATOR, GROUP_DENIED, CLUSTER_DENIED, UNKNOWN_MEMBER = 16, 30, 31, 25


class FakeCluster:
    """`answers`: what a request of a node gets, an exception is raised; `coordinators`: who coordinates a group."""

    def __init__(self, answer: Callable[[int, Any], Any]) -> None:
        self.nodes = {1: None, 2: None}
        self.answer = answer
        self.coordinators: dict[str, int] = {}
        self.asked: list[tuple[int, Any]] = []
        self.denied = False

    async def refresh(self, topics: object) -> None:
        await asyncio.sleep(0)

    async def coordinator(self, kind: str, group: str, _user: str) -> int:
        if self.denied:
            raise NotAuthorized(f"not authorized to use group.id {group}")
        return self.coordinators.get(group, 1)

    async def send(self, node: int, request: Any) -> Any:
        self.asked.append((node, request))
        await asyncio.sleep(0)
        answer = self.answer(node, request)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_groups, "_PAUSE_S", 0.001)


def groups_of(cluster: FakeCluster) -> ConsumerGroups:
    return ConsumerGroups(cast("Cluster", cluster), SOURCE_USER)


@pytest.mark.parametrize(
    ("entry", "listed"),
    [
        (GroupEntry("g", "consumer", "Stable", "Classic"), ListedGroup(GroupKind.CONSUMER, active=True)),
        (GroupEntry("g", "consumer", "Empty", "Consumer"), ListedGroup(GroupKind.CONSUMER, active=False)),
        (GroupEntry("g", "", "Empty", "Classic"), ListedGroup(GroupKind.CONSUMER, active=False)),
        (GroupEntry("g", "consumer", "Dead", ""), ListedGroup(GroupKind.CONSUMER, active=False)),
        (GroupEntry("g", "consumer", "", ""), ListedGroup(GroupKind.CONSUMER, active=None)),
        (GroupEntry("g", "connect", "Stable", "Classic"), ListedGroup(GroupKind.OTHER, True, "connect")),
        (GroupEntry("g", "share", "Stable", "Share"), ListedGroup(GroupKind.SHARE, active=True)),
        (GroupEntry("g", "streams", "NotReady", "Streams"), ListedGroup(GroupKind.STREAMS, active=True)),
    ],
    ids=str,
)
async def test_a_group_is_told_by_its_protocol_and_state(entry: GroupEntry, listed: ListedGroup) -> None:
    cluster = FakeCluster(lambda node, _: ListGroupsResponse(0, 0, [entry] if node == 1 else []))
    assert await groups_of(cluster).listed() == {"g": listed}


async def test_the_groups_of_all_brokers_are_listed() -> None:
    cluster = FakeCluster(lambda node, _: ListGroupsResponse(0, 0, [GroupEntry(f"g{node}", "consumer", "Empty", "")]))
    assert sorted(await groups_of(cluster).listed()) == ["g1", "g2"]


async def test_groups_are_not_known_while_a_broker_is_silent() -> None:
    cluster = FakeCluster(lambda node, _: ConnectionLost("gone") if node == 2 else ListGroupsResponse(0, 0, []))
    with pytest.raises(ClusterUnreachable, match="gone"):
        await groups_of(cluster).listed()


async def test_a_missing_right_to_list_is_said_to_be_one() -> None:
    with pytest.raises(NotAuthorized, match="DESCRIBE"):
        await groups_of(FakeCluster(lambda *_: ListGroupsResponse(0, CLUSTER_DENIED, []))).listed()


async def test_who_lists_a_group_coordinates_it() -> None:
    def answer(node: int, request: Any) -> Any:
        if isinstance(request, ListGroups):
            return ListGroupsResponse(0, 0, [GroupEntry("g", "consumer", "Empty", "")] if node == 2 else [])
        return OffsetFetchResponse(0, 0, [])

    groups = groups_of(cluster := FakeCluster(answer))
    await groups.listed()
    await groups.read(["g"])
    assert cluster.asked[-1] == (2, OffsetFetch("g"))


async def test_a_group_that_has_moved_is_asked_of_its_new_coordinator() -> None:
    found = FetchedOffset("a", 0, 3, "", 0)

    def answer(node: int, request: Any) -> Any:
        cluster.coordinators["g"] = 2
        return OffsetFetchResponse(0, NOT_COORDINATOR, []) if node == 1 else OffsetFetchResponse(0, 0, [found])

    cluster = FakeCluster(answer)
    assert (await groups_of(cluster).read(["g"])).committed == {"g": {("a", 0): CommittedOffset(3, "")}}


async def test_a_group_that_may_not_be_read_keeps_no_other_from_being_read() -> None:
    def answer(node: int, request: OffsetFetch) -> Any:
        return OffsetFetchResponse(0, GROUP_DENIED if request.group == "secret" else 0, [])

    read = await groups_of(FakeCluster(answer)).read(["secret", "g"])
    assert (list(read.committed), list(read.problems)) == (["g"], ["secret"])


async def test_a_coordinator_that_is_away_is_the_trouble_of_its_groups_alone() -> None:
    cluster = FakeCluster(lambda node, _: ConnectionLost("gone") if node == 2 else OffsetFetchResponse(0, 0, []))
    cluster.coordinators["h"] = 2
    read = await groups_of(cluster).read(["g", "h"])
    assert (list(read.committed), read.problems) == (["g"], {"h": "gone"})


async def test_a_right_to_a_group_that_is_missing_is_its_trouble() -> None:
    cluster = FakeCluster(lambda *_: None)
    cluster.denied = True
    assert list((await groups_of(cluster).read(["g"])).problems) == ["g"]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testNoCheckpointForTopicWithNullOffsetAndMetadata")
async def test_partitions_without_a_position_are_left_out() -> None:
    offsets = [
        FetchedOffset("a", 0, -1, "", 0),
        FetchedOffset("a", 1, 3, "", 29),
        FetchedOffset("a", 2, 3, "", 0),
    ]
    read = await groups_of(FakeCluster(lambda *_: OffsetFetchResponse(0, 0, offsets))).read(["g"])
    assert list(read.committed["g"]) == [("a", 2)]


async def test_a_group_with_members_refuses_to_be_moved() -> None:
    cluster = FakeCluster(lambda *_: OffsetCommitResponse(0, {("a", 0): UNKNOWN_MEMBER}))
    assert await groups_of(cluster).write("g", {("a", 0): CommittedOffset(3, "")}) == {("a", 0): UNKNOWN_MEMBER}
