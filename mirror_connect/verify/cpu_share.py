"""The CPU budget of sampling verification: a share of the least cost of copying, estimated from the cost of reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mirror_connect.verify.peek import ReadingPrice

# Cores that an idle link uses: worker, driver, JVM and task together (benchmarks/RESULTS.md: 2.7 % of a core).
_IDLE_CORES: Final = 0.02
# A copier receives each byte and sends it again.
_TIMES_MOVED: Final = 2


class CpuShare:
    """`share`: of the CPU seconds of copying, None for no limit. `own`: this process' CPU seconds."""

    def __init__(
        self,
        share: float | None,
        price: ReadingPrice,
        *,
        clock: Callable[[], float] = time.monotonic,
        own: Callable[[], float] = time.process_time,
    ) -> None:
        self._share = share
        self._price = price
        self._clock = clock
        self._own = own
        self._began = clock()
        self._own_began = own()

    def used(self) -> float:
        """CPU seconds of this process since the start."""
        return self._own() - self._own_began

    def copying(self, copied_bytes: float) -> float:
        """The least CPU seconds that copying so many bytes has cost since the start."""
        moved = _TIMES_MOVED * self._price.per_byte * copied_bytes
        return _IDLE_CORES * (self._clock() - self._began) + moved

    def left(self, copied_bytes: float) -> float:
        """CPU seconds that may be used now. Negative: so many must be waited for."""
        if self._share is None:
            return float("inf")
        return self._share * self.copying(copied_bytes) - self.used()

    @property
    def resting(self) -> float:
        """The budget's CPU seconds for each second without copying."""
        return float("inf") if self._share is None else self._share * _IDLE_CORES
