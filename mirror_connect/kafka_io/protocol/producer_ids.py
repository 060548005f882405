"""The request InitProducerId: a producer id, or the next epoch of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer


class InitProducerIdResponse(NamedTuple):
    """A producer id and the epoch with which it may write from now on."""

    throttle_ms: int
    error: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerId(Request[InitProducerIdResponse]):
    """Requests a producer id. With a transactional id, its coordinator raises the epoch, which fences the former owner.

    `producer_id` and `producer_epoch`, if known, let the broker refuse an owner that is already fenced (v3).
    `before_write` is called when the request is written; if it raises, nothing is written.
    """

    api_key: ClassVar[int] = 22
    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_from: ClassVar[int] = 2

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    producer_id: int = -1
    producer_epoch: int = -1
    before_write: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def encode(self, version: int, writer: Writer) -> None:
        """As InitProducerId v0 to v4."""
        if self.before_write is not None:
            self.before_write()
        writer.string(self.transactional_id)
        writer.int32(self.transaction_timeout_ms)
        if version >= 3:
            writer.int64(self.producer_id)
            writer.int16(self.producer_epoch)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> InitProducerIdResponse:
        """As InitProducerId v0 to v4."""
        return InitProducerIdResponse(reader.int32(), reader.int16(), reader.int64(), reader.int16())
