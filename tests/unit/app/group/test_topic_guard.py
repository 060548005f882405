"""A start is refused while another group uses the topics; one that can not be seen, or has just died, does not hinder it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mirror_connect.app.group import topic_guard
from mirror_connect.app.group.messages import Metadata, metadata_to_bytes
from mirror_connect.app.group.topic_guard import TopicGuard
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.connectors.errors import ClusterUnreachable, GroupRefusedError
from mirror_connect.kafka_io.admin.consumer_groups import GroupKind, ListedGroup
from mirror_connect.kafka_io.protocol.groups import DescribeGroupsResponse, MemberEntry
from tests.fakes.topic_log import FakeTopic, FakeTopicLog
from tests.unit.app.group.test_foreign_groups import assignment, metadata

STATUS = b'{"state":"RUNNING","trace":null,"worker_id":"a:8083","generation":1,"version":"4.3.1"}'
WORKERS = ListedGroup(GroupKind.OTHER, True, "connect")


def group_of(*members: Metadata) -> DescribeGroupsResponse:
    """The worker's own group."""
    entries = [MemberEntry("/a", metadata_to_bytes(each, 0.0), b"") for each in members]
    return DescribeGroupsResponse(0, "Stable", "mirror-connect", entries)


def member(*topics: str) -> Metadata:
    return Metadata("http://other:8083", "other:8083", topics=topics)


class Groups:
    """The groups of the cluster, in the place of ConsumerGroups."""

    def __init__(self) -> None:
        self.all = {
            "theirs": WORKERS,
            "mine": WORKERS,
            "registry": ListedGroup(GroupKind.OTHER, True, "sr"),
            "gone": ListedGroup(GroupKind.OTHER, False, "connect"),
            "hidden": WORKERS,
        }
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self.looks = 0
        self.mine = group_of()
        # From so many looks on the other group rebalances.
        self.rebalances_after = 0

    async def listed(self) -> dict[str, ListedGroup]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return self.all

    async def described(self, group: str) -> DescribeGroupsResponse | str:
        self.asked.append(group)
        if group == "mine":
            return self.mine
        if group == "hidden":
            return "not authorized to describe group hidden"
        if self.rebalances_after and self.looks > self.rebalances_after:
            return DescribeGroupsResponse(0, "PreparingRebalance", "", [MemberEntry("/a", b"", b"")])
        entry = MemberEntry("/a", metadata("http://a:8083/"), assignment({"c": [-1, 0]}))
        return DescribeGroupsResponse(0, "Stable", "sessioned", [entry])


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    made = Groups()
    monkeypatch.setattr(topic_guard, "ConsumerGroups", lambda *_: made)
    monkeypatch.setattr(topic_guard, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(topic_guard, "WATCH_EVERY_S", 0.01)
    monkeypatch.setattr(topic_guard, "_SESSION_END_S", 0.0)
    return made


@pytest.fixture
async def statuses() -> StatusStore:
    topic = FakeTopic()
    topic.add(b"status-connector-c", STATUS)
    store = StatusStore(FakeTopicLog(topic))
    await store.start()
    await store.stop()
    return store


def guard(session_s: float = 0.05) -> TopicGuard:
    return TopicGuard(
        {"bootstrap.servers": "127.0.0.1:9"},
        "",
        group_id="mine",
        worker_id="me:8083",
        session_s=session_s,
        protocol_type="connect",
        protocol="mirror-connect",
        topics=("configs", "offsets", "statuses"),
    )


async def test_a_start_beside_another_group_is_refused_with_its_worker(groups: Groups, statuses: StatusStore) -> None:
    with pytest.raises(
        GroupRefusedError, match=r"Worker a:8083 of group\.id theirs runs connector c .* group\.id is mine"
    ):
        await guard().refuse(statuses)
    assert set(groups.asked) <= {"theirs", "hidden"}
    assert groups.looks > 1


@pytest.mark.parametrize("topics", [("configs", "offsets", "statuses"), ()], ids=["the_same", "it_does_not_say"])
async def test_a_worker_joins_others_with_its_topics(groups: Groups, topics: tuple[str, ...]) -> None:
    groups.mine = group_of(member(*topics), member(*topics))
    await guard().refuse_other_topics()


async def test_a_worker_with_other_topics_than_its_group_does_not_join(groups: Groups) -> None:
    groups.mine = group_of(member("configs", "offsets", "statuses"), member("configs-2", "offsets", "statuses"))
    with pytest.raises(
        GroupRefusedError,
        match=r"Worker other:8083 of group\.id mine has the storage topics configs-2, offsets, statuses, "
        r"and this worker has configs, offsets, statuses",
    ):
        await guard().refuse_other_topics()


async def test_one_that_was_killed_with_other_topics_is_waited_for(groups: Groups) -> None:
    groups.mine = group_of(member("configs-2", "offsets", "statuses"))
    refused = asyncio.create_task(guard(session_s=20).refuse_other_topics())
    await asyncio.sleep(0.05)
    groups.mine = group_of()
    await refused


async def test_the_leader_tells_of_a_member_with_other_topics(
    groups: Groups, statuses: StatusStore, caplog: pytest.LogCaptureFixture
) -> None:
    del groups.all["theirs"]
    groups.mine = group_of(member("configs-2", "offsets", "statuses"))
    watching = asyncio.create_task(guard().watch(statuses, lambda: True))
    while groups.looks < 3:
        await asyncio.sleep(0.01)
    watching.cancel()
    assert len([each for each in caplog.messages if "has the storage topics configs-2" in each]) == 1


async def test_a_worker_that_was_killed_is_waited_for(groups: Groups, statuses: StatusStore) -> None:
    refused = asyncio.create_task(guard(session_s=20).refuse(statuses))
    await asyncio.sleep(0.05)
    del groups.all["theirs"]
    await refused


async def test_a_group_that_rebalances_has_not_ended(groups: Groups, statuses: StatusStore) -> None:
    groups.rebalances_after = 1
    with pytest.raises(GroupRefusedError, match=r"group\.id theirs runs connector c"):
        await guard().refuse(statuses)


async def test_groups_that_can_not_be_seen_hinder_no_start(groups: Groups, statuses: StatusStore) -> None:
    groups.failure = ClusterUnreachable("no broker answers")
    await guard().refuse(statuses)
    assert groups.looks == 1


async def test_the_leader_alone_tells_of_a_group_that_comes_later_and_once(
    groups: Groups, statuses: StatusStore, caplog: pytest.LogCaptureFixture
) -> None:
    leads = False
    watching = asyncio.create_task(guard().watch(statuses, lambda: leads))
    await asyncio.sleep(0.05)
    assert groups.looks == 0
    leads = True
    while groups.looks < 4:
        await asyncio.sleep(0.01)
    watching.cancel()
    lines = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 1
    assert "group.id theirs" in lines[0]
