"""The requests about the offsets of a log: ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

EARLIEST: Final = -2
LATEST: Final = -1


class ListedOffset(NamedTuple):
    """The offset in one partition; -1 if no record has the requested timestamp or a later one."""

    topic: str
    partition: int
    error: int
    timestamp: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ListOffsets(Request[list[ListedOffset]]):
    """Requests the offsets at a timestamp (ms), EARLIEST or LATEST. `wanted`: (topic, partition) → (timestamp, epoch).

    LATEST is the last stable offset under read_committed, else the high watermark. The broker checks the epoch, the current
    leader's, from v4 on.
    """

    api_key: ClassVar[int] = 2
    versions: ClassVar[tuple[int, int]] = (1, 5)

    wanted: Mapping[TopicPartition, tuple[int, int]]
    read_committed: bool = False

    def encode(self, version: int, writer: Writer) -> None:
        """As ListOffsets v1 to v5."""
        writer.int32(-1)
        if version >= 2:
            writer.int8(int(self.read_committed))
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, partition), (timestamp, epoch) in self.wanted.items():
            topics.setdefault(topic, []).append((partition, epoch, timestamp))
        writer.length(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.length(len(partitions))
            for partition, epoch, timestamp in partitions:
                writer.int32(partition)
                if version >= 4:
                    writer.int32(epoch)
                writer.int64(timestamp)

    def decode(self, version: int, reader: Reader) -> list[ListedOffset]:
        """One entry per requested partition."""
        if version >= 2:
            reader.int32()  # throttle time
        found = []
        for _ in range(reader.int32()):
            topic = reader.string()
            for _ in range(reader.int32()):
                partition, error = reader.int32(), reader.int16()
                timestamp, offset = reader.int64(), reader.int64()
                found.append(
                    ListedOffset(topic, partition, error, timestamp, offset, reader.int32() if version >= 4 else -1)
                )
        return found


class EpochEnd(NamedTuple):
    """The highest leader epoch up to the requested one, and its end offset; -1: not known."""

    error: int
    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpoch(Request[dict[TopicPartition, EpochEnd]]):
    """Requests the end offsets of leader epochs. `wanted`: (topic, partition) → (current leader epoch, requested epoch).

    An end offset below a consumer's position means that the log was truncated there (KIP-320).
    """

    api_key: ClassVar[int] = 23
    versions: ClassVar[tuple[int, int]] = (2, 3)

    wanted: Mapping[TopicPartition, tuple[int, int]]

    def encode(self, version: int, writer: Writer) -> None:
        """As OffsetForLeaderEpoch v2 and v3."""
        if version >= 3:
            writer.int32(-1)
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, partition), epochs in self.wanted.items():
            topics.setdefault(topic, []).append((partition, *epochs))
        writer.length(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.length(len(partitions))
            for each in partitions:
                for number in each:
                    writer.int32(number)

    def decode(self, version: int, reader: Reader) -> dict[TopicPartition, EpochEnd]:
        """One entry per requested partition."""
        reader.int32()
        found: dict[TopicPartition, EpochEnd] = {}
        for _ in range(reader.int32()):
            topic = reader.string()
            for _ in range(reader.int32()):
                error, partition = reader.int16(), reader.int32()
                found[TopicPartition(topic, partition)] = EpochEnd(error, reader.int32(), reader.int64())
        return found
