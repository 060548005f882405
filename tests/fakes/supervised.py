"""A supervisor in memory: a Spark whose processes are numbers, specs and time as a test sets them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import (
    DRIVER,
    SourceOffset,
    TaskId,
    TaskOrders,
    TaskProcess,
    TaskReport,
    TaskSpec,
)
from tests.fakes.spark_rig import FakeEvents, FakeSpecs

A, B = TaskId("c", 0), TaskId("c", 1)


UTC = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


class FakeApplication:
    """A Spark whose processes are numbers. `sticky`: processes that don't die at once when they are killed."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.sticky: set[int] = set()
        self.killed: list[int] = []
        self.signals: dict[int, int] = {}
        self.last_words = "no room"
        self.ended = False
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self, url: str, token: str) -> None: ...

    async def exited(self) -> int:
        return await asyncio.shield(self._exit)

    async def end(self, patience_s: float) -> None:
        self.ended = True
        self.die(0)

    def die(self, code: int) -> None:
        self.alive.clear()
        if not self._exit.done():
            self._exit.set_result(code)

    def kill_task(self, pid: int) -> bool:
        if pid not in self.alive:
            return False
        self.killed.append(pid)
        if pid not in self.sticky:
            self.alive.discard(pid)
        return True

    def signal_of(self, pid: int) -> int | None:
        return self.signals.get(pid)

    def owns(self, pid: int) -> bool:
        return pid in self.alive


class Specs(FakeSpecs):
    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.provided: dict[str, str] = {}
        self.no_positions: Exception | None = None
        self.kept: frozenset[TaskId] = frozenset()
        # What tasks have reported, and what their runs owned then.
        self.reported: list[tuple[SourceOffset, frozenset[TopicPartition]]] = []
        self.keys: list[tuple[TaskId, str]] = []
        self.owned: Callable[[], frozenset[TopicPartition]] = frozenset
        # Specs are built, and positions read, while it is set.
        self.building = asyncio.Event()
        self.building.set()

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        return {**await super().resolve(run_id, task, config), **self.provided}

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        failure = self.failure
        await self.building.wait()
        if failure is not None:
            raise failure
        return await super().build(run_id, task, config, resolved, version)

    async def source_offsets(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[SourceOffset]:
        failure = self.no_positions
        await self.building.wait()
        if failure is not None:
            raise failure
        return [SourceOffset(topic, partition, 7) for topic, partition in partitions]

    def copied(self, task: TaskId, offsets: Sequence[SourceOffset]) -> None:
        self.reported += [(each, self.owned()) for each in offsets]

    def wrote_for(self, task: TaskId, keys: Sequence[str]) -> None:
        self.keys += [(task, key) for key in keys]

    def keep(self, tasks: Collection[TaskId]) -> None:
        self.kept = frozenset(tasks)


class Process:
    """One task process at work on a run; `shared`: it is the one that light tasks share."""

    _pids = itertools.count(1000)

    def __init__(
        self, world: World, run: TaskRun, pid: int | None = None, *, shared: bool = False, executor: str = DRIVER
    ) -> None:
        self.world, self.run, self.shared = world, run, shared
        self.pid = pid or next(self._pids)
        self.executor = executor
        self.attempt = f"attempt of {self.pid} {next(self._pids)}"
        world.application.alive.add(self.pid)

    async def ask(self) -> TaskSpec | None:
        told = self.shared or self.executor != DRIVER
        process = TaskProcess(self.executor, self.pid) if told else None
        return await self.world.supervisor.requests.spec(self.run, self.attempt, process=process, shared=self.shared)

    async def source_offsets(self, *, fenceable: bool = True) -> list[SourceOffset] | None:
        return await self.world.supervisor.requests.source_offsets(
            self.run, self.attempt, [("t", 0)], fenceable=fenceable
        )

    async def say(self, state: str, version: int | None = None, *, hold: float = 0.0, **more: object) -> TaskOrders:
        report = TaskReport.from_json(
            {
                "attempt": self.attempt,
                "pid": self.pid,
                "executor": self.executor,
                "host": "" if self.executor == DRIVER else f"host{self.executor}",
                "state": state,
                "assignment_version": self.run.version if version is None else version,
                "topics": [],
                "settled": True,
                **more,
            }
        )
        known = self.run.version
        return await self.world.supervisor.requests.report(self.run, report, hold_s=hold, known_version=known)


def problems(*lines: str) -> list[dict[str, object]]:
    """As JSON, one of each line."""
    return [Problem("t", ProblemCode.PARTITION_UNREADABLE, line).to_json() for line in lines]


class World:
    def __init__(self, master: str = "local[2,4]") -> None:
        self.now = 100.0
        self.lease = 8.0
        self.steady = True
        self.applications: list[FakeApplication] = []
        self.specs, self.events = Specs(), FakeEvents()
        self.spark = SparkHost(
            {"spark.master": master},
            new_application=self._new_application,
            clock=lambda: self.now,
            lookup_paths=LookupPaths(("/",)),
        )
        self.metrics = WorkerMetrics(lambda: self.now)
        self.supervisor = Supervisor(
            self.spark, self.specs, lambda: self.lease, clock=lambda: self.now, metrics=self.metrics
        )
        self.supervisor.listen(self.events)

    async def start(self) -> None:
        """The watch looks around when a test lets time pass."""
        await self.spark.start("http://127.0.0.1:1")

    async def stop(self) -> None:
        await self.supervisor.stop(0.0)
        await self.spark.end()

    def _new_application(self, _: Mapping[str, str], *, statements: bool) -> FakeApplication:
        self.applications.append(FakeApplication())
        return self.applications[-1]

    @property
    def application(self) -> FakeApplication:
        return self.applications[-1]

    def run(self, task: TaskId) -> TaskRun:
        return next(run for run in self.supervisor.runs if run.task == task)

    def tasks(self) -> list[TaskId]:
        return [run.task for run in self.supervisor.runs]

    def later(self, seconds: float, step: float = 1.0) -> None:
        """Time passes, and the supervisor looks around."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + step)
            self.supervisor._watch.tick()

    async def running(
        self, task: TaskId, pid: int | None = None, *, shared: bool = False, executor: str = DRIVER
    ) -> Process:
        process = Process(self, self.run(task), pid, shared=shared, executor=executor)
        # On a cluster the worker may want another executor, a few times.
        while await process.ask() is None:
            assert executor != DRIVER
            process = Process(self, self.run(task), pid, shared=shared, executor=executor)
            await asyncio.sleep(0)
        await process.say("STARTING", 0)
        await process.say("RUNNING")
        return process


def light(**more: str) -> WantedTask:
    """A task that begins in the shared process."""
    return WantedTask({"connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector", **more})


def wanted(*partitions: str, **more: str) -> WantedTask:
    return WantedTask({"connector.class": "X", **more, ASSIGNED_PARTITIONS: ",".join(partitions)})


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)
