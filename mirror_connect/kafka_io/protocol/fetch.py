"""The request Fetch, with sessions (KIP-227): records out of a leader's or a follower's log.

Field order as https://kafka.apache.org/protocol has it. Topics are named by id where that is known (v13, Kafka 3.1): a
topic that was deleted and created again has another id.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

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


class FetchPartition(NamedTuple):
    """A partition of a request. `leader_epoch` -1: not checked. A first batch larger than `max_bytes` comes whole.

    `topic_id`: 16 bytes, empty if not known. `last_epoch`: the leader epoch of the record before `offset`; with it the
    broker checks whether its log is still the one that was read (v12). -1: not checked.
    """

    topic: str
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = NO_TOPIC_ID
    last_epoch: int = -1


class ForgottenPartition(NamedTuple):
    """A partition that the session drops."""

    topic: str
    partition: int
    topic_id: bytes = NO_TOPIC_ID


class FetchedPartition(NamedTuple):
    """A partition of a response. `records` is a slice of the frame; its last batch may be cut off.

    `preferred_replica`: the replica to fetch from (KIP-392), -1 for none. Offsets that the broker does not send are -1.
    `aborted`: (producer id, first offset) of aborted transactions, under read_committed only.
    `diverging`: set if the broker's log is not the one that was read. It is the highest epoch up to `last_epoch` in that
    log, and the offset where this epoch ends.
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
    """`error` concerns the whole session. `size`: bytes of the frame, which the slices keep alive."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]
    size: int


@dataclass(frozen=True)
class Fetch(Request[FetchResponse]):
    """A fetch. In an incremental session, `partitions` are only the changed ones (KIP-227).

    `names`: topic id → name, of all topics that the response may hold. With it, a broker that supports topic ids gets
    them instead of names, so each partition needs one. A session uses either ids or names.
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
        """The last version with names, if topic ids are not known."""
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
        # Names cannot tell a new topic from the old one: a partition that is fetched must not be dropped as well.
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
        """The records are slices of the frame, not copies."""
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
            # An id that was not requested gets the empty name, which no topic has.
            topic = names.get(bytes(reader.raw(16)), "") if version >= BY_TOPIC_ID else reader.string()
            for _ in range(reader.unsigned_varint() - 1):
                at, aborted = reader.at, _NONE_ABORTED
                partition, code, high, stable, start, length, preferred = reader.unpack(_FETCHED_V12)
                if length > 1:
                    # Rare: otherwise the list of aborted transactions is one byte, for null or empty.
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


def _write_topic(writer: Writer, topic: bytes | str) -> None:
    """Writes an id or a name."""
    if isinstance(topic, bytes):
        writer.raw(topic)
    else:
        writer.string(topic)


def _pair(reader: Reader) -> tuple[int, int]:
    producer_id, first_offset = reader.unpack(_ABORTED)
    return producer_id, first_offset


def _diverging(reader: Reader) -> tuple[int, int] | None:
    """DivergingEpoch, if it is among the tagged fields after the records."""
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
