"""Kafka's primitive types on the wire, and the base class of all requests.

aiokafka's structs copy, and fetch and produce carry megabytes. Here a Reader returns records as slices of the received
frame, and a Writer keeps payloads as separate buffers.
The rules are those of https://kafka.apache.org/protocol ("Protocol Primitive Types"); everything is big-endian.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Generic, TypeAlias, TypeVar

from mirror_connect.connectors.partitions import TopicPartition

Buffer: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
# Smaller pieces of a payload, such as the header of a batch, cost less if they are copied.
_SMALL_PIECE: Final = 256
_LONGEST_VARINT: Final = 28  # the shift of the fifth byte, the last one of a 32-bit number


class WireError(ValueError):
    """A broker's response does not have the form of its API version."""


class Reader:
    """Reads the values of a frame in order. `flexible`: lengths are compact, and tagged fields are skipped."""

    __slots__ = ("at", "buffer", "flexible")

    def __init__(self, buffer: memoryview, *, flexible: bool = False) -> None:
        self.buffer = buffer
        self.at = 0
        self.flexible = flexible

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        """Several integers at once. Raises WireError if the frame ends before them."""
        try:
            values = form.unpack_from(self.buffer, self.at)
        except struct.error as error:
            raise WireError(
                f"its response ends at byte {len(self.buffer)}, but {form.size} bytes are expected at {self.at}"
            ) from error
        self.at += form.size
        return values

    def int8(self) -> int:
        """INT8."""
        return self.unpack(_INT8)[0]

    def boolean(self) -> bool:
        """BOOLEAN."""
        return self.int8() != 0

    def int16(self) -> int:
        """INT16."""
        return self.unpack(_INT16)[0]

    def int32(self) -> int:
        """INT32."""
        return self.unpack(_INT32)[0]

    def int64(self) -> int:
        """INT64."""
        return self.unpack(_INT64)[0]

    def unsigned_varint(self) -> int:
        """UNSIGNED_VARINT."""
        at = self.at
        if at < len(self.buffer) and (byte := self.buffer[at]) < 0x80:
            self.at = at + 1
            return byte
        value = 0
        for shift in range(0, _LONGEST_VARINT + 1, 7):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError(f"its response has a variable-length number of more than five bytes at byte {at}")

    def raw(self, length: int) -> memoryview:
        """The next `length` bytes, as a slice of the frame."""
        end = self.at + length
        if length < 0 or end > len(self.buffer):
            raise WireError(
                f"its response ends at byte {len(self.buffer)}, but {length} bytes are expected at {self.at}"
            )
        part = self.buffer[self.at : end]
        self.at = end
        return part

    def nullable_string(self) -> str | None:
        """NULLABLE_STRING or COMPACT_NULLABLE_STRING."""
        length = self.unsigned_varint() - 1 if self.flexible else self.int16()
        return None if length < 0 else str(self.raw(length), "utf-8")

    def string(self) -> str:
        """STRING or COMPACT_STRING; null is read as empty."""
        return self.nullable_string() or ""

    def bytes_(self) -> memoryview:
        """NULLABLE_BYTES (or compact) as a slice of the frame; null is read as empty."""
        length = self.unsigned_varint() - 1 if self.flexible else self.int32()
        return self.raw(max(length, 0))

    def array(self, read: Callable[[], T]) -> list[T]:
        """ARRAY or COMPACT_ARRAY; `read` reads one element. Null is read as empty."""
        length = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if length > len(self.buffer) - self.at:
            raise WireError(f"its response has an array of {length} elements, more than can fit into the rest")
        return [read() for _ in range(length)]

    def tags(self) -> None:
        """Skips the tagged fields of a flexible version; does nothing in others."""
        if self.flexible:
            for _ in range(self.unsigned_varint()):
                self.unsigned_varint()
                self.raw(self.unsigned_varint())


class Writer:
    """Writes a request. Small fields share a buffer; payloads stay separate buffers."""

    __slots__ = ("_done", "_small", "flexible")

    def __init__(self, *, flexible: bool = False) -> None:
        self.flexible = flexible
        self._small = bytearray()
        self._done: list[Buffer] = []

    def int8(self, value: int) -> None:
        """INT8 or BOOLEAN."""
        self._small += _INT8.pack(value)

    def int16(self, value: int) -> None:
        """INT16."""
        self._small += _INT16.pack(value)

    def int32(self, value: int) -> None:
        """INT32."""
        self._small += _INT32.pack(value)

    def int64(self, value: int) -> None:
        """INT64."""
        self._small += _INT64.pack(value)

    def pack(self, form: struct.Struct, *values: int) -> None:
        """Several integers at once."""
        self._small += form.pack(*values)

    def unsigned_varint(self, value: int) -> None:
        """UNSIGNED_VARINT."""
        while value > 0x7F:
            self._small.append(value & 0x7F | 0x80)
            value >>= 7
        self._small.append(value)

    def string(self, value: str | None) -> None:
        """NULLABLE_STRING or COMPACT_NULLABLE_STRING."""
        encoded = None if value is None else value.encode()
        if self.flexible:
            self.unsigned_varint(0 if encoded is None else len(encoded) + 1)
        else:
            self.int16(-1 if encoded is None else len(encoded))
        self._small += encoded or b""

    def bytes_(self, value: bytes) -> None:
        """BYTES, copied; not for flexible versions."""
        self.int32(len(value))
        self._small += value

    def raw(self, value: bytes) -> None:
        """Bytes without a length, such as a UUID."""
        self._small += value

    def length(self, count: int | None) -> None:
        """The length in front of an array's elements; None for a null array."""
        if self.flexible:
            self.unsigned_varint(0 if count is None else count + 1)
        else:
            self.int32(-1 if count is None else count)

    def array(self, values: Iterable[T], write: Callable[[T], None]) -> None:
        """ARRAY or COMPACT_ARRAY."""
        listed = list(values)
        self.length(len(listed))
        for value in listed:
            write(value)

    def partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """An array of topics, each with the numbers of its partitions. Topics have the order in which they come first."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)

        def of_topic(topic: str) -> None:
            self.string(topic)
            self.array(topics[topic], self.int32)
            self.tags()

        self.array(topics, of_topic)

    def payload(self, pieces: Iterable[Buffer]) -> None:
        """BYTES (or compact) of several buffers. Large ones aren't copied: they must not change before the answer."""
        kept = list(pieces)
        size = sum(map(len, kept))
        if self.flexible:
            self.unsigned_varint(size + 1)
        else:
            self.int32(size)
        for piece in kept:
            if len(piece) <= _SMALL_PIECE:
                self._small += piece
            else:
                self._done.append(self._small)
                self._done.append(piece)
                self._small = bytearray()

    def tags(self) -> None:
        """Writes an empty list of tagged fields in a flexible version; does nothing in others."""
        if self.flexible:
            self._small.append(0)

    def buffers(self) -> list[Buffer]:
        """Everything written, in order."""
        return [*self._done, self._small]


class Request(ABC, Generic[T]):
    """A request: how it is written in a version, and how its response is read.

    `versions`: the lowest and highest version written here. The highest one that the broker supports too is used.
    From `flexible_from` on, versions are flexible: compact lengths and tagged fields (KIP-482).
    """

    api_key: ClassVar[int]
    versions: ClassVar[tuple[int, int]]
    flexible_from: ClassVar[int] = 1 << 15

    @property
    def lowest(self) -> int:
        """The lowest version in which this request can be written."""
        return self.versions[0]

    @property
    def highest(self) -> int:
        """The highest version in which this request can be written."""
        return self.versions[1]

    @abstractmethod
    def encode(self, version: int, writer: Writer) -> None:
        """Writes the body."""

    @abstractmethod
    def decode(self, version: int, reader: Reader) -> T:
        """Reads the response's body. Slices in it keep the whole frame alive."""
