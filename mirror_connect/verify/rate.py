"""Limits the reading rate, so that a comparison leaves the brokers to their other clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Rate:
    """`per_second`: bytes on average, None for no limit. At most one second of unused rate is saved."""

    def __init__(self, per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._free_at = clock()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._per_second is not None

    def debt(self, size: int) -> float:
        """Counts `size` bytes. Returns the seconds to wait before using them."""
        if self._per_second is None:
            return 0.0
        now = self._clock()
        wait = max(0.0, self._free_at - now)
        self._free_at = max(self._free_at, now - 1.0) + size / self._per_second
        return wait

    async def take(self, size: int) -> None:
        """Waits until `size` bytes may be used."""
        wait = self.debt(size)
        if wait > 0:
            await asyncio.sleep(wait)
