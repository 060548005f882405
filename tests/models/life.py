"""The life of partitions in simulated time: real source tasks between a source and a target that fail as a schedule says.

The tasks are the product's, from fetcher to positions; the clusters are in memory (life_clusters.py), and `Watch` says what
must hold.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from unittest import mock

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import SourceOffset, TaskPartition, TaskSpec
from mirror_connect.kafka_io.producer import batch_producer, target_partition
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.tasks import mirror_source, source_parts, task_frame
from tests.fakes.simulated_time import simulated_clock
from tests.fakes.source_cluster import FakeSource
from tests.fakes.source_spec import OFFSETS, source_spec
from tests.fakes.whole_cluster import FakeBroker
from tests.fakes.worker_link import FakeWorkerLink
from tests.models.life_clusters import NOW_S, PARTITIONS, REMOTE, TOPIC, LifeClusters, LifeSource, LifeTarget
from tests.models.watch import BrokenPromiseError, Place, Watch

# Seconds until a schedule that has come to its end must have been copied: many times what the longest back-off takes.
PATIENCE_S: Final = 600.0
TRUNCATED: Final = re.compile(rf"{TOPIC}-(\d+) was truncated at .* offsets (\d+) to (\d+), which had been read")


@dataclass(frozen=True)
class Incident:
    """Something that happens at a moment: `at` in simulated seconds from the beginning; `number` is what the kind needs."""

    at: float
    kind: str
    number: int


@dataclass(frozen=True)
class Schedule:
    """All of a life. `shapes`: the batches of the source, as (kind, records, bytes of a value); `seed`: of delays alone.

    `carries`: how many bytes a second the link to the target carries, from the beginning to the end; None: all.
    """

    shapes: tuple[tuple[str, int, int], ...]
    incidents: tuple[Incident, ...]
    old: bool
    seed: int
    carries: int | None = None


class LifeLink(FakeWorkerLink):
    """Reads positions from the target in memory, in no time that counts. `read`: see SourceOfRun."""

    def __init__(self, spec: TaskSpec, target: LifeTarget) -> None:
        super().__init__(spec)
        self._target = target
        self.read: list[list[Place]] = [[] for _ in target.watches]

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        await asyncio.sleep(0.001)
        found = []
        for p in partitions:
            stored = self._target.positions.get(p.partition)
            if stored is None or stored.place is None:
                found.append(SourceOffset(p.topic, p.partition, None))
                continue
            self._target.watches[p.partition].committed = stored.place
            self.read[p.partition].append(stored.place)
            found.append(SourceOffset(p.topic, p.partition, stored.offset, stored.topic_id, stored.epoch))
        return found

    def event(self, event: Problem) -> None:
        super().event(event)
        if lost := TRUNCATED.search(event.text):
            partition, first, last = map(int, lost.groups())
            self._target.watches[partition].lost(first, last, self.read[partition])
        elif event.code is not ProblemCode.TOPIC_RECREATED:
            raise BrokenPromiseError(f"nothing of that has happened: {event.line}")


@dataclass
class Runner:
    """One Connect task: started again whenever it has ended. `wanted`: what it is to copy."""

    number: int
    life: Life
    wanted: set[int]
    version: int = 1
    link: LifeLink = None  # type: ignore[assignment]
    running: asyncio.Task[None] = None  # type: ignore[assignment]
    # One end and start at a time.
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)

    def start(self) -> None:
        spec = self.spec()
        self.link = self.life.new_link(spec)
        self.running = asyncio.create_task(mirror_source.run_source_task(spec, self.link))

    def spec(self) -> TaskSpec:
        return self.life.changed(
            source_spec(
                {"bootstrap.servers": "a", "fetch.max.wait.ms": "400"},
                {"bootstrap.servers": "b"},
                (TaskPartition(TOPIC, p, REMOTE) for p in sorted(self.wanted)),
                task=self.number,
                assignment_version=self.version,
                commit_interval_ms=1000,
            )
        )

    def assign(self) -> None:
        """Tells the task what it is to copy now."""
        self.version += 1
        self.link.assign(self.spec())

    async def follows(self) -> None:
        """Until it has done what `assign` asked for, or has failed."""
        while self.ending.locked() or (not self.running.done() and self.link.assignment_version < self.version):
            await asyncio.sleep(0.05)

    async def again(self) -> None:
        """Until it has ended, then once more: a user restarts a task that failed because all its partitions stand still."""
        await asyncio.wait({self.running})
        self.look()
        self.start()

    def look(self) -> None:
        """Raises what has ended it, unless that is what it is meant to end with."""
        ended = self.running.done() and not self.running.cancelled()
        error = self.running.exception() if ended else None
        if error is not None and not isinstance(error, self.life.ends):
            raise error


class Life:
    """Two tasks, a partition each at first; `run` goes through the schedule and waits until everything is copied.

    `ends`: errors after which somebody starts a task again.
    """

    ends: tuple[type[Exception], ...] = (PartitionRefusedError,)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.watches = [Watch() for _ in range(PARTITIONS)]
        self.source_broker, self.target_broker = FakeBroker(), FakeBroker()
        self.target = self.new_target()
        self.target_broker.producers = self.target
        self.target_broker.topic(REMOTE, PARTITIONS)
        self.target_broker.topic(OFFSETS)
        self.source = LifeSource(self.source_broker, self.watches, old=schedule.old)
        self.target.incarnations[topic_id_text(self.source.topic_id)] = 0
        self.runners = [Runner(number, self, {number}) for number in range(PARTITIONS)]
        self._moving = asyncio.Lock()

    def new_target(self) -> LifeTarget:
        return LifeTarget(random.Random(self.schedule.seed), self.watches, self.schedule.carries)

    def new_link(self, spec: TaskSpec) -> LifeLink:
        return LifeLink(spec, self.target)

    def changed(self, spec: TaskSpec) -> TaskSpec:
        return spec

    async def run(self) -> None:
        shapes = deque(self.schedule.shapes)
        for _ in range(len(shapes) // 2):
            self._append(shapes.popleft())
        for runner in self.runners:
            runner.start()
        happening = [asyncio.create_task(self._happen(incident)) for incident in self.schedule.incidents]
        try:
            while shapes:
                # In bursts, so that several batches are in flight at a time, for as long as incidents happen.
                await asyncio.sleep(0.8)
                for _ in range(min(4, len(shapes))):
                    self._append(shapes.popleft())
            await asyncio.gather(*happening)
            self._heal()
            await self._all_copied()
        finally:
            for task in (*happening, *(runner.running for runner in self.runners)):
                task.cancel()
            await asyncio.gather(*happening, *(runner.running for runner in self.runners), return_exceptions=True)
            for work in self.target.works:
                work.cancel()
            await asyncio.gather(*self.target.works, return_exceptions=True)
        self._look()

    def _append(self, shape: tuple[str, int, int]) -> None:
        kind, count, size = shape
        self.source.append(count % PARTITIONS, kind, count, size)

    def _look(self) -> None:
        if self.target.broken is not None:
            raise self.target.broken
        for runner in self.runners:
            runner.look()

    async def _all_copied(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._patience_s
        while not all(watch.complete for watch in self.watches) or not self._committed():
            self._look()
            for runner in self.runners:
                if runner.running.done():
                    await runner.again()
            if asyncio.get_running_loop().time() > deadline:
                raise BrokenPromiseError(f"not all is copied and committed: {[w.committed for w in self.watches]}")
            await asyncio.sleep(0.25)

    @property
    def _patience_s(self) -> float:
        if self.schedule.carries is None:
            return PATIENCE_S
        # What time-outs take is sent more than once, and incidents may have everything sent again.
        size = sum(len(data) for log in self.source_broker.logs.values() for _, _, data in log.batches)
        return PATIENCE_S + 5 * size / self.schedule.carries

    def _committed(self) -> bool:
        # Where nothing but control batches came nothing is written, and so nothing committed.
        return all(
            watch.committed is watch.log[-1] for watch in self.watches if any(place.record for place in watch.log)
        )

    def _heal(self) -> None:
        self.target.slow = 0.0
        self.target.refusals.clear()
        self.target.denied.clear()
        self.target.late.clear()
        self.target.lost_at.clear()
        self.target.limit = self.target.offsets_limit = 1 << 20
        for runner in self.runners:
            runner.link.lease = True

    def _fell(self) -> None:
        for watch in self.watches:
            watch.falls += 1

    # Incidents.

    async def _happen(self, incident: Incident) -> None:
        await asyncio.sleep(incident.at)
        number = incident.number
        runner = self.runners[number % PARTITIONS]
        match incident.kind:
            case "lose":
                self.target.lose()
            case "refuse":
                self.target.refusals.extend([((6, 19, 3, 2)[number % 4], False)] * (1 + number % 3))
            case "deny":
                # Until the task has given back what it had fetched.
                self.target.denied[number % PARTITIONS] = number % 4 > 1
                await asyncio.sleep((3.0, 6.0, 12.0)[number % 3])
                self.target.denied.pop(number % PARTITIONS, None)
            case "written_and_refused":
                self.target.refusals.extend([((20, 7)[number % 2], True)])
            case "one_passes":
                # The first of several in flight is refused, and the broker knows no producer that could be behind.
                self._fell()
                self.target.forget()
                self.target.refusals.append((19, False))
            case "late_and_lost":
                # Written and not told, those behind it written and told; then the broker has lost track.
                self._fell()
                self.target.late[number % PARTITIONS] = None
            case "lost_sequence":
                self._fell()
                self.target.refusals.append(((45, 59)[number % 2], False))
            case "refused_for_good":
                self._fell()
                self.target.refusals.append((87, False))
            case "forget":
                self._fell()
                self.target.forget()
            case "slow":
                self.target.slow = (0.05, 0.3, 1.0, 3.0)[number % 4]
            case "limit":
                # What was written and not told may be refused now, and comes again in pieces.
                self._fell()
                self.target.limit = (900, 2_500, 1 << 20)[number % 3]
                # No position fits, or one alone: a commit of several is split.
                self.target.offsets_limit = (200, 1 << 20, 300, 1 << 20)[number % 4]
            case "lease":
                link = runner.link
                link.lease = False
                await asyncio.sleep(0.3)
                link.lease = True
            case "append_time":
                self.target.append_time = not self.target.append_time
            case "leader":
                self.source.lead_elsewhere(number % PARTITIONS)
            case "truncate":
                await self._truncate(number % PARTITIONS, 1 + number % 4, number % 3)
            case "kill":
                async with runner.ending:
                    self._fell()
                    runner.running.cancel()
                    await asyncio.wait({runner.running})
                    # What happens meanwhile it finds at its next start.
                    await asyncio.sleep((0.0, 0.0, 0.6)[number % 3])
                    runner.start()
            case "epoch":
                async with runner.ending:
                    self._fell()
                    runner.link.end_epoch()
                    await runner.again()
            case "finish":
                async with runner.ending:
                    self._fell()
                    runner.link.finish()
                    await runner.again()
            case "hand_over":
                async with self._moving:
                    await self._hand_over(number % PARTITIONS)
            case "make_again":
                self.source.make_again()
                for partition in range(PARTITIONS):
                    self.source.append(partition, "plain", 20, 10)
                self.target.incarnations[topic_id_text(self.source.topic_id)] = self.source.incarnation
            case _:
                raise AssertionError(incident)

    async def _truncate(self, partition: int, batches: int, grown: int) -> None:
        """`grown`: by little, by more than was lost, or only after a while."""
        self.source.lead_elsewhere(partition)
        self.source.truncate(partition, batches)
        if grown == 2:
            await asyncio.sleep(0.5)
        for _ in range(batches + 1 if grown == 1 else 1):
            self.source.append(partition, "plain", 30 if grown == 1 else 2, 10)

    async def _hand_over(self, partition: int) -> None:
        giver = next(runner for runner in self.runners if partition in runner.wanted)
        taker = next(runner for runner in self.runners if runner is not giver)
        self._fell()
        giver.wanted.discard(partition)
        giver.assign()
        await giver.follows()
        self.watches[partition].former = self.target.producer_of(f"connect-c-{giver.number}")
        taker.wanted.add(partition)
        taker.assign()


@contextmanager
def patched(life: Life) -> Iterator[None]:
    """The tasks find these clusters and this time; small batches stand for large ones."""
    clusters = LifeClusters(
        life.source_broker, life.target_broker, life.watches, lambda task: life.runners[task].link.read
    )
    with (
        mock.patch.object(source_parts, "Cluster", clusters),
        mock.patch.object(task_frame, "Cluster", clusters),
        mock.patch.object(target_partition, "MERGE_LIMIT", 4_000),
        mock.patch.object(batch_producer, "MERGE_LIMIT", 4_000),
        mock.patch("time.time", simulated_clock(time.time, NOW_S)),
        mock.patch("time.monotonic", simulated_clock(time.monotonic, 0.0)),
        mock.patch.object(FakeSource, "POLL_S", 0.04),
    ):
        yield


async def live(schedule: Schedule, kind: Callable[[Schedule], Life] = Life) -> Life:
    """Goes through it. BrokenPromiseError, or whatever the product raised."""
    life = kind(schedule)
    with patched(life):
        await life.run()
    return life
