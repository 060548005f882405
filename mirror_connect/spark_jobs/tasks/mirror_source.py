"""The task of a MirrorSourceConnector: fetch → decide → produce → commit, for its assigned partitions.

The order of the start makes a takeover safe: first the producer id, which fences the former owner; then the source offsets,
as nothing newer can appear after that; then fetching. A kill at any point loses nothing, because source offsets follow the
acknowledgements. It repeats what was acknowledged since the last commit: half a second at most while the target answers.

When the task is ordered to finish, it stops fetching, commits as source_commits.py says, and returns. When it is ordered to
abandon, it returns at once.

A partition that can't continue is stalled: the status names it, it is tried again, and the others continue. The task fails
only when all of its partitions need a user, or at a record that can't be transformed. It commits before that
(docs/decisions/0013).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.problems import status_lines
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.copy.computed_batch import Computing
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.advice import RESTART
from mirror_connect.spark_jobs.tasks.source_assignment import SourceAssignment
from mirror_connect.spark_jobs.tasks.source_commits import SourceCommits
from mirror_connect.spark_jobs.tasks.source_parts import SourceParts
from mirror_connect.spark_jobs.tasks.task_frame import Running

MEASURE_S: Final = 0.5
ALL_STALLED: Final = "All partitions of this task are blocked. Fix the causes above, then"


async def run_source_task(spec: TaskSpec, link: WorkerLink, computing: Computing | None = None) -> None:
    """Copies until it is ordered to end. Raises ConfigError, NotAuthorized, FencedError, PartitionRefusedError …"""
    task = SourceTask(spec, link, computing)
    try:
        await task.run()
    finally:
        await task.close()


class SourceTask:
    """One run of a source task, in one event loop. `computing`: takes its records to Spark; None: it has no statement."""

    def __init__(self, spec: TaskSpec, link: WorkerLink, computing: Computing | None = None) -> None:
        self._link = link
        self._parts = SourceParts(spec, link, computing)
        self._commits = SourceCommits(self._parts)
        self._assignment = SourceAssignment(self._parts, self._commits)
        self._unmeasured = False

    async def run(self) -> None:
        """Runs from the first connection to the last commit."""
        parts = self._parts
        self._link.settled = False
        await parts.frame.run(self)
        parts.failures.raise_failure()
        if parts.stalled.all_stalled.is_set():
            raise PartitionRefusedError(
                "\n".join((*status_lines(self._link.problems), f"{ALL_STALLED} {RESTART[parts.spec.program]}."))
            )

    async def start(self) -> None:
        """See TaskWork."""
        parts = self._parts
        if parts.transactions is not None:
            await parts.transactions.ranges_producer.start()
        # The offset ranges of former tasks are read while the source is being connected to.
        parts.mapping.start()
        if parts.letters is not None:
            with contextlib.suppress(ClusterUnreachable):
                await parts.frame.target.refresh([parts.letters.topic])
            parts.letters.know_partitions(parts.frame.target.partition_count(parts.letters.topic))
        await self._assignment.start()

    def works(self) -> Mapping[str, Coroutine[Any, Any, Any]]:
        """See TaskWork."""
        parts = self._parts
        computing: dict[str, Coroutine[Any, Any, Any]] = {}
        if parts.computing is not None and parts.slow is not None:
            computing = {"spark": parts.computing.watch(), "transformation": parts.slow.watch()}
        return {
            **self._commits.works(),
            **computing,
            "fetch": parts.fetcher.run(),
            "stalled": parts.stalled.all_stalled.wait(),
            "failed record": parts.failures.failed.wait(),
            "log ends": parts.fetcher.log_ends.run(),
            "measures": self._measure_for_ever(),
        }

    async def until_ended(self) -> None:
        """See TaskWork."""
        await self._assignment.until_ended()

    async def finish(self, works: Running) -> None:
        """See TaskWork."""
        self._parts.fetcher.pause()
        await self._commits.finish(works)
        works["measures"].cancel()
        self._measure(last=True)

    async def close(self) -> None:
        """Ends connections and tasks, without a commit."""
        await self._assignment.close()
        await self._parts.close()

    # Measures.

    async def _measure_for_ever(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_S)
            if self._link.measures_wanted:
                while self._measure_some():
                    await asyncio.sleep(0)
                self._measure()

    def _measure_some(self) -> bool:
        try:
            return self._parts.measures.make_some()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in measuring, copying continues
            self._measuring_failed(error)
            return False

    def _measure(self, *, last: bool = False) -> None:
        try:
            self._link.measured(self._parts.measures.take(last=last))
        except Exception as error:  # noqa: BLE001 - as above
            self._measuring_failed(error)

    def _measuring_failed(self, error: Exception) -> None:
        if not self._unmeasured:
            self._unmeasured = True
            self._link.log(f"Its metrics are missing or old: {type(error).__name__}: {error}. Report this fault")
