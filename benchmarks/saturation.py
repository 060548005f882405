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


@contextmanager
def saturated() -> Iterator[int]:
    """As many processes as this machine has processors, of usual priority, that compute until the block ends.

    They have sessions of their own, as other services have. Linux shares processors among sessions (sched_autogroup). In
    this process's session they would take from those that send and receive what is measured, and hold these up by seconds.

    Yields their number.
    """
    busy: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(psutil.cpu_count() or 1):
            busy.append(subprocess.Popen([sys.executable, "-c", _ENDLESS], start_new_session=True))
            watchdog().guard_process(busy[-1].pid)
        yield len(busy)
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
            watchdog().forget_process(process.pid)
