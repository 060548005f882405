"""The clock of leases, which the worker gives and tasks keep."""

from __future__ import annotations

import time


def boot_clock() -> float:
    """Seconds on a clock that never stops or jumps, not even while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
