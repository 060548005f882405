"""SIGTERM and SIGINT in a thread: a worker ends in time even if its event loop hangs, and shows where it hung.

Python's own handler, in C, writes the number of the signal to a descriptor, whatever the main thread does. The thread here
reads it. The last resort is a timer of faulthandler, a thread in C: once armed it needs neither the loop nor Python's lock.
If code took that lock for ever *before* the signal, the thread cannot arm the timer; then only SIGKILL helps.
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


# Signals that came before there was a loop.
_early: Final[list[int]] = []


def keep_signals() -> None:
    """Until `end_on_signals`, signals are kept for it: a process that has started others must not end without them."""
    for number in SIGNALS:
        signal.signal(number, lambda kept, _: _early.append(kept))


def end_on_signals(ask: Callable[[], None], last_resort_s: float) -> None:
    """At the first signal, calls `ask` on the running loop. Call it on that loop, in the main thread.

    If the process still exists `last_resort_s` later, it writes the stack of every thread to standard error and ends with
    code 1. Later signals change nothing.
    """
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def wait_for_signals() -> None:
        while not set(os.read(reading, 64)) & set(SIGNALS):
            pass
        faulthandler.dump_traceback_later(last_resort_s, exit=True, file=STANDARD_ERROR)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends anyway
            loop.call_soon_threadsafe(ask)
        while os.read(reading, 64):
            pass

    threading.Thread(target=wait_for_signals, name="signals", daemon=True).start()
    for number in SIGNALS:
        # Python writes to the descriptor only for signals with a Python handler. The work is done above.
        signal.signal(number, _ignored)
    # This replaces the descriptor of the loop, which only the loop reads.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    if _early:
        os.write(writing, bytes(_early[:1]))


def _ignored(_number: int, _frame: FrameType | None) -> None: ...
