"""The transactions of a source task: records and their source offsets become visible together, or not at all.

A transaction begins with the first batch. At its boundary no further batch is given to the producer. When the target has
acknowledged all that was given, and its dead letters, the source offsets follow, and then the commit. Fetching goes on
meanwhile. If the target aborts the transaction, or nobody knows how it ended, all partitions go back to where it began. What
was copied counts after the commit: offset syncs, offset ranges, metrics, active topics.

A partition that the target doesn't accept for long would keep all others from their commit, if its batches may have been
written. Then the transaction is aborted. That partition is left out for a while, and the others continue.

If the link is too slow for all that is in a transaction, transactions get smaller, down to a single batch. A partition with
a batch that takes longer than transaction.timeout.ms by itself is left out for a while, and its problem says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_protocol import POLL, TaskSpec
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.producer.transactions import Transactions
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.slow_link import Carried, batch_too_slow, transaction_too_slow
from mirror_connect.spark_jobs.copy.transaction_watch import TransactionWatch
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from mirror_connect.spark_jobs.copy.transactional_source_offsets import TransactionalSourceOffsets

# Offsets without records advance the source offsets, too, and are looked for so often.
NOTE_S: Final = 0.5
# The first record after a quiet time need not wait for a whole interval.
QUIET_S: Final = 0.1
# An election or a broker's restart takes less.
STUCK_S: Final = 10.0
STUCK_POLL_S: Final = 0.5
RETRY_S: Final = 0.1
RETRY_MAX_S: Final = 5.0
# Above this a limit of bytes that slow targets have led to ends.
_MOST_BYTES: Final = 1 << 30
# It grows after a transaction that could be committed within this part of transaction.timeout.ms.
QUICK: Final = 0.25


class CopyTransactions:
    """One task's transactions; `run` begins and ends them.

    `note(flows)`: notes the source offsets of these partitions for a commit, None for all. `stuck`: those of these feeds
    whose partitions the target does not accept at present. `leave_out(feeds, problem)`: these partitions are not to be
    fetched again at once after the abort that follows, because of that problem, if it is known here. `before_commit`:
    awaited when all is noted. `on_commit`: called after each commit. `letters`: what goes to the dead letter topic.
    """

    def __init__(
        self,
        spec: TaskSpec,
        transactions: Transactions,
        offsets: TransactionalSourceOffsets,
        watch: TransactionWatch,
        *,
        note: Callable[[Iterable[PartitionFlow] | None], Awaitable[None]],
        stuck: Callable[[Sequence[TransactionalFlow]], list[TransactionalFlow]],
        leave_out: Callable[[Sequence[TransactionalFlow], Problem | None], None],
        before_commit: Callable[[], Awaitable[None]],
        on_commit: Callable[[], None],
        letters: DeadLetters | None = None,
    ) -> None:
        self._transactions = transactions
        self._offsets = offsets
        self._watch = watch
        self._note = note
        self._stuck = stuck
        self._leave_out = leave_out
        self._before_commit = before_commit
        self._on_commit = on_commit
        self._letters = letters
        self._loop = asyncio.get_running_loop()
        self._polls = spec.transaction_boundary == POLL
        wanted = math.inf if self._polls else spec.transaction_interval_ms / 1000
        # The rest of transaction.timeout.ms is for the batches under way and the commit.
        self._interval = max(0.001, min(wanted, transactions.timeout_ms / 2000))
        self._stuck_s = min(STUCK_S, transactions.timeout_ms / 4000)
        self._look_s = min(STUCK_POLL_S, transactions.timeout_ms / 40_000)
        self._due = self._loop.time() + self._interval
        self._noted = -math.inf
        self._aborts = 0
        self._holders = 0
        self._released = asyncio.Event()
        # Set while no transaction is open.
        self._closed = asyncio.Event()
        self._closed.set()

    async def run(self) -> None:
        """Begins and ends transactions until cancelled. Returns if the source offsets are refused; see `failure` there."""
        while True:
            while self._holders:
                self._released.clear()
                await self._released.wait()
            self._closed.clear()
            await self._transactions.begin()
            self._watch.began()
            await self._until_due()
            try:
                await self._end()
            except TransactionAbortedError as error:
                self._closed.set()
                await self._aborted(error)
            except PartitionRefusedError:
                return
            self._closed.set()

    @asynccontextmanager
    async def held(self, seconds: float) -> AsyncIterator[None]:
        """Ends the open transaction; inside the block none is open. What isn't committed in time is aborted."""
        self._holders += 1
        self._watch.ask()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closed.wait()
            if not self._closed.is_set():
                await self._transactions.abort("its partitions have to be given to another task")
                await self._closed.wait()
            yield
        finally:
            self._holders -= 1
            self._released.set()

    async def end(self) -> None:
        """Ends the open transaction, however long that takes; no other one begins."""
        self._holders += 1
        self._watch.ask()
        await self._closed.wait()

    async def _until_due(self) -> None:
        """Waits until the open transaction should end, and has something to commit."""
        while not self._holders and not self._transactions.broken.is_set():
            now = self._loop.time()
            if now < self._due and not self._watch.due.is_set():
                await self._first_of(
                    max(0.001, min(self._due - now, NOTE_S)), self._watch.due.wait(), self._transactions.broken.wait()
                )
                if self._polls and self._transactions.empty and self._loop.time() - self._noted >= NOTE_S:
                    self._due = self._loop.time()
                continue
            if not self._transactions.empty or await self._moved(now):
                return
            self._watch.due.clear()
            self._due = now + min(self._interval, QUIET_S)

    async def _moved(self, now: float) -> bool:
        if now - self._noted < NOTE_S:
            return False
        self._noted = now
        await self._note(None)
        return self._offsets.changed

    async def _first_of(self, seconds: float, *works: Coroutine[Any, Any, Any]) -> None:
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self) -> None:
        """Commits the open transaction. TransactionAbortedError, PartitionRefusedError."""
        await self._drain()
        now = self._loop.time()
        if now - self._noted >= NOTE_S:
            self._noted = now
            await self._note(None)
        else:
            # There may be thousands of other partitions, and many commits in a second.
            await self._note([feed.flow for feed in self._watch.copied])
        await self._before_commit()
        await self._offsets.prepare()
        # That takes a while with thousands of offsets. If the transaction was aborted meanwhile, nobody would tell `write`.
        await self._transactions.drain()
        await self._offsets.write()
        quick = self._transactions.left_s > (1 - QUICK) * self._transactions.timeout_ms / 1000
        await self._transactions.commit()
        self._offsets.committed()
        self._aborts = 0
        self._due = self._loop.time() + self._interval
        most = self._watch.most
        if most is not None and quick:
            self._watch.most = None if most > _MOST_BYTES else most * 2
        self._on_commit()

    async def _drain(self) -> None:
        """Waits for the acknowledgement of all that was given. TransactionAbortedError."""
        draining = asyncio.ensure_future(self._drained())
        since: float | None = None
        try:
            while not (await asyncio.wait({draining}, timeout=self._look_s))[0]:
                waiting = list(self._watch.in_flight)
                if waiting and self._transactions.left_s <= 2 * self._look_s:
                    await self._too_slow(waiting)
                    continue
                stuck = self._stuck(waiting)
                if not stuck or len(stuck) < len(waiting):
                    since = None
                elif since is None:
                    since = self._loop.time()
                elif self._loop.time() - since >= self._stuck_s:
                    self._leave_out(stuck, None)
                    flow = stuck[0].flow
                    what = str(flow) if flow.in_flight else f"a dead letter of {flow}"
                    await self._transactions.abort(f"{what} is not accepted by the target")
            await draining
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)

    async def _drained(self) -> None:
        await self._transactions.drain()
        if self._letters is not None:
            # Nothing more is taken, so no other letters follow these.
            await self._letters.all_acked()
            # After an abort there are none.
            await self._transactions.drain()

    async def _too_slow(self, waiting: Sequence[TransactionalFlow]) -> None:
        """Aborts the transaction, just before the target would. The next one has less in it."""
        watch = self._watch
        slowest = max(waiting, key=lambda feed: feed.bytes_in_flight)
        alone = slowest.flow.in_flight == 1 and 2 * slowest.bytes_in_flight >= watch.bytes
        timeout_ms = self._transactions.timeout_ms
        carried = Carried(watch.bytes, timeout_ms / 1000 - self._transactions.left_s)
        if alone:
            problem = batch_too_slow(slowest, carried, timeout_ms)
            self._leave_out([slowest], problem)
            await self._transactions.abort(f"{slowest.flow}: {problem.cause}")
        else:
            watch.most = max(1, (watch.bytes - sum(feed.bytes_in_flight for feed in waiting)) // 2)
            await self._transactions.abort(transaction_too_slow(carried, timeout_ms), AbortCause.TIMED_OUT)

    async def _aborted(self, error: TransactionAbortedError) -> None:
        self._offsets.aborted()
        if error.cause is AbortCause.TIMED_OUT and self._watch.bytes:
            # The target is too slow for so much in one transaction.
            half = max(1, self._watch.bytes // 2)
            self._watch.most = half if self._watch.most is None else min(self._watch.most, half)
        self._due = self._loop.time() + self._interval
        pause = min(RETRY_MAX_S, RETRY_S * 2.0 ** min(self._aborts, 10))
        self._aborts += 1
        await asyncio.sleep(pause)
