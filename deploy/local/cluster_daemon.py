"""A daemon of a cluster of processes, which starts others: all of them end with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from deploy.local.errors import LocalError
from deploy.local.guarded_process import GuardedProcess
from deploy.local.java_process import last_complaint
from deploy.local.spark_executor import session_of
from deploy.local.watchdog import watchdog

_PASSED_ON: Final = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "JAVA_HOME")


def passed_on() -> dict[str, str]:
    """Of this process's variables those that reach executors: nothing that a test has in its environment helps them."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}


class ClusterDaemon(GuardedProcess):
    """Its log is in `directory`. `kill`, `suspend` and `resume` reach its JVM alone, `end_all` what it has started, too."""

    def __init__(self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        super().__init__(name, command, log=directory / f"{name}.log", environment=environment)
        watchdog().guard_session(self.pid)

    def failure(self) -> LocalError:
        """An error with the most telling line of its log."""
        return LocalError(f"{self.name} did not start: {last_complaint(self.log)} (log: {self.log})")

    def end_all(self) -> None:
        """kill -9 of its JVM and of all that it has started, suspended or not, as when its host is lost."""
        # A process may fork while the others are killed.
        while members := list(self._members()):
            for process in members:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(members, timeout=1.0)
        self.kill()
        watchdog().forget_process(self.pid)

    def _members(self) -> Iterator[psutil.Process]:
        for process in session_of(self.pid):
            if process.pid != self.pid or self.alive:
                yield process
