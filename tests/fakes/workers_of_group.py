"""Workers in memory that share one group's topics, and tell each other their figures."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from mirror_connect.app.errors import WorkerUnreachable
from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.task_measures import GroupMeasures, PartitionMeasures, TaskMeasures
from mirror_connect.connectors.task_protocol import RUNNING, TaskId, TaskReport
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, source_config
from tests.fakes.made_up_links import Hand

CONNECTOR = "c"


@dataclass
class Wire:
    """The client between the workers. `away`: these give no answer; `slow`: these take this many seconds.

    `instead`: these answer this. `asked`: every request, by the worker that got it.
    """

    workers: dict[str, FakeWorker] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    slow: dict[str, float] = field(default_factory=dict)
    instead: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    async def signed(
        self, method: str, url: str, path: str, body: bytes, *, patience_s: float, limit: int
    ) -> tuple[int, bytes]:
        self.asked.append((url, body))
        await asyncio.sleep(min(patience_s, self.slow.get(url, 0.0)))
        late = self.slow.get(url, 0.0) > patience_s
        if url in self.away or late:
            raise WorkerUnreachable(url, "does not answer", sent=late)
        if url in self.instead:
            return self.instead[url]
        assert (method, path) == ("POST", "/admin/workers/figures")
        lines = await self.workers[url].herder.links.figures(json.loads(body)["rows"])
        answer = b"".join([line async for line in lines])
        assert len(answer) < limit
        return 200, answer


class SharingGroup:
    """Workers w0, w1 …; task n of one source connector runs at worker n. Time passes by hand.

    After its start a test alone says who runs what, without a word to the herders.
    """

    def __init__(self, count: int) -> None:
        self.hand = Hand()
        self.wire = Wire()
        self.workers: list[FakeWorker] = []
        for number in range(count):
            first = self.workers[0] if self.workers else None
            worker = FakeWorker(
                first and first.config_topic,
                first and first.status_topic,
                membership=FakeMembership(is_leader=number == 0, leader_url=_url(0)),
                metrics=WorkerMetrics(self.hand.clock, self.hand.wall_clock),
                worker_id=f"w{number}:8083",
                worker_client=self.wire,
            )
            self.workers.append(worker)
            self.wire.workers[_url(number)] = worker

    @contextlib.asynccontextmanager
    async def running(self, partitions: Sequence[Sequence[str]]) -> AsyncIterator[SharingGroup]:
        """With a task for each of these lists of partitions."""
        async with contextlib.AsyncExitStack() as stack:
            for worker in self.workers:
                await stack.enter_async_context(worker.running())
                worker.herder._link_watch.stop()
                worker.herder.links.others.stop()
            leader = self.workers[0]
            leader.connectors.tasks[CONNECTOR] = len(partitions)
            await leader.herder.configs.create(CONNECTOR, source_config(tasks__max=str(len(partitions))), None)
            await leader.state(CONNECTOR, "RUNNING", ["RUNNING"] * len(partitions))
            running = leader.connectors.running[CONNECTOR]
            joined = [",".join(each) for each in partitions]
            configs = [
                {**running.raw, "task.index": str(task), ASSIGNED_PARTITIONS: each} for task, each in enumerate(joined)
            ]
            running.context.request_task_reconfiguration(configs)
            # What moves is nobody's in between.
            for tasks in ({}, {task: task % len(self.workers) for task in range(len(partitions))}):
                self.share(tasks)
                for worker in self.workers:
                    worker.herder.membership_changed()
                await eventually(lambda: self._claimed(leader) == {each for each, at in tasks.items() if at == 0})  # noqa: B023
            for worker in self.workers:
                await eventually(lambda worker=worker: self._has_read(worker, joined))  # type: ignore[misc]
            yield self

    def _claimed(self, worker: FakeWorker) -> set[int]:
        assert worker.membership.work is not None
        return {task.task for task in worker.membership.work.claims().tasks}

    def _has_read(self, worker: FakeWorker, joined: Sequence[str]) -> bool:
        snapshot = worker.configs.snapshot()
        told = [task.get(ASSIGNED_PARTITIONS) for task in snapshot.tasks(CONNECTOR)]
        owners = [(each.worker_id, each.state) for each in worker.statuses.tasks(CONNECTOR).values()]
        return told == list(joined) and owners == [
            (f"w{task % len(self.workers)}:8083", "RUNNING") for task in range(len(joined))
        ]

    def share(self, tasks: Mapping[int, int]) -> None:
        """Each task runs at this worker."""
        of = {
            number: frozenset(TaskId(CONNECTOR, task) for task, at in tasks.items() if at == number)
            for number in range(len(self.workers))
        }
        members = tuple(
            GroupMember(_url(number), f"w{number}:8083", frozenset({CONNECTOR} if number == 0 else ()), of[number])
            for number in of
        )
        for number, worker in enumerate(self.workers):
            own = members[number]
            worker.membership.assigned = GroupAssignment(
                1, number == 0, _url(0), own.connectors, own.tasks, workers=members
            )

    def tell(
        self,
        worker: int,
        task: int,
        *rows: tuple[str, int, int | None, int, int | None],
        latency_counts: tuple[int, ...] = (),
        filtered: int = 0,
        skipped: int = 0,
        groups: Sequence[GroupMeasures] = (),
        **more: object,
    ) -> None:
        """The task reports to this worker: rows of topic, partition, lag, records, age of the oldest missing record in s."""
        told = tuple(
            PartitionMeasures(
                topic,
                partition,
                f"A.{topic}",
                records - 1,
                None if lag is None else records + lag,
                lag,
                None if age_s is None else self.hand.ms - age_s * 1000,
                0,
                records,
                records * 100,
            )
            for topic, partition, lag, records, age_s in rows
        )
        measures = TaskMeasures(
            self.hand.ms,
            told,
            latency_counts=latency_counts,
            filtered=filtered,
            records_skipped=skipped,
            groups=tuple(groups),
        )
        report = TaskReport(f"w{worker}-{task}", 1, RUNNING, settled=True, measures=measures, **more)  # type: ignore[arg-type]
        self.workers[worker].metrics.take(TaskId(CONNECTOR, task), report, ())


def _url(number: int) -> str:
    return f"http://w{number}:8083/"
