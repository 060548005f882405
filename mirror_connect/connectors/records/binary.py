"""The bytes of MirrorMaker's own topics: Kafka's protocol types, big endian, without framing.

Bytes after the last field are ignored, as Java's Schema does.
"""

from __future__ import annotations

import struct
from typing import Final

from mirror_connect.connectors.replication_policy import is_topic_name

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
_LONGEST_TEXT: Final = 0x7FFF
_LONGEST_VARINT: Final = 10  # bytes of a number below 2**70
_SHOWN: Final = 50


class UnreadableRecord(ValueError):
    """The bytes are no record of this topic. The text is one log line; readers continue with the next record."""


def text_bytes(text: str) -> bytes:
    """STRING: INT16 length in bytes and UTF-8. ValueError above 32,767 bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) > _LONGEST_TEXT:
        raise ValueError(f"a text of {len(data)} bytes does not fit into a record: at most {_LONGEST_TEXT}")
    return INT16.pack(len(data)) + data


def varint_bytes(number: int) -> bytes:
    """A number from 0 to 2**70 - 1: seven bits per byte, the lowest first."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Reader:
    """Reads one field after the other; UnreadableRecord, which names `what`, if the bytes end too early."""

    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise UnreadableRecord(f"{what}: null")
        self._data = data
        self._what = what
        self._at = 0

    def int16(self) -> int:
        """INT16."""
        return self._number(INT16)

    def int32(self) -> int:
        """INT32."""
        return self._number(INT32)

    def int64(self) -> int:
        """INT64."""
        return self._number(INT64)

    def varint(self) -> int:
        """A number written by `varint_bytes`."""
        number = shift = 0
        for at in range(self._at, min(self._at + _LONGEST_VARINT, len(self._data))):
            byte = self._data[at]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._at = at + 1
                return number
            shift += 7
        raise self.unreadable("a number without an end")

    def text(self) -> str:
        """STRING."""
        length = self.int16()
        try:
            return self.raw(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.unreadable("a text that is not UTF-8") from error

    def topic(self) -> str:
        """STRING that is a valid topic name. Other names must not get to users' expressions, where matching costs time."""
        name = self.text()
        if not is_topic_name(name):
            more = "…" if len(name) > _SHOWN else ""
            raise self.unreadable(f"no topic can be called {name[:_SHOWN]!a}{more}")
        return name

    def partition(self) -> int:
        """INT32 that is a valid partition number."""
        number = self.int32()
        if number < 0:
            raise self.unreadable(f"no partition can have the number {number}")
        return number

    def raw(self, length: int) -> bytes:
        """`length` bytes as they are."""
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise self.unreadable(f"a length of {length} with {len(self._data) - self._at} bytes left")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def more(self) -> bool:
        """Whether any bytes are left."""
        return self._at < len(self._data)

    def version(self, known: int) -> None:
        """INT16 that must be `known`: the fields of other versions are unknown."""
        found = self.int16()
        if found != known:
            raise self.unreadable(f"version {found}, only {known} is known")

    def unreadable(self, problem: str) -> UnreadableRecord:
        """The error to raise."""
        return UnreadableRecord(f"{self._what}: {problem}")

    def _number(self, form: struct.Struct) -> int:
        try:
            (number,) = form.unpack_from(self._data, self._at)
        except struct.error:
            raise self.unreadable(f"{len(self._data)} bytes are too few") from None
        self._at += form.size
        return int(number)
