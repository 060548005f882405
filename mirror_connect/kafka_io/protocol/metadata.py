"""The requests that find the right broker: Metadata and FindCoordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

_NO_TOPIC_ID = bytes(16)


class BrokerEntry(NamedTuple):
    """A broker in the metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionEntry(NamedTuple):
    """A partition in the metadata. `leader` -1: none. `leader_epoch` -1: not sent (before v7)."""

    error: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]


class TopicEntry(NamedTuple):
    """A topic in the metadata. `topic_id`: 16 bytes; None before v10, and for a topic that does not exist."""

    error: int
    name: str
    topic_id: bytes | None
    partitions: list[PartitionEntry]


class MetadataResponse(NamedTuple):
    """Brokers and the requested topics."""

    throttle_ms: int
    brokers: list[BrokerEntry]
    cluster_id: str | None
    controller: int
    topics: list[TopicEntry]


@dataclass(frozen=True, slots=True)
class Metadata(Request[MetadataResponse]):
    """Requests brokers and these topics; None: all topics. Never creates a topic, which needs v4."""

    api_key: ClassVar[int] = 3
    versions: ClassVar[tuple[int, int]] = (4, 12)
    flexible_from: ClassVar[int] = 9

    topics: Sequence[str] | None

    def encode(self, version: int, writer: Writer) -> None:
        """As Metadata v4 to v12."""
        if self.topics is None:
            writer.length(None)
        else:
            writer.length(len(self.topics))
            for topic in self.topics:
                if version >= 10:
                    writer.raw(_NO_TOPIC_ID)
                writer.string(topic)
                writer.tags()
        writer.int8(0)  # allow_auto_topic_creation
        if 8 <= version <= 10:
            writer.int8(0)
        if version >= 8:
            writer.int8(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> MetadataResponse:
        """Authorized operations are skipped: they are not requested."""
        throttle = reader.int32()
        brokers = reader.array(lambda: _broker(reader))
        cluster_id = reader.nullable_string()
        controller = reader.int32()
        return MetadataResponse(
            throttle, brokers, cluster_id, controller, reader.array(lambda: _topic(version, reader))
        )


def _broker(reader: Reader) -> BrokerEntry:
    entry = BrokerEntry(reader.int32(), reader.string(), reader.int32(), reader.nullable_string())
    reader.tags()
    return entry


def _topic(version: int, reader: Reader) -> TopicEntry:
    error, name = reader.int16(), reader.string()
    topic_id = bytes(reader.raw(16)) if version >= 10 else _NO_TOPIC_ID
    reader.boolean()  # is_internal
    partitions = reader.array(lambda: _partition(version, reader))
    if version >= 8:
        reader.int32()
    reader.tags()
    return TopicEntry(error, name, topic_id if topic_id != _NO_TOPIC_ID else None, partitions)


def _partition(version: int, reader: Reader) -> PartitionEntry:
    error, number, leader = reader.int16(), reader.int32(), reader.int32()
    epoch = reader.int32() if version >= 7 else -1
    replicas, in_sync = reader.array(reader.int32), reader.array(reader.int32)
    if version >= 5:
        reader.array(reader.int32)  # offline replicas
    reader.tags()
    return PartitionEntry(error, number, leader, epoch, replicas, in_sync)


class FindCoordinatorResponse(NamedTuple):
    """The broker that coordinates; error 15 while there is none."""

    throttle_ms: int
    error: int
    message: str
    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FindCoordinator(Request[FindCoordinatorResponse]):
    """Requests the coordinator of a group (`kind` 0) or of a transactional id (1)."""

    api_key: ClassVar[int] = 10
    versions: ClassVar[tuple[int, int]] = (1, 2)

    key: str
    kind: int

    def encode(self, version: int, writer: Writer) -> None:
        """As FindCoordinator v1 and v2."""
        writer.string(self.key)
        writer.int8(self.kind)

    def decode(self, version: int, reader: Reader) -> FindCoordinatorResponse:
        """As FindCoordinator v1 and v2."""
        return FindCoordinatorResponse(
            reader.int32(), reader.int16(), reader.string(), reader.int32(), reader.string(), reader.int32()
        )
