"""How a query goes on, told by Spark's Python processes to the command, through files in a directory of its own."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_READ: Final = "read-"
_FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class FileWitness:
    """A Witness (record_scan.py). Only this user may enter `directory`."""

    directory: str

    def read(self, size: int) -> None:
        """See Witness."""
        # A file for each process: a file's size is what was read, in KiB, and nobody has to wait for another.
        with open(Path(self.directory, f"{_READ}{os.getpid()}"), "ab") as file:
            file.write(b"." * max(1, size >> 10))

    def failed(self, line: str) -> None:
        """See Witness. The first failure counts: others may follow from it."""
        # Spark ends the processes of a failed query, also in the middle of this.
        partly = Path(self.directory, f"{_FAILED}-{os.getpid()}")
        partly.write_text(line, "utf-8")
        with contextlib.suppress(FileExistsError):
            os.link(partly, Path(self.directory, _FAILED))
        partly.unlink()

    @property
    def bytes_read(self) -> int:
        """How much was read so far, to a KiB for each fetch."""
        total = 0
        for each in os.scandir(self.directory):
            if each.name.startswith(_READ):
                total += each.stat().st_size << 10
        return total

    @property
    def failure(self) -> str | None:
        """Why the query failed, if a process of Python's knows."""
        try:
            return Path(self.directory, _FAILED).read_text("utf-8")
        except FileNotFoundError:
            return None
