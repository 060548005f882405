"""Ends child processes and removes directories when their process ends in any way.

Each process that starts brokers has one small Python process, which holds the reading end of a pipe. The kernel closes
the other end in every case (exit, kill -9, out of memory). Then the watchdog kills the guarded processes and removes the
directories. PR_SET_PDEATHSIG is no alternative: it fires when the *thread* that started the child ends, and clusters
start in a thread pool.

Lines on the pipe: `process PID START`, `session PID START`, `forget PID`, `directory PATH`, `keep PATH`. START is the
process's start time: a reused process id is never killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil


class Watchdog:
    """The sending end, one for each process; see `watchdog()`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        # Its own session: Ctrl-C and signals to the process group must not reach the process that cleans up.
        self._process = subprocess.Popen(
            # By path, not by module name: the package would load a Kafka client. -P: files beside it are no modules.
            [sys.executable, "-P", os.path.abspath(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)

    def guard_process(self, pid: int) -> None:
        """Kills `pid` when this process ends."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._tell(f"process {pid} {psutil.Process(pid).create_time()!r}")

    def guard_session(self, pid: int) -> None:
        """Kills every process of the session that `pid` leads when this process ends, also orphans."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._tell(f"session {pid} {psutil.Process(pid).create_time()!r}")

    def forget_process(self, pid: int) -> None:
        """`pid` has ended and was waited for."""
        self._tell(f"forget {pid}")

    def guard_directory(self, path: str) -> None:
        """Removes `path` when this process ends."""
        self._tell(f"directory {path}")

    def forget_directory(self, path: str) -> None:
        """`path` was removed."""
        self._tell(f"keep {path}")

    def close(self) -> None:
        """Ends everything that is still guarded, now."""
        if self._owner != os.getpid():
            return  # a forked child runs the same exit handlers, but must not end its parent's processes
        with self._lock, contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.wait(20)

    def _tell(self, line: str) -> None:
        stdin = self._process.stdin
        with self._lock:
            if stdin is not None and not stdin.closed:
                stdin.write(f"{line}\n".encode())
                stdin.flush()


_current: tuple[int, Watchdog] | None = None
_creating = threading.Lock()


def watchdog() -> Watchdog:
    """The watchdog of this process; a forked child gets its own."""
    global _current  # noqa: PLW0603 - one pipe for each process is the point
    with _creating:
        if _current is None or _current[0] != os.getpid():
            _current = (os.getpid(), Watchdog())
        return _current[1]


def _watch() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    processes: dict[int, float] = {}
    sessions: dict[int, float] = {}
    directories: dict[str, None] = {}
    for line in sys.stdin:
        what, _, rest = line.rstrip("\n").partition(" ")
        if what in ("process", "session"):
            pid, _, started = rest.partition(" ")
            (processes if what == "process" else sessions)[int(pid)] = float(started)
        elif what == "forget":
            processes.pop(int(rest), None)
            sessions.pop(int(rest), None)
        elif what == "directory":
            directories[rest] = None
        elif what == "keep":
            directories.pop(rest, None)
    for leader in [each for each, created in sessions.items() if _is_another(each, created)]:
        del sessions[leader]
    # A process may fork while the others are killed.
    while members := [pid for pid in psutil.pids() if _session_of(pid) in sessions and not _is_zombie(pid)]:
        for pid in members:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for pid, created in processes.items():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.create_time() == created:
                process.kill()
    if processes or sessions:
        # Otherwise a killed broker's last write may create a file again during rmtree.
        time.sleep(0.2)
    for path in directories:
        shutil.rmtree(path, ignore_errors=True)


def _is_another(pid: int, created: float) -> bool:
    # A session's number is not given to another process while it has members, even if its leader has ended.
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).create_time() != created
    return False


def _session_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


if __name__ == "__main__":
    _watch()
