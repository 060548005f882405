"""The life of partitions in simulated time: real source tasks between a source and a target that fail as a schedule says.

The tasks are the product's, from fetcher to positions; the clusters are in memory (life_clusters.py), and `Watch` says what
must hold.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from unittest import mock

from mirror_connect.connectors.job_contract import PartitionPosition, TaskPartition, TaskSpec
from mirror_connect.connectors.topic_ids import topic_id_text
from mirror_connect.spark_jobs import batch_producer, mirror_source, target_partition
from mirror_connect.spark_jobs.produce_outcome import PartitionRefusedError
from tests.fakes.source_cluster import FakeSource
from tests.fakes.whole_cluster import FakeBroker, FakeClusters
from tests.fakes.worker_link import FakeWorkerLink
from tests.models.life_clusters import NOW_S, OFFSETS, PARTITIONS, REMOTE, TOPIC, LifeSource, LifeTarget
from tests.models.watch import BrokenPromiseError, Watch

CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
# Seconds until a schedule that has come to its end must have been copied: many times what the longest back-off takes.
PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Incident:
    """Something that happens at a moment: `at` in simulated seconds from the beginning; `number` is what the kind needs."""

    at: float
    kind: str
    number: int


@dataclass(frozen=True)
class Schedule:
    """All of a life. `shapes`: the batches of the source, as (kind, records, bytes of a value); `seed`: of delays alone."""

    shapes: tuple[tuple[str, int, int], ...]
    incidents: tuple[Incident, ...]
    old: bool
    seed: int


class LifeLink(FakeWorkerLink):
    """Reads positions from the target in memory, in no time that counts."""

    def __init__(self, spec: TaskSpec, target: LifeTarget) -> None:
        super().__init__(spec)
        self._target = target

    async def positions(self, partitions: Sequence[TaskPartition]) -> list[PartitionPosition]:
        await asyncio.sleep(0.001)
        for p in partitions:
            if p.partition in self._target.positions:
                offset, topic_id = self._target.positions[p.partition]
                self._target.watches[p.partition].committed = (self._target.incarnations[topic_id or ""], offset)
        return [
            PartitionPosition(p.topic, p.partition, *self._target.positions.get(p.partition, (None,)))
            for p in partitions
        ]


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
        self.link = LifeLink(spec, self.life.target)
        self.running = asyncio.create_task(mirror_source.run_source_task(spec, self.link))

    def spec(self) -> TaskSpec:
        return TaskSpec(
            run_id="run",
            connector="c",
            task=self.number,
            connector_class=CLASS,
            config={
                "name": "c",
                "connector.class": CLASS,
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
                "source.cluster.bootstrap.servers": "a",
                "emit.offset-syncs.enabled": "false",
            },
            source={"bootstrap.servers": "a", "auto.offset.reset": "earliest", "fetch.max.wait.ms": "400"},
            target={"bootstrap.servers": "b"},
            source_alias="A",
            target_alias="B",
            assigned=tuple(TaskPartition(TOPIC, p, REMOTE) for p in sorted(self.wanted)),
            assignment_version=self.version,
            transactional_id=f"connect-c-{self.number}",
            offsets_topic=OFFSETS,
            offsets_partitions=1,
            commit_interval_ms=1000,
            target_consumer={"bootstrap.servers": "b"},
        )

    def assign(self) -> None:
        """Tells the task what it is to copy now."""
        self.version += 1
        self.link.assign(self.spec())

    async def follows(self) -> None:
        """Until it has done what `assign` asked for, or is gone."""
        while not self.running.done() and self.link.assignment_version < self.version:
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
        if error is not None and not isinstance(error, PartitionRefusedError):
            raise error


class Life:
    """Two tasks, a partition each at first; `run` goes through the schedule and waits until everything is copied."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.watches = [Watch() for _ in range(PARTITIONS)]
        self.source_broker, self.target_broker = FakeBroker(), FakeBroker()
        self.target = LifeTarget(random.Random(schedule.seed), self.watches)
        self.target_broker.producers = self.target
        self.target_broker.topic(REMOTE, PARTITIONS)
        self.target_broker.topic(OFFSETS)
        self.source = LifeSource(self.source_broker, self.watches, old=schedule.old)
        self.target.incarnations[topic_id_text(self.source.topic_id)] = 0
        self.runners = [Runner(number, self, {number}) for number in range(PARTITIONS)]
        self._moving = asyncio.Lock()

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
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not all(watch.complete(self.source.incarnation) for watch in self.watches) or not self._committed():
            self._look()
            for runner in self.runners:
                if runner.running.done():
                    await runner.again()
            if asyncio.get_running_loop().time() > deadline:
                raise BrokenPromiseError(f"not all is copied and committed: {[w.committed for w in self.watches]}")
            await asyncio.sleep(0.25)

    def _committed(self) -> bool:
        for partition, watch in enumerate(self.watches):
            end = self.source_broker.logs[TOPIC, partition].end
            if watch.source[self.source.incarnation] and watch.committed != (self.source.incarnation, end - 1):
                return False
        return True

    def _heal(self) -> None:
        self.target.slow = 0.0
        self.target.refusals.clear()
        self.target.late.clear()
        self.target.lost_at.clear()
        self.target.limit = self.target.offsets_limit = 1 << 20
        for runner in self.runners:
            runner.link.lease = True

    def _fell(self) -> None:
        for watch in self.watches:
            watch.falls += 1

    # --- incidents ----------------------------------------------------------------------------------------------------

    async def _happen(self, incident: Incident) -> None:
        await asyncio.sleep(incident.at)
        number = incident.number
        runner = self.runners[number % PARTITIONS]
        match incident.kind:
            case "lose":
                self.target.lose()
            case "refuse":
                self.target.refusals.extend([((6, 19, 3, 2)[number % 4], False)] * (1 + number % 3))
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
                self.target.offsets_limit = (200, 1 << 20)[number % 2]
            case "lease":
                link = runner.link
                link.lease = False
                await asyncio.sleep(0.3)
                link.lease = True
            case "leader":
                log = self.source_broker.logs[TOPIC, number % PARTITIONS]
                log.leader, log.epoch = 3 - log.leader, log.epoch + 1
            case "kill":
                async with runner.ending:
                    self._fell()
                    runner.running.cancel()
                    await asyncio.wait({runner.running})
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

    async def _hand_over(self, partition: int) -> None:
        giver = next(runner for runner in self.runners if partition in runner.wanted)
        taker = next(runner for runner in self.runners if runner is not giver)
        self._fell()
        giver.wanted.discard(partition)
        giver.assign()
        await giver.follows()
        self.watches[partition].former = self.target.ids[f"connect-c-{giver.number}"][0]
        taker.wanted.add(partition)
        taker.assign()


def _simulated_now() -> float:
    return NOW_S + asyncio.get_running_loop().time()


@contextmanager
def patched(life: Life) -> Iterator[None]:
    """The tasks find these clusters; small batches stand for large ones."""
    clusters = FakeClusters({"a": life.source_broker, "b": life.target_broker})
    with (
        mock.patch.object(mirror_source, "Cluster", clusters),
        mock.patch.object(target_partition, "MERGE_LIMIT", 4_000),
        mock.patch.object(batch_producer, "MERGE_LIMIT", 4_000),
        mock.patch("time.time", _simulated_now),
        mock.patch.object(FakeSource, "POLL_S", 0.04),
    ):
        yield


async def live(schedule: Schedule) -> Life:
    """Goes through it. BrokenPromiseError, or whatever the product raised."""
    life = Life(schedule)
    with patched(life):
        await life.run()
    return life
