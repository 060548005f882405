"""SIGTERM and SIGINT, heard by a thread: a worker ends in time although its event loop hangs, and tells where it hung.

Python's own handler, in C, writes the signal's number to a descriptor, whatever the main thread does; the thread here reads
it. The last resort is a timer of faulthandler, a thread in C: once armed it needs neither the loop nor Python's lock.
Code that took that lock for ever *before* the signal came keeps the thread from arming it; then only SIGKILL helps.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
STANDARD_ERROR: Final = 2


def end_on_signals(ask: Callable[[], None], last_resort_s: float) -> None:
    """To be called on the running loop, in the main thread. At the first signal `ask` is called on the loop.

    If the process is still there `last_resort_s` later, where every thread stands goes to standard error and it ends with
    code 1. Later signals change nothing.
    """
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def hear() -> None:
        while not set(os.read(reading, 64)) & set(SIGNALS):
            pass
        faulthandler.dump_traceback_later(last_resort_s, exit=True, file=STANDARD_ERROR)
        with contextlib.suppress(RuntimeError):  # the loop is closed: it ends anyway
            loop.call_soon_threadsafe(ask)
        while os.read(reading, 64):
            pass

    threading.Thread(target=hear, name="signals", daemon=True).start()
    for number in SIGNALS:
        # Without a handler of Python's nothing is written; what it does is done above.
        signal.signal(number, _heard)
    # In place of the loop's own, which only the loop reads.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)


def _heard(_number: int, _frame: FrameType | None) -> None: ...
