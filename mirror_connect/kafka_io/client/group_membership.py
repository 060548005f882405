"""One member of a group with its own protocol type: joins, syncs, sends heartbeats, leaves.

Each call is one step of the group protocol and finds the coordinator itself. The caller (app/group/membership.py) decides
what to do next, so each kind of failure is a class of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from mirror_connect.connectors.errors import ClusterUnreachable, GroupRefusedError, NotAuthorized
from mirror_connect.connectors.partitions import CommittedOffsets, TopicPartition
from mirror_connect.connectors.rights import WORKER_USER, MissingRight, on_group
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.codec import Request
from mirror_connect.kafka_io.protocol.error_codes import COORDINATOR_MOVED, ErrorCode, error_name
from mirror_connect.kafka_io.protocol.group_protocol import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    SyncGroup,
)
from mirror_connect.kafka_io.protocol.groups import OffsetCommit, OffsetFetch

T = TypeVar("T")
# Errors of a commit that concern the member, not one partition. The broker gives them to all partitions.
_OF_THE_GROUP: Final = frozenset(
    {
        *COORDINATOR_MOVED,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
)


class HeldByOthers(GroupRefusedError):
    """The group has at least one member of another kind; the broker does not say whether it is alive."""


class CoordinatorLost(Exception):
    """The coordinator moved, restarts or is unreachable. Try again."""


class RebalanceNeeded(Exception):
    """The group is rebalancing: join again as the same member."""


class MembershipLost(Exception):
    """The group has removed this member: join again as a new one. Another member may lead already."""


class GenerationOver(MembershipLost):
    """The group has gone on to another generation. This member is still in it if it had asked to join, but not as it was."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A group and its timing, in ms: session.timeout.ms, rebalance.timeout.ms.

    `user`: who logs in, for errors. `others`: what members of another kind may be, and what to do.
    """

    group_id: str
    protocol_type: str
    protocol: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    user: str = WORKER_USER
    others: str = (
        "members of another kind (Kafka Connect's Java workers or a consumer): stop them, or set another group.id"
    )


class GroupClient:
    """The steps of the group protocol. `settings`: Java client properties. All may raise CoordinatorLost, NotAuthorized."""

    def __init__(self, settings: Mapping[str, str], client_id: str, group: GroupSettings) -> None:
        self._group = group
        # Two clients, because a client has one timeout: a broken connection must be noticed within a third of the session,
        # but a join has no response before all members have joined.
        quick = min(int(settings.get("request.timeout.ms", 30_000)), group.session_timeout_ms // 3)
        patient = max(int(settings.get("request.timeout.ms", 30_000)), group.rebalance_timeout_ms + 5_000)
        setup = dict.fromkeys(
            ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"), str(quick)
        )
        once = {"default.api.timeout.ms": "0", **setup}
        self._quick = Cluster({**settings, **once, "request.timeout.ms": str(quick)}, client_id)
        self._patient = Cluster({**settings, **once, "request.timeout.ms": str(patient)}, client_id)
        self._coordinator: int | None = None
        # The id that the broker has given to a new member whose first join has no answer yet; else "".
        self._new_id = ""

    async def join(
        self, member_id: str, metadata: bytes, others: Mapping[str, bytes] | None = None
    ) -> JoinGroupResponse:
        """Joins as `member_id` ("" for a new member). Raises GroupRefusedError, HeldByOthers, MembershipLost.

        `others`: further protocols of this member, with their metadata. A new member whose join got no answer is the same
        one when it tries again: the group would wait for the other one until its session ends.
        """
        group = self._group
        member_id = member_id or self._new_id
        while True:
            joined = await self._ask(
                JoinGroup(
                    group.group_id,
                    member_id,
                    group.protocol_type,
                    group.protocol,
                    metadata,
                    group.session_timeout_ms,
                    group.rebalance_timeout_ms,
                    others or {},
                ),
                patient=True,
            )
            if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
                member_id = self._new_id = joined.member_id
                continue
            if joined.error not in COORDINATOR_MOVED:
                self._new_id = ""
            self._check(joined.error)
            return joined

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        """Sends the assignments (leader only) and returns this member's. Raises RebalanceNeeded, MembershipLost."""
        request = SyncGroup(self._group.group_id, joined.generation, joined.member_id, assignments)
        synced = await self._ask(request, patient=True)
        self._check(synced.error)
        return synced.assignment

    async def heartbeat(self, generation: int, member_id: str) -> None:
        """Keeps this member in the group. Raises RebalanceNeeded, MembershipLost."""
        self._check((await self._ask(Heartbeat(self._group.group_id, generation, member_id))).error)

    async def leave(self, member_id: str) -> None:
        """Leaves at once; with "", as the new member whose join has no answer yet, if there is one.

        A failure needs no action: the session then expires.
        """
        if member_id := member_id or self._new_id:
            self._new_id = ""
            with contextlib.suppress(CoordinatorLost, NotAuthorized):
                await self._ask(LeaveGroup(self._group.group_id, member_id))

    async def consumed_topics(self) -> list[str]:
        """Topics with committed offsets of the group. Workers never commit any, so another kind of member did."""
        found = await self._ask(OffsetFetch(self._group.group_id))
        return (
            sorted({each.topic for each in found.offsets if each.offset >= 0}) if found.error == ErrorCode.NONE else []
        )

    async def committed(self) -> dict[TopicPartition, int]:
        """The group's committed offsets."""
        found = await self._ask(OffsetFetch(self._group.group_id))
        self._check(found.error)
        return {TopicPartition(each.topic, each.partition): each.offset for each in found.offsets if each.offset >= 0}

    async def commit(self, generation: int, member_id: str, offsets: CommittedOffsets) -> dict[TopicPartition, int]:
        """Commits offsets as a member; returns the codes of what was refused. Raises RebalanceNeeded, MembershipLost."""
        answer = await self._ask(OffsetCommit(self._group.group_id, offsets, generation, member_id))
        for error in _OF_THE_GROUP & set(answer.errors.values()):
            self._check(error)
        return {partition: error for partition, error in answer.errors.items() if error != ErrorCode.NONE}

    async def close(self) -> None:
        """Closes all connections."""
        await self._quick.close()
        await self._patient.close()

    async def _ask(self, request: Request[T], *, patient: bool = False) -> T:
        try:
            if self._coordinator is None:
                if not self._quick.nodes:
                    await self._quick.connect()
                self._coordinator = await self._quick.coordinator("group", self._group.group_id, self._group.user)
            cluster = self._quick
            if patient:
                self._patient.nodes = self._quick.nodes
                cluster = self._patient
            return await cluster.send(self._coordinator, request)
        except (ConnectionLost, ClusterUnreachable) as problem:
            self._coordinator = None
            raise CoordinatorLost(str(problem)) from None

    def _check(self, error: int) -> None:
        group = self._group.group_id
        if error == ErrorCode.NONE:
            return
        if error in COORDINATOR_MOVED:
            self._coordinator = None
            raise CoordinatorLost(f"group.id {group}: {error_name(error)}")
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            raise RebalanceNeeded(group)
        if error == ErrorCode.ILLEGAL_GENERATION:
            raise GenerationOver(group)
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            raise MembershipLost(group)
        if error == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise MissingRight(f"not authorized to use group.id {group}", on_group("READ", group), self._group.user)
        if error in {ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_ID_NOT_FOUND}:
            raise HeldByOthers(f"group.id {group} is in use by {self._group.others}")
        raise GroupRefusedError(_refusal(group, self._group.session_timeout_ms, error))


def _refusal(group: str, session_timeout_ms: int, error: int) -> str:
    match error:
        case code if code == ErrorCode.INVALID_SESSION_TIMEOUT:
            return (
                f"session.timeout.ms {session_timeout_ms} is refused by the broker: set it between the broker's "
                f"group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case code if code == ErrorCode.INVALID_GROUP_ID:
            return f"group.id {group!r} is not a valid group name: set another one"
        case code if code == ErrorCode.GROUP_MAX_SIZE_REACHED:
            return f"group.id {group} has as many members as the broker's group.max.size allows: stop some of them"
    return f"group.id {group} can't be joined: the broker answers {error_name(error)}"
