"""Spark's scratch directories: one for each start, removed at its end; those of killed workers are removed later.

The worker that made a directory holds its lock (flock). The kernel releases the lock when the worker dies. Process ids prove
nothing: they are used again, and containers may share a temporary directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

PREFIX: Final = "mirror-connect-spark-"
# Not found by `remove_stale`: a directory is renamed when its lock is held.
_UNLOCKED_PREFIX: Final = "mirror-connect-new-"


class Scratch:
    """One directory, which exists and is locked until `remove`."""

    def __init__(self) -> None:
        unlocked = Path(tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX))
        self._lock = os.open(unlocked, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who ends Spark and who sees it end may both remove it, in two threads: a second close would be of another's file.
        self._removing = threading.Lock()
        self.path = unlocked.rename(unlocked.with_name(PREFIX + unlocked.name.removeprefix(_UNLOCKED_PREFIX)))

    def remove(self) -> None:
        """Removes it with all its files; a second call is harmless."""
        shutil.rmtree(self.path, ignore_errors=True)
        with self._removing:
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1


def remove_stale() -> None:
    """Removes the directories of workers that no longer exist, if this user has the right to."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)
