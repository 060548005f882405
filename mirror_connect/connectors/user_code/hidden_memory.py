"""A process's memory, environment and open files, hidden from other processes of the same user (Linux).

Users' filters and policies run as the worker's user; without this, one of them could read passwords in /proc/PID/mem or
/proc/PID/environ of the worker and its tasks. It also means no core dump, and no debugger but root's.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """For this process and those that it forks; a program that is started anew has to do it itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
