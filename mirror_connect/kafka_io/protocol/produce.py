"""The request Produce: batches to the leaders of their partitions.

Field order as https://kafka.apache.org/protocol has it. Versions up to 12 name topics by name: docs/decisions/0014 says why.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Buffer, Reader, Request, Writer

_PRODUCED: Final = struct.Struct(">ihqq")
_PRODUCED_V5: Final = struct.Struct(">ihqqq")
# With the number of bad records, and the length of the text.
_PRODUCED_V8: Final = struct.Struct(">ihqqqih")
_USUAL: Final = 8
_FLEXIBLE_FROM: Final = 9
# From this version on, the broker adds the partitions to the transaction (KIP-890).
_ADDS_FROM: Final = 12


class ProducePartition(NamedTuple):
    """One batch for one partition; its buffers together are one record batch."""

    topic: str
    partition: int
    batch: Sequence[Buffer]


class ProducedPartition(NamedTuple):
    """The result for one batch. `base_offset`: -1 on errors, and for a duplicate whose offset the broker has forgotten.

    `log_append_time`: -1 unless the topic has LogAppendTime. `message`: the broker's text for an error, if it sent one (v8).
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
    """Writes at most one batch per partition: the broker refuses more. `acks`: -1 (all) or 1.

    `acks=0` is not supported, because it has no response. The batches' buffers are not copied: do not change them before the
    response is there. `before_write` is called when the request is written; if it raises, nothing is written.
    `adds_partitions`: the broker adds the partitions to the transaction, and begins one if none is open (v12).
    """

    api_key: ClassVar[int] = 0
    versions: ClassVar[tuple[int, int]] = (3, _ADDS_FROM)
    flexible_from: ClassVar[int] = _FLEXIBLE_FROM

    batches: Sequence[ProducePartition]
    acks: int = -1
    timeout_ms: int = 30_000
    transactional_id: str | None = None
    before_write: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    adds_partitions: bool = False

    @property
    def lowest(self) -> int:
        """Below v12 the broker would not add the partitions."""
        return _ADDS_FROM if self.adds_partitions else 3

    @property
    def highest(self) -> int:
        """Versions in between cost more to write, and bring nothing."""
        return _ADDS_FROM if self.adds_partitions else _USUAL

    def encode(self, version: int, writer: Writer) -> None:
        """As Produce v3 to v12."""
        if self.before_write is not None:
            self.before_write()
        writer.string(self.transactional_id)
        writer.int16(self.acks)
        writer.int32(self.timeout_ms)
        topics: dict[str, list[ProducePartition]] = {}
        for each in self.batches:
            topics.setdefault(each.topic, []).append(each)
        flexible = writer.flexible
        writer.length(len(topics))
        for topic, batches in topics.items():
            writer.string(topic)
            writer.length(len(batches))
            for wanted in batches:
                writer.int32(wanted.partition)
                writer.payload(wanted.batch)
                if flexible:
                    writer.tags()
            writer.tags()
        writer.tags()

    def decode(self, version: int, reader: Reader) -> ProduceResponse:
        """As Produce v3 to v12. `message` is that of the batch, else that of its first bad record (v8)."""
        if version >= _FLEXIBLE_FROM:
            return _flexible(reader)
        partitions = []
        for _ in range(reader.int32()):
            topic = reader.string()
            for _ in range(reader.int32()):
                if version >= 8:
                    partition, code, base, appended, start, bad, text = reader.unpack(_PRODUCED_V8)
                    if bad <= 0 and text < 0:
                        # Nearly always: no reason to tell.
                        partitions.append(ProducedPartition(topic, partition, code, base, appended, start, ""))
                        continue
                    reader.at -= _PRODUCED_V8.size
                partition, code, base, appended, *rest = reader.unpack(_PRODUCED_V5 if version >= 5 else _PRODUCED)
                message = ""
                if version >= 8:
                    reasons = [m for _, m in reader.array(lambda: (reader.int32(), reader.string())) if m]
                    message = reader.string() or next(iter(reasons), "")
                start = rest[0] if rest else -1
                partitions.append(ProducedPartition(topic, partition, code, base, appended, start, message))
        return ProduceResponse(partitions, reader.int32())


def _flexible(reader: Reader) -> ProduceResponse:
    """The answer since v9."""

    def read_topic() -> list[ProducedPartition]:
        topic = reader.string()
        partitions = reader.array(lambda: _partition(reader, topic))
        reader.tags()
        return partitions

    topics = reader.array(read_topic)
    return ProduceResponse([each for partitions in topics for each in partitions], reader.int32())


def _partition(reader: Reader, topic: str) -> ProducedPartition:
    partition, code, base, appended, start = reader.unpack(_PRODUCED_V5)

    def read_reason() -> str:
        reader.int32()
        text = reader.string()
        reader.tags()
        return text

    reasons = [each for each in reader.array(read_reason) if each]
    message = reader.string() or next(iter(reasons), "")
    reader.tags()  # the current leader, since v10
    return ProducedPartition(topic, partition, code, base, appended, start, message)
