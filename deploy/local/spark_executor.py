"""An executor of a Spark application with its Python processes, found among the processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

import psutil

from deploy.local.errors import NotInTime

BACKEND: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
# Of a standalone cluster, of YARN, of Kubernetes. Their arguments are the same.
BACKENDS: Final = (
    BACKEND,
    "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
)
ENDS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Executor:
    """`worker`: the Spark worker, or YARN's node manager, that started it. `id`, `application`: Spark's.

    `driver`: its port. `process`: its JVM.
    """

    worker: str
    id: str
    application: str
    driver: int
    process: psutil.Process

    @classmethod
    def of(cls, worker: str, process: psutil.Process) -> Self | None:
        """The executor whose JVM this process is; None if it is another program, or has ended."""
        try:
            arguments = process.cmdline()
            backend = next((each for each in BACKENDS if each in arguments), None)
            if backend is None or process.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.NoSuchProcess:
            return None
        # Behind the class Spark has pairs of an option and its value.
        own = arguments[arguments.index(backend) + 1 :]
        options = dict(zip(own[::2], own[1::2], strict=False))
        driver = int(options["--driver-url"].rpartition(":")[2])
        return cls(worker, options["--executor-id"], options["--app-id"], driver, process)

    @property
    def pid(self) -> int:
        """The process id of its JVM."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether its JVM exists, suspended or not."""
        return _alive(self.process)

    def daemons(self) -> list[psutil.Process]:
        """PySpark's daemons, which fork the processes of tasks."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return self.process.children()
        return []

    def tasks(self) -> list[psutil.Process]:
        """Python's processes of tasks; one may wait for its next task."""
        found = []
        for daemon in self.daemons():
            with contextlib.suppress(psutil.NoSuchProcess):
                found += daemon.children()
        return found

    def tree(self) -> list[psutil.Process]:
        """All its processes, its JVM first."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def kill(self) -> None:
        """kill -9 of all its processes, as when its host is lost, and waits until they are gone."""
        # What is suspended forks nothing, so that nobody is missed.
        tree = self.suspend()
        for process in tree:
            _signal(process, signal.SIGKILL)
        left = psutil.wait_procs(tree, timeout=ENDS_S)[1]
        if any(_alive(each) for each in left):
            raise NotInTime(f"executor {self.id} has not ended {ENDS_S:g} s after kill -9: {left}")

    def kill_jvm(self) -> None:
        """kill -9 of its JVM alone; its Python processes see that and end by themselves."""
        _signal(self.process, signal.SIGKILL)

    def suspend(self) -> list[psutil.Process]:
        """SIGSTOP to all its processes, which keep their connections and do nothing.

        Returns them, for `resume` below: Spark may kill the JVM meanwhile, and then it has no tree any more.
        """
        stopped: dict[int, psutil.Process] = {}
        # A process may fork before its own turn.
        while more := [each for each in self.tree() if each.pid not in stopped]:
            for process in more:
                stopped[process.pid] = process
                _signal(process, signal.SIGSTOP)
        return list(stopped.values())

    def resume(self) -> None:
        """SIGCONT to all its processes; nothing happens to one that was not suspended."""
        resume(self.tree())


def resume(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """SIGCONT to those of them that are alive, whatever has become of the others. Returns them."""
    alive = [each for each in processes if _alive(each)]
    for process in alive:
        _signal(process, signal.SIGCONT)
    return alive


def session_of(leader: int) -> Iterator[psutil.Process]:
    """The living processes of the session that this process has begun, also those whose parent has ended."""
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if os.getsid(pid) == leader and _alive(process := psutil.Process(pid)):
                yield process


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)
