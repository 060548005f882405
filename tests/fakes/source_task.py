"""A source task that runs between two clusters in memory: "A" at `a` is copied to "B" at `b`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec
from mirror_connect.spark_jobs.copy.computed_batch import Computing
from mirror_connect.spark_jobs.mapping import offset_ranges_reader, offset_syncs_writer
from mirror_connect.spark_jobs.tasks import mirror_source, source_commits, source_parts, task_frame
from tests.fakes.source_spec import OFFSETS, source_spec
from tests.fakes.whole_cluster import FakeBroker, FakeClusters
from tests.fakes.worker_link import FakeWorkerLink, Stored

__all__ = ["OFFSETS", "SourceTaskWorld"]


class SourceTaskWorld:
    """The two clusters, the worker's link and the task. Whoever derives from it makes the topics that it needs."""

    def __init__(self, offsets_partitions: int = 1) -> None:
        self.source, self.target = FakeBroker(), FakeBroker()
        self.target.topic(OFFSETS, offsets_partitions)
        self.offsets_partitions = offsets_partitions
        self.link: FakeWorkerLink
        self.task: asyncio.Task[None]
        self._raised: BaseException | None = None

    def patch(self, monkeypatch: pytest.MonkeyPatch, pace_s: float = 0.01) -> None:
        """Tasks find these clusters, and commit at that pace."""
        clusters = FakeClusters({"a": self.source, "b": self.target})
        for module in (source_parts, task_frame, offset_syncs_writer, offset_ranges_reader):
            monkeypatch.setattr(module, "Cluster", clusters)
        monkeypatch.setattr(offset_ranges_reader, "_topics", {})
        monkeypatch.setattr(source_commits, "COMMIT_S", pace_s)

    def spec_of(
        self, assigned: Iterable[TaskPartition], config: Mapping[str, str], commit_interval_ms: int = 10
    ) -> TaskSpec:
        return source_spec(
            {"bootstrap.servers": "a", "fetch.max.wait.ms": "10"},
            {"bootstrap.servers": "b"},
            assigned,
            config=config,
            offsets_partitions=self.offsets_partitions,
            commit_interval_ms=commit_interval_ms,
        )

    @contextlib.asynccontextmanager
    async def running(
        self,
        spec: TaskSpec,
        stored: Callable[[str, int], Stored] | None = None,
        computing: Computing | None = None,
    ) -> AsyncIterator[None]:
        """The task, from its start to its end: it is abandoned if it hasn't ended. Raises what `until` hasn't raised."""
        self.link = FakeWorkerLink(spec, stored)
        self.task = asyncio.create_task(mirror_source.run_source_task(spec, self.link, computing))
        try:
            yield
        finally:
            if not self.task.done():
                self.link.abandon()
            async with asyncio.timeout(60):
                (error,) = await asyncio.gather(self.task, return_exceptions=True)
            if error is not None and error is not self._raised:
                raise error

    async def until(self, condition: Callable[[], bool]) -> None:
        """Raises what the task raises meanwhile."""
        async with asyncio.timeout(60):
            while not condition():
                if self.task.done():
                    self._raised = self.task.exception()
                    self.task.result()
                    raise AssertionError("the task has returned")
                await asyncio.sleep(0.002)

    async def finish(self) -> None:
        self.link.finish()
        async with asyncio.timeout(60):
            await self.task

    def notices(self, text: str) -> list[str]:
        return [line for line in self.link.log_lines if text in line]
