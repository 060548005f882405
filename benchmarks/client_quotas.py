"""The request AlterClientQuotas: how many bytes a second a broker gives to each client id that has no quota of its own."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from mirror_connect.kafka_io.protocol.codec import Reader, Request, Writer

CLIENT_ID: Final = "client-id"
CONSUMER_RATE: Final = "consumer_byte_rate"
_DOUBLE: Final = struct.Struct(">d")


class Altered(NamedTuple):
    """`error`: 0 if it was done."""

    error: int
    message: str


@dataclass(frozen=True, slots=True)
class LimitConsumers(Request[list[Altered]]):
    """Bytes per second of each client id; None takes the limit away."""

    bytes_per_second: float | None

    api_key: ClassVar[int] = 49
    versions: ClassVar[tuple[int, int]] = (0, 0)

    def encode(self, version: int, writer: Writer) -> None:
        """As AlterClientQuotas v0: one entity, which is the default of client ids, and one of its quotas."""

        def entity(kind: str) -> None:
            writer.string(kind)
            # The default is the entity without a name.
            writer.string(None)

        def change(rate: float | None) -> None:
            writer.string(CONSUMER_RATE)
            writer.raw(_DOUBLE.pack(rate or 0.0))
            writer.int8(rate is None)

        def entry(rate: float | None) -> None:
            writer.array([CLIENT_ID], entity)
            writer.array([rate], change)

        writer.array([self.bytes_per_second], entry)
        writer.int8(0)

    def decode(self, version: int, reader: Reader) -> list[Altered]:
        """As AlterClientQuotas v0."""
        reader.int32()

        def entry() -> Altered:
            error, message = reader.int16(), reader.nullable_string()

            def entity() -> None:
                reader.string()
                reader.nullable_string()

            reader.array(entity)
            return Altered(error, message or "")

        return reader.array(entry)
