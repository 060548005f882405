"""A source of MirrorMaker 1 in memory: its group's member, and a Spark whose processes are numbers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.mirror_maker.client_files import read_sources, read_target
from mirror_connect.app.mirror_maker.source import MirroredSource
from mirror_connect.app.mirror_maker.topic_choice import TopicChoice
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost
from tests.fakes.supervised import Process, World, eventually

TASK: Final = TaskId("mm", 0)
T0: Final = TopicPartition("t", 0)
T1: Final = TopicPartition("t", 1)


class Member:
    """The group's member: what is committed, and what it commits."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {T0: 40, T1: 7}
        self.commits: list[Mapping[TopicPartition, int]] = []
        self.refused: dict[TopicPartition, int] = {}
        self.silent = False
        self.refuses: Exception | None = None

    def lease_remaining(self) -> float:
        return 5.0

    async def committed(self) -> dict[TopicPartition, int]:
        return self.offsets

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if self.silent:
            raise CoordinatorLost("away")
        if self.refuses is not None:
            raise self.refuses
        self.commits.append(offsets)
        return {partition: code for partition, code in self.refused.items() if partition in offsets}


class Targets:
    def prepared(self, sources: Mapping[str, int]) -> dict[str, int]:
        return dict(sources)


class SourceWorld(World):
    """A source whose supervisor has this world's Spark."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        files = {"mm": "bootstrap.servers=127.0.0.1:1\ngroup.id=g\n", "target": "bootstrap.servers=127.0.0.1:2\n"}
        for name, text in files.items():
            (directory / f"{name}.properties").write_text(text)
        self.aborted: list[str] = []
        self.aborts = True
        self.member = Member()
        self.source = MirroredSource(
            read_sources([str(directory / "mm.properties")], lambda _: None)[0],
            read_target(str(directory / "target.properties"), lambda _: None),
            TopicChoice("t", excludes=False),
            Targets(),  # type: ignore[arg-type]
            self.spark,
            flow="",
            commit_interval_ms=60_000,
            skips_oversize=False,
            aborted=self.abort,
            metrics=WorkerMetrics(),
        )
        self.source.member = self.member  # type: ignore[assignment,misc]
        self.source._commits._member = self.member
        self.source._source_topics.counts = {"t": 2}
        self.supervisor = self.source._supervisor

    def abort(self, line: str) -> bool:
        self.aborted.append(line)
        return self.aborts

    @contextlib.asynccontextmanager
    async def working(self, *partitions: TopicPartition) -> AsyncIterator[Process]:
        """The source's work, and a task process that copies its partitions."""
        working = asyncio.create_task(self.source.work(partitions))
        try:
            await eventually(lambda: bool(self.tasks()))
            yield await self.running(TASK)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
