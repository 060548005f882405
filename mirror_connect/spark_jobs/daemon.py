"""Runs PySpark's worker daemon with a task's modules imported before it forks: tasks start fast and share pages."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import signal
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, NoReturn

from mirror_connect.connectors.ended_process import ended_line
from mirror_connect.connectors.user_code.hidden_memory import hide_memory
from mirror_connect.spark_jobs.executor_place import executor_place
from mirror_connect.spark_jobs.executor_versions import ADVICE, OUR_LINE, VARIABLE, difference

ARCHIVES: Final = re.compile(r"pyspark\.zip|py4j-.*-src\.zip")
PRELOADED = (
    "pyarrow",
    "asyncio",
    "uvloop",
    "pyspark.worker",
    "mirror_connect.spark_jobs.query",
    "mirror_connect.spark_jobs.shared_process",
    "mirror_connect.spark_jobs.tasks.registry",
)


def import_installed_pyspark() -> None:
    """Takes PySpark's archives from the path of modules, where Spark puts them.

    Python compiles a module from an archive at each start, which takes a second of processor time. The installed package
    has the same modules. Where there is none, the archives stay.
    """
    rest = [place for place in sys.path if not ARCHIVES.fullmatch(Path(place).name)]
    if PathFinder.find_spec("pyspark", rest) is not None and PathFinder.find_spec("py4j", rest) is not None:
        sys.path[:] = rest


def tell_of_killed_children() -> None:
    """From the first fork on, a child that a signal ends becomes a line of standard error, which Spark passes on.

    PySpark's daemon ignores SIGCHLD, so nobody would know how a task's process ended.
    """
    daemon = os.getpid()

    def reap(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if os.WIFSIGNALED(status):
                    # Another process may have written a line without its end.
                    os.write(2, f"\n{ended_line(pid, os.WTERMSIG(status))}\n".encode())

    def watch() -> None:
        # A task's process may fork, too, and waits for its own children.
        if os.getpid() == daemon:
            signal.signal(signal.SIGCHLD, reap)
            # One may have ended before.
            reap()

    # After each fork, because the daemon sets its own handler when it begins.
    os.register_at_fork(after_in_parent=watch)


def main() -> None:
    """Imports the modules, freezes the heap so that garbage collection in a child unshares no pages, and runs the daemon."""
    hide_memory()
    # Before it forks: the parent of a task's process is no JVM.
    executor_place()
    if VARIABLE in os.environ:
        _check_executor()
    else:
        _import_all()
    gc.freeze()
    tell_of_killed_children()
    from pyspark.daemon import manager  # noqa: PLC0415 — only the daemon's process needs it

    manager()


def _import_all() -> None:
    import_installed_pyspark()
    for module in PRELOADED:
        importlib.import_module(module)


def _check_executor() -> None:
    """On a cluster: imports what the worker has here, or ends with a line that says what is missing."""
    # Nobody else may connect to the sockets that are made in the executor's directory.
    os.umask(0o077)
    if (problem := difference(os.environ)) is not None:
        _end(problem)
    try:
        _import_all()
    except ImportError as error:
        _end(f"can't import what tasks need: {' '.join(str(error).split())}. {ADVICE}")


def _end(problem: str) -> NoReturn:
    """Ends the daemon with a line that Spark passes on to the driver (executor_errors)."""
    print(f"{OUR_LINE}{problem}", file=sys.stderr, flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
