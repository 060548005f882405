"""A Spark cluster in the landing's model: executors on machines of their own, which freeze, are lost, cut off, and wake.

The worker is the product's Supervisor with a cluster's master, so it can neither see nor kill a process. Spark's driver is a
model: it chooses executors by chance, hears at once of one whose JVM has ended and never of one that is frozen, and stops
queries, which kills the processes of executors that do anything.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mirror_connect.app.supervisor.spark_executors import SparkExecutor
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.task_protocol import TaskProcess, TaskSpec
from mirror_connect.kafka_io.client.connection import ConnectionLost
from tests.fakes.simulated import Process
from tests.models.fence_workers import Machines, RunOverError
from tests.models.landing_tasks import ConnectorWorker, SourceProcess
from tests.models.watch import BrokenPromiseError

EXECUTORS: Final = 2
SLOTS: Final = 3
# Between query.stop() and the kill of its Python process.
STOPPED_AFTER_S: Final = 3.0
# What a cluster's manager waits between SIGTERM and SIGKILL.
ENDED_AFTER_S: Final = 10.0
# An orphan's time for its last words, and the time that a new executor needs.
ORPHAN_S: Final = 3.0
NEW_EXECUTOR_S: Final = 4.0
DRIVER_MISSED_S: Final = 0.5
# The rates of the clocks of hosts, and how far their offsets are apart.
RATES: Final = (0.95, 1.0, 1.05)
OFFSET_S: Final = 10.0


class Executor:
    """One executor. `known`: whether Spark takes it for alive. `cut_until`: nothing gets through between it and anybody.

    `frozen_until`: it does nothing before, nor does what Spark starts there meanwhile.
    """

    def __init__(self, number: int, host: int, rate: float) -> None:
        self.id, self.host, self.rate = str(number), f"host{host}", rate
        self.offset = OFFSET_S * number
        self.alive = self.known = True
        self.frozen_until = self.cut_until = 0.0
        # Until and since when its JVM does not answer Spark's driver; until when nor does its host the cluster's manager.
        self.silent_until = self.silent_since = self.host_away_until = 0.0
        self.tasks: list[RemoteProcess] = []


class RemoteWorker(ConnectorWorker):
    """A worker whose tasks are on such a cluster."""

    properties: ClassVar[Mapping[str, str]] = {"spark.master": "spark://master:7077"}

    def __init__(self, machines: Machines, process: Process) -> None:
        super().__init__(machines, process)
        self.random = random.Random(machines.world.random.random())
        self.executors: list[Executor] = []
        self._number = 0
        self._given_up: set[str] = set()

    def new_executor(self, host: int, frozen_s: float = 0.0) -> None:
        """The cluster's manager has started one there. `frozen_s`: for how long the host does nothing from now on."""
        self.executors.append(executor := Executor(self._number, host, self.random.choice(RATES)))
        self._number += 1
        if frozen_s:
            self.freeze(executor, frozen_s)
            executor.host_away_until = executor.silent_until

    async def start(self, url: str, token: str) -> None:
        """Another application: its executors have the ids of the ones before."""
        await super().start(url, token)
        self._number, self._given_up = 0, set()
        for host in range(EXECUTORS):
            self.new_executor(host)

    def spark_dies(self) -> None:
        """The driver. Its executors notice that and end, if they do anything, and if they hear of it."""
        for executor in self.executors:
            executor.known = False
            if executor.alive and self.machines.world.now >= max(executor.frozen_until, executor.cut_until):
                executor.alive = False
                for task in executor.tasks:
                    self.machines.world.after(DRIVER_MISSED_S, task.end)
        self.process.call_soon(self._spark_ended)

    # Spark's driver.

    def report_of_driver(self) -> None:
        known = [each for each in self.executors if each.known]
        told = [
            SparkExecutor(each.id, each.host, SLOTS, len(self._at(each)), silent_s=self._silent_s(each))
            for each in known
        ]
        self.spark.driver_report(SLOTS * len(known), {}, None, told)

    def _silent_s(self, executor: Executor) -> float:
        now = self.machines.world.now
        return now - executor.silent_since if now < executor.silent_until else 0.0

    async def apply(self, plan: Mapping[str, Any]) -> None:
        for executor in self.executors:
            known = executor.known and executor.id not in self._given_up
            if known and executor.id in plan["given_up"]:
                self._given_up.add(executor.id)
                self.machines.world.after(ENDED_AFTER_S, lambda executor=executor: self._end_given_up(executor))
        planned = {each["run_id"] for each in plan["runs"]}
        for task in list(self.tasks.values()):
            assert isinstance(task, RemoteProcess)
            if task.run.run_id not in planned and not task.stopped:
                task.stopped = True
                self.machines.world.after(STOPPED_AFTER_S, task.killed_by_its_executor)
        for each in plan["runs"]:
            run = self.supervisor.run_of(each["run_id"])
            if run is not None and not self._works_on(run):
                self._start(run)

    def _end_given_up(self, executor: Executor) -> None:
        # The cluster's manager does that on the host.
        wait = executor.host_away_until - self.machines.world.now
        if wait > 0:
            self.machines.world.after(wait, lambda: self._end_given_up(executor))
        else:
            self.end_executor(executor)

    def _start(self, run: TaskRun) -> None:
        free = [each for each in self.executors if self._takes_tasks(each)]
        if not free:
            return
        self.machines.started += 1
        task = RemoteProcess(self, run, self.machines.started, self.random.choice(free))
        self.tasks[self.machines.started] = task

    def _takes_tasks(self, executor: Executor) -> bool:
        return executor.known and executor.id not in self._given_up and len(self._at(executor)) < SLOTS

    def _at(self, executor: Executor) -> list[RemoteProcess]:
        """The tasks that Spark believes there."""
        return [task for task in executor.tasks if task.believed]

    def _works_on(self, run: TaskRun) -> bool:
        return any(task.run is run and task.believed for task in self.tasks.values() if isinstance(task, RemoteProcess))

    # What happens to executors.

    def end_executor(self, executor: Executor, *, orphans: bool = False, next_frozen_s: float = 0.0) -> None:
        """Its JVM is killed, and all of it, or its tasks are orphans for a while. Another one comes, on a frozen host."""
        if not executor.alive:
            return
        executor.alive = executor.known = False
        for task in executor.tasks:
            if orphans and task.process.alive:
                task.process.call_soon(task.end_epoch)
                self.machines.world.after(ORPHAN_S, task.end)
            else:
                task.end()
        host = int(executor.host.removeprefix("host"))
        self.machines.world.after(NEW_EXECUTOR_S, lambda: self.new_executor(host, next_frozen_s))

    def freeze(self, executor: Executor, seconds: float) -> None:
        """SIGSTOP to all of it, SIGCONT later. What is frozen already wakes as the first one said."""
        if self.machines.world.now < executor.frozen_until:
            return
        executor.frozen_until = self.machines.world.now + seconds
        self._silence(executor, seconds)
        for task in executor.tasks:
            task.process.suspend(seconds)

    def cut(self, executor: Executor, seconds: float, *, brokers: bool) -> None:
        """Its network; or the way to the worker alone."""
        executor.cut_until = self.machines.world.now + seconds
        if brokers:
            self._silence(executor, seconds)
            executor.host_away_until = executor.silent_until
        for task in executor.tasks if brokers else ():
            task.process.cut(seconds)

    def _silence(self, executor: Executor, seconds: float) -> None:
        now = self.machines.world.now
        if now >= executor.silent_until:
            executor.silent_since = now
        executor.silent_until = max(executor.silent_until, now + seconds)

    def kill_task(self, pid: int) -> bool:
        raise AssertionError("nobody can kill a process of an executor")

    def owns(self, pid: int) -> bool:
        raise AssertionError("nobody can see a process of an executor")


class RemoteProcess(SourceProcess):
    """A task's process on an executor, with the clock of its host."""

    def __init__(self, worker: RemoteWorker, run: TaskRun, number: int, executor: Executor) -> None:
        self.executor = executor
        self.stopped = False
        self.place = executor.id, executor.host
        super().__init__(worker, run, number)
        # Each executor begins with the same ids, as in containers.
        self.pid = 10 + len(executor.tasks)
        executor.tasks.append(self)
        if self.is_frozen:
            self.process.suspend(executor.frozen_until - self.process.world.now)

    @property
    def clock(self) -> tuple[float, float, bool]:
        return self.executor.offset, self.executor.rate, False

    @property
    def believed(self) -> bool:
        """Whether Spark takes it for a task that runs: it hears of its end from its executor."""
        if not self.executor.known or self.stopped:
            return False
        return self.process.alive or self.is_frozen

    @property
    def is_frozen(self) -> bool:
        """Whether its executor does nothing now."""
        return self.process.world.now < self.executor.frozen_until

    def killed_by_its_executor(self) -> None:
        if self.executor.alive and not self.is_frozen:
            self.end()
        elif self.executor.alive:
            self.process.world.after(1.0, self.killed_by_its_executor)

    async def _report(self, state: str, trace: str | None = None, hold_s: float = 0.0) -> None:
        await super()._report(state, trace, hold_s)
        if not self._lease.valid():
            return
        for other in self.worker.tasks.values():
            if other is not self and other.run.task == self.run.task and other.process.alive and other._lease.valid():
                two = f"task {self.run.task} has two writers: {other.name}, {self.name}"
                self.worker.machines.broker.broken = BrokenPromiseError(two)

    async def _ask(self, serve: Any, answered: Any = lambda: None) -> Any:
        if self.process.world.now < self.executor.cut_until:
            raise ConnectionLost("cut off")
        return await super()._ask(serve, answered)

    async def spec(self) -> TaskSpec:
        asked, process = self.worker.supervisor.requests.spec, TaskProcess(self.executor.id, self.pid)
        spec = await self._asked(lambda run: asked(run, self.attempt, process=process))
        if spec is None:
            raise RunOverError
        return spec
