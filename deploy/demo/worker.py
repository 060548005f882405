"""The worker of the demo as a process of its own, started as a user would: bin/connect-distributed.sh FILE."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


class WorkerProcess:
    """Starts, watches and stops one worker; its log goes to a file and its last lines into errors."""

    def __init__(self, properties: Path, log: Path, environment: Mapping[str, str]) -> None:
        self._properties = properties
        self._log = log
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [ROOT / "bin" / "connect-distributed.sh", self._properties],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        if self._process is None:
            raise RuntimeError("the worker was not started")
        return self._process.pid

    def stop(self, patience_s: float = 10.0) -> int:
        """SIGTERM, then after `patience_s` SIGKILL; returns the exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def check_alive(self) -> None:
        """RuntimeError with the log's last line if the worker has ended."""
        if self._process is not None and self._process.poll() is not None:
            lines = self._log.read_text(errors="replace").splitlines() or ["it wrote no log"]
            raise RuntimeError(f"the worker ended with code {self._process.returncode}: {lines[-1]}")
