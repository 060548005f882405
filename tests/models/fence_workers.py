"""Workers and their tasks in the fence's model, as processes in simulated time.

A worker is the product's Membership and Supervisor, with a Spark driver that does what the supervisor's plan says. A task is
the product's TaskLease, BatchProducer with its ProducerIdentity, and SourceOffsetsWriter, in the order in which
spark_jobs/tasks/mirror_source.py uses them; it copies numbered records, some each second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from mirror_connect.app.group.membership import Membership
from mirror_connect.app.herder.interfaces import GroupAssignment
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.problems import Problems
from mirror_connect.connectors.task_protocol import (
    DRIVER,
    FENCED,
    FINISHED,
    RUNNING,
    STARTING,
    SourceOffset,
    TaskId,
    TaskOrders,
    TaskReport,
    TaskSpec,
)
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.producer.task_lease import TaskLease
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset, SourceOffsetsWriter
from tests.fakes.simulated import Process, World
from tests.fakes.simulated_group import Group, Steps
from tests.fakes.spark_rig import FakeEvents, FakeSpecs, wanted
from tests.models.fence_broker import PARTITIONS, REQUEST_S, SOURCE, TARGET, Broker, Connection
from tests.models.fence_feed import Feed

T = TypeVar("T")
CONNECTOR: Final = "c"
TASK: Final = TaskId(CONNECTOR, 0)
SESSION_S: Final = 10.0
HEARTBEAT_S: Final = 3.0
# Seconds between two reports, commits and looks at the plan. The product's are shorter: nothing here rests on them.
PACE_S: Final = 1.0
# Records a second of each partition. The second one gets few: a successor may long have written to the first alone.
RATES: Final = (2.0, 0.4)
LOOPBACK_S: Final = 0.001
INTERNAL_S: Final = 5.0
# Between the end of a task's process and the beginning of its next one.
START_S: Final = 0.05
# As the product's: SETTLE_S and LAST_COMMIT_S of source_commits.py.
SETTLE_S: Final = 1.5
LAST_COMMIT_S: Final = 0.25


class Machines:
    """All that incidents act on."""

    def __init__(self, world: World, broker: Broker, group: Group) -> None:
        self.world, self.broker, self.group = world, broker, group
        self.workers: list[Worker] = []
        # As the topic of configs has it.
        self.wanted = {TASK: wanted("X", *(f"{SOURCE}-{partition}" for partition in range(PARTITIONS)))}
        self.armed: dict[str, Callable[[Task, bool], None]] = {}
        self.started = 0

    def at(self, step: str, task: Task) -> bool:
        """A task has come to this step; returns whether something happened to it."""
        happen = self.armed.pop(f"{step} of {task.run.task.task}", None)
        if happen is not None:
            happen(task, step.startswith("before"))
        return happen is not None


class Worker:
    """A member of the group, which runs the task while it leads; it is its own Spark driver."""

    last_words = ""
    properties: ClassVar[Mapping[str, str]] = {}

    def __init__(self, machines: Machines, process: Process) -> None:
        self.machines, self.process = machines, process
        self.events = FakeEvents()
        self.tasks: dict[int, Task] = {}
        self.url = f"http://{process.name}"
        self.free_at = 0.0
        self.membership = Membership(
            Steps(process, machines.group),
            self.url,
            group_id="g",
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
            rebalance_timeout_ms=int(machines.group.rebalance_s * 1000),
            on_change=self._changed,
            clock=process.time,
        )
        self.spark = SparkHost(self.properties, new_application=lambda _, *, statements: self, clock=process.time)
        self.supervisor = Supervisor(self.spark, self._specs(), self._lease, clock=process.time)
        self.supervisor.listen(self.events)

    def _lease(self) -> float:
        return self.membership.leads_for()

    def _changed(self, assignment: GroupAssignment) -> None:
        # As Reconciler has it.
        if assignment.leader:
            self.supervisor.want(self.machines.wanted)
        else:
            self.supervisor.retire()

    async def work(self) -> None:
        self.supervisor.start()
        await self.spark.start("http://127.0.0.1:1")
        driving = asyncio.create_task(self._drive())
        await self.membership.join(1e9)
        await driving

    async def _drive(self) -> None:
        version = -1
        while True:
            plan = await self.spark.plan(version, PACE_S)
            version = plan["version"]
            if self.has_spark:
                self.report_of_driver()
            if self.has_spark and self.machines.world.now >= self.free_at:
                await self.apply(plan)

    def report_of_driver(self) -> None:
        """Spark's driver tells what there is."""
        self.spark.driver_report(64, {})

    async def apply(self, plan: Mapping[str, Any]) -> None:
        """Spark's driver makes the queries equal the plan."""
        for each in plan["runs"]:
            await self._keep_running(each)

    async def _keep_running(self, planned: Mapping[str, Any]) -> None:
        run = self.supervisor.run_of(planned["run_id"])
        if run is not None and not self._works_on(run):
            self.machines.started += 1
            self.tasks[self.machines.started] = self._begin(run, self.machines.started)

    def _specs(self) -> Specs:
        return Specs(self.process, self.machines.broker)

    def _begin(self, run: TaskRun, number: int) -> Task:
        return Task(self, run, number)

    def _works_on(self, run: TaskRun) -> bool:
        return any(task.run is run and task.process.alive for task in self.tasks.values())

    def newest(self, task: TaskId) -> Task | None:
        """The process that runs this task, if there is one."""
        alive = (each for each in reversed(self.tasks.values()) if each.process.alive and each.run.task == task)
        return next(alive, None)

    # supervisor.Application.

    @property
    def has_spark(self) -> bool:
        """Whether its Spark lives."""
        return True

    async def start(self, url: str, token: str) -> None: ...

    async def exited(self) -> int:
        await asyncio.Event().wait()
        return 0

    async def end(self, patience_s: float) -> None: ...

    def kill_task(self, pid: int) -> bool:
        task = self.tasks.get(pid)
        if task is None or not task.process.alive:
            return False
        task.end()
        return True

    def signal_of(self, pid: int) -> int | None:
        return None

    def owns(self, pid: int) -> bool:
        return pid in self.tasks and self.tasks[pid].process.alive


class Specs(FakeSpecs):
    """Positions as the worker reads them, through its own network."""

    def __init__(self, process: Process, broker: Broker) -> None:
        self._process = process
        self._broker = broker

    async def source_offsets(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[SourceOffset]:
        try:
            found = await self._process.call(lambda: dict(self._broker.positions), REQUEST_S)
        except ConnectionLost as lost:
            raise ClusterUnreachable(str(lost)) from None
        return [SourceOffset(topic, partition, found.get(partition)) for topic, partition in partitions]

    def keep(self, tasks: Collection[TaskId]) -> None: ...


class RunOverError(Exception):
    """The worker knows no such run any more."""


class Task:
    """One process of the task, until it is told to end, is fenced or killed."""

    place: tuple[str, str] = (DRIVER, "")

    def __init__(self, worker: Worker, run: TaskRun, number: int) -> None:
        self.worker, self.run, self.pid = worker, run, number
        self.number = number
        self.name = f"{worker.process.name}-task{number}"
        offset, rate, lies = self.clock
        self.process = Process(worker.machines.world, self.name, offset=offset, rate=rate, lies=lies)
        self.state = STARTING
        self.orders = TaskOrders(lease_ms=0)
        self.assignment_version = 0
        self.committed = self.settled = True
        self._lease = TaskLease(self.process.time)
        self.process.start(self._work())

    @property
    def clock(self) -> tuple[float, float, bool]:
        """Offset and rate of its machine's clock, and whether that lies."""
        clock = self.worker.process
        return clock._offset, clock._rate, clock._lies

    @property
    def attempt(self) -> str:
        """What its worker knows this process by."""
        return f"attempt-{self.pid}"

    @property
    def processes(self) -> list[Process]:
        """All that is suspended with it."""
        return [self.process]

    def die(self) -> None:
        """Its process is killed."""
        self.end()

    def end(self) -> None:
        """Its process is gone a moment later."""
        self.process.world.after(0.0, self._ended)

    def _ended(self) -> None:
        if self.process.alive:
            self.worker.free_at = self.process.world.now + START_S
            self.process.kill()

    async def _ask(self, serve: Callable[[TaskRun], Awaitable[T]], answered: Callable[[], object] = lambda: None) -> T:
        """A call of the internal HTTP: its worker answers when it is not suspended. `answered`: called when it has."""
        process, worker = self.process, self.worker.process
        answer = process.create_future()

        async def serving() -> T:
            if self.worker.supervisor.run_of(self.run.run_id) is None:
                raise RunOverError
            return await serve(self.run)

        def arrive() -> None:
            worker.start(serving()).add_done_callback(go_back)

        def go_back(done: asyncio.Task[T]) -> None:
            process.world.after(LOOPBACK_S, lambda: process.alive and process.call_soon(settle, done))
            answered()

        def settle(done: asyncio.Task[T]) -> None:
            if not answer.done():
                error = done.exception()
                answer.set_result(done.result()) if error is None else answer.set_exception(error)

        def give_up() -> None:
            # Not by cancelling: an answer that came while the process was suspended is there when it goes on.
            if not answer.done():
                answer.set_exception(ConnectionLost("the worker did not answer"))

        process.world.after(LOOPBACK_S, lambda: worker.alive and arrive())
        timer = process.call_later(INTERNAL_S, give_up)
        try:
            return await answer
        except ClusterUnreachable as error:
            raise ConnectionLost(str(error)) from None
        finally:
            timer.cancel()

    async def _asked(self, serve: Callable[[TaskRun], Awaitable[T]]) -> T:
        """As `_ask`, until there is an answer."""
        while True:
            with contextlib.suppress(ConnectionLost):
                return await self._ask(serve)
            await asyncio.sleep(0.5)

    async def _report(self, state: str, trace: str | None = None, hold_s: float = 0.0) -> None:
        report = TaskReport(
            self.attempt,
            self.pid,
            state,
            trace,
            assignment_version=self.assignment_version,
            committed=self.committed,
            settled=self.settled,
            executor=self.place[0],
            host=self.place[1],
        )
        sent, known = self.process.time(), self.orders.assignment_version
        supervisor = self.worker.supervisor
        self.orders = await self._ask(
            lambda run: supervisor.requests.report(run, report, hold_s=hold_s, known_version=known),
            lambda: self.worker.machines.at("behind report", self),
        )
        self._lease.renew(sent, self.orders.lease_ms)

    async def _work(self) -> None:
        with contextlib.suppress(RunOverError):
            spec = await self._asked(lambda run: self.worker.supervisor.requests.spec(run, self.attempt))
            if spec is not None:
                error = await self._epoch(spec)
                # As epochs.py has it.
                await self._last_word(*((FENCED, f"FencedError: {error}") if error else (FINISHED, None)))
        self.end()

    async def _last_word(self, state: str, trace: str | None) -> None:
        for _ in range(3):
            with contextlib.suppress(ConnectionLost):
                await self._report(state, trace)
                return
            await asyncio.sleep(0.5)

    async def _epoch(self, spec: TaskSpec) -> FencedError | None:
        self.assignment_version, self.settled = spec.assignment_version, False
        machines, settings = self.worker.machines, ProducerSettings()
        connection = Connection(
            self.process, machines.broker, self.name, self.worker.url, lambda step: machines.at(step, self)
        )
        producer = BatchProducer(connection, settings, spec.transactional_id, self._lease.valid, Problems(print))
        reporting = asyncio.create_task(self._report_for_ever())
        copying = asyncio.create_task(self._copy(producer, spec))
        try:
            await asyncio.wait({reporting, copying, producer.failed}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (producer.failed, copying, reporting):
                if ended.done():
                    ended.result()
        except FencedError as error:
            return error
        finally:
            reporting.cancel()
            copying.cancel()
            self.settled = producer.settled
        return None

    async def _report_for_ever(self) -> None:
        while not self.orders.abandon:
            with contextlib.suppress(ConnectionLost):
                await self._report(self.state)
            await asyncio.sleep(PACE_S)
        raise RunOverError

    async def _copy(self, producer: BatchProducer, spec: TaskSpec) -> None:
        await producer.start()
        supervisor, asked = self.worker.supervisor, [(each.topic, each.partition) for each in spec.assigned]
        found = await self._asked(
            lambda run: supervisor.requests.source_offsets(run, self.attempt, asked, fenceable=producer.fenceable)
        )
        if found is None:
            raise RunOverError
        positions = SourceOffsetsWriter(await producer_of_positions(producer), spec)
        feeds: list[Feed] = []
        targets: list[TargetPartition] = []
        for each in found:
            feeds.append(Feed(self.process.world, RATES[each.partition], 0 if each.offset is None else each.offset + 1))
            targets.append(producer.partition(TARGET, each.partition, feeds[-1]))
        self.state = RUNNING

        def note() -> None:
            for partition, feed in zip(spec.assigned, feeds, strict=True):
                positions.note(partition, LastOffset(feed.acknowledged - 1, None))

        while not self.orders.finish:
            for target in targets:
                producer.wake(target)
            note()
            positions.commit()
            await asyncio.sleep(PACE_S)
        await producer.settle(targets, SETTLE_S)
        note()
        await positions.flush(LAST_COMMIT_S)


async def producer_of_positions(producer: BatchProducer) -> BatchProducer:
    """Positions are written by the producer of the records."""
    return producer
