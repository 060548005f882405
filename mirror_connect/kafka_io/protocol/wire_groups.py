"""The requests about groups that are not one's own: ListGroups, OffsetFetch, OffsetCommit.

One group for each OffsetFetch: the form that every broker since 2.0 takes. Many of them go in one pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.wire_codec import Reader, Request, Writer

NO_LEADER_EPOCH = -1


class GroupEntry(NamedTuple):
    """A group that a broker coordinates. `state` (from 2.6) and `kind` (from 3.8) are empty where brokers are older."""

    group: str
    protocol_type: str
    state: str
    kind: str


class ListedGroups(NamedTuple):
    """All groups of one broker that may be seen."""

    throttle_ms: int
    error: int
    groups: list[GroupEntry]


@dataclass(frozen=True, slots=True)
class ListGroups(Request[ListedGroups]):
    """Every group that this broker coordinates, of whatever kind."""

    api_key: ClassVar[int] = 16
    versions: ClassVar[tuple[int, int]] = (1, 5)
    flexible_from: ClassVar[int] = 3

    def encode(self, version: int, writer: Writer) -> None:
        """As ListGroups v1 to v5, without filters."""
        for since in (4, 5):
            if version >= since:
                writer.length(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> ListedGroups:
        """As ListGroups v1 to v5."""

        def group() -> GroupEntry:
            name, protocol_type = reader.string(), reader.string()
            state = reader.string() if version >= 4 else ""
            kind = reader.string() if version >= 5 else ""
            reader.tags()
            return GroupEntry(name, protocol_type, state, kind)

        return ListedGroups(reader.int32(), reader.int16(), reader.array(group))


class CommittedOffset(NamedTuple):
    """A group's position in a partition: the offset of the record to read next, -1 for none."""

    topic: str
    partition: int
    offset: int
    metadata: str
    error: int


class FetchedOffsets(NamedTuple):
    """A group's positions."""

    throttle_ms: int
    error: int
    offsets: list[CommittedOffset]


@dataclass(frozen=True, slots=True)
class OffsetFetch(Request[FetchedOffsets]):
    """All positions of a group, sent to its coordinator; a group that doesn't exist has none."""

    api_key: ClassVar[int] = 9
    versions: ClassVar[tuple[int, int]] = (3, 7)
    flexible_from: ClassVar[int] = 6

    group: str

    def encode(self, version: int, writer: Writer) -> None:
        """As OffsetFetch v3 to v7; the last committed ones, also while a transaction is about to replace them."""
        writer.string(self.group)
        writer.length(None)
        if version >= 7:
            writer.int8(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> FetchedOffsets:
        """As OffsetFetch v3 to v7."""
        throttle = reader.int32()
        offsets: list[CommittedOffset] = []

        def topic() -> None:
            name = reader.string()

            def partition() -> None:
                number, offset = reader.int32(), reader.int64()
                if version >= 5:
                    reader.int32()
                offsets.append(CommittedOffset(name, number, offset, _any_text(reader), reader.int16()))
                reader.tags()

            reader.array(partition)
            reader.tags()

        reader.array(topic)
        return FetchedOffsets(throttle, reader.int16(), offsets)


class CommitAnswer(NamedTuple):
    """The error code of each (topic, partition)."""

    throttle_ms: int
    errors: dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class OffsetCommit(Request[CommitAnswer]):
    """Set positions of a group without being its member, sent to its coordinator.

    A group with members answers UNKNOWN_MEMBER_ID. `offsets`: (topic, partition) → (offset, metadata).
    """

    api_key: ClassVar[int] = 8
    versions: ClassVar[tuple[int, int]] = (3, 8)
    flexible_from: ClassVar[int] = 8

    group: str
    offsets: Mapping[tuple[str, int], tuple[int, str]]

    def encode(self, version: int, writer: Writer) -> None:
        """As OffsetCommit v3 to v8."""
        writer.string(self.group)
        writer.int32(-1)  # generation
        writer.string("")  # member id
        if version >= 7:
            writer.string(None)
        if version <= 4:
            writer.int64(-1)  # retention: the broker's
        topics = sorted({topic for topic, _ in self.offsets})

        def of_topic(topic: str) -> None:
            def of_partition(number: int) -> None:
                offset, metadata = self.offsets[topic, number]
                writer.int32(number)
                writer.int64(offset)
                if version >= 6:
                    writer.int32(NO_LEADER_EPOCH)
                writer.string(metadata)
                writer.tags()

            writer.string(topic)
            writer.array(sorted(number for name, number in self.offsets if name == topic), of_partition)
            writer.tags()

        writer.array(topics, of_topic)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> CommitAnswer:
        """As OffsetCommit v3 to v8."""
        throttle = reader.int32()
        errors: dict[tuple[str, int], int] = {}

        def topic() -> None:
            name = reader.string()

            def partition() -> None:
                number = reader.int32()
                errors[name, number] = reader.int16()
                reader.tags()

            reader.array(partition)
            reader.tags()

        reader.array(topic)
        return CommitAnswer(throttle, errors)


def _any_text(reader: Reader) -> str:
    """A string of a client's own making: what is no UTF-8 in it must not keep the rest from being read."""
    length = reader.unsigned_varint() - 1 if reader.flexible else reader.int16()
    return str(reader.raw(max(length, 0)), "utf-8", "replace")
