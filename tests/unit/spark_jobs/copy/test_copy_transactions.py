"""When a source task's transactions end, what is in them, and what follows an abort: with made-up transactions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import INTERVAL, POLL
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.producer.transactions import Transactions
from mirror_connect.spark_jobs.copy.copy_transactions import STUCK_S, CopyTransactions
from mirror_connect.spark_jobs.copy.transaction_watch import TransactionWatch
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from mirror_connect.spark_jobs.copy.transactional_source_offsets import TransactionalSourceOffsets
from tests.fakes.simulated_time import run_simulated
from tests.fakes.source_spec import source_spec


class MadeUp:
    """The transactions of a producer. `log`: what was asked, with the time."""

    def __init__(self, timeout_ms: int = 60_000) -> None:
        self.timeout_ms = timeout_ms
        self.empty = True
        self.broken = asyncio.Event()
        self.log: list[tuple[str, float]] = []
        self.drained = asyncio.Event()
        self.drained.set()
        self.error: TransactionAbortedError | None = None
        self.left_s = math.inf

    def note(self, what: str) -> None:
        self.log.append((what, round(asyncio.get_running_loop().time() - self.began, 3)))

    async def begin(self) -> None:
        self.began = getattr(self, "began", asyncio.get_running_loop().time())
        self.empty, self.error = True, None
        self.broken.clear()
        self.note("begin")

    async def drain(self) -> None:
        while not self.drained.is_set() and self.error is None:
            await asyncio.sleep(0.01)
        self._look()

    async def commit(self) -> None:
        self._look()
        self.note("commit")

    async def abort(self, why: str, cause: AbortCause = AbortCause.GIVEN_UP) -> None:
        self.note(f"abort: {why}")
        self.left_s = math.inf
        self.breaks(cause)
        await asyncio.sleep(0)

    def breaks(self, cause: AbortCause) -> None:
        self.error = TransactionAbortedError(cause, "made up")
        self.broken.set()

    def _look(self) -> None:
        if self.error is not None:
            raise self.error

    def times(self, what: str) -> list[float]:
        return [at for each, at in self.log if each.startswith(what)]


class Offsets:
    """`changes`: whether source offsets have moved without records."""

    def __init__(self, log: MadeUp) -> None:
        self._transactions = log
        self.changed = False
        self.prepared: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)

    async def prepare(self) -> None:
        await self.prepared()

    async def write(self) -> None:
        self._transactions.note("offsets")

    def committed(self) -> None:
        self.changed = False
        self._transactions.note("committed")

    def aborted(self) -> None:
        self._transactions.note("aborted")


class Copying:
    def __init__(self, boundary: str = INTERVAL, interval_ms: int = 1_000, timeout_ms: int = 60_000) -> None:
        self.made_up = MadeUp(timeout_ms)
        self.offsets = Offsets(self.made_up)
        self.buffered = 1 << 20
        self.watch = TransactionWatch((lambda: self.buffered) if boundary == POLL else None)
        self.stuck: list[TransactionalFlow] = []
        self.left_out: list[TransactionalFlow] = []
        self.problems: list[Problem | None] = []
        self.tells_before = False
        spec = source_spec({"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}, ())
        self.copying = CopyTransactions(
            replace(spec, exactly_once=True, transaction_boundary=boundary, transaction_interval_ms=interval_ms),
            cast("Transactions", self.made_up),
            cast("TransactionalSourceOffsets", self.offsets),
            self.watch,
            note=lambda _flows: asyncio.sleep(0),
            stuck=lambda feeds: [each for each in feeds if each in self.stuck],
            leave_out=self._leave_out,
            before_commit=self._before_commit,
            on_commit=lambda: self.made_up.note("told"),
        )

    async def _before_commit(self) -> None:
        if self.tells_before:
            await asyncio.sleep(0.1)
            self.made_up.note("before")

    def _leave_out(self, feeds: Sequence[TransactionalFlow], problem: Problem | None) -> None:
        self.left_out += feeds
        self.problems.append(problem)
        self.watch.in_flight.clear()

    def copies(self, size: int = 1_000, feed: Any = "feed", *, acknowledged: bool = True) -> None:
        self.made_up.empty = False
        self.watch.taken(feed, size)
        if acknowledged:
            self.watch.settled(feed)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.copying.run())
        await asyncio.sleep(0)
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def test_records_then_offsets_then_the_commit_and_what_others_are_told() -> None:
    async def life() -> list[str]:
        task = Copying()
        async with task.running():
            task.copies()
            await asyncio.sleep(1.5)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "offsets", "commit", "committed", "told", "begin"]


def test_what_must_be_known_before_a_commit_is_awaited() -> None:
    async def life() -> list[str]:
        task = Copying()
        task.tells_before = True
        async with task.running():
            task.copies()
            await asyncio.sleep(1.5)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "before", "offsets", "commit", "committed", "told", "begin"]


def test_no_offsets_are_written_if_the_transaction_is_aborted_while_their_records_are_made() -> None:
    """Nobody would tell them of the abort, and a write behind it would wait for ever."""

    async def life() -> list[str]:
        task = Copying()

        async def prepared() -> None:
            if not task.made_up.times("abort"):
                await task.made_up.abort("made up")

        task.offsets.prepared = prepared
        async with task.running():
            task.copies()
            await asyncio.sleep(1.5)
            task.copies()
            await asyncio.sleep(1.5)
        return [what for what, _ in task.made_up.log]

    first, second = ["begin", "abort: made up", "aborted"], ["begin", "offsets", "commit", "committed", "told"]
    assert run_simulated(life()) == [*first, *second, "begin"]


def test_a_transaction_ends_after_the_interval_and_none_is_written_without_records() -> None:
    async def life() -> list[float]:
        task = Copying()
        async with task.running():
            for _ in range(35):
                task.copies()
                await asyncio.sleep(0.1)
            await asyncio.sleep(60)
        return task.made_up.times("committed")

    assert run_simulated(life()) == pytest.approx([1.0, 2.0, 3.0, 4.0], abs=0.2)


def test_the_first_record_after_a_quiet_time_waits_for_no_interval() -> None:
    async def life() -> list[float]:
        task = Copying(interval_ms=30_000)
        async with task.running():
            await asyncio.sleep(100)
            task.copies()
            await asyncio.sleep(5)
        return task.made_up.times("committed")

    (committed,) = run_simulated(life())
    assert committed == pytest.approx(100.0, abs=0.3)


def test_offsets_without_records_are_committed_too() -> None:
    async def life() -> list[str]:
        task = Copying()
        async with task.running():
            task.offsets.changed = True
            await asyncio.sleep(3)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "offsets", "commit", "committed", "told", "begin"]


def test_an_interval_is_half_of_the_transactions_timeout_at_most() -> None:
    async def life() -> list[float]:
        task = Copying(interval_ms=60_000, timeout_ms=10_000)
        async with task.running():
            task.copies()
            await asyncio.sleep(6)
        return task.made_up.times("committed")

    (committed,) = run_simulated(life())
    assert committed == pytest.approx(5.0, abs=0.1)


def test_a_poll_is_committed_when_its_records_are_acknowledged() -> None:
    async def life() -> list[float]:
        task = Copying(POLL)
        async with task.running():
            for _ in range(3):
                await asyncio.sleep(0.2)
                task.copies()
            await asyncio.sleep(0.1)
        return task.made_up.times("committed")

    assert run_simulated(life()) == pytest.approx([0.2, 0.4, 0.6], abs=0.02)


def test_offsets_without_records_are_committed_soon_after_a_poll_too() -> None:
    async def life() -> list[float]:
        task = Copying(POLL)
        async with task.running():
            task.copies()
            await asyncio.sleep(1)
            task.offsets.changed = True
            await asyncio.sleep(2)
        return task.made_up.times("committed")

    assert run_simulated(life()) == pytest.approx([0.0, 1.0], abs=0.7)


def test_after_an_abort_the_next_transaction_begins_and_nobody_was_told() -> None:
    async def life() -> list[str]:
        task = Copying()
        async with task.running():
            task.copies()
            await asyncio.sleep(0.5)
            task.made_up.breaks(AbortCause.EPOCH_REFUSED)
            await asyncio.sleep(0.3)
            task.copies()
            await asyncio.sleep(1.2)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "aborted", "begin", "offsets", "commit", "committed", "told", "begin"]


def test_after_a_timeout_transactions_are_smaller_until_they_are_committed_again() -> None:
    async def life() -> list[int | None]:
        task = Copying()
        found: list[int | None] = []
        async with task.running():
            task.copies(1_000_000)
            await asyncio.sleep(0.5)
            task.made_up.breaks(AbortCause.TIMED_OUT)
            await asyncio.sleep(0.3)
            found.append(task.watch.most)
            task.copies(600_000)
            await asyncio.sleep(0.1)
            found.append(task.watch.most)
        return found

    assert run_simulated(life()) == [500_000, 1_000_000]


def test_a_partition_that_is_not_accepted_is_left_out_and_holds_nobody_back() -> None:
    async def life() -> tuple[Copying, list[float]]:
        task = Copying()
        broken = cast("TransactionalFlow", Broken())
        task.stuck.append(broken)
        task.made_up.drained.clear()
        async with task.running():
            task.copies(feed=broken, acknowledged=False)
            await asyncio.sleep(1.0 + STUCK_S + 2.0)
            task.made_up.drained.set()
            task.copies()
            await asyncio.sleep(2.0)
        return task, task.made_up.times("abort:")

    task, aborts = run_simulated(life())
    assert len(task.left_out) == 1
    assert aborts == pytest.approx([1.0 + STUCK_S], abs=1.1)
    assert len(task.made_up.times("commit")) >= 1


class InFlightFlow:
    """A flow with so many batches in flight."""

    def __init__(self, name: str, in_flight: int) -> None:
        self.name = name
        self.in_flight = in_flight
        self.begins_at = 7

    def __str__(self) -> str:
        return self.name


class Broken:
    flow = InFlightFlow("orders-0", 1)


class Slow:
    def __init__(self, name: str, in_flight: int, size: int) -> None:
        self.flow = InFlightFlow(name, in_flight)
        self.bytes_in_flight = size


async def timed_out(task: Copying, *feeds: Slow, more: int = 0) -> None:
    """The target acknowledges `more` bytes of another partition, and none of these."""
    task.made_up.drained.clear()
    async with task.running():
        for feed in feeds:
            task.copies(feed.bytes_in_flight, feed, acknowledged=False)
        if more:
            task.copies(more)
        await asyncio.sleep(2.0)
        task.made_up.left_s = 0.9
        await asyncio.sleep(0.6)


def test_a_transaction_that_is_too_much_for_the_link_is_followed_by_smaller_ones() -> None:
    async def life() -> Copying:
        task = Copying()
        await timed_out(task, Slow("orders-0", 3, 300_000), Slow("orders-1", 3, 300_000), more=400_000)
        return task

    task = run_simulated(life())
    assert (task.left_out, task.watch.most) == ([], 200_000)
    (told,) = [what for what, _ in task.made_up.log if what.startswith("abort:")]
    assert "1,000,000 bytes within transaction.timeout.ms (60000)" in told


def test_of_one_partition_with_many_batches_the_next_transaction_has_one() -> None:
    async def life() -> Copying:
        task = Copying()
        await timed_out(task, Slow("orders-0", 5, 5_000_000))
        return task

    task = run_simulated(life())
    assert (task.left_out, task.watch.most) == ([], 1)


def test_a_single_batch_that_is_too_much_for_the_link_is_left_out_and_named() -> None:
    async def life() -> Copying:
        task = Copying()
        await timed_out(task, Slow("orders-0", 1, 1_000_000), more=100_000)
        return task

    task = run_simulated(life())
    assert [str(feed.flow) for feed in task.left_out] == ["orders-0"]
    assert task.watch.most is None
    (problem,) = task.problems
    assert problem is not None
    assert (problem.subject, problem.code) == ("orders-0", ProblemCode.PARTITION_STALLED_LINK_TOO_SLOW)
    assert problem.line.startswith(
        "orders-0 is stalled at offset 7: the target has not acknowledged a batch of 1,000,000 bytes within "
        "transaction.timeout.ms (60000); the link carried less than 18.6 kB/s; raise producer.override.transaction"
    )


def test_a_limit_of_bytes_closes_the_transaction_at_once() -> None:
    closed: list[int] = []
    watch = TransactionWatch(None, on_most=lambda: closed.append(watch.bytes))
    watch.began()
    watch.taken(cast("TransactionalFlow", "feed"), 5_000)
    assert closed == []
    watch.most = 3_000
    watch.began()
    for _ in range(2):
        watch.taken(cast("TransactionalFlow", "feed"), 2_000)
    assert closed == [4_000]


def test_a_slow_partition_is_waited_for_as_long_as_it_advances() -> None:
    async def life() -> list[str]:
        task = Copying()
        task.made_up.drained.clear()
        async with task.running():
            task.copies(acknowledged=False)
            await asyncio.sleep(1.0 + 2 * STUCK_S)
            task.made_up.drained.set()
            await asyncio.sleep(0.5)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "offsets", "commit", "committed", "told", "begin"]


def test_nothing_is_open_while_partitions_are_given_away() -> None:
    async def life() -> list[str]:
        task = Copying(interval_ms=30_000)
        async with task.running():
            task.copies()
            await asyncio.sleep(0.1)
            async with task.copying.held(1.5):
                task.made_up.note("given away")
                await asyncio.sleep(5)
            await asyncio.sleep(0.1)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "offsets", "commit", "committed", "told", "given away", "begin"]


def test_what_cannot_be_committed_before_partitions_go_is_aborted() -> None:
    async def life() -> list[str]:
        task = Copying()
        task.made_up.drained.clear()
        async with task.running():
            task.copies(acknowledged=False)
            async with task.copying.held(1.5):
                task.made_up.note("given away")
            await asyncio.sleep(1)
        return [what.partition(":")[0] for what, _ in task.made_up.log]

    assert run_simulated(life())[:4] == ["begin", "abort", "aborted", "given away"]


def test_the_last_transaction_is_committed_and_none_follows() -> None:
    async def life() -> list[str]:
        task = Copying(interval_ms=30_000)
        async with task.running():
            task.copies()
            await asyncio.sleep(0.1)
            await task.copying.end()
            await asyncio.sleep(60)
        return [what for what, _ in task.made_up.log]

    assert run_simulated(life()) == ["begin", "offsets", "commit", "committed", "told"]
