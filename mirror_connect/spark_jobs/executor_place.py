"""On which executor this process runs, and on which machine.

PySpark tells that to no process. But the JVM of each executor, on any cluster, has both as arguments, and Python's daemon is
its child. The daemon looks once, and what it forks knows.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mirror_connect.connectors.task_protocol import DRIVER

# Of Spark's CoarseGrainedExecutorBackend. Kubernetes may leave it to the executor to ask for its id.
_EXECUTOR: Final = "--executor-id"
_HOST: Final = "--hostname"
_NOT_GIVEN: Final = frozenset({"", "EXECID"})


class ExecutorPlace(NamedTuple):
    """`executor`: Spark's id; DRIVER with a local master. `host`: as Spark names it; empty with a local master."""

    executor: str
    host: str


@functools.cache
def executor_place() -> ExecutorPlace:
    """Where this process runs; the first call is the daemon's."""
    parent = os.getppid()
    return place_of(_arguments(parent), parent)


def place_of(arguments: Sequence[str], pid: int) -> ExecutorPlace:
    """What a JVM's arguments say. `pid`: of the JVM, which names an executor whose id is not there."""
    if _EXECUTOR not in arguments:
        return ExecutorPlace(DRIVER, "")
    host = _after(_HOST, arguments) or socket.gethostname()
    executor = _after(_EXECUTOR, arguments)
    return ExecutorPlace(f"{host}:{pid}" if executor in _NOT_GIVEN else executor, host)


def _after(name: str, arguments: Sequence[str]) -> str:
    following = arguments[arguments.index(name) + 1 :] if name in arguments else ()
    return following[0] if following else ""


def _arguments(pid: int) -> list[str]:
    """Of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except FileNotFoundError:
        # No Linux, or it has ended.
        import psutil  # noqa: PLC0415 — costs every daemon some milliseconds

        try:
            return psutil.Process(pid).cmdline()
        except psutil.Error:
            return []
    except OSError:
        return []
