"""The requests of the classic group protocol as bytes: aiokafka's structs."""

from __future__ import annotations

import pytest
from aiokafka.protocol.group import (
    HeartbeatRequest_v1,
    HeartbeatResponse_v1,
    JoinGroupRequest_v2,
    JoinGroupRequest_v5,
    JoinGroupResponse_v2,
    JoinGroupResponse_v5,
    LeaveGroupRequest_v1,
    LeaveGroupResponse_v1,
    SyncGroupRequest_v1,
    SyncGroupRequest_v3,
    SyncGroupResponse_v3,
)

from mirror_connect.kafka_io.protocol.group_protocol import (
    GroupResponse,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    SyncGroup,
    SyncGroupResponse,
)
from tests.fakes.request_bytes import decoded, encoded

JOIN = JoinGroup("g", "me", "connect", "mirror-connect", b"metadata", 10_000, 60_000)
SYNC = SyncGroup("g", 7, "me", {"me": b"mine", "other": b"theirs"})
HEARTBEAT, LEAVE = Heartbeat("g", 7, "me"), LeaveGroup("g", "me")


def test_a_join_is_written_without_a_static_member() -> None:
    protocols = [("mirror-connect", b"metadata")]
    assert encoded(JOIN, 2) == JoinGroupRequest_v2("g", 10_000, 60_000, "me", "connect", protocols).encode()
    assert encoded(JOIN, 5) == JoinGroupRequest_v5("g", 10_000, 60_000, "me", None, "connect", protocols).encode()


def test_a_member_may_offer_several_protocols_in_its_order() -> None:
    join = JoinGroup("g", "me", "consumer", "roundrobin", b"a", 10_000, 60_000, {"range": b"b"})
    protocols = [("roundrobin", b"a"), ("range", b"b")]
    assert encoded(join, 5) == JoinGroupRequest_v5("g", 10_000, 60_000, "me", None, "consumer", protocols).encode()


@pytest.mark.parametrize("version", [2, 5])
def test_the_leader_is_given_the_metadata_of_all_members(version: int) -> None:
    head = (4, 0, 7, "mirror-connect", "me", "me")
    if version == 2:
        body = JoinGroupResponse_v2(*head, [("me", b"a"), ("other", b"b")]).encode()
    else:
        body = JoinGroupResponse_v5(*head, [("me", None, b"a"), ("other", "static", b"b")]).encode()
    assert decoded(JOIN, version, body) == JoinGroupResponse(*head, {"me": b"a", "other": b"b"})


def test_a_sync_is_written_with_the_leaders_assignments() -> None:
    assignments = [("me", b"mine"), ("other", b"theirs")]
    assert encoded(SYNC, 1) == SyncGroupRequest_v1("g", 7, "me", assignments).encode()
    assert encoded(SYNC, 3) == SyncGroupRequest_v3("g", 7, "me", None, assignments).encode()


def test_a_sync_is_answered_with_the_members_assignment() -> None:
    assert decoded(SYNC, 3, SyncGroupResponse_v3(4, 27, b"mine").encode()) == SyncGroupResponse(4, 27, b"mine")


def test_heartbeats_and_leaves_are_answered_with_an_error_code() -> None:
    assert encoded(HEARTBEAT, 1) == HeartbeatRequest_v1("g", 7, "me").encode()
    assert encoded(LEAVE, 1) == LeaveGroupRequest_v1("g", "me").encode()
    assert decoded(HEARTBEAT, 1, HeartbeatResponse_v1(4, 27).encode()) == GroupResponse(4, 27)
    assert decoded(LEAVE, 1, LeaveGroupResponse_v1(4, 25).encode()) == GroupResponse(4, 25)
