"""Reads a file that a config names: a regular one of at most 1 MiB, and if required, in certain directories.

A connector's config may name any path. A pipe would block the reading thread for ever, and /dev/zero would fill the memory.
Different error texts would reveal which files exist, so there is one text, and the log has the reason. /proc and /sys are
refused: they show this process's memory, environment and descriptors.
"""

from __future__ import annotations

import functools
import logging
import os
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MOST_BYTES: Final = 1 << 20
UNREADABLE: Final = (
    "there is no such file, or this process may not read it, or it isn't a regular file of at most 1 MiB; "
    "the log says which"
)
# Not blocking: a pipe is opened at once and then refused. A terminal must not become this process's own.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KERNELS: Final = ("/proc", "/sys")
_OF_THE_KERNEL: Final = "it is the kernel's (/proc or /sys)"
# After this many seconds the same file and reason are logged again, because tasks and connectors try for ever.
_LOGGED_AGAIN_S: Final = 60


class CantRead(Exception):
    """A file can't be read. The text is UNREADABLE, whatever the reason, which the log has.

    `reason`: for those who wrote the process's own files, and for nobody who only reaches REST.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(UNREADABLE)
        self.reason = reason


class OutsideError(Exception):
    """A file is in no permitted directory, by its real path when it was open."""


class RefusedFile(Exception):
    """The reason not to read a file that exists."""


def read_file(path: str | Path, within: Collection[str] | None = None) -> bytes:
    """The content of a regular file of at most 1 MiB. CantRead; OutsideError and `within`: see `opened_file`."""
    try:
        with opened_file(path, within) as descriptor:
            return _content(descriptor)
    except RefusedFile as refused:
        reason = str(refused)
    except FileNotFoundError:
        reason = "there is no such file"
    except PermissionError:
        reason = "this user may not read it"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # a NUL in the path, or what is no text
        reason = type(error).__name__
    _log(str(path), reason, int(time.monotonic()) // _LOGGED_AGAIN_S)
    raise CantRead(reason)


@contextmanager
def opened_file(path: str | Path, within: Collection[str] | None = None) -> Iterator[int]:
    """A descriptor of a regular file. RefusedFile, OSError, ValueError; OutsideError if it is in no directory of `within`.

    `within`: absolute paths of directories or files; links in them, and in `path`, are followed. The real path of the
    opened file counts, because a path that was checked may lead elsewhere when it is opened.
    """
    # Checked before it is opened, too: opening a device may have effects.
    _check_regular(os.stat(path))
    if Path(os.path.realpath(path)).is_relative_to("/sys"):  # file systems of their own are mounted there
        raise RefusedFile(_OF_THE_KERNEL)
    descriptor = os.open(path, _FLAGS)
    try:
        _check_regular(os.fstat(descriptor))
        if within is not None and not _lies_within(descriptor, within):
            raise OutsideError
        yield descriptor
    finally:
        os.close(descriptor)


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise RefusedFile("it is a directory" if stat.S_ISDIR(found.st_mode) else "it is no regular file")
    if found.st_dev in _kernels_devices():
        raise RefusedFile(_OF_THE_KERNEL)
    if found.st_nlink == 0:  # by /proc/self/fd: a key in memory for OpenSSL
        raise RefusedFile("it has no name any more")


@functools.cache
def _kernels_devices() -> frozenset[int]:
    root = os.stat("/").st_dev
    # Without such a file system, a directory of that name is like any other.
    return frozenset(os.stat(each).st_dev for each in _KERNELS if os.path.isdir(each)) - {root}


def _lies_within(descriptor: int, within: Collection[str]) -> bool:
    # The kernel says where the open file is. To resolve its path again would be another look: links may change in between.
    real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    return any(real.is_relative_to(os.path.realpath(each)) for each in within)


def _content(descriptor: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(descriptor, MOST_BYTES + 1 - size):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise RefusedFile("it has more than 1 MiB")
    return b"".join(parts)


@functools.lru_cache(maxsize=256)
def _log(path: str, reason: str, _: int) -> None:
    # A path from JSON may have lone surrogates, which no log stream can write.
    log.warning("%s can't be read: %s", path.encode("utf-8", "backslashreplace").decode(), reason)
