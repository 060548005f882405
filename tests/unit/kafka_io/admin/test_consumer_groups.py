"""Groups of others: the requests against aiokafka's structs, and what one group's trouble means for the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiokafka.protocol.admin import ListGroupsRequest_v2, ListGroupsResponse_v2
from aiokafka.protocol.commit import (
    OffsetCommitRequest_v3,
    OffsetCommitResponse_v3,
    OffsetFetchRequest_v3,
    OffsetFetchResponse_v3,
)

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.admin import consumer_groups
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups, GroupKind, ListedGroup, Position
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.wire_codec import Reader, Request, Writer
from mirror_connect.kafka_io.protocol.wire_groups import (
    CommitAnswer,
    CommittedOffset,
    FetchedOffsets,
    GroupEntry,
    ListedGroups,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
)

NOT_COORDINATOR, GROUP_DENIED, CLUSTER_DENIED, UNKNOWN_MEMBER = 16, 30, 31, 25


def encoded(request: Request[Any], version: int) -> bytes:
    writer = Writer(flexible=version >= request.flexible_from)
    request.encode(version, writer)
    return b"".join(writer.buffers())


def decoded(request: Request[Any], version: int, body: bytes) -> Any:
    return request.decode(version, Reader(memoryview(body), flexible=version >= request.flexible_from))


COMMIT = OffsetCommit("g", {("a", 1): (5, "x"), ("b", 0): (7, ""), ("a", 0): (3, "")})


def test_a_commit_is_written_as_aiokafka_writes_it() -> None:
    topics = [("a", [(0, 3, ""), (1, 5, "x")]), ("b", [(0, 7, "")])]
    assert encoded(COMMIT, 3) == OffsetCommitRequest_v3("g", -1, "", -1, topics).encode()


def test_a_commit_of_today_has_the_form_of_the_protocol_guide() -> None:
    written = bytes.fromhex(
        "0267 ffffffff 01 00 03"  # group, generation, no member, no instance, two topics
        "0261 03 00000000 0000000000000003 ffffffff 01 00 00000001 0000000000000005 ffffffff 0278 00 00"
        "0262 02 00000000 0000000000000007 ffffffff 01 00 00 00"
    )
    assert encoded(COMMIT, 8) == written


def test_a_commits_answer_names_the_code_of_each_partition() -> None:
    body = OffsetCommitResponse_v3(4, [("a", [(0, 0), (1, 25)])]).encode()
    assert decoded(COMMIT, 3, body) == CommitAnswer(4, {("a", 0): 0, ("a", 1): 25})


def test_a_fetch_of_offsets_is_written_as_aiokafka_writes_it() -> None:
    assert encoded(OffsetFetch("g"), 3) == OffsetFetchRequest_v3("g", None).encode()


def test_a_fetch_of_offsets_of_today_asks_for_all_topics_and_for_what_is_committed() -> None:
    assert encoded(OffsetFetch("g"), 7) == bytes.fromhex("0267 00 00 00")


def test_offsets_are_read_with_their_notes() -> None:
    body = OffsetFetchResponse_v3(4, [("a", [(0, 3, "note", 0), (1, -1, None, 0)])], 0).encode()
    offsets = [CommittedOffset("a", 0, 3, "note", 0), CommittedOffset("a", 1, -1, "", 0)]
    assert decoded(OffsetFetch("g"), 3, body) == FetchedOffsets(4, 0, offsets)


def test_a_note_that_is_no_text_does_not_keep_positions_from_being_read() -> None:
    body = bytes.fromhex("00000000 02 0261 02 00000000 0000000000000003 ffffffff 03fff1 0000 00 00 0000 00")
    assert decoded(OffsetFetch("g"), 7, body).offsets == [CommittedOffset("a", 0, 3, "\ufffd\ufffd", 0)]


def test_groups_are_listed_as_aiokafka_lists_them() -> None:
    body = ListGroupsResponse_v2(4, 0, [("g", "consumer"), ("s", "")]).encode()
    listed = ListedGroups(4, 0, [GroupEntry("g", "consumer", "", ""), GroupEntry("s", "", "", "")])
    assert (encoded(ListGroups(), 2), decoded(ListGroups(), 2, body)) == (ListGroupsRequest_v2().encode(), listed)


def test_groups_of_today_have_a_state_and_a_kind() -> None:
    body = bytes.fromhex("00000000 0000 02 0267 09") + b"consumer\x07Stable\x08Classic\0\0"
    listed = ListedGroups(0, 0, [GroupEntry("g", "consumer", "Stable", "Classic")])
    assert (encoded(ListGroups(), 5), decoded(ListGroups(), 5, body)) == (bytes.fromhex("01 01 00"), listed)


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
    cluster = FakeCluster(lambda node, _: ListedGroups(0, 0, [entry] if node == 1 else []))
    assert await groups_of(cluster).listed() == {"g": listed}


async def test_the_groups_of_all_brokers_are_listed() -> None:
    cluster = FakeCluster(lambda node, _: ListedGroups(0, 0, [GroupEntry(f"g{node}", "consumer", "Empty", "")]))
    assert sorted(await groups_of(cluster).listed()) == ["g1", "g2"]


async def test_groups_are_not_known_while_a_broker_is_silent() -> None:
    cluster = FakeCluster(lambda node, _: ConnectionLost("gone") if node == 2 else ListedGroups(0, 0, []))
    with pytest.raises(ClusterUnreachable, match="gone"):
        await groups_of(cluster).listed()


async def test_a_missing_right_to_list_is_said_to_be_one() -> None:
    with pytest.raises(NotAuthorized, match="DESCRIBE"):
        await groups_of(FakeCluster(lambda *_: ListedGroups(0, CLUSTER_DENIED, []))).listed()


async def test_who_lists_a_group_coordinates_it() -> None:
    def answer(node: int, request: Any) -> Any:
        if isinstance(request, ListGroups):
            return ListedGroups(0, 0, [GroupEntry("g", "consumer", "Empty", "")] if node == 2 else [])
        return FetchedOffsets(0, 0, [])

    groups = groups_of(cluster := FakeCluster(answer))
    await groups.listed()
    await groups.read(["g"])
    assert cluster.asked[-1] == (2, OffsetFetch("g"))


async def test_a_group_that_has_moved_is_asked_of_its_new_coordinator() -> None:
    found = CommittedOffset("a", 0, 3, "", 0)

    def answer(node: int, request: Any) -> Any:
        cluster.coordinators["g"] = 2
        return FetchedOffsets(0, NOT_COORDINATOR, []) if node == 1 else FetchedOffsets(0, 0, [found])

    cluster = FakeCluster(answer)
    assert (await groups_of(cluster).read(["g"])).positions == {"g": {("a", 0): Position(3, "")}}


async def test_a_group_that_may_not_be_read_keeps_no_other_from_being_read() -> None:
    def answer(node: int, request: OffsetFetch) -> Any:
        return FetchedOffsets(0, GROUP_DENIED if request.group == "secret" else 0, [])

    read = await groups_of(FakeCluster(answer)).read(["secret", "g"])
    assert (list(read.positions), list(read.troubles)) == (["g"], ["secret"])


async def test_a_coordinator_that_is_away_is_the_trouble_of_its_groups_alone() -> None:
    cluster = FakeCluster(lambda node, _: ConnectionLost("gone") if node == 2 else FetchedOffsets(0, 0, []))
    cluster.coordinators["h"] = 2
    read = await groups_of(cluster).read(["g", "h"])
    assert (list(read.positions), read.troubles) == (["g"], {"h": "gone"})


async def test_a_right_to_a_group_that_is_missing_is_its_trouble() -> None:
    cluster = FakeCluster(lambda *_: None)
    cluster.denied = True
    assert list((await groups_of(cluster).read(["g"])).troubles) == ["g"]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testNoCheckpointForTopicWithNullOffsetAndMetadata")
async def test_partitions_without_a_position_are_left_out() -> None:
    offsets = [
        CommittedOffset("a", 0, -1, "", 0),
        CommittedOffset("a", 1, 3, "", 29),
        CommittedOffset("a", 2, 3, "", 0),
    ]
    read = await groups_of(FakeCluster(lambda *_: FetchedOffsets(0, 0, offsets))).read(["g"])
    assert list(read.positions["g"]) == [("a", 2)]


async def test_a_group_with_members_refuses_to_be_moved() -> None:
    cluster = FakeCluster(lambda *_: CommitAnswer(0, {("a", 0): UNKNOWN_MEMBER}))
    assert await groups_of(cluster).write("g", {("a", 0): Position(3, "")}) == {("a", 0): UNKNOWN_MEMBER}
