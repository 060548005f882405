"""Keeps a second worker off an offset file: two of them would replace each other's offsets.

A file of the same name and `.lock` is locked while the worker lives. The system releases it when the process ends, however
that happens. It stays there: if it were removed, two processes could lock two files of that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import Final

from mirror_connect.app.config.worker_keys import OFFSETS_FILE
from mirror_connect.app.errors import StartupError
from mirror_connect.app.standalone.offset_file import check_place, is_nowhere
from mirror_connect.connectors.errors import ConfigError

_SHOWN: Final = 20


class OffsetFileLock:
    """See the module. While it is taken, the lock's file holds the process id of the worker."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Returns whether the worker before this one was killed, so that its tasks may live for a moment.

        StartupError if another worker has the file; ConfigError if no file can be made there.
        """
        try:
            if is_nowhere(self._path):
                return False
            # First, so that no lock is left beside a directory.
            check_place(self._path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                OFFSETS_FILE, self._path, f"{reason}; name a file in a directory where this user may write"
            ) from None
        try:
            path = f"{os.path.realpath(self._path)}.lock"
            # No link: the file is often in /tmp, where others may have put one.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problem = (
                f"{self._path}.lock can't be made ({reason}); name a file in a directory where this user may write"
            )
            raise ConfigError(OFFSETS_FILE, self._path, problem) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left = os.pread(descriptor, _SHOWN, 0)
            own = b"%d\n" % os.getpid()
            # In this order: after a crash in between, an empty file would say that no worker was killed.
            os.pwrite(descriptor, own, 0)
            os.ftruncate(descriptor, len(own))
        except BlockingIOError:
            owner = os.pread(descriptor, _SHOWN, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            other = f"Another standalone worker (process {owner})" if owner.isdigit() else "Another standalone worker"
            raise StartupError(
                f"{other} uses {self._path}: stop it, or give this one another {OFFSETS_FILE}."
            ) from None
        except OSError as error:
            os.close(descriptor)
            problem = f"{path} can't be locked ({error.strerror}); name a file on a file system with locks and room"
            raise ConfigError(OFFSETS_FILE, self._path, problem) from None
        self._descriptor = descriptor
        return bool(left)

    def release(self, *, killed: bool = False) -> None:
        """The worker has ended as it should, and so have its tasks. `killed`: those of the one before it may live still."""
        if self._descriptor is not None:
            if not killed:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
