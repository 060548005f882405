"""Kafka's primitive types on the wire, and what a request is: the ground under wire.py and wire_control.py.

Written by hand rather than with aiokafka's structs because fetch and produce carry megabytes: a Reader gives records as
slices of the received frame, a Writer keeps payloads as separate buffers, and neither copies them.
The rules are those of https://kafka.apache.org/protocol ("Protocol Primitive Types"); everything is big-endian.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, Generic, TypeAlias, TypeVar

from aiokafka.errors import for_code

Buffer: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_LONGEST_VARINT: Final = 28  # bits to shift for the fifth and last byte of 32


class WireError(ValueError):
    """A broker's answer doesn't have the form its API version promises."""


class Reader:
    """Takes values off a frame from front to back; `flexible` reads compact lengths and skips tagged fields."""

    __slots__ = ("at", "buffer", "flexible")

    def __init__(self, buffer: memoryview, *, flexible: bool = False) -> None:
        self.buffer = buffer
        self.at = 0
        self.flexible = flexible

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        """Several integers at once. Raises WireError when the frame ends before."""
        try:
            values = form.unpack_from(self.buffer, self.at)
        except struct.error as error:
            raise WireError(
                f"answer ends at byte {len(self.buffer)}, {form.size} more were due at {self.at}"
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
        raise WireError(f"a variable-length number at byte {self.at} doesn't end")

    def raw(self, length: int) -> memoryview:
        """The next `length` bytes, as a slice of the frame."""
        end = self.at + length
        if length < 0 or end > len(self.buffer):
            raise WireError(f"answer ends at byte {len(self.buffer)}, {length} more were due at {self.at}")
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
        """ARRAY or COMPACT_ARRAY of what `read` takes; null is read as empty."""
        length = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if length > len(self.buffer) - self.at:
            raise WireError(f"an array of {length} elements can't fit in the rest of the answer")
        return [read() for _ in range(length)]

    def tags(self) -> None:
        """Skip the tagged fields of a flexible version; nothing in others."""
        if self.flexible:
            for _ in range(self.unsigned_varint()):
                self.unsigned_varint()
                self.raw(self.unsigned_varint())


class Writer:
    """Collects a request. Small fields gather in one buffer; payloads stay as they are and are never joined."""

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
        """BYTES, small ones; not for flexible versions."""
        self.int32(len(value))
        self._small += value

    def raw(self, value: bytes) -> None:
        """Bytes without a length, as an UUID is."""
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

    def payload(self, pieces: Iterable[Buffer]) -> None:
        """BYTES made of several buffers, kept as they are; they must not change until the request is answered."""
        kept = list(pieces)
        self.int32(sum(map(len, kept)))
        self._done.append(self._small)
        self._done += kept
        self._small = bytearray()

    def tags(self) -> None:
        """No tagged fields, in a flexible version; nothing in others."""
        if self.flexible:
            self._small.append(0)

    def buffers(self) -> list[Buffer]:
        """Everything written, in order."""
        return [*self._done, self._small]


class Request(ABC, Generic[T]):
    """One request: how it is written at a version, and how its answer is read.

    `versions` are the lowest and highest version written here; the highest that the broker knows too is used.
    From `flexible_from` on, headers and lengths are the compact ones (KIP-482).
    """

    api_key: ClassVar[int]
    versions: ClassVar[tuple[int, int]]
    flexible_from: ClassVar[int] = 1 << 15

    @property
    def highest(self) -> int:
        """The highest version that this very request can be written in."""
        return self.versions[1]

    @abstractmethod
    def encode(self, version: int, writer: Writer) -> None:
        """Write the body."""

    @abstractmethod
    def decode(self, version: int, reader: Reader) -> T:
        """Read the answer's body. Slices in it keep the whole frame alive."""


def error_name(code: int) -> str:
    """Kafka's name of an error code, e.g. TOPIC_AUTHORIZATION_FAILED, with the number for one that is unknown."""
    if code in _NAMES:
        return _NAMES[code]
    name = getattr(for_code(code), "message", "")
    return name if name and code not in (-1, 0) and name != "UNKNOWN" else f"error {code}"


NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER: Final = 6
REQUEST_TIMED_OUT: Final = 7
REPLICA_NOT_AVAILABLE: Final = 9
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
INVALID_TOPIC: Final = 17
TOPIC_AUTHORIZATION_FAILED: Final = 29
CLUSTER_AUTHORIZATION_FAILED: Final = 31
UNSUPPORTED_SASL_MECHANISM: Final = 33
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
KAFKA_STORAGE_ERROR: Final = 56
SASL_AUTHENTICATION_FAILED: Final = 58
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
OFFSET_NOT_AVAILABLE: Final = 78
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106

# The codes that aiokafka has no class for, or names otherwise than the protocol guide.
_NAMES: Final = {
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    NOT_LEADER: "NOT_LEADER_OR_FOLLOWER",
    FENCED_LEADER_EPOCH: "FENCED_LEADER_EPOCH",
    UNKNOWN_LEADER_EPOCH: "UNKNOWN_LEADER_EPOCH",
    KAFKA_STORAGE_ERROR: "KAFKA_STORAGE_ERROR",
    FETCH_SESSION_ID_NOT_FOUND: "FETCH_SESSION_ID_NOT_FOUND",
    INVALID_FETCH_SESSION_EPOCH: "INVALID_FETCH_SESSION_EPOCH",
    OFFSET_NOT_AVAILABLE: "OFFSET_NOT_AVAILABLE",
    UNKNOWN_TOPIC_ID: "UNKNOWN_TOPIC_ID",
    INCONSISTENT_TOPIC_ID: "INCONSISTENT_TOPIC_ID",
    FETCH_SESSION_TOPIC_ID_ERROR: "FETCH_SESSION_TOPIC_ID_ERROR",
    SASL_AUTHENTICATION_FAILED: "SASL_AUTHENTICATION_FAILED",
}
