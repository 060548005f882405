"""The requests of the classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

librdkafka has no setting for a group's protocol type, and a worker needs `connect`. Field order as
https://kafka.apache.org/protocol has it; no version here is flexible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer


class JoinGroupResponse(NamedTuple):
    """The new generation and its leader. Only the leader gets `members` (id → metadata).

    `member_id` is set with error 79 (MEMBER_ID_REQUIRED) too: join again with it.
    """

    throttle_ms: int
    error: int
    generation: int
    protocol: str
    leader: str
    member_id: str
    members: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class JoinGroup(Request[JoinGroupResponse]):
    """Joins or rejoins. The response comes when all members have joined, at the latest after `rebalance_timeout_ms`.

    `others`: further protocols with their metadata, less wanted than `protocol`. All members must have one in common.
    """

    api_key: ClassVar[int] = 11
    versions: ClassVar[tuple[int, int]] = (2, 5)

    group: str
    member_id: str
    protocol_type: str
    protocol: str
    metadata: bytes
    session_timeout_ms: int
    rebalance_timeout_ms: int
    others: Mapping[str, bytes] = field(default_factory=dict)

    def encode(self, version: int, writer: Writer) -> None:
        """As JoinGroup v2 to v5, without static membership."""
        writer.string(self.group)
        writer.int32(self.session_timeout_ms)
        writer.int32(self.rebalance_timeout_ms)
        writer.string(self.member_id)
        if version >= 5:
            writer.string(None)
        writer.string(self.protocol_type)
        protocols = {self.protocol: self.metadata, **self.others}
        writer.length(len(protocols))
        for name, metadata in protocols.items():
            writer.string(name)
            writer.bytes_(metadata)

    def decode(self, version: int, reader: Reader) -> JoinGroupResponse:
        """As JoinGroup v2 to v5."""
        throttle, error, generation = reader.int32(), reader.int16(), reader.int32()
        protocol, leader, member_id = reader.string(), reader.string(), reader.string()
        members = {}
        for _ in range(reader.int32()):
            member = reader.string()
            if version >= 5:
                reader.nullable_string()
            members[member] = bytes(reader.bytes_())
        return JoinGroupResponse(throttle, error, generation, protocol, leader, member_id, members)


class SyncGroupResponse(NamedTuple):
    """What the leader assigned to this member."""

    throttle_ms: int
    error: int
    assignment: bytes


@dataclass(frozen=True, slots=True)
class SyncGroup(Request[SyncGroupResponse]):
    """Sends the assignments (leader only) and waits for this member's own."""

    api_key: ClassVar[int] = 14
    versions: ClassVar[tuple[int, int]] = (1, 3)

    group: str
    generation: int
    member_id: str
    assignments: Mapping[str, bytes]

    def encode(self, version: int, writer: Writer) -> None:
        """As SyncGroup v1 to v3."""
        writer.string(self.group)
        writer.int32(self.generation)
        writer.string(self.member_id)
        if version >= 3:
            writer.string(None)
        writer.length(len(self.assignments))
        for member, assignment in self.assignments.items():
            writer.string(member)
            writer.bytes_(assignment)

    def decode(self, version: int, reader: Reader) -> SyncGroupResponse:
        """As SyncGroup v1 to v3."""
        return SyncGroupResponse(reader.int32(), reader.int16(), bytes(reader.bytes_()))


class GroupResponse(NamedTuple):
    """The response to Heartbeat and LeaveGroup."""

    throttle_ms: int
    error: int


@dataclass(frozen=True, slots=True)
class Heartbeat(Request[GroupResponse]):
    """Keeps this member in the group."""

    api_key: ClassVar[int] = 12
    versions: ClassVar[tuple[int, int]] = (1, 2)

    group: str
    generation: int
    member_id: str

    def encode(self, version: int, writer: Writer) -> None:
        """As Heartbeat v1 and v2."""
        writer.string(self.group)
        writer.int32(self.generation)
        writer.string(self.member_id)

    def decode(self, version: int, reader: Reader) -> GroupResponse:
        """As Heartbeat v1 and v2."""
        return GroupResponse(reader.int32(), reader.int16())


@dataclass(frozen=True, slots=True)
class LeaveGroup(Request[GroupResponse]):
    """Removes this member, so that the others do not wait for its session to end."""

    api_key: ClassVar[int] = 13
    versions: ClassVar[tuple[int, int]] = (1, 2)

    group: str
    member_id: str

    def encode(self, version: int, writer: Writer) -> None:
        """As LeaveGroup v1 and v2."""
        writer.string(self.group)
        writer.string(self.member_id)

    def decode(self, version: int, reader: Reader) -> GroupResponse:
        """As LeaveGroup v1 and v2."""
        return GroupResponse(reader.int32(), reader.int16())
