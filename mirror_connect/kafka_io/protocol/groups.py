"""The requests about groups and their offsets: ListGroups, DescribeGroups, OffsetFetch, OffsetCommit.

One OffsetFetch asks for one group, which every broker supports. Many of them can be in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.connectors.partitions import CommittedOffsets, TopicPartition
from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

NO_LEADER_EPOCH = -1


class GroupEntry(NamedTuple):
    """A group that a broker coordinates. `state` (from 2.6) and `kind` (from 3.8) are empty from older brokers."""

    group: str
    protocol_type: str
    state: str
    kind: str


class ListGroupsResponse(NamedTuple):
    """The groups of one broker that the user may see."""

    throttle_ms: int
    error: int
    groups: list[GroupEntry]


@dataclass(frozen=True, slots=True)
class ListGroups(Request[ListGroupsResponse]):
    """Requests all groups that this broker coordinates, of any type."""

    api_key: ClassVar[int] = 16
    versions: ClassVar[tuple[int, int]] = (1, 5)
    flexible_from: ClassVar[int] = 3

    def encode(self, version: int, writer: Writer) -> None:
        """As ListGroups v1 to v5, without filters."""
        for since in (4, 5):
            if version >= since:
                writer.length(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> ListGroupsResponse:
        """As ListGroups v1 to v5."""

        def group() -> GroupEntry:
            name, protocol_type = reader.string(), reader.string()
            state = reader.string() if version >= 4 else ""
            kind = reader.string() if version >= 5 else ""
            reader.tags()
            return GroupEntry(name, protocol_type, state, kind)

        return ListGroupsResponse(reader.int32(), reader.int16(), reader.array(group))


class MemberEntry(NamedTuple):
    """A member, with what it said when it joined and what it was assigned; both empty while the group rebalances."""

    client_host: str
    metadata: bytes
    assignment: bytes


class DescribeGroupsResponse(NamedTuple):
    """A group as its coordinator knows it. `protocol`: the one its members have chosen; empty while they choose."""

    error: int
    state: str
    protocol: str
    members: list[MemberEntry]


@dataclass(frozen=True, slots=True)
class DescribeGroups(Request[DescribeGroupsResponse]):
    """Requests the members of one group of the classic protocol from its coordinator."""

    api_key: ClassVar[int] = 15
    versions: ClassVar[tuple[int, int]] = (0, 5)
    flexible_from: ClassVar[int] = 5

    group: str

    def encode(self, version: int, writer: Writer) -> None:
        """As DescribeGroups v0 to v5, for one group and without the rights on it."""
        writer.array([self.group], writer.string)
        if version >= 3:
            writer.int8(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> DescribeGroupsResponse:
        """As DescribeGroups v0 to v5."""
        if version >= 1:
            reader.int32()

        def member() -> MemberEntry:
            reader.string()
            if version >= 4:
                reader.nullable_string()
            reader.string()
            entry = MemberEntry(reader.string(), bytes(reader.bytes_()), bytes(reader.bytes_()))
            reader.tags()
            return entry

        def group() -> DescribeGroupsResponse:
            error, _, state, _, protocol = (
                reader.int16(),
                reader.string(),
                reader.string(),
                reader.string(),
                reader.string(),
            )
            found = DescribeGroupsResponse(error, state, protocol, reader.array(member))
            if version >= 3:
                reader.int32()
            reader.tags()
            return found

        return reader.array(group)[0]


class FetchedOffset(NamedTuple):
    """The committed offset of a group in a partition: the next record to read, -1 for none."""

    topic: str
    partition: int
    offset: int
    metadata: str
    error: int


class OffsetFetchResponse(NamedTuple):
    """The committed offsets of a group."""

    throttle_ms: int
    error: int
    offsets: list[FetchedOffset]


@dataclass(frozen=True, slots=True)
class OffsetFetch(Request[OffsetFetchResponse]):
    """Requests all committed offsets of a group from its coordinator; a group that does not exist has none."""

    api_key: ClassVar[int] = 9
    versions: ClassVar[tuple[int, int]] = (3, 7)
    flexible_from: ClassVar[int] = 6

    group: str

    def encode(self, version: int, writer: Writer) -> None:
        """As OffsetFetch v3 to v7, with require_stable=false: offsets of open transactions are not waited for."""
        writer.string(self.group)
        writer.length(None)
        if version >= 7:
            writer.int8(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> OffsetFetchResponse:
        """As OffsetFetch v3 to v7."""
        throttle = reader.int32()
        offsets: list[FetchedOffset] = []

        def topic() -> None:
            name = reader.string()

            def partition() -> None:
                number, offset = reader.int32(), reader.int64()
                if version >= 5:
                    reader.int32()
                offsets.append(FetchedOffset(name, number, offset, _any_text(reader), reader.int16()))
                reader.tags()

            reader.array(partition)
            reader.tags()

        reader.array(topic)
        return OffsetFetchResponse(throttle, reader.int16(), offsets)


class OffsetCommitResponse(NamedTuple):
    """The error code of each partition."""

    throttle_ms: int
    errors: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetCommit(Request[OffsetCommitResponse]):
    """Commits offsets of a group through its coordinator: as a member, or without `member_id` as nobody.

    For a group with members, the broker answers UNKNOWN_MEMBER_ID to nobody, and ILLEGAL_GENERATION to a former member.
    """

    api_key: ClassVar[int] = 8
    versions: ClassVar[tuple[int, int]] = (3, 8)
    flexible_from: ClassVar[int] = 8

    group: str
    offsets: CommittedOffsets
    generation: int = -1
    member_id: str = ""

    def encode(self, version: int, writer: Writer) -> None:
        """As OffsetCommit v3 to v8."""
        writer.string(self.group)
        writer.int32(self.generation)
        writer.string(self.member_id)
        if version >= 7:
            writer.string(None)
        if version <= 4:
            writer.int64(-1)  # retention: the broker's
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(self.offsets):
            topics.setdefault(topic, []).append(number)

        def of_topic(topic: str) -> None:
            def of_partition(number: int) -> None:
                offset, metadata = self.offsets[TopicPartition(topic, number)]
                writer.int32(number)
                writer.int64(offset)
                if version >= 6:
                    writer.int32(NO_LEADER_EPOCH)
                writer.string(metadata)
                writer.tags()

            writer.string(topic)
            writer.array(topics[topic], of_partition)
            writer.tags()

        writer.array(topics, of_topic)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> OffsetCommitResponse:
        """As OffsetCommit v3 to v8."""
        throttle = reader.int32()
        errors: dict[TopicPartition, int] = {}

        def topic() -> None:
            name = reader.string()

            def partition() -> None:
                number = reader.int32()
                errors[TopicPartition(name, number)] = reader.int16()
                reader.tags()

            reader.array(partition)
            reader.tags()

        reader.array(topic)
        return OffsetCommitResponse(throttle, errors)


def _any_text(reader: Reader) -> str:
    """A string that some client wrote: bytes that are not UTF-8 are replaced, so that the rest can be read."""
    length = reader.unsigned_varint() - 1 if reader.flexible else reader.int16()
    return str(reader.raw(max(length, 0)), "utf-8", "replace")
