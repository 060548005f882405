"""A new member leaves nobody behind in its group whose join was never answered. The rest: app/herder/test_membership.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mirror_connect.kafka_io.client import group_membership
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, GroupClient, GroupSettings, MembershipLost
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroup, JoinGroupResponse, LeaveGroup

SETTINGS = GroupSettings("g", "consumer", "range", 6_000, 60_000)


class Coordinator:
    """Gives new members the ids m1, m2 …; answers their joins as `answers` says."""

    def __init__(self) -> None:
        self.nodes: dict[int, object] = {1: object()}
        self.given = 0
        self.asked: list[str] = []
        self.answers: Callable[[], int] = lambda: ErrorCode.NONE

    def __call__(self, settings: Mapping[str, str], client_id: str) -> Coordinator:
        return self

    async def coordinator(self, kind: str, name: str, user: str) -> int:
        return 1

    async def send(self, node_id: int, request: Any) -> Any:
        if isinstance(request, LeaveGroup):
            self.asked.append(f"leave as {request.member_id}")
            return None
        assert isinstance(request, JoinGroup)
        self.asked.append(f"join as {request.member_id or 'new'}")
        if not request.member_id:
            self.given += 1
            return self._joined(ErrorCode.MEMBER_ID_REQUIRED, f"m{self.given}")
        return self._joined(self.answers(), request.member_id)

    def _joined(self, error: int, member_id: str) -> JoinGroupResponse:
        return JoinGroupResponse(0, error, 1, "range", member_id, member_id, {})


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    coordinator = Coordinator()
    monkeypatch.setattr(group_membership, "Cluster", coordinator)
    return coordinator


def lost() -> int:
    raise ConnectionLost("away")


async def unanswered(coordinator: Coordinator) -> GroupClient:
    client = GroupClient({}, "c", SETTINGS)
    coordinator.answers = lost
    with pytest.raises(CoordinatorLost):
        await client.join("", b"")
    return client


async def test_who_got_no_answer_tries_again_as_the_same_member(coordinator: Coordinator) -> None:
    client = await unanswered(coordinator)
    coordinator.answers = lambda: ErrorCode.NONE
    assert (await client.join("", b"")).member_id == "m1"
    assert coordinator.asked == ["join as new", "join as m1", "join as m1"]


async def test_who_got_no_answer_can_leave(coordinator: Coordinator) -> None:
    client = await unanswered(coordinator)
    await client.leave("")
    await client.leave("")
    assert coordinator.asked[2:] == ["leave as m1"]


async def test_a_member_that_was_removed_meanwhile_joins_as_another_one(coordinator: Coordinator) -> None:
    client = await unanswered(coordinator)
    coordinator.answers = lambda: ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(MembershipLost):
        await client.join("", b"")
    coordinator.answers = lambda: ErrorCode.NONE
    assert (await client.join("", b"")).member_id == "m2"


async def test_who_has_joined_leaves_as_the_member_that_it_is(coordinator: Coordinator) -> None:
    client = GroupClient({}, "c", SETTINGS)
    await client.join("", b"")
    await client.leave("m1")
    await client.leave("")
    assert coordinator.asked[2:] == ["leave as m1"]
