"""The request DescribeLogDirs: the sizes of a broker's replicas. librdkafka has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer


class LogDirs(NamedTuple):
    """`error`: 0, or why nothing is told (31 without DESCRIBE on the cluster). `sizes`: in bytes.

    Brokers before v3 tell no error, but name no directory either.
    """

    error: int
    sizes: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class DescribeLogDirs(Request[LogDirs]):
    """Requests the sizes of these partitions (topic → numbers) on the broker that is asked."""

    api_key: ClassVar[int] = 35
    versions: ClassVar[tuple[int, int]] = (1, 4)
    flexible_from: ClassVar[int] = 2

    topics: Mapping[str, Sequence[int]]

    def encode(self, version: int, writer: Writer) -> None:
        """As DescribeLogDirs v1 to v4."""
        del version

        def topic(name: str) -> None:
            writer.string(name)
            writer.array(self.topics[name], writer.int32)
            writer.tags()

        writer.array(list(self.topics), topic)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> LogDirs:
        """As DescribeLogDirs v1 to v4. A replica that moves to another directory of its broker counts once."""
        reader.int32()
        error = reader.int16() if version >= 3 else 0
        sizes: dict[TopicPartition, int] = {}

        def directory() -> None:
            nonlocal error
            failed = reader.int16()
            error = error or failed
            reader.string()
            reader.array(topic)
            if version >= 4:
                reader.int64()
                reader.int64()
            reader.tags()

        def topic() -> None:
            name = reader.string()
            reader.array(lambda: partition(name))
            reader.tags()

        def partition(name: str) -> None:
            number, size = reader.int32(), reader.int64()
            reader.int64()  # how far a replica that moves is behind
            if not reader.boolean():
                sizes[TopicPartition(name, number)] = size
            reader.tags()

        reader.array(directory)
        reader.tags()
        return LogDirs(error, sizes)
