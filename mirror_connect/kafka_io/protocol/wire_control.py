"""The requests around the records: versions, authentication, metadata, coordinators, producer ids, transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.wire_codec import Reader, Request, Writer

_NO_TOPIC_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class ApiVersions(Request[dict[int, tuple[int, int]]]):
    """Which versions of which requests the broker takes: api key → (lowest, highest)."""

    api_key: ClassVar[int] = 18
    versions: ClassVar[tuple[int, int]] = (0, 0)

    def encode(self, version: int, writer: Writer) -> None:
        """No body."""

    def decode(self, version: int, reader: Reader) -> dict[int, tuple[int, int]]:
        """An error other than 0 gives no versions."""
        reader.int16()
        listed = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
        return {key: (lowest, highest) for key, lowest, highest in listed}


class SaslMechanisms(NamedTuple):
    """The answer to a handshake: 33 when the mechanism isn't among those enabled."""

    error: int
    enabled: list[str]


@dataclass(frozen=True, slots=True)
class SaslHandshake(Request[SaslMechanisms]):
    """Choose a SASL mechanism; v1 because the tokens then travel in SaslAuthenticate, with error texts."""

    api_key: ClassVar[int] = 17
    versions: ClassVar[tuple[int, int]] = (1, 1)

    mechanism: str

    def encode(self, version: int, writer: Writer) -> None:
        """The mechanism's name."""
        writer.string(self.mechanism)

    def decode(self, version: int, reader: Reader) -> SaslMechanisms:
        """The enabled mechanisms come with the error too."""
        return SaslMechanisms(reader.int16(), reader.array(reader.string))


class SaslAnswer(NamedTuple):
    """`session_ms`: how long the login lasts (KIP-368), 0 = for ever."""

    error: int
    message: str
    token: bytes
    session_ms: int


class SaslAuthenticate(Request[SaslAnswer]):
    """One token of a SASL exchange. No dataclass: its repr would show the password."""

    api_key: ClassVar[int] = 36
    versions: ClassVar[tuple[int, int]] = (0, 1)

    def __init__(self, token: bytes) -> None:
        self._token = token

    def encode(self, version: int, writer: Writer) -> None:
        """The token."""
        writer.bytes_(self._token)

    def decode(self, version: int, reader: Reader) -> SaslAnswer:
        """The broker's token, or its reason."""
        error, message, token = reader.int16(), reader.string(), bytes(reader.bytes_())
        return SaslAnswer(error, message, token, reader.int64() if version >= 1 else 0)


class BrokerEntry(NamedTuple):
    """A broker as the metadata names it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionEntry(NamedTuple):
    """A partition as the metadata names it; `leader` -1: none, `leader_epoch` -1: not told (before v7)."""

    error: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]


class TopicEntry(NamedTuple):
    """A topic as the metadata names it. `topic_id`: 16 bytes, None before v10 and for a topic that doesn't exist."""

    error: int
    name: str
    topic_id: bytes | None
    partitions: list[PartitionEntry]


class MetadataResponse(NamedTuple):
    """Brokers and the topics asked for."""

    throttle_ms: int
    brokers: list[BrokerEntry]
    cluster_id: str | None
    controller: int
    topics: list[TopicEntry]


@dataclass(frozen=True, slots=True)
class Metadata(Request[MetadataResponse]):
    """Brokers and these topics, or all topics with None. Never creates a topic (which is why v4 is the lowest)."""

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
        """Authorized operations are not asked for and skipped."""
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


class CoordinatorResponse(NamedTuple):
    """Which broker coordinates; error 15 while none does yet."""

    throttle_ms: int
    error: int
    message: str
    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FindCoordinator(Request[CoordinatorResponse]):
    """Who coordinates a group (`kind` 0) or a transactional id (1)."""

    api_key: ClassVar[int] = 10
    versions: ClassVar[tuple[int, int]] = (1, 2)

    key: str
    kind: int

    def encode(self, version: int, writer: Writer) -> None:
        """As FindCoordinator v1 and v2."""
        writer.string(self.key)
        writer.int8(self.kind)

    def decode(self, version: int, reader: Reader) -> CoordinatorResponse:
        """As FindCoordinator v1 and v2."""
        return CoordinatorResponse(
            reader.int32(), reader.int16(), reader.string(), reader.int32(), reader.string(), reader.int32()
        )


class ProducerIdResponse(NamedTuple):
    """A producer id and the epoch with which it may write from now on."""

    throttle_ms: int
    error: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerId(Request[ProducerIdResponse]):
    """A producer id; with a transactional id (sent to its coordinator) the next epoch, which fences the former owner.

    `producer_id` and `producer_epoch`, when known, let the broker tell a fenced owner from the present one (v3).
    """

    api_key: ClassVar[int] = 22
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_from: ClassVar[int] = 2

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    producer_id: int = -1
    producer_epoch: int = -1

    def encode(self, version: int, writer: Writer) -> None:
        """As InitProducerId v0 to v4."""
        writer.string(self.transactional_id)
        writer.int32(self.transaction_timeout_ms)
        if version >= 3:
            writer.int64(self.producer_id)
            writer.int16(self.producer_epoch)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> ProducerIdResponse:
        """As InitProducerId v0 to v4."""
        return ProducerIdResponse(reader.int32(), reader.int16(), reader.int64(), reader.int16())


class AddedPartitions(NamedTuple):
    """Error code per partition."""

    throttle_ms: int
    errors: dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxn(Request[AddedPartitions]):
    """Tell the transaction's coordinator which partitions the transaction will write to."""

    api_key: ClassVar[int] = 24
    versions: ClassVar[tuple[int, int]] = (0, 2)

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Mapping[str, Sequence[int]]

    def encode(self, version: int, writer: Writer) -> None:
        """As AddPartitionsToTxn v0 to v2."""
        writer.string(self.transactional_id)
        writer.int64(self.producer_id)
        writer.int16(self.producer_epoch)
        writer.length(len(self.partitions))
        for topic, numbers in self.partitions.items():
            writer.string(topic)
            writer.array(numbers, writer.int32)

    def decode(self, version: int, reader: Reader) -> AddedPartitions:
        """As AddPartitionsToTxn v0 to v2."""
        throttle = reader.int32()
        errors = {}
        for _ in range(reader.int32()):
            topic = reader.string()
            for number, error in reader.array(lambda: (reader.int32(), reader.int16())):
                errors[topic, number] = error
        return AddedPartitions(throttle, errors)


class EndedTransaction(NamedTuple):
    """How the end of a transaction was taken."""

    throttle_ms: int
    error: int


@dataclass(frozen=True, slots=True)
class EndTxn(Request[EndedTransaction]):
    """Commit or abort the open transaction; sent to its coordinator."""

    api_key: ClassVar[int] = 26
    versions: ClassVar[tuple[int, int]] = (0, 2)

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool

    def encode(self, version: int, writer: Writer) -> None:
        """As EndTxn v0 to v2."""
        writer.string(self.transactional_id)
        writer.int64(self.producer_id)
        writer.int16(self.producer_epoch)
        writer.int8(int(self.commit))

    def decode(self, version: int, reader: Reader) -> EndedTransaction:
        """As EndTxn v0 to v2."""
        return EndedTransaction(reader.int32(), reader.int16())


class EpochEnd(NamedTuple):
    """The last leader epoch not above the one asked for, and the offset at which it ended; -1: not known."""

    error: int
    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpoch(Request[dict[tuple[str, int], EpochEnd]]):
    """Where the log of a leader epoch ended: (topic, partition) → (current leader epoch, epoch asked for).

    An end below a reader's position says that the log was truncated there (KIP-320).
    """

    api_key: ClassVar[int] = 23
    versions: ClassVar[tuple[int, int]] = (2, 3)

    wanted: Mapping[tuple[str, int], tuple[int, int]]

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

    def decode(self, version: int, reader: Reader) -> dict[tuple[str, int], EpochEnd]:
        """One entry per partition asked for."""
        reader.int32()
        found = {}
        for _ in range(reader.int32()):
            topic = reader.string()
            for _ in range(reader.int32()):
                error, partition = reader.int16(), reader.int32()
                found[topic, partition] = EpochEnd(error, reader.int32(), reader.int64())
        return found
