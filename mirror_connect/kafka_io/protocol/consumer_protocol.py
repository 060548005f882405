"""What consumers of a group tell each other inside the group protocol: subscriptions and assignments.

Protocol type `consumer`, as Java's consumer has it (ConsumerProtocolSubscription and ConsumerProtocolAssignment). The broker
passes these bytes on unread. Version 0 is written. Newer versions only add fields at the end, which are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.codec import Reader, Writer

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = 0
_NO_USER_DATA: Final = -1


def subscription(topics: Iterable[str]) -> bytes:
    """A member's subscription, without user data."""
    writer = Writer()
    writer.int16(_VERSION)
    writer.array(sorted(topics), writer.string)
    writer.int32(_NO_USER_DATA)
    return b"".join(writer.buffers())


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics of a subscription of any version. ValueError for what is none."""
    reader = Reader(memoryview(metadata))
    _check_version(reader)
    return frozenset(reader.array(reader.string))


def assignment(partitions: Collection[TopicPartition]) -> bytes:
    """The partitions of one member, without user data."""
    writer = Writer()
    writer.int16(_VERSION)
    writer.partitions(sorted(partitions))
    writer.int32(_NO_USER_DATA)
    return b"".join(writer.buffers())


def assigned_partitions(content: bytes) -> list[TopicPartition]:
    """The partitions of an assignment of any version; none for no bytes at all. ValueError for what is none."""
    if not content:
        return []
    reader = Reader(memoryview(content))
    _check_version(reader)
    found: list[TopicPartition] = []

    def topic() -> None:
        name = reader.string()
        found.extend(TopicPartition(name, partition) for partition in reader.array(reader.int32))

    reader.array(topic)
    return found


def _check_version(reader: Reader) -> None:
    version = reader.int16()
    if version < 0:
        raise ValueError(f"version {version} of the consumer protocol does not exist")
