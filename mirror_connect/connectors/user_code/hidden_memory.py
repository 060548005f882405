"""Hides a process's memory, environment and open files from other processes of the same user (Linux).

Users' filters and policies run as the worker's user. Without this, they could read passwords in /proc/PID/mem or
/proc/PID/environ of the worker and its tasks. It also prevents core dumps, and debuggers except root's.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """Hides this process and those that it forks. A newly started program must call it itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
