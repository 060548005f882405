"""The source offsets of a task whose worker stores them: they travel with the task's reports.

The worker commits them where the source's users look: MirrorMaker 1 in its consumer group, a standalone worker in its file.
So a commit here only passes them on, thousands of them in slices of the event loop.
The report that confirms a given-away partition never comes before the one with its last offset (TaskReport).
"""

from __future__ import annotations

import asyncio
from typing import Final

from mirror_connect.connectors.loop_slices import in_turns
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures
from mirror_connect.spark_jobs.copy.partition_flow import NOTHING_YET
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from mirror_connect.spark_jobs.task_context import WorkerLink

# Of some three microseconds each.
OFFSETS_IN_SLICE: Final = 200
_NOTHING_YET: Final = LastOffset(NOTHING_YET, None)


class ReportedSourceOffsets:
    """The same methods as SourceOffsetsWriter. `failure` is never set: the worker retries its commits itself."""

    def __init__(self, link: WorkerLink) -> None:
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.commits = 0
        self.measures = CommitMeasures()
        self._link = link
        self._reported: dict[TaskPartition, LastOffset] = {}
        self._noted: dict[TaskPartition, LastOffset] = {}
        # The commit under way, and its offsets of partitions that this task still has.
        self._passing: asyncio.Task[None] | None = None
        self._passed: dict[TaskPartition, LastOffset] = {}

    def note(self, partition: TaskPartition, position: LastOffset) -> None:
        """Notes up to where a partition is copied, for the next commit."""
        self._noted[partition] = position

    def commit(self) -> bool:
        """Passes on the offsets that changed since the last commit; False if an earlier commit is still under way.

        -1 is passed on for a topic that was made again and is empty.
        """
        if self._passing is not None and not self._passing.done():
            return False
        self._passed, self._noted = self._noted, {}
        if self._passed:
            self._passing = asyncio.create_task(self._pass_on(), name="positions")
        else:
            self.measures.done(self.measures.noted_ms, None)
        return True

    async def _pass_on(self) -> None:
        noted_ms, passed, changed = self.measures.noted_ms, self._passed, False
        async for part in in_turns(list(passed.items()), OFFSETS_IN_SLICE):
            for partition, position in part:
                if passed.get(partition) is not position or self._reported.get(partition, _NOTHING_YET) == position:
                    continue  # forgotten meanwhile, or reported already
                offset, topic_id, epoch = position
                self._link.copied(partition, offset, None if topic_id is None else topic_id_text(topic_id), epoch)
                self._reported[partition] = position
                changed = True
        self._passed = {}
        self.commits += changed
        self.measures.done(noted_ms, 0.0 if changed else None)

    async def flush(self, seconds: float) -> bool:
        """Commits, and waits until all is passed on. The next report has the offsets, at the latest the last one."""
        committed = False
        while not committed:
            committed = self.commit()
            if self._passing is not None:
                # Who waits here may be cancelled, and the commit goes on.
                await asyncio.shield(self._passing)
        return True

    async def withdraw(self) -> None:
        """Does nothing: the worker drops offsets of partitions that this task no longer has."""

    def known(self, partition: TaskPartition, position: LastOffset) -> None:
        """Notes what the worker already has."""
        self._reported[partition] = position

    def forget(self, partition: TaskPartition) -> None:
        """Forgets a partition that another task has now."""
        for kept in (self._reported, self._noted, self._passed):
            kept.pop(partition, None)

    @property
    def problem(self) -> Problem | None:
        """None: the worker reports problems with its commits."""
        return None

    async def close(self) -> None:
        """Cancels the commit under way."""
        if self._passing is not None:
            self._passing.cancel()
            await asyncio.gather(self._passing, return_exceptions=True)
        self.failure.cancel()
