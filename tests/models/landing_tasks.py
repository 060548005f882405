"""Source tasks of one connector in the landing's model, as processes in simulated time, and the worker that runs them.

A task is the product's SourceTask with all that it writes by; what stands in for its parts is the source (numbered records,
some each second), the network and the internal HTTP. The worker is that of the fence's model, and Spark may die as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast
from unittest import mock

from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_measures import TaskMeasures
from mirror_connect.connectors.task_protocol import (
    ABANDONED,
    DRIVER,
    EPOCH_ENDED,
    FAILED,
    FENCED,
    FINISHED,
    SourceOffset,
    TaskId,
    TaskOrders,
    TaskPartition,
    TaskProcess,
    TaskSpec,
)
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.log_ends import LogEnds
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from mirror_connect.spark_jobs.query import ABANDON_SECONDS
from mirror_connect.spark_jobs.task_context import UnderOrders
from mirror_connect.spark_jobs.tasks import mirror_source, source_commits, source_parts, task_frame
from mirror_connect.spark_jobs.worker_client import FINISHING_REPORT_S
from tests.fakes.encoded_batches import Plain, encode
from tests.fakes.simulated import Process
from tests.fakes.source_spec import source_spec
from tests.models.fence_broker import Connection
from tests.models.fence_feed import NOW_MS
from tests.models.fence_workers import CONNECTOR, PACE_S, Machines, RunOverError, Specs, Task, Worker
from tests.models.landing_broker import RATES, LandingBroker, LandingMachines

TASKS: Final = tuple(TaskId(CONNECTOR, number) for number in range(3))
# Of a fetch: so that several are in flight behind a pause.
BATCHES: Final = 3


class ConnectorWorker(Worker):
    """A worker whose Spark can die."""

    def __init__(self, machines: Machines, process: Process) -> None:
        super().__init__(machines, process)
        self.shared: SharedProcess | None = None
        self._spark: asyncio.Future[int] | None = None

    def _begin(self, run: TaskRun, number: int) -> Task:
        return SourceProcess(self, run, number)

    async def _keep_running(self, planned: Mapping[str, Any]) -> None:
        if not planned["shared"]:
            await super()._keep_running(planned)
            return
        shared = self.shared
        if shared is None or not shared.alive or shared.process_id != planned["run_id"]:
            self.machines.started += 1
            shared = self.shared = SharedProcess(planned["run_id"], self.machines.started)
        found = await self.spark.shared_runs(shared.process_id, -1, 0.0)
        for each in [] if found is None else found["runs"]:
            run = self.supervisor.run_of(each["run_id"])
            if run is not None and not any(task.run is run and task.process.alive for task in shared.tasks):
                self.machines.started += 1
                task = SourceProcess(self, run, self.machines.started, shared)
                self.tasks[self.machines.started] = task
                shared.tasks.append(task)

    def _works_on(self, run: TaskRun) -> bool:
        return any(
            task.run is run and task.process.alive and cast("SourceProcess", task).shared is None
            for task in self.tasks.values()
        )

    def kill_task(self, pid: int) -> bool:
        if self.shared is not None and self.shared.pid == pid:
            alive = self.shared.alive
            self.shared.die()
            return alive
        return super().kill_task(pid)

    def owns(self, pid: int) -> bool:
        if self.shared is not None and self.shared.pid == pid:
            return self.shared.alive
        return super().owns(pid)

    def _specs(self) -> Specs:
        return SourceSpecs(self.process, self.machines.broker)

    def hears_of_config(self) -> None:
        """The topic of configs has news."""
        if self.membership.assignment.leader:
            self.supervisor.want(self.machines.wanted)

    def place(self, task: TaskId) -> None:
        """It moves, as by what it copies."""
        if (run := self.supervisor._runs.of(task)) is not None:
            run.place(light=not run.light)
            self.spark.change_plan()

    # supervisor.Application.

    @property
    def has_spark(self) -> bool:
        """Whether its Spark lives."""
        return self._spark is not None and not self._spark.done()

    async def start(self, url: str, token: str) -> None:
        self._spark = asyncio.get_running_loop().create_future()

    async def exited(self) -> int:
        assert self._spark is not None
        return await self._spark

    def spark_dies(self) -> None:
        """And every process of its tasks with it."""
        for task in self.tasks.values():
            task.die()
        self.process.call_soon(self._spark_ended)

    def _spark_ended(self) -> None:
        if self._spark is not None and not self._spark.done():
            self._spark.set_result(1)


class SharedProcess:
    """The process that light tasks share: each of them is a process of the world, and all die and stand still together."""

    def __init__(self, process_id: str, pid: int) -> None:
        self.process_id, self.pid, self.alive = process_id, pid, True
        self.tasks: list[SourceProcess] = []

    def die(self) -> None:
        self.alive = False
        for task in self.tasks:
            task.end()


class SourceSpecs(Specs):
    """Specs of a source connector's tasks."""

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        assigned = (await super().build(run_id, task, config, resolved, version)).assigned
        return source_spec(
            {"bootstrap.servers": "a"},
            {"bootstrap.servers": "b"},
            assigned,
            task=task.task,
            run_id=run_id,
            assignment_version=version,
            commit_interval_ms=int(PACE_S * 1000),
        )


class SourceProcess(Task, UnderOrders):
    """One process of a source task, or its part of the shared one, and its worker link (spark_jobs/task_context.py)."""

    def __init__(self, worker: ConnectorWorker, run: TaskRun, number: int, shared: SharedProcess | None = None) -> None:
        self.shared = shared
        self.changed = asyncio.Event()
        self.problems: tuple[Problem, ...] = ()
        self.counters: dict[str, int] = {}
        self.epoch_over = False
        super().__init__(worker, run, number)
        self.process.task = self  # type: ignore[attr-defined]
        self.terms = cast("LandingBroker", worker.machines.broker).terms
        self.pid = number if shared is None else shared.pid

    @property
    def attempt(self) -> str:
        return self.name

    @property
    def processes(self) -> list[Process]:
        return [self.process] if self.shared is None else [task.process for task in self.shared.tasks]

    def die(self) -> None:
        (self.end if self.shared is None else self.shared.die)()

    # As epochs.py and worker_client.py have it.

    async def _work(self) -> None:
        with contextlib.suppress(RunOverError):
            await self._one_epoch(await self.spec())
        self.end()

    async def _one_epoch(self, spec: TaskSpec) -> None:
        reporting = asyncio.create_task(self._report_for_ever())
        state, trace = EPOCH_ENDED, None
        copying = asyncio.ensure_future(mirror_source.run_source_task(spec, self))
        abandoning = asyncio.create_task(self._end_if_abandoned(copying))
        try:
            await copying
        except RunOverError:
            pass
        except asyncio.CancelledError:
            if not self.process.alive:
                raise
        except Exception as error:  # noqa: BLE001 - its worker hears of it
            state, trace = FENCED if isinstance(error, FencedError) else FAILED, f"{type(error).__name__}: {error}"
        finally:
            reporting.cancel()
            abandoning.cancel()
        if state == EPOCH_ENDED and self.orders.finish:
            state = FINISHED
        if self.orders.abandon:
            state, trace = ABANDONED, None
        await self._last_word(state, trace)

    async def _end_if_abandoned(self, copying: asyncio.Future[None]) -> None:
        while self.shared is None or not self.orders.abandon:
            await asyncio.sleep(PACE_S)
        await asyncio.sleep(ABANDON_SECONDS)
        copying.cancel()

    async def _report_for_ever(self) -> None:
        while True:
            before = self.orders
            try:
                await self._report(self.state, hold_s=PACE_S)
            except ConnectionLost:
                await asyncio.sleep(PACE_S)
                continue
            except RunOverError:
                self.orders = TaskOrders(lease_ms=0, finish=True, abandon=True)
                self.changed.set()
                return
            now = self.orders
            self.epoch_over = self.epoch_over or now.end_epoch
            if replace(now, lease_ms=before.lease_ms) != before:
                self.changed.set()
            if now.finish or now.end_epoch:
                await asyncio.sleep(FINISHING_REPORT_S)

    def end_epoch(self) -> None:
        """The epoch's time is over."""
        self.epoch_over = True
        self.changed.set()

    def lease_valid(self) -> bool:
        return self._lease.valid()

    @property
    def measures_wanted(self) -> bool:
        """No claim here is about figures."""
        return False

    def measured(self, measures: TaskMeasures) -> None: ...

    async def spec(self) -> TaskSpec:
        asked = self.worker.supervisor.requests.spec
        process, shared = TaskProcess(DRIVER, self.pid), self.shared is not None
        spec = await self._asked(lambda run: asked(run, self.attempt, process=process, shared=shared))
        if spec is None:
            raise RunOverError
        return spec

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        asked = [(each.topic, each.partition) for each in partitions]
        supervisor = self.worker.supervisor
        found = await self._asked(
            lambda run: supervisor.requests.source_offsets(run, self.attempt, asked, fenceable=fenceable)
        )
        if found is None:
            raise RunOverError
        machines = cast("LandingMachines", self.worker.machines)
        for each in partitions:
            machines.taken_on += 1
            self.terms[self.name, each.partition] = f"{self.name}, term {machines.taken_on}"
        return found

    def log(self, line: str) -> None: ...

    def event(self, event: Problem) -> None: ...

    def wrote_to(self, topic: str) -> None: ...


class SourceState(NamedTuple):
    topic_id: bytes | None = None
    high_watermark: int = -1
    problem: None = None
    failed: bool = False


class UntoldLogEnds(LogEnds):
    async def run(self) -> None:
        await asyncio.Event().wait()


class NumberedSource:
    """Stands in for the product's Fetcher: numbered records, so many a second since the beginning of the world."""

    def __init__(self, *_: Any, on_records: Callable[[CompletedFetch], None], **__: Any) -> None:
        self._task = present()
        self._put = on_records
        self._next: dict[TopicPartition, int] = {}
        self._paused = False
        self.log_ends = UntoldLogEnds(cast("Any", None), self.position, read_committed=False, wait_s=PACE_S)
        self.buffered = 0, 0

    def position(self, partition: TopicPartition) -> int | None:
        return self._next.get(partition)

    def add(self, partition: TopicPartition, offset: int | None, topic_id: bytes | None, leader_epoch: int) -> None:
        self._next[partition] = offset or 0

    def remove(self, partition: TopicPartition) -> None:
        self._next.pop(partition, None)

    def pause(self) -> None:
        self._paused = True

    async def run(self) -> None:
        while True:
            for partition, first in () if self._paused else list(self._next.items()):
                there = int(self._task.process.world.now * RATES[partition.partition])
                if there > first:
                    self._next[partition] = there
                    self._put(self._fetched(partition, first, there))
            await asyncio.sleep(PACE_S)

    def _fetched(self, partition: TopicPartition, first: int, there: int) -> CompletedFetch:
        key, step = self._task.terms[self._task.name, partition.partition].encode(), -(-(there - first) // BATCHES)
        batches = [
            encode([Plain(each, NOW_MS, key, b"%d" % each, ()) for each in range(at, min(at + step, there))])
            for at in range(first, there, step)
        ]
        return CompletedFetch(partition, memoryview(b"".join(batches)), first, there, there, there, 0, ())

    def state(self, partition: TopicPartition) -> SourceState:
        self._next[partition]
        return SourceState()

    def unreachable(self) -> Collection[Problem]:
        return ()

    def with_problems(self) -> Collection[TopicPartition]:
        return ()


class TaskConnection(Connection):
    """SourceTask's Cluster."""

    connections = 1

    async def connect(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None: ...


def connection(*_: Any, **__: Any) -> TaskConnection:
    """One of the task in whose process this is called."""
    task = present()
    machines = task.worker.machines
    return TaskConnection(
        task.process, machines.broker, task.name, task.worker.url, lambda step: machines.at(step, task)
    )


def present() -> SourceProcess:
    """The task in whose process this is called."""
    return asyncio.get_running_loop().task  # type: ignore[attr-defined,no-any-return]


@contextmanager
def simulated() -> Iterator[None]:
    """The source tasks find these clusters."""
    with (
        mock.patch.object(source_parts, "Cluster", connection),
        mock.patch.object(task_frame, "Cluster", connection),
        mock.patch.object(source_parts, "Fetcher", NumberedSource),
        mock.patch.object(source_commits, "COMMIT_S", PACE_S),
    ):
        yield
