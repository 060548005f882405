"""A child process with a log file, which ends with the process that started it, however that ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from deploy.local.watchdog import watchdog


class GuardedProcess:
    """A started program in the directory of its `log`, which gets standard output and error."""

    def __init__(self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        guard = watchdog()
        with log.open("ab") as output:
            # Its own session: Ctrl-C must not stop the brokers before their clients have ended.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=environment,
                start_new_session=True,
            )
        guard.guard_process(self._process.pid)
        # psutil refuses to signal a process id that belongs to another program now.
        self._tree = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process exists, suspended or not."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def stop(self, seconds: float = 90.0) -> int:
        """SIGTERM, then kill -9 if it has not ended after `seconds`. Returns the exit code."""
        self.resume()
        self._signal(signal.SIGTERM)
        try:
            return self._wait(seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """kill -9, and waits until it is gone."""
        self._signal(signal.SIGKILL)
        return self._wait(30)

    def suspend(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT; nothing happens if it was not suspended."""
        self._signal(signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """User and system time of the process and its descendants so far; 0.0 when it has ended."""
        total = 0.0
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [self._tree, *self._tree.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    total += times.user + times.system
        return total

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _wait(self, seconds: float) -> int:
        code = self._process.wait(seconds)
        watchdog().forget_process(self._process.pid)
        return code
