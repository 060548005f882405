"""The clock of leases, and points in time as people read them."""

from __future__ import annotations

import time


def boot_clock() -> float:
    """For leases: seconds on a clock that never stops or jumps, not even while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def utc(seconds: float) -> str:
    """Seconds since 1970 as `2026-01-31 23:59:59 UTC`: the same on all machines."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
