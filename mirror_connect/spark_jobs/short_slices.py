"""Asks Linux for short time slices: where others want the processors, a thread with short ones gets its next turn sooner.

Its share of the processors stays the same. The thread of an event loop works for some tenths of a millisecond and then waits
again, so a short slice is enough for it. Linux has this since 6.12 (its Documentation/scheduler/sched-eevdf.rst and
sched_setattr(2)). Older kernels ignore it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final, NamedTuple

# In nanoseconds: what most turns of the loop take. Linux's own is 1.4 ms with two processors, and 2.8 with eight or more.
SLICE_NS: Final = 300_000
# The system calls sched_setattr and sched_getattr, which the C library has no functions for before glibc 2.41.
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
# struct sched_attr in its first version: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
_THIS_THREAD: Final = 0
_RESET_ON_FORK: Final = 1


class SchedulingAttributes(NamedTuple):
    """Of a thread. `policy`: as os.SCHED_OTHER. `slice_ns` is its slice under that policy, since Linux 6.12."""

    policy: int
    flags: int
    nice: int
    priority: int
    slice_ns: int
    deadline: int
    period: int


def ask_for_short_slices() -> None:
    """For this thread, and the threads and processes that it starts afterwards. Does nothing where that can't be had."""
    found = scheduling_attributes()
    if found is not None and found.policy == os.SCHED_OTHER:
        # Only the one flag that must be given again; a nice value that an operator has set stays.
        wanted = found._replace(flags=found.flags & _RESET_ON_FORK, slice_ns=SLICE_NS, deadline=0, period=0)
        _call(0, ctypes.c_char_p(_ATTRIBUTES.pack(_ATTRIBUTES.size, *wanted)), ctypes.c_uint(0))


def scheduling_attributes() -> SchedulingAttributes | None:
    """Of this thread; None where they can't be had."""
    room = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if _call(1, room, ctypes.c_uint(_ATTRIBUTES.size), ctypes.c_uint(0)) != 0:
        return None
    return SchedulingAttributes(*_ATTRIBUTES.unpack(room.raw)[1:])


def _call(which: int, *arguments: object) -> int:
    """-1 where there is no such system call, or it is refused, as a container's seccomp profile may do."""
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return -1
    found: int = ctypes.CDLL(None).syscall(ctypes.c_long(calls[which]), ctypes.c_int(_THIS_THREAD), *arguments)
    return found
