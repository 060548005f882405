"""Heartbeat and checkpoint tasks that run between two clusters in memory: "A" at `a` and "B" at `b`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.spark_jobs.tasks import mirror_checkpoint, mirror_heartbeat
from tests.fakes.whole_cluster import FakeBroker
from tests.fakes.worker_link import FakeWorkerLink

MIRROR = "org.apache.kafka.connect.mirror.Mirror"


CHECKPOINTS, SYNCS, OFFSETS = "A.checkpoints.internal", "mm2-offset-syncs.B.internal", "connect-offsets"


RANGES = "mm2-offset-runs.A.internal"


PACE_S = 0.02


DENIED, NO_LEADER, REFUSED = 29, 6, 87


class World:
    """A source with `orders`, a target with what connectors make there; group `g` has committed 150 of it."""

    def __init__(self) -> None:
        self.source, self.target = FakeBroker(), FakeBroker()
        for broker, topics in (
            (self.source, ("orders", SYNCS)),
            (self.target, ("A.orders", "heartbeats", CHECKPOINTS)),
        ):
            for topic in topics:
                broker.topic(topic)
        self.target.topic(OFFSETS, 5)
        self.commits("g", 150)
        self.link: FakeWorkerLink

    def spec(self, kind: str, *groups: str, **config: str) -> TaskSpec:
        given = {name.replace("__", "."): value for name, value in config.items()}
        source, target = {"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}
        return TaskSpec(
            run_id="run",
            connector="c",
            task=0,
            connector_class=f"{MIRROR}{kind}Connector",
            config={
                "name": "c",
                "connector.class": f"{MIRROR}{kind}Connector",
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
                **given,
            },
            source=source,
            target=target,
            source_alias="A",
            target_alias="B",
            assigned=(),
            assignment_version=1,
            transactional_id="connect-c-0",
            offsets_topic=OFFSETS,
            offsets_partitions=5,
            commit_interval_ms=60_000,
            assigned_groups=groups,
            source_admin=source,
            target_admin=target,
            target_consumer=target,
        )

    def commits(self, group: str, offset: int, note: str = "") -> None:
        self.source.groups.setdefault(group, {})["orders", 0] = (offset, note)

    def syncs(self, *pairs: tuple[int, int]) -> None:
        written = [OffsetSync("orders", 0, *pair) for pair in pairs]
        self.source.put(SYNCS, *((each.key(), each.value()) for each in written))

    def checkpointed(self, *pairs: tuple[int, int], group: str = "g") -> None:
        written = [Checkpoint(group, "A.orders", 0, *pair) for pair in pairs]
        self.target.put(CHECKPOINTS, *((each.key(), each.value()) for each in written))

    @property
    def checkpoints(self) -> list[tuple[str, int, int]]:
        found = [Checkpoint.decode(*each) for each in self.target.records(CHECKPOINTS)]
        return [(each.group, each.upstream, each.downstream) for each in found]

    @property
    def beats(self) -> list[Heartbeat]:
        return [Heartbeat.decode(*each) for each in self.target.records("heartbeats")]

    @property
    def places(self) -> list[bytes]:
        return [key for partition in range(5) for key, _ in self.target.records(OFFSETS, partition)]


class Running:
    def __init__(self, world: World, task: asyncio.Future[None], link: FakeWorkerLink) -> None:
        self.world, self.task, self.link = world, task, link

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the task has returned")
                await asyncio.sleep(0.002)

    async def rounds(self) -> None:
        """Long enough for several rounds where a machine is idle: for what must not happen in them."""
        await asyncio.sleep(8 * PACE_S)

    async def finish(self) -> None:
        self.link.finish()
        await asyncio.wait_for(self.task, 60)


@contextlib.asynccontextmanager
async def running(world: World, spec: TaskSpec, *, lease: bool = True) -> AsyncIterator[Running]:
    link = FakeWorkerLink(spec)
    link.lease = lease
    run = (
        mirror_heartbeat.run_heartbeat_task
        if "Heartbeat" in spec.connector_class
        else mirror_checkpoint.run_checkpoint_task
    )
    task = asyncio.ensure_future(run(spec, link))
    try:
        yield Running(world, task, link)
    finally:
        if not task.done():
            link.abandon()
            await asyncio.wait({task}, timeout=60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


SLOW = "(a|aa)+x"
