"""The worker's one Spark application as a process tree: started, its log followed, ended for sure.

The only place that knows how Spark is started. The tree lives in a session of its own (setsid), so that all of it, also
PySpark's daemon which leaves the process group, can be found again and killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

log = logging.getLogger("mirror_connect.spark")
SCRATCH_PREFIX: Final = "mirror-connect-spark-"
# What the application gets of the worker's environment. Not all of it: EnvVarConfigProvider secrets live there.
PASSED_ON: Final = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "JAVA_HOME",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
)


class SparkApplication:
    """One process tree. `start` it, await `exited`, `end` it; not to be started twice."""

    def __init__(self, spark: Mapping[str, str]) -> None:
        self._spark = dict(spark)
        self._process: asyncio.subprocess.Process | None = None
        self._scratch = ""
        self._log_task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The driver's process id; it is also the id of the tree's session."""
        return self._process.pid if self._process else None

    async def start(self, url: str, token: str) -> None:
        """Starts the driver; the token travels through its standard input, never as an argument or in the environment."""
        remove_stale_scratch()
        self._scratch = tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-")
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("SPARK_")}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mirror_connect.spark_jobs",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=environment,
            limit=1 << 20,
        )
        hello = {"url": url, "token": token, "scratch": self._scratch, "spark": self._spark}
        if self._process.stdin:
            with contextlib.suppress(ConnectionError):  # it died at once; `exited` tells
                self._process.stdin.write(json.dumps(hello).encode() + b"\n")
                await self._process.stdin.drain()
        self._log_task = asyncio.create_task(self._follow_log())

    async def exited(self) -> int:
        """Waits for the driver's end, and for all its processes; returns the exit code."""
        if self._process is None:
            return 0
        code = await self._process.wait()
        await asyncio.to_thread(self._kill_tree)
        if self._log_task:
            await self._log_task
        shutil.rmtree(self._scratch, ignore_errors=True)
        return code

    async def end(self, patience_s: float) -> None:
        """Closes the pipe, waits, and kills what is left of the tree. When this returns, none of it is alive."""
        if self._process is None:
            return
        if self._process.stdin:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), patience_s)
        await asyncio.to_thread(self._kill_tree)
        await self.exited()

    def _kill_tree(self) -> None:
        """Kills every process of the session until none is left (a fork may race with one round)."""
        session = self.pid
        while session is not None:
            alive = [pid for pid in psutil.pids() if _session_of(pid) == session and not _is_zombie(pid)]
            if not alive:
                return
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            psutil.wait_procs([p for p in map(_process, alive) if p is not None], timeout=1.0)

    def kill_task(self, pid: int) -> bool:
        """Kills one task's process if it belongs to this tree; returns whether it was there."""
        if _session_of(pid) != self.pid or pid == self.pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
        return True

    def owns(self, pid: int) -> bool:
        """Whether a living process with this id belongs to this tree."""
        return _session_of(pid) == self.pid and not _is_zombie(pid)

    async def _follow_log(self) -> None:
        stream = self._process.stderr if self._process else None
        while stream is not None:
            try:
                line = await stream.readline()
            except ValueError:  # longer than the limit: dropped, the next line goes on
                continue
            if not line:
                return
            log.info("%s", line.decode(errors="replace").rstrip())


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_zombie(pid: int) -> bool:
    process = _process(pid)
    try:
        return process is None or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def remove_stale_scratch() -> None:
    """Removes the scratch directories of workers that were killed: their names carry the worker's process id."""
    for directory in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        owner = directory.name.removeprefix(SCRATCH_PREFIX).split("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(directory, ignore_errors=True)
