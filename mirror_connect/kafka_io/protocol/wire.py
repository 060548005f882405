"""The requests that carry records: Fetch (with sessions), Produce, ListOffsets. Others are in wire_control.py.

Field order as https://kafka.apache.org/protocol has it. Fetch names topics by id where that is known (v13, Kafka 3.1): a
topic that was deleted and made again is another one then. Produce names them by name (docs/decisions/0014), up to v8.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from mirror_connect.kafka_io.protocol.wire_codec import Buffer, Reader, Request, Writer

EARLIEST: Final = -2
LATEST: Final = -1
NO_SESSION: Final = 0
FULL_FETCH: Final = 0
FINAL_EPOCH: Final = -1
NO_TOPIC_ID: Final = b""
BY_TOPIC_ID: Final = 13

_FETCH_HEAD: Final = struct.Struct(">iiiib")
_FETCHED_V4: Final = struct.Struct(">ihqqi")
_FETCHED_V5: Final = struct.Struct(">ihqqqi")
_FETCHED_V12: Final = struct.Struct(">ihqqqBi")
_ABORTED_AT: Final = 30
_ABORTED: Final = struct.Struct(">qq")
_DIVERGING_EPOCH: Final = 0
_EPOCH_END: Final = struct.Struct(">iq")
_NONE_ABORTED: Final[tuple[tuple[int, int], ...]] = ()
_PRODUCED: Final = struct.Struct(">ihqq")
_PRODUCED_V5: Final = struct.Struct(">ihqqq")


class FetchPartition(NamedTuple):
    """What is wanted of one partition. `leader_epoch` -1: don't check it. `max_bytes` yields to one whole batch.

    `topic_id`: 16 bytes, or none where it isn't known. `last_epoch`: the leader epoch of the record before `offset`, from
    which the broker tells whether its log is still the one that was read (v12); -1: don't check that.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = NO_TOPIC_ID
    last_epoch: int = -1


class ForgottenPartition(NamedTuple):
    """What a session shall not hold any longer."""

    topic: str
    partition: int
    topic_id: bytes = NO_TOPIC_ID


class FetchedPartition(NamedTuple):
    """What came of one partition. `records` is a slice of the frame; its last batch may be cut off.

    `preferred_replica` is -1 unless the broker wants to be asked elsewhere (KIP-392); -1 also stands for offsets the
    broker didn't tell. `aborted`: (producer id, first offset) of aborted transactions, under read_committed only.
    `diverging`: the broker's log isn't the one that was read; the highest epoch up to `last_epoch` that it has, and the
    offset at which that one ends in it.
    """

    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    preferred_replica: int
    records: memoryview
    diverging: tuple[int, int] | None = None


class FetchResponse(NamedTuple):
    """`error` concerns the session as a whole; `size` is that of the frame which the slices keep alive."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]
    size: int


@dataclass(frozen=True)
class Fetch(Request[FetchResponse]):
    """One fetch. Within an incremental session `partitions` are the changed ones only (KIP-227).

    `names`: topic id → name, of all topics that the answer may hold. With them the broker is told topic ids, if it takes
    any; every partition needs one then. A session keeps to one of the two.
    """

    api_key: ClassVar[int] = 1
    versions: ClassVar[tuple[int, int]] = (4, BY_TOPIC_ID)
    flexible_from: ClassVar[int] = 12

    partitions: Sequence[FetchPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    session_id: int = NO_SESSION
    session_epoch: int = FINAL_EPOCH
    forgotten: Sequence[ForgottenPartition] = ()
    rack: str = ""
    names: Mapping[bytes, str] | None = None

    @property
    def highest(self) -> int:
        """By name where there are no ids."""
        return BY_TOPIC_ID - 1 if self.names is None else BY_TOPIC_ID

    def encode(self, version: int, writer: Writer) -> None:
        """As Fetch v4 to v13; older versions have no session, epoch or rack."""
        writer.pack(_FETCH_HEAD, -1, self.max_wait_ms, self.min_bytes, self.max_bytes, int(self.read_committed))
        if version >= 7:
            writer.int32(self.session_id)
            writer.int32(self.session_epoch)
        by_id = version >= BY_TOPIC_ID
        topics: dict[bytes | str, list[FetchPartition]] = {}
        for each in self.partitions:
            topics.setdefault(each.topic_id if by_id else each.topic, []).append(each)
        writer.length(len(topics))
        for topic, partitions in topics.items():
            _write_topic(writer, topic)
            writer.length(len(partitions))
            for wanted in partitions:
                writer.int32(wanted.partition)
                if version >= 9:
                    writer.int32(wanted.leader_epoch)
                writer.int64(wanted.offset)
                if version >= 12:
                    writer.int32(wanted.last_epoch)
                if version >= 5:
                    writer.int64(-1)
                writer.int32(wanted.max_bytes)
                writer.tags()
            writer.tags()
        if version >= 7:
            self._encode_forgotten(version, writer)
        if version >= 11:
            writer.string(self.rack)
        writer.tags()

    def _encode_forgotten(self, version: int, writer: Writer) -> None:
        forgotten: dict[bytes | str, list[int]] = {}
        by_id = version >= BY_TOPIC_ID
        # By name, what is wanted of the new topic must not be forgotten with the old one.
        wanted = set() if by_id or not self.forgotten else {(each.topic, each.partition) for each in self.partitions}
        for topic, partition, topic_id in self.forgotten:
            if (topic, partition) not in wanted:
                forgotten.setdefault(topic_id if by_id else topic, []).append(partition)
        writer.length(len(forgotten))
        for each, numbers in forgotten.items():
            _write_topic(writer, each)
            writer.array(numbers, writer.int32)
            writer.tags()

    def decode(self, version: int, reader: Reader) -> FetchResponse:
        """Without copying: the records are slices of the frame."""
        throttle = reader.int32()
        error, session = (reader.int16(), reader.int32()) if version >= 7 else (0, NO_SESSION)
        partitions: list[FetchedPartition] = []
        if version >= self.flexible_from:
            self._decode_compact(version, reader, partitions)
            return FetchResponse(throttle, error, session, partitions, len(reader.buffer))
        form = _FETCHED_V5 if version >= 5 else _FETCHED_V4
        for _ in range(reader.int32()):
            topic = reader.string()
            for _ in range(reader.int32()):
                partition, code, high, stable, *rest = reader.unpack(form)
                start, aborted_count = rest if version >= 5 else (-1, *rest)
                aborted = tuple([_pair(reader) for _ in range(aborted_count)])
                preferred = reader.int32() if version >= 11 else -1
                records = reader.bytes_()
                partitions.append(
                    FetchedPartition(topic, partition, code, high, stable, start, aborted, preferred, records)
                )
        return FetchResponse(throttle, error, session, partitions, len(reader.buffer))

    def _decode_compact(self, version: int, reader: Reader, partitions: list[FetchedPartition]) -> None:
        names = self.names or {}
        for _ in range(reader.unsigned_varint() - 1):
            # No topic has an empty name: what comes of an id that nobody asked for is nobody's.
            topic = names.get(bytes(reader.raw(16)), "") if version >= BY_TOPIC_ID else reader.string()
            for _ in range(reader.unsigned_varint() - 1):
                at, aborted = reader.at, _NONE_ABORTED
                partition, code, high, stable, start, length, preferred = reader.unpack(_FETCHED_V12)
                if length > 1:
                    # Seldom: otherwise the length of aborted transactions is one byte, none or zero.
                    reader.at = at + _ABORTED_AT
                    aborted = tuple([_tagged_pair(reader) for _ in range(reader.unsigned_varint() - 1)])
                    preferred = reader.int32()
                records = reader.bytes_()
                diverging = _diverging(reader)
                partitions.append(
                    FetchedPartition(
                        topic, partition, code, high, stable, start, aborted, preferred, records, diverging
                    )
                )
            reader.tags()


class ProducePartition(NamedTuple):
    """One batch for one partition: the buffers together are exactly one record batch."""

    topic: str
    partition: int
    batch: Sequence[Buffer]


class ProducedPartition(NamedTuple):
    """How a batch fared. `base_offset` -1 on errors and for a duplicate too old to tell; `log_append_time` -1 unless
    the topic stamps records; `message` names the reason where the broker gave one (v8).
    """

    topic: str
    partition: int
    error: int
    base_offset: int
    log_append_time: int
    log_start: int
    message: str


class ProduceResponse(NamedTuple):
    """One entry per partition sent."""

    partitions: list[ProducedPartition]
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class Produce(Request[ProduceResponse]):
    """One batch per partition at most (the broker refuses more). `acks`: -1 (all) or 1; 0 has no answer: not offered.

    The batches' buffers are sent as they are, never joined: don't change them before the answer is there.
    """

    api_key: ClassVar[int] = 0
    versions: ClassVar[tuple[int, int]] = (3, 8)

    batches: Sequence[ProducePartition]
    acks: int = -1
    timeout_ms: int = 30_000
    transactional_id: str | None = field(default=None)

    def encode(self, version: int, writer: Writer) -> None:
        """As Produce v3 to v8."""
        writer.string(self.transactional_id)
        writer.int16(self.acks)
        writer.int32(self.timeout_ms)
        topics: dict[str, list[ProducePartition]] = {}
        for each in self.batches:
            topics.setdefault(each.topic, []).append(each)
        writer.length(len(topics))
        for topic, batches in topics.items():
            writer.string(topic)
            writer.length(len(batches))
            for wanted in batches:
                writer.int32(wanted.partition)
                writer.payload(wanted.batch)

    def decode(self, version: int, reader: Reader) -> ProduceResponse:
        """As Produce v3 to v8; which record of a refused batch was bad (v8) is not kept, its reason is."""
        partitions = []
        for _ in range(reader.int32()):
            topic = reader.string()
            for _ in range(reader.int32()):
                partition, code, base, appended, *rest = reader.unpack(_PRODUCED_V5 if version >= 5 else _PRODUCED)
                message = ""
                if version >= 8:
                    reasons = [m for _, m in reader.array(lambda: (reader.int32(), reader.string())) if m]
                    message = reader.string() or next(iter(reasons), "")
                start = rest[0] if rest else -1
                partitions.append(ProducedPartition(topic, partition, code, base, appended, start, message))
        return ProduceResponse(partitions, reader.int32())


class ListedOffset(NamedTuple):
    """The answer for one partition; `offset` -1 when no record has a timestamp as late as the one asked for."""

    topic: str
    partition: int
    error: int
    timestamp: int
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ListOffsets(Request[list[ListedOffset]]):
    """The offsets at a timestamp (ms), EARLIEST or LATEST. `wanted`: (topic, partition) → (timestamp, leader epoch).

    LATEST is the last stable offset under read_committed, else the high watermark. v4 checks the leader epoch.
    """

    api_key: ClassVar[int] = 2
    versions: ClassVar[tuple[int, int]] = (1, 5)

    wanted: Mapping[tuple[str, int], tuple[int, int]]
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
        """One entry per partition asked for."""
        if version >= 2:
            reader.int32()  # the throttle time is the connection's business: see Connection
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


def _write_topic(writer: Writer, topic: bytes | str) -> None:
    """An id or a name."""
    if isinstance(topic, bytes):
        writer.raw(topic)
    else:
        writer.string(topic)


def _pair(reader: Reader) -> tuple[int, int]:
    producer_id, first_offset = reader.unpack(_ABORTED)
    return producer_id, first_offset


def _diverging(reader: Reader) -> tuple[int, int] | None:
    """The tagged fields behind the records: of those only DivergingEpoch is wanted."""
    found = None
    for _ in range(reader.unsigned_varint()):
        tag, size = reader.unsigned_varint(), reader.unsigned_varint()
        behind = reader.at + size
        if tag == _DIVERGING_EPOCH:
            epoch, end = reader.unpack(_EPOCH_END)
            found = epoch, end
            reader.at = behind
        else:
            reader.raw(size)
    return found


def _tagged_pair(reader: Reader) -> tuple[int, int]:
    pair = _pair(reader)
    reader.tags()
    return pair
