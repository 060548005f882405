"""The requests of a transaction: AddPartitionsToTxn and EndTxn, both to the coordinator of the transactional id.

Produce with a transactional id and InitProducerId are in produce.py and producer_ids.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

# The first version of EndTxn that gives a new epoch (KIP-890).
NEW_EPOCHS_FROM: Final = 5


class AddPartitionsToTxnResponse(NamedTuple):
    """An error code for each partition. With errors, none of the partitions was added."""

    throttle_ms: int
    errors: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxn(Request[AddPartitionsToTxnResponse]):
    """Adds partitions to the transaction, and begins one if none is open. Brokers alone use versions above 3.

    `before_write` is called when the request is written; if it raises, nothing is written.
    """

    api_key: ClassVar[int] = 24
    versions: ClassVar[tuple[int, int]] = (0, 3)
    flexible_from: ClassVar[int] = 3

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    before_write: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def encode(self, version: int, writer: Writer) -> None:
        """As AddPartitionsToTxn v0 to v3."""
        if self.before_write is not None:
            self.before_write()
        writer.string(self.transactional_id)
        writer.int64(self.producer_id)
        writer.int16(self.producer_epoch)
        writer.partitions(self.partitions)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> AddPartitionsToTxnResponse:
        """As AddPartitionsToTxn v0 to v3."""
        throttle_ms = reader.int32()
        errors: dict[TopicPartition, int] = {}

        def read_partition() -> tuple[int, int]:
            found = reader.int32(), reader.int16()
            reader.tags()
            return found

        def read_topic() -> None:
            topic = reader.string()
            errors.update((TopicPartition(topic, number), code) for number, code in reader.array(read_partition))
            reader.tags()

        reader.array(read_topic)
        return AddPartitionsToTxnResponse(throttle_ms, errors)


class EndTxnResponse(NamedTuple):
    """`producer_id` and `producer_epoch`: those of the next transaction (v5); -1 before."""

    throttle_ms: int
    error: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class EndTxn(Request[EndTxnResponse]):
    """Commits or aborts the open transaction.

    `gives_epoch`: the answer brings the producer id and epoch of the next transaction (KIP-890). Otherwise they stay.
    `before_write` is called when the request is written; if it raises, nothing is written.
    """

    api_key: ClassVar[int] = 26
    versions: ClassVar[tuple[int, int]] = (0, NEW_EPOCHS_FROM)
    flexible_from: ClassVar[int] = 3

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    gives_epoch: bool = False
    before_write: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    @property
    def lowest(self) -> int:
        """Which version is used decides what the coordinator does with the epoch."""
        return NEW_EPOCHS_FROM if self.gives_epoch else 0

    @property
    def highest(self) -> int:
        """See `lowest`."""
        return NEW_EPOCHS_FROM if self.gives_epoch else NEW_EPOCHS_FROM - 1

    def encode(self, version: int, writer: Writer) -> None:
        """As EndTxn v0 to v5."""
        if self.before_write is not None:
            self.before_write()
        writer.string(self.transactional_id)
        writer.int64(self.producer_id)
        writer.int16(self.producer_epoch)
        writer.int8(self.committed)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> EndTxnResponse:
        """As EndTxn v0 to v5."""
        throttle_ms, error = reader.int32(), reader.int16()
        if version < NEW_EPOCHS_FROM:
            return EndTxnResponse(throttle_ms, error, -1, -1)
        return EndTxnResponse(throttle_ms, error, reader.int64(), reader.int16())
