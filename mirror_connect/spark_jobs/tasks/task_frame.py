"""The frame of every task: its target, its producer, its problems, and how it starts and ends.

The producer id comes first: it fences the former owner, which can write nothing newer than what is read after that. The task
writes only with a lease. If it is ordered to finish, it lets its work commit and returns; if it is ordered to abandon, it
returns at once. It waits for unreachable clusters, as MirrorMaker 2 does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from mirror_connect.connectors.problems import Problem, Problems, cluster_unreachable
from mirror_connect.connectors.task_protocol import RUNNING, TaskSpec
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import notices, producer_settings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.advice import RESTART
from mirror_connect.spark_jobs.tasks.connecting import until_connected

Running = Mapping[str, asyncio.Task[Any]]


class TaskWork(Protocol):
    """What a task does inside its frame."""

    async def start(self) -> None:
        """Prepares the work. The task has its producer id by then."""

    def works(self) -> Mapping[str, Coroutine[Any, Any, Any]]:
        """The coroutines that run concurrently, by name. The task ends when the first of them ends."""

    async def until_ended(self) -> None:
        """Waits until the task is ordered to end."""

    async def finish(self, works: Running) -> None:
        """Does the last commit, unless the task is abandoned."""


class Closed(Protocol):
    """A part that is closed at the end of a task."""

    async def close(self) -> None:
        """Closes the part."""


class TaskFrame:
    """One task run, in one event loop. Any of `failures` ends it; `show_problems` is called while it connects.

    `source`: the client properties that the work uses besides those of the target.
    """

    def __init__(self, spec: TaskSpec, link: WorkerLink, source: Mapping[str, str] | None = None) -> None:
        self.spec = spec
        self.link = link
        self._source = source or {}
        self.problems = Problems(link.log, link.event, run=spec.run_id)
        self.target = Cluster(
            spec.target,
            spec.target.get("client.id") or f"connector-producer-{spec.connector}-{spec.task}",
            kind="producer",
        )
        self.target_unreachable = self.unreachable("target", spec.target)
        self.producer = BatchProducer(
            self.target,
            producer_settings(spec.target),
            spec.transactional_id,
            link.lease_valid,
            self.problems,
            unreachable=self.target_unreachable,
            restart=RESTART[spec.program],
            transactional=spec.exactly_once,
        )
        self.failures: list[asyncio.Future[None]] = [self.producer.failed]
        self.show_problems: Callable[[], None] = self._show_unreachable

    def unreachable(self, side: str, properties: Mapping[str, str]) -> Problem:
        """The problem that the cluster at this side, source or target, can't be reached."""
        alias = self.spec.source_alias if side == "source" else self.spec.target_alias
        return cluster_unreachable(f"{side} cluster {alias}", properties.get("bootstrap.servers"))

    async def run(self, work: TaskWork) -> None:
        """Runs from the first connection to the last commit. Raises the work's errors, NotAuthorized, FencedError …"""
        # All tasks of a connector have the same clients, and it is enough to be told once.
        if self.spec.task == 0:
            for line in notices(self._source, self.spec.target):
                self.link.log(line)
        if not await self._unless_ordered_to_end(self._start(work)):
            return
        self.link.state = RUNNING
        self.link.assignment_version = self.spec.assignment_version
        works = {name: asyncio.create_task(each, name=name) for name, each in work.works().items()}
        ending = asyncio.create_task(work.until_ended(), name="orders")
        doing = (*works.values(), ending)
        try:
            await asyncio.wait({*doing, *self.failures}, return_when=asyncio.FIRST_COMPLETED)
            self.raise_failure()
            if not self.link.abandon_wanted:
                await work.finish(works)
            for ended in doing:
                if ended.done() and not ended.cancelled():
                    ended.result()
        finally:
            await cancelled(*doing)

    async def connected(self, cluster: Cluster, unreachable: Problem) -> None:
        """Tries until the cluster answers; the status shows it meanwhile."""
        await until_connected(cluster, unreachable, self.problems, self.link, self.show_problems)

    async def until_ordered_to_end(self, check_orders: Callable[[], None] = lambda: None) -> None:
        """Waits until the task must finish or abandon. `check_orders` is called first and after each change of orders."""
        link = self.link
        while not link.finish_wanted and not link.abandon_wanted:
            link.changed.clear()
            check_orders()
            await link.changed.wait()

    def raise_failure(self) -> None:
        """Raises the error that keeps the task from writing, if there is one: it can't commit either."""
        for failure in self.failures:
            if failure.done():
                failure.result()

    def target_problems(self, refused: Iterable[Problem | None]) -> Iterable[Problem | None]:
        """The problem of the whole target, or else `refused`: while the target is unreachable, those are old."""
        return self.problems.shown(self.target_unreachable.subject) or refused

    async def close(self, *parts: Closed) -> None:
        """Closes the producer, then these parts of the task, then the connections. Does not wait for acknowledgements."""
        await self.producer.close()
        for part in (*parts, self.target):
            await part.close()

    async def _start(self, work: TaskWork) -> None:
        await self.connected(self.target, self.target_unreachable)
        await self.producer.start()
        await work.start()

    async def _unless_ordered_to_end(self, work: Coroutine[Any, Any, None]) -> bool:
        """Awaits the work; False if the task was ordered to end before the work was done."""
        doing, ordered = asyncio.create_task(work), asyncio.create_task(self.until_ordered_to_end())
        try:
            await asyncio.wait({doing, ordered}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            await cancelled(doing, ordered)

    def _show_unreachable(self) -> None:
        self.link.problems = tuple(self.problems.shown())


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancels the tasks and waits until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
