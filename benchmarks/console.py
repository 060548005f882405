"""What the run says while it lasts."""

from __future__ import annotations

import time
from collections.abc import Sequence


class Console:
    """Lines with the time since the start, and tables."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """One line of progress."""
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns as wide as their widest cell; the first to the left, the others to the right."""
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        for row in (head, *rows):
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            print("  " + "  ".join(cells).rstrip(), flush=True)
