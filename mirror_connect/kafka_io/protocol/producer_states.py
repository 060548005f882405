"""The request DescribeProducers: which producers a partition's leader knows, and the last sequence of each (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer


class ProducerState(NamedTuple):
    """One producer of a partition. `last_sequence`: of the last record that the leader has of it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int


class ProducersOfPartition(NamedTuple):
    """The producers that a partition's leader knows; none with an error."""

    error: int
    producers: list[ProducerState]


@dataclass(frozen=True, slots=True)
class DescribeProducers(Request[dict[TopicPartition, ProducersOfPartition]]):
    """Requests the producers of these partitions, of their leader. The user needs the right to read the topics."""

    api_key: ClassVar[int] = 61
    versions: ClassVar[tuple[int, int]] = (0, 0)
    flexible_from: ClassVar[int] = 0

    partitions: Iterable[TopicPartition]

    def encode(self, version: int, writer: Writer) -> None:
        """As DescribeProducers v0."""
        writer.partitions(self.partitions)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> dict[TopicPartition, ProducersOfPartition]:
        """As DescribeProducers v0. One entry per requested partition."""
        reader.int32()  # throttle time
        found: dict[TopicPartition, ProducersOfPartition] = {}

        def read_producer() -> ProducerState:
            state = ProducerState(reader.int64(), reader.int32(), reader.int32())
            reader.int64()  # last timestamp
            reader.int32()  # coordinator epoch
            reader.int64()  # first offset of the open transaction
            reader.tags()
            return state

        def read_partition() -> tuple[int, ProducersOfPartition]:
            number, error = reader.int32(), reader.int16()
            reader.nullable_string()  # the error's message
            producers = reader.array(read_producer)
            reader.tags()
            return number, ProducersOfPartition(error, producers)

        def read_topic() -> None:
            topic = reader.string()
            found.update((TopicPartition(topic, number), each) for number, each in reader.array(read_partition))
            reader.tags()

        reader.array(read_topic)
        return found
