"""CPU seconds and memory of whole process trees, ended processes included."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

# A number is given to another process one day; with the time it began it is one process only.
Key = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """One process now. Seconds; `reaped` is what ended children that it has waited for have used."""

    parent: int
    kind: str
    own: float
    reaped: float

    @property
    def total(self) -> float:
        """Everything that is counted in this process."""
        return self.own + self.reaped


class CpuAccount:
    """Adds up readings of one tree. The total never falls.

    An ended process lives on in the `reaped` time of a parent that waited for it. Where the parent ended too, or went away
    first (the kernel then gives the child to init), what was last read of it is kept.
    """

    def __init__(self) -> None:
        self._last: dict[Key, Reading] = {}
        self._kept: dict[str, float] = defaultdict(float)
        self._highest = 0.0

    def update(self, readings: Mapping[Key, Reading]) -> float:
        """Takes the present state of the tree; returns its seconds so far."""
        alive = {pid for pid, _ in readings}
        for key, last in self._last.items():
            if key not in readings and last.parent not in alive:
                self._kept[last.kind] += last.total
        self._last = dict(readings)
        self._highest = max(self._highest, sum(self.by_kind().values()))
        return self._highest

    def by_kind(self) -> dict[str, float]:
        """Seconds so far of each kind of process; ended ones count for the kind of their parent."""
        seconds = defaultdict(float, self._kept)
        for reading in self._last.values():
            seconds[reading.kind] += reading.total
        return dict(seconds)


class ProcessTree:
    """A started program and everything it starts. Also finds again what has been given to init meanwhile."""

    def __init__(self, root: int, kind_of: Callable[[list[str], list[str]], str]) -> None:
        self._root = psutil.Process(root)
        self._kind_of = kind_of
        self._known: dict[Key, psutil.Process] = {}
        self._kinds: dict[Key, str] = {}
        self._account = CpuAccount()

    def cpu_seconds(self) -> float:
        """User and system time of all of them so far."""
        return self._account.update(self._readings())

    def cpu_by_kind(self) -> dict[str, float]:
        """The same, of each kind, at the time of the last `cpu_seconds`."""
        return self._account.by_kind()

    def pss(self) -> list[tuple[str, int, float]]:
        """(kind, pid, megabytes) of each process: proportional set size, shared pages counted in parts.

        PermissionError unless it is root who measures: a worker hides its memory, and without it the sum would be too small.
        """
        found = []
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                megabytes = parse_pss(Path(f"/proc/{process.pid}/smaps_rollup").read_text()) / 1e6
                found.append((self._kind(process), process.pid, megabytes))
        return found

    def pids(self) -> list[int]:
        """Who is alive."""
        return [process.pid for process in self._processes()]

    def _processes(self) -> Iterable[psutil.Process]:
        roots = [process for process in (self._root, *self._known.values()) if process.is_running()]
        found: dict[Key, psutil.Process] = {}
        for process in roots:
            if _key(process) in found:
                continue
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in (process, *process.children(recursive=True)):
                    found.setdefault(_key(each), each)
        self._known = found
        return list(found.values())

    def _readings(self) -> dict[Key, Reading]:
        readings = {}
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                readings[_key(process)] = Reading(
                    process.ppid(),
                    self._kind(process),
                    times.user + times.system,
                    times.children_user + times.children_system,
                )
        return readings

    def _kind(self, process: psutil.Process) -> str:
        key = _key(process)
        if key not in self._kinds:
            parent = process.parent()
            kind = self._kind_of(process.cmdline(), parent.cmdline() if parent else [])
            # Between fork and exec a process looks like its parent: what it is shows a moment later.
            if process.create_time() > time.time() - 1.0:
                return kind
            self._kinds[key] = kind
        return self._kinds[key]


def parse_pss(rollup: str) -> int:
    """Bytes of `Pss:` in the text of a smaps_rollup; 0 for a process that has ended."""
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def product_kind(command: list[str], parent: list[str]) -> str:
    """What a process of this product's tree is."""
    # Spark's JVM names the daemon's module among its settings, so what is Java is seen first.
    if _is_java(command):
        return "Spark's JVM"
    text = " ".join(command)
    if "spark_jobs.daemon" in text:
        forked = "spark_jobs.daemon" in " ".join(parent) and not _is_java(parent)
        return "Python task" if forked else "Python daemon"
    if "mirror_connect.spark_jobs" in text:
        return "Spark driver"
    return "worker" if "mirror_connect.app" in text else "other"


def _is_java(command: list[str]) -> bool:
    return bool(command) and Path(command[0]).name == "java"


def java_kind(command: list[str], parent: list[str]) -> str:
    """MirrorMaker 2 is one process."""
    del command, parent
    return "Connect's JVM"


def _key(process: psutil.Process) -> Key:
    return process.pid, process.create_time()
