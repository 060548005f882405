"""Memory and processor time of the worker's whole process tree, by kind of process, for its metrics."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

import psutil

from mirror_connect.app.exposition.measured import ProcessFigures

log = logging.getLogger(__name__)

# Reading a tree of some ten processes takes milliseconds in a thread. Who scrapes more often gets the figures before.
LEAST_AGE_S: Final = 5.0
WORKER: Final = "worker"
# What is in a command line → the kind. Task processes are forks of PySpark's daemon.
_KINDS: Final[Mapping[str, str]] = {
    "mirror_connect.spark_jobs.daemon": "tasks",
    "pyspark.daemon": "tasks",
    "mirror_connect.spark_jobs": "driver",
    "sampling_process": "verification",
}
_OTHER: Final = "other"


class ProcessTree:
    """See the module. The processor time of a kind never goes back: that of processes which have ended stays."""

    def __init__(self, root: int | None = None) -> None:
        self._root = os.getpid() if root is None else root
        self._known: dict[psutil.Process, tuple[str, float]] = {}
        self._ended_s: dict[str, float] = {}
        self._figures: dict[str, ProcessFigures] = {}
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    def figures(self) -> Mapping[str, ProcessFigures]:
        """The last ones; newer ones are read in the background. Nothing at the first call."""
        if (self._reading is None or self._reading.done()) and time.monotonic() - self._read_at > LEAST_AGE_S:
            self._read_at = time.monotonic()
            self._reading = asyncio.create_task(self._read())
        return self._figures

    async def _read(self) -> None:
        try:
            self._figures = await asyncio.to_thread(self.read)
        except psutil.Error:
            log.debug("The process tree can't be read", exc_info=True)

    def read(self) -> dict[str, ProcessFigures]:
        """As of now."""
        root = psutil.Process(self._root)
        known: dict[psutil.Process, tuple[str, float]] = {}
        memory: dict[str, int] = {}
        for process in (root, *root.children(recursive=True)):
            try:
                kind = self._known[process][0] if process in self._known else self._kind_of(process)
                with process.oneshot():
                    times = process.cpu_times()
                    memory[kind] = memory.get(kind, 0) + process.memory_info().rss
            except psutil.Error:
                continue  # it has ended meanwhile
            known[process] = kind, times.user + times.system
        for process, (kind, seconds) in self._known.items():
            if process not in known:
                self._ended_s[kind] = self._ended_s.get(kind, 0.0) + seconds
        self._known = known
        seconds_of = dict(self._ended_s)
        for kind, seconds in known.values():
            seconds_of[kind] = seconds_of.get(kind, 0.0) + seconds
        return {kind: ProcessFigures(memory.get(kind, 0), total) for kind, total in seconds_of.items()}

    def _kind_of(self, process: psutil.Process) -> str:
        if process.pid == self._root:
            return WORKER
        return kind_of(process.cmdline())


def kind_of(command: Sequence[str]) -> str:
    """The kind of a process that is not the worker itself."""
    # First, as the JVM is told the name of the daemon's module.
    if command and PurePath(command[0]).name.startswith("java"):
        return "jvm"
    words = " ".join(command)
    return next((kind for part, kind in _KINDS.items() if part in words), _OTHER)
