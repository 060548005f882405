"""How a task's process ended by a signal: a line of Spark's output that the daemon writes and the worker reads.

Spark itself only says that a process exited unexpectedly.
"""

from __future__ import annotations

import re
import signal
from typing import Final

_LINE: Final = re.compile(r"mirror-connect: the task process (\d+) was ended by signal (\d+)")


def ended_line(pid: int, number: int) -> str:
    """The line, without its end."""
    return f"mirror-connect: the task process {pid} was ended by signal {number}"


def read_ended_line(line: str) -> tuple[int, int] | None:
    """Process id and signal of such a line; None for any other one."""
    found = _LINE.fullmatch(line)
    return None if found is None else (int(found[1]), int(found[2]))


def signal_named(number: int) -> str:
    """`signal 9 (SIGKILL), as the kernel does it when memory is short`."""
    try:
        name = f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        name = f"signal {number}"
    return f"{name}, as the kernel does it when memory is short" if number == signal.SIGKILL else name
