"""Watches a query: its progress is told when it takes long, and it is ended at a limit of time or bytes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

EVERY_S: Final = 0.25
TOLD_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """0: no limit. `size`: bytes fetched from the clusters, still compressed."""

    size: int
    seconds: float


class Reads(Protocol):
    """Tells how much was read."""

    @property
    def bytes_read(self) -> int:
        """So far."""


class Watch:
    """As a context, from the start to the end of a query. `interrupt` ends it; then `reason` says why.

    `starting`: whether Spark is not there yet, so that nothing can be read.
    """

    def __init__(
        self,
        reads: Reads,
        limits: Limits,
        say: Callable[[str], None],
        interrupt: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reason: str | None = None
        self.starting = False
        self._reads = reads
        self._limits = limits
        self._say = say
        self._interrupt = interrupt
        self._clock = clock
        self._begun = clock()
        self._told = self._begun
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            if not self.look():
                self._interrupt()
                return

    def look(self) -> bool:
        """Tells progress if it is time for it. False if a limit is reached."""
        size, seconds = self._reads.bytes_read, self._clock() - self._begun
        if self._limits.size and size > self._limits.size:
            self.reason = (
                f"stopped after {shown_size(size)}, which is more than --max-bytes {shown_size(self._limits.size)}: "
                "read less, with --last or a WHERE on timestamp, partition or offset, or raise the limit"
            )
        elif self._limits.seconds and seconds > self._limits.seconds:
            self.reason = (
                f"stopped after {self._limits.seconds:.0f} s, the limit of --timeout: "
                "read less, with --last or a WHERE on timestamp, partition or offset, or raise the limit"
            )
        elif self._clock() - self._told >= TOLD_EVERY_S:
            self._told = self._clock()
            self._say(f"{seconds:.0f} s, {'Spark is starting' if self.starting else f'{shown_size(size)} read'}")
        return self.reason is None


def shown_size(size: int) -> str:
    """`12 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size >>= 10
    return f"{size / 1024:.1f} TiB" if size >= 1024 else f"{size} GiB"
