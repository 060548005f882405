"""Somebody else's work, which takes all the processor time it is given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psutil

from deploy.local.watchdog import watchdog

_ENDLESS: Final = "while True: pass"
# Enough that brokers go on. Beside work of the usual priority they miss heartbeats, and partitions lose their leaders.
NICENESS: Final = 5


@contextmanager
def saturated() -> Iterator[int]:
    """As many processes as this machine has processors, of a lower priority, that compute until the block ends.

    Yields their number.
    """
    busy: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(psutil.cpu_count() or 1):
            busy.append(subprocess.Popen([sys.executable, "-c", _ENDLESS]))
            watchdog().guard_process(busy[-1].pid)
            psutil.Process(busy[-1].pid).nice(NICENESS)
        yield len(busy)
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
            watchdog().forget_process(process.pid)
