"""Which workers of another group use this one's topics: by what Java's and our own members say, and by the statuses."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

import pytest

from mirror_connect.app.group.foreign_groups import ForeignMember, members_of, shared_connector
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.kafka_io.protocol.groups import DescribeGroupsResponse, MemberEntry
from tests.fakes.topic_log import FakeTopic, FakeTopicLog

OURS = "mirror-connect"


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def assignment(connectors: Mapping[str, Sequence[int]], version: int = 2) -> bytes:
    """As ConnectProtocol writes it; -1 stands for the connector itself."""
    rows = b"".join(
        text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for name, numbers in connectors.items()
    )
    head = struct.pack(">hh", version, 0) + text("leader") + text("http://l:1/") + struct.pack(">q", 7)
    # Revoked ones and the delay follow in later versions.
    return head + struct.pack(">i", len(connectors)) + rows + (struct.pack(">ii", 0, 0) if version else b"")


def metadata(url: str, allocation: bytes | None = None, version: int = 2) -> bytes:
    rest = (
        b"" if version == 0 else struct.pack(">i", -1 if allocation is None else len(allocation)) + (allocation or b"")
    )
    return struct.pack(">h", version) + text(url) + struct.pack(">q", 7) + rest


def group(protocol: str, *members: tuple[bytes, bytes], state: str = "Stable") -> DescribeGroupsResponse:
    return DescribeGroupsResponse(0, state, protocol, [MemberEntry("/h", *each) for each in members])


def test_javas_members_tell_what_they_were_assigned_now_and_before() -> None:
    described = group(
        "sessioned",
        (metadata("http://a:8083/", assignment({"old": [-1, 0]})), assignment({"new": [1]})),
        (metadata("https://[::1]:8443/"), b""),
    )
    assert members_of(described, OURS) == [
        ForeignMember("a:8083", frozenset({"old", "new"})),
        ForeignMember("[::1]:8443", frozenset()),
    ]


def test_javas_eager_members_are_read_too() -> None:
    described = group("default", (metadata("http://a:8083/", version=0), assignment({"c": [-1]}, version=0)))
    assert members_of(described, OURS) == [ForeignMember("a:8083", frozenset({"c"}))]


def test_our_members_tell_their_share_and_those_of_the_first_version_do_not() -> None:
    share = {"version": 2, "leader": "m", "leader_url": "http://a:1", "generation": 3, "offset": 1, "workers": []}
    tasks = {"connectors": ["c"], "tasks": {"d": [0]}, "lost": [], "held": [], "moving": False}
    seen = {"generation": -1, "offset": -1, "workers": [], "lost": [], "held": []}
    joined = {"version": 2, "url": "http://a:1", "worker_id": "a:1/A->B", "offset": 1, "confirmed": {}, "seen": seen}
    described = group(
        OURS,
        (json.dumps({**joined, "connectors": [], "tasks": {}}).encode(), json.dumps({**share, **tasks}).encode()),
        (b'{"version":1,"url":"http://b:1"}', b'{"version":1,"leader":"m","leader_url":"http://b:1"}'),
    )
    assert members_of(described, OURS) == [
        ForeignMember("a:1/A->B", frozenset({"c", "d"})),
        ForeignMember("b:1", None),
    ]


@pytest.mark.parametrize(
    "described",
    [
        pytest.param(group("sr", (metadata("http://a:1"), b"")), id="a_schema_registry"),
        pytest.param(group("sessioned", (metadata("http://a:1"), b""), state="PreparingRebalance"), id="rebalancing"),
        pytest.param(group("sessioned", (b"\x00", b"")), id="cut_off"),
        pytest.param(group("sessioned", (metadata("http://a:1")[:-3], b"\x00")), id="cut_off_later"),
        pytest.param(group("sessioned", (struct.pack(">hh", 2, 30000) + b"x", b"")), id="a_length_too_large"),
    ],
)
def test_what_is_no_worker_or_can_not_be_read_is_left_out(described: DescribeGroupsResponse) -> None:
    assert members_of(described, OURS) == []


async def statuses(*rows: tuple[str, str, str]) -> StatusStore:
    topic = FakeTopic()
    for key, state, worker in rows:
        value = {"state": state, "trace": None, "worker_id": worker, "generation": 1, "version": "4.3.1"}
        topic.add(key.encode(), json.dumps(value).encode())
    store = StatusStore(FakeTopicLog(topic))
    await store.start()
    await store.stop()
    return store


CONNECTOR, TASK = "status-connector-c", "status-task-c-0"


@pytest.mark.parametrize(
    ("rows", "member", "found"),
    [
        pytest.param([(CONNECTOR, "RUNNING", "a:1")], ForeignMember("a:1", frozenset({"c"})), True, id="a_connector"),
        pytest.param(
            [(CONNECTOR, "RUNNING", "x:1"), (TASK, "FAILED", "a:1")],
            ForeignMember("a:1", frozenset({"c"})),
            True,
            id="a_task",
        ),
        pytest.param([(CONNECTOR, "RUNNING", "a:1/A->B")], ForeignMember("a:1", frozenset({"c"})), True, id="a_flow"),
        pytest.param([(CONNECTOR, "RUNNING", "a:1")], ForeignMember("a:1", None), True, id="one_that_does_not_say"),
        pytest.param([(CONNECTOR, "RUNNING", "a:11")], ForeignMember("a:1", None), False, id="a_longer_port"),
        pytest.param([(CONNECTOR, "RUNNING", "x:1")], ForeignMember("a:1", frozenset({"c"})), False, id="elsewhere"),
        pytest.param(
            [(CONNECTOR, "RUNNING", "a:1")], ForeignMember("a:1", frozenset({"d"})), False, id="moved_to_other_topics"
        ),
        pytest.param([(CONNECTOR, "UNASSIGNED", "a:1")], ForeignMember("a:1", frozenset({"c"})), False, id="given_up"),
        pytest.param([(CONNECTOR, "RUNNING", "me:1")], ForeignMember("me:1", None), False, id="this_worker_before"),
    ],
)
async def test_a_group_shares_the_topics_if_its_worker_runs_what_they_show(
    rows: list[tuple[str, str, str]], member: ForeignMember, *, found: bool
) -> None:
    shared = shared_connector([member], await statuses(*rows), "me:1")
    assert shared == ((member, "c") if found else None)
