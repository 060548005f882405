"""The file of `offset.storage.file.filename`, as Kafka's FileOffsetBackingStore writes and reads it.

    read_offset_file(path) -> {key: value or None}
    write_offset_file(path, offsets)
    remove_leftovers(path)

It is one `HashMap<byte[], byte[]>` in Java's serialization format: the class of the map, its fields, then a key and a value
for each entry, and each class written out only where it comes first. Keys and values are those of connect-offsets. Only such
a map is read. Any other class is refused by its bytes, so that a file can't name what is to be made of it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

# A key of three names and its value take some 150 bytes: room for 400,000 partitions.
MOST_BYTES: Final = 64 << 20

_START: Final = b"\xac\xed\x00\x05"  # STREAM_MAGIC, STREAM_VERSION
_NULL, _REFERENCE, _ARRAY, _END = 0x70, 0x71, 0x75, 0x78
# TC_OBJECT and the class: name, serialVersionUID, "has a writeObject", two fields; no annotation, no parent class.
_MAP: Final = (
    b"\x73\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09threshold\x78\x70"
)
# loadFactor, threshold, TC_BLOCKDATA of 8 bytes: buckets, entries.
_FIELDS: Final = struct.Struct(">fiBBii")
_BLOCK: Final = (0x77, 8)
_BYTES_CLASS: Final = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
_LENGTH: Final = struct.Struct(">i")
# Everything written gets a number, by which it may come again. The class of the map has the first, the map the second.
_FIRST_HANDLE: Final = 0x7E0000
_BYTES_CLASS_HANDLE: Final = _FIRST_HANDLE + 2
_BYTES_CLASS_AGAIN: Final = b"\x71" + _LENGTH.pack(_BYTES_CLASS_HANDLE)
_LOAD_FACTOR: Final = 0.75
_FIRST_BUCKETS: Final = 16
_TOKEN_BYTES: Final = 6


class OffsetFileError(Exception):
    """The offset file can't be read or written. The text is one line: the file, the reason, what to do."""


def read_offset_file(path: str | Path) -> dict[bytes, bytes | None]:
    """Offsets by key, in the file's order; empty if there is no file, or an empty one. OffsetFileError for all else.

    A truncated file is an error too: Java takes it for an empty one and copies everything again. An entry with the key null
    is left out: no connector has it.
    """
    try:
        if is_nowhere(path):
            return {}
        # Not blocking: a pipe is opened at once, and then refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    try:
        _check_regular(os.fstat(descriptor))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)
    try:
        return decode(content)
    except ValueError as error:
        raise OffsetFileError(
            f"{path} is no offset file of Kafka Connect's standalone mode: {error}. Restore a copy of it, or correct "
            "offset.storage.file.filename. Without the file, connectors copy everything again"
        ) from None


def write_offset_file(path: str | Path, offsets: Mapping[bytes, bytes | None]) -> None:
    """Replaces the file by these offsets, in their order. OffsetFileError, and the file is as it was before.

    When this returns, a crash of the machine leaves the new offsets, if its file system promises that; before, the old ones
    or the new ones. The file keeps its mode, and its owner if this process may give files away. A link is followed.
    """
    try:
        if is_nowhere(path):
            return
        _replace(os.path.realpath(path), encode(offsets))
    except (OSError, ValueError) as error:
        raise OffsetFileError(
            f"{path} can't be written: {_reason(error)}. It keeps its former offsets. This user needs the right to create "
            f"and rename files in {os.path.dirname(os.path.realpath(path))}; offset.storage.file.filename names the file"
        ) from None


def encode(offsets: Mapping[bytes, bytes | None]) -> bytes:
    """The bytes that Java writes for a map of these entries, if it goes through them in this order.

    ValueError if `read_offset_file` would refuse them because they are too many.
    """
    buckets = _FIRST_BUCKETS
    while len(offsets) > buckets * _LOAD_FACTOR:
        buckets *= 2
    # Java makes the buckets with the first entry.
    threshold = int(buckets * _LOAD_FACTOR) if offsets else 0
    parts = [_START, _MAP, _FIELDS.pack(_LOAD_FACTOR, threshold, *_BLOCK, buckets, len(offsets))]
    array_of_bytes = _BYTES_CLASS
    for entry in offsets.items():
        for each in entry:
            if each is None:
                parts.append(bytes((_NULL,)))
                continue
            parts += (bytes((_ARRAY,)), array_of_bytes, _LENGTH.pack(len(each)), each)
            array_of_bytes = _BYTES_CLASS_AGAIN
    parts.append(bytes((_END,)))
    content = b"".join(parts)
    _check_size(content)
    return content


def decode(content: bytes) -> dict[bytes, bytes | None]:
    """Offsets by key. ValueError, with a few words, for what is no such map; nothing at all is an empty one."""
    _check_size(content)
    return _Reader(content).offsets() if content else {}


class _Reader:
    """Goes through the bytes once, from the front; nothing is nested, so it needs no stack."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        # By handle, less _FIRST_HANDLE; None where it is no array.
        self._arrays: list[bytes | None] = [None, None]
        self._bytes_class_known = False

    def offsets(self) -> dict[bytes, bytes | None]:
        self._expect(_START, "it does not begin as one")
        self._expect(_MAP, "it holds something else than a HashMap")
        # Java does not rely on the others either: it chooses buckets by the number of entries.
        load_factor, _, *block, _, entries = _FIELDS.unpack(self._take(_FIELDS.size))
        if not load_factor > 0 or tuple(block) != _BLOCK or entries < 0:
            raise self._problem("the HashMap is damaged")
        found: dict[bytes, bytes | None] = {}
        for _ in range(entries):
            key, value = self._element(), self._element()
            if key is not None:
                found[key] = value
        self._expect(bytes((_END,)), "there is more in the HashMap than its entries")
        if self._at != len(self._content):
            raise self._problem("there is more behind the HashMap")
        return found

    def _element(self) -> bytes | None:
        tag = self._take(1)[0]
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._known(self._number())
        if tag != _ARRAY:
            self._at -= 1
            raise self._problem("a key or value is no byte[]")
        self._bytes_class()
        length = self._number()
        if length < 0:
            raise self._problem("a byte[] has a negative length")
        array = self._take(length)
        self._arrays.append(array)
        return array

    def _bytes_class(self) -> None:
        if self._bytes_class_known:
            self._expect(_BYTES_CLASS_AGAIN, "a key or value is an array of something else than bytes")
            return
        self._expect(_BYTES_CLASS, "a key or value is an array of something else than bytes")
        self._bytes_class_known = True
        self._arrays.append(None)

    def _known(self, handle: int) -> bytes:
        place = handle - _FIRST_HANDLE
        array = self._arrays[place] if 0 <= place < len(self._arrays) else None
        if array is None:
            raise self._problem("a key or value refers to no earlier byte[]")
        return array

    def _number(self) -> int:
        number: int = _LENGTH.unpack(self._take(_LENGTH.size))[0]
        return number

    def _expect(self, wanted: bytes, otherwise: str) -> None:
        found = self._content[self._at : self._at + len(wanted)]
        if found == wanted:
            self._at += len(wanted)
            return
        raise self._truncated() if wanted.startswith(found) else self._problem(otherwise)

    def _take(self, count: int) -> bytes:
        found = self._content[self._at : self._at + count]
        if len(found) < count:
            raise self._truncated()
        self._at += count
        return found

    def _problem(self, what: str) -> ValueError:
        return ValueError(f"{what}, at byte {self._at}")

    def _truncated(self) -> ValueError:
        return ValueError(f"it is cut off after {len(self._content)} bytes")


def _replace(path: str, content: bytes) -> None:
    """By a second file that takes the first one's place; OSError."""
    try:
        former: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        former = None
    if former is not None:
        _check_regular(former)
    # Of no name that somebody else could have used before: the file is often in /tmp.
    new = f"{path}.{secrets.token_hex(_TOKEN_BYTES)}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if former is not None:
                # Some file systems have neither, and only root may give files away.
                with suppress(OSError):
                    os.fchown(descriptor, former.st_uid, former.st_gid)
                with suppress(OSError):
                    os.fchmod(descriptor, stat.S_IMODE(former.st_mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.rename(new, path)
    except BaseException:
        os.unlink(new)
        raise
    _sync_directory(os.path.dirname(path))


def remove_leftovers(path: str | Path) -> None:
    """Removes what a killed process left half-written beside the file. Nobody else may write the file meanwhile."""
    directory, name = os.path.split(os.path.realpath(path))
    left = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.new", re.DOTALL)
    # What can't be removed is only in the way of people.
    with suppress(OSError):
        for each in os.listdir(directory):
            if left.fullmatch(each):
                with suppress(OSError):
                    os.unlink(os.path.join(directory, each))


def _sync_directory(path: str) -> None:
    # Not all file systems know it, and one may create files in a directory that one may not read. Without it a crash of the
    # machine may bring back the former file, from whose offsets records are only copied again.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_nowhere(path: str | Path) -> bool:
    """Whether it is /dev/null, with which nothing is kept."""
    # Java reads nothing from it and writes into it. A rename would put a file in the device's place.
    return os.path.realpath(path) == os.devnull


def check_place(path: str | Path) -> None:
    """OSError if what is there is no regular file; there may be nothing."""
    with suppress(FileNotFoundError):
        _check_regular(os.stat(path))


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is a directory" if stat.S_ISDIR(found.st_mode) else "it is no regular file")


def _check_size(content: bytes) -> None:
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")


def _unreadable(path: str | Path, error: OSError | ValueError) -> OffsetFileError:
    return OffsetFileError(
        f"{path} can't be read: {_reason(error)}. Let this user read it, or correct offset.storage.file.filename"
    )


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
