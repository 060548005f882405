"""A task that writes records of its own: heartbeats and checkpoints.

It runs in the frame of every task (task_frame.py). When it is ordered to finish, it stops its work, waits for batches in
flight, writes its source offsets and returns. With exactly-once each write is a transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from mirror_connect.connectors.problems import Problem, different
from mirror_connect.connectors.records.heartbeats import ALWAYS_ZERO
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.connectors.task_measures import TARGET, GroupMeasures, TaskMeasures
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.own_transactions import OwnTransactions
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures
from mirror_connect.spark_jobs.copy.request_rows import RequestRows
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.task_frame import Running, TaskFrame, cancelled

# A task that is ordered to finish ends within two seconds: most of them for acknowledgements, the rest for source offsets.
SETTLE_S: Final = 1.5
LAST_COMMIT_S: Final = 0.4
SOURCE_OFFSETS_S: Final = 0.5


class WritingTask:
    """One task run. `work` runs until the task is ordered to end; it writes with `write`.

    `keys`: the keys in connect-offsets for the records written. Connect has one key for each source partition, always with
    the offset 0, which nobody reads. REST shows them, and a Java worker that takes over finds them.
    """

    def __init__(self, spec: TaskSpec, link: WorkerLink, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.spec = spec
        self.link = link
        self.frame = TaskFrame(spec, link)
        self.problems = self.frame.problems
        self._work = work
        # Gives problems that the work does not report to `problems`.
        self.found: Callable[[], Iterable[Problem]] = tuple
        self.frame.show_problems = self._show_problems
        self._writers: dict[tuple[str, int], OwnRecords] = {}
        self._new_keys: dict[bytes, None] = {}
        self._touched: dict[bytes, None] = {}
        self._known: set[bytes] = set()
        # With exactly-once each write is a transaction, with the source offsets of its records.
        self._transactions = OwnTransactions(self.frame.producer) if spec.exactly_once else None
        self._transaction = asyncio.Lock()
        self._commits = CommitMeasures()
        # What the work measures besides: groups, and how many more there are.
        self.groups: Callable[[], tuple[tuple[GroupMeasures, ...], int]] = lambda: ((), 0)
        self.requests = RequestRows([(TARGET, self.frame.target)])

    async def run(self) -> None:
        """Runs from the first connection to the last source offset. Raises the work's errors, NotAuthorized, FencedError."""
        await self.frame.run(self)

    async def start(self) -> None:
        """See TaskWork."""

    def works(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """See TaskWork."""
        return {"problems": self._keep_problems(), "work": self._work(), "source offsets": self._keep_source_offsets()}

    async def until_ended(self) -> None:
        """See TaskWork."""
        await self.frame.until_ordered_to_end()

    async def finish(self, works: Running) -> None:
        """See TaskWork."""
        for ended in works.values():
            if ended.done():
                ended.result()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                # Never released: no further one begins.
                await self._transaction.acquire()
        await cancelled(*works.values())
        data = [writer.target for (topic, _), writer in self._writers.items() if topic != self.spec.offsets_topic]
        await self.frame.producer.settle(data, SETTLE_S)
        self.frame.raise_failure()
        if not self.link.abandon_wanted:
            # Nobody reads these offsets: if some are missing, no record is repeated.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_COMMIT_S):
                    await self._write_source_offsets(self._touched)
        # What was written since the last measures. A group that stands still has no other checkpoint.
        self._measure()

    async def close(self) -> None:
        """Closes the connections, without waiting for acknowledgements."""
        transactions = self.frame.producer.transactions
        if transactions is not None and not self.link.abandon_wanted:
            # Readers of these topics needn't wait for a transaction that nobody ends.
            await transactions.close(LAST_COMMIT_S)
        await self.frame.close()

    async def write(self, topic: str, records: Sequence[NewRecord], keys: Sequence[bytes]) -> None:
        """Writes to partition 0 of a topic; returns when the target has them. PartitionRefusedError."""
        if self._transactions is None:
            await self._writer(topic, 0).write(records)
            self.touch(keys)
        else:
            async with self._transaction:
                await self._transactions.write({(topic, 0): list(records), **self._key_records(keys)})
            self._known.update(keys)
        self.link.wrote_to(topic)
        counters = self.link.counters
        counters["records"] = counters.get("records", 0) + len(records)

    def touch(self, keys: Sequence[bytes]) -> None:
        """The records of these keys are written, so connect-offsets gets the keys."""
        self._touched.update(dict.fromkeys(keys))
        self._new_keys.update(dict.fromkeys(key for key in keys if key not in self._known))

    async def _keep_source_offsets(self) -> None:
        """Writes new keys at once, as REST shows them, and all touched keys at each flush interval, as Connect does."""
        due = time.monotonic() + self.spec.commit_interval_ms / 1000
        while True:
            await asyncio.sleep(SOURCE_OFFSETS_S)
            if time.monotonic() >= due:
                due = time.monotonic() + self.spec.commit_interval_ms / 1000
                await self._write_source_offsets(self._touched)
            else:
                await self._write_source_offsets(self._new_keys)

    async def _keep_problems(self) -> None:
        """Runs separately, because the other work waits while the target is unreachable."""
        while True:
            self._show_problems()
            if self.link.measures_wanted:
                self._measure()
            await asyncio.sleep(SOURCE_OFFSETS_S)

    def _measure(self) -> None:
        groups, more = self.groups()
        commits = self._commits
        self.link.measured(
            TaskMeasures(
                int(time.time() * 1000),
                requests=self.requests.take(),
                connections=self.requests.connections,
                commits=commits.commits,
                failed_commits=commits.failed,
                commit=commits.took.take(),
                committed_ms=commits.committed_ms,
                groups=groups,
                more_groups=more,
            )
        )

    def _show_problems(self) -> None:
        refused = [writer.target.problem for writer in self._writers.values()]
        if self._transactions is not None:
            refused += self._transactions.problems
        common = (*self.problems.shown(), *self.frame.target_problems(refused), self.frame.producer.problem)
        self.link.problems = different((*common, *self.found()))

    async def _write_source_offsets(self, marked: dict[bytes, None]) -> None:
        keys = list(marked)
        self._commits.note()
        noted_ms, began = self._commits.noted_ms, time.monotonic()
        if self.spec.reports_offsets:
            for key in keys:
                self.link.wrote_for(key)
        else:
            await self._write_keys(keys)
        self._known.update(keys)
        for key in keys:
            self._new_keys.pop(key, None)
            self._touched.pop(key, None)
        if keys:
            self.link.counters["commits"] = self.link.counters.get("commits", 0) + 1
        if keys or not self._touched:
            self._commits.done(noted_ms, time.monotonic() - began if keys else None)

    async def _write_keys(self, keys: Sequence[bytes]) -> None:
        records = self._key_records(keys)
        if self._transactions is None:
            await asyncio.gather(*(self._writer(*place).write(each) for place, each in records.items()))
        elif records:
            await self._transactions.write(records)

    def _key_records(self, keys: Sequence[bytes]) -> dict[tuple[str, int], list[NewRecord]]:
        """The records of connect-offsets for these keys, by topic and partition."""
        records: dict[tuple[str, int], list[NewRecord]] = {}
        now = int(time.time() * 1000)
        for key in keys:
            number = partition_for(key, self.spec.offsets_partitions)
            records.setdefault((self.spec.offsets_topic, number), []).append(NewRecord(key, ALWAYS_ZERO, now))
        return records

    def _writer(self, topic: str, partition: int) -> OwnRecords:
        if (topic, partition) not in self._writers:
            self._writers[topic, partition] = OwnRecords(self.frame.producer, topic, partition)
        return self._writers[topic, partition]


async def every(seconds: float, do: Callable[[], Awaitable[None]]) -> None:
    """Calls `do` at once and then at a steady pace. If one call takes longer than that, the next follows directly."""
    due = time.monotonic()
    while True:
        await do()
        due = max(due + seconds, time.monotonic())
        await asyncio.sleep(due - time.monotonic())


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Runs all of them. The first error ends the others and is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancelled(*tasks)
