"""The source offsets of a task whose worker stores them: they travel with the task's reports.

The worker commits them where the source's users look: MirrorMaker 1 in its consumer group, a standalone worker in its file.
So a commit here only passes them on.
The report that confirms a given-away partition never comes before the one with its last offset (TaskReport).
"""

from __future__ import annotations

import asyncio
from typing import Final

from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures
from mirror_connect.spark_jobs.copy.partition_flow import NOTHING_YET
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from mirror_connect.spark_jobs.task_context import WorkerLink

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

    def note(self, partition: TaskPartition, position: LastOffset) -> None:
        """Notes up to where a partition is copied, for the next commit."""
        self._noted[partition] = position

    def commit(self) -> bool:
        """Passes on the offsets that changed since the last commit; -1 for a topic that was made again and is empty."""
        noted, self._noted = self._noted, {}
        changed = {
            each: position for each, position in noted.items() if self._reported.get(each, _NOTHING_YET) != position
        }
        for partition, (offset, topic_id, epoch) in changed.items():
            self._link.copied(partition, offset, None if topic_id is None else topic_id_text(topic_id), epoch)
        self._reported |= changed
        self.commits += bool(changed)
        self.measures.done(self.measures.noted_ms, 0.0 if changed else None)
        return True

    async def flush(self, seconds: float) -> bool:
        """Commits. The next report has the offsets, at the latest the last one."""
        return self.commit()

    async def withdraw(self) -> None:
        """Does nothing: the worker drops offsets of partitions that this task no longer has."""

    def known(self, partition: TaskPartition, position: LastOffset) -> None:
        """Notes what the worker already has."""
        self._reported[partition] = position

    def forget(self, partition: TaskPartition) -> None:
        """Forgets a partition that another task has now."""
        self._reported.pop(partition, None)
        self._noted.pop(partition, None)

    @property
    def problem(self) -> Problem | None:
        """None: the worker reports problems with its commits."""
        return None

    async def close(self) -> None:
        """Ends."""
        self.failure.cancel()
