"""The demo's worker: a process that starts as a user would start it, by bin/connect-distributed.sh FILE."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import psutil

from deploy.local.watchdog import watchdog

ROOT: Final = Path(__file__).resolve().parents[2]
# The worker ends Spark before itself. A killed worker's Spark ends when it notices that.
TREE_ENDS_S: Final = 20.0
SPARK_DAEMON: Final = "mirror_connect.spark_jobs.daemon"


class WorkerProcess:
    """Starts, watches and stops one worker. Its log goes to a file, and errors quote the log's last line.

    It ends with the process that started it, even if that is killed. `checkout`: the folder whose bin/ and .venv/ start it.
    `script`: another of bin/, with a file of its own kind.
    """

    def __init__(
        self,
        properties: Path,
        log: Path,
        environment: Mapping[str, str],
        checkout: Path = ROOT,
        *,
        script: str = "connect-distributed.sh",
    ) -> None:
        self._properties = properties
        self._log = log
        self._script = checkout / "bin" / script
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self._script, self._properties],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        watchdog().guard_process(self._process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        if self._process is None:
            raise RuntimeError("the worker was not started")
        return self._process.pid

    def tree(self) -> list[psutil.Process]:
        """The worker and everything below it: Spark's driver, its JVM, its Python processes."""
        if self._process is None or self._process.poll() is not None:
            return []  # its process id may belong to another process by now
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        return []

    def spark_is_up(self) -> bool:
        """Whether Spark runs Python: its daemon is there."""
        return any(SPARK_DAEMON in command for command in self.command_lines())

    def command_lines(self) -> list[list[str]]:
        """The arguments of every process of the tree."""
        found = []
        for process in self.tree():
            with contextlib.suppress(psutil.Error):
                found.append(process.cmdline())
        return found

    def stop(self, patience_s: float = 30.0) -> int:
        """SIGTERM, then after `patience_s` SIGKILL. Ends the whole tree and returns the exit code."""
        if self._process is None:
            return 0
        tree = self.tree()
        self._process.terminate()
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        watchdog().forget_process(self._process.pid)
        _, left = psutil.wait_procs(tree, timeout=TREE_ENDS_S)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return code

    def check_alive(self) -> None:
        """RuntimeError with the log's last line if the worker has ended."""
        if self._process is not None and self._process.poll() is not None:
            lines = self._log.read_text(errors="replace").splitlines() or ["it wrote no log"]
            raise RuntimeError(f"the worker ended with code {self._process.returncode}: {lines[-1]}")
