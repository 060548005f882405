"""A supervisor with a real Spark application and fake tasks (tests/fakes/spark_path), and all that it said."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import uvicorn

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.config.task_listener import ANY, TaskListener
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.app.supervisor.internal_api import (
    KNOWN,
    create_internal_application,
    create_tasks_application,
)
from mirror_connect.app.supervisor.launcher import SparkApplication
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_channel import open_task_channel, with_driver_address
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, parse_assigned_partitions
from mirror_connect.connectors.task_protocol import SourceOffset, TaskId, TaskPartition, TaskSpec
from tests.waiting import WaitTimedOut, state_reached

FAKE_TASKS = Path(__file__).parent / "spark_path"
SECRET = "correct-horse-battery"


def wanted(kind: str, *partitions: str) -> WantedTask:
    """A task of the fake connector class `kind`; its password is a reference that `FakeSpecs` resolves."""
    config = {
        "connector.class": kind,
        "a.password": "${file:/secrets:password}",
        ASSIGNED_PARTITIONS: ",".join(partitions),
    }
    return WantedTask(config)


class FakeSpecs:
    """Specs of raw configs; nothing is known of positions. `copied` forgets what tasks report."""

    def copied(self, task: TaskId, offsets: Sequence[SourceOffset]) -> None: ...

    def wrote_for(self, task: TaskId, keys: Sequence[str]) -> None: ...

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        return {**config, "a.password": SECRET}

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        return TaskSpec(
            run_id=run_id,
            connector=task.connector,
            task=task.task,
            connector_class=config["connector.class"],
            config=resolved,
            source={},
            target={},
            source_alias="A",
            target_alias="B",
            assigned=tuple(
                TaskPartition(each.topic, each.partition, f"A.{each.topic}")
                for each in parse_assigned_partitions(config[ASSIGNED_PARTITIONS])
            ),
            assignment_version=version,
            transactional_id=f"connect-{task}",
            offsets_topic="connect-offsets",
            offsets_partitions=1,
            commit_interval_ms=1000,
        )

    async def source_offsets(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[SourceOffset]:
        return [SourceOffset(topic, partition, None) for topic, partition in partitions]

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Nothing is remembered here."""


@dataclass
class FakeEvents:
    """What the herder would hear."""

    states: list[tuple[TaskId, str, str | None]] = field(default_factory=list)
    ended: list[TaskId] = field(default_factory=list)
    topics: set[tuple[TaskId, str]] = field(default_factory=set)

    def task_state(self, task: TaskId, state: str, trace: str | None, *, waits: bool = False) -> None:
        self.states.append((task, state, trace))

    def task_ended(self, task: TaskId) -> None:
        self.ended.append(task)

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        self.topics |= {(task, topic) for topic in topics}

    def of(self, task: TaskId) -> list[str]:
        """The states of one task, in order."""
        return [state for each, state, _ in self.states if each == task]

    def trace(self, task: TaskId) -> str | None:
        """The text that came with a task's newest state."""
        return [trace for each, _, trace in self.states if each == task][-1]


class Notices(logging.Handler):
    """Everything the supervisor and Spark logged, as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@dataclass
class SparkRig:
    spark: SparkHost
    supervisor: Supervisor
    events: FakeEvents
    notices: Notices

    @property
    def application(self) -> SparkApplication:
        """The present one."""
        application = self.spark.copying.application
        assert isinstance(application, SparkApplication)
        return application

    def tree(self) -> list[psutil.Process]:
        """Every living process of the application; the driver first, its JVM second."""
        assert self.application.pid is not None
        driver = psutil.Process(self.application.pid)
        processes = [each for each in (driver, *driver.children(recursive=True)) if lives(each)]
        return sorted(processes, key=lambda process: (process.pid != driver.pid, process.name() != "java"))

    def run(self, task: TaskId) -> TaskRun:
        """The run of a task."""
        return next(run for run in self.supervisor.runs if run.task == task)

    def pid(self, task: TaskId) -> int:
        """The process of a task."""
        pid = self.run(task).pid
        assert pid is not None
        return pid

    async def runs(self, *tasks: TaskId) -> None:
        """Waits until these tasks run."""
        await self.until(lambda: all(self.is_running(task) for task in tasks), f"{tasks} run")

    def is_running(self, task: TaskId) -> bool:
        """Whether a task has a process that has said RUNNING."""
        runs = [run for run in self.supervisor.runs if run.task == task]
        return bool(runs) and runs[0].phase.name == "RUNNING" and runs[0].pid is not None

    def said(self, task: TaskId) -> list[str]:
        """The notices of one task."""
        return [line.partition(": ")[2] for line in self.notices.lines if line.startswith(f"Task {task}: ")]

    def seen(self, task: TaskId) -> dict[str, list[str]]:
        """What the task's process saw of its surroundings."""
        return dict(json.loads(next(line for line in self.said(task) if line.startswith("{"))))

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 270.0) -> None:
        """Waits for a condition; its tasks are fakes, which copy no records."""
        try:
            await state_reached(condition, what, seconds, 0.02)
        except WaitTimedOut as error:
            said = "\n".join(self.notices.lines[-30:])
            raise WaitTimedOut(f"{error}; {self.events.states}\n{said}") from None


@contextlib.asynccontextmanager
async def spark_rig(spark: Mapping[str, str] | None = None, tasks: TaskListener = ANY) -> AsyncIterator[SparkRig]:
    """Starts it; PYTHONPATH has to name `FAKE_TASKS`, that of executors too. `tasks`: where these reach the worker."""
    notices, events = Notices(), FakeEvents()
    logger = logging.getLogger("mirror_connect")
    level = logger.level
    logger.addHandler(notices)
    logger.setLevel(logging.DEBUG)
    given = with_driver_address(spark or {})
    channel, http = open_task_channel(given, tasks), HttpServers()
    told = None if channel is None else channel.told
    host = SparkHost(given, new_application=partial(SparkApplication, tasks=told), lookup_paths=LookupPaths(("/",)))
    if channel is not None:
        http.serve(create_tasks_application(host), [channel.listener], channel.tls, known=KNOWN)
    supervisor = Supervisor(host, FakeSpecs(), lambda: 8.0)
    supervisor.listen(events)
    listener = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(create_internal_application(host), log_config=None, lifespan="off")
    server = uvicorn.Server(settings)
    serving = asyncio.create_task(server._serve([listener]))
    try:
        supervisor.start()
        await host.start(f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield SparkRig(host, supervisor, events, notices)
    finally:
        await supervisor.stop(3.0)
        await host.end()
        await http.end()
        server.should_exit = True
        await serving
        listener.close()
        logger.removeHandler(notices)
        logger.setLevel(level)


def lives(process: psutil.Process) -> bool:
    """Whether it is there and no zombie."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
