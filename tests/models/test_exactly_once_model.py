"""With exactly-once, whatever happens: each record is committed once and in order, together with its position.

No fall excuses a record that comes twice. Faults that are put back have to be found, each by schedules that lead to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

import pytest

from mirror_connect.spark_jobs.copy.copy_transactions import CopyTransactions
from mirror_connect.spark_jobs.copy.partition_flow import FlowPlace, PartitionFlow
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from tests.fakes.simulated_time import run_simulated
from tests.models.exactly_once_life import BOUNDARIES, PROTOCOLS, ExactlyOnceLife, ExactlyOnceTarget
from tests.models.life import Incident, Runner, Schedule, live, patched
from tests.models.life_clusters import PARTITIONS
from tests.models.schedules import EXAMPLES, lives
from tests.models.watch import BrokenPromiseError

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

# Where the target loses records or positions it lies about what is committed. No schedule here does that.
KINDS = ("lose", "refuse", "deny", "written_and_refused", "refused_for_good", "lost_sequence", "slow", "limit", "lease")
# Bytes a second. The largest batch comes through alone in a transaction of this model, two of them don't.
THIN = 2_500
KINDS += (
    "leader",
    "truncate",
    "kill",
    "kill",
    "epoch",
    "finish",
    "hand_over",
    "hand_over",
    "make_again",
    "append_time",
)


def test_whatever_happens_each_record_is_committed_once_with_its_position() -> None:
    lives(KINDS, examples=EXAMPLES // 4, links=(None,) * 9 + (THIN,), kind=ExactlyOnceLife)


def a_life(*incidents: Incident, seed: int = 1) -> ExactlyOnceLife:
    shapes = (("plain", 10, 100), ("plain", 11, 100)) * 40
    life = run_simulated(live(Schedule(shapes, incidents, old=False, seed=seed), ExactlyOnceLife))
    assert isinstance(life, ExactlyOnceLife)
    return life


def test_each_protocol_and_each_boundary_survives_kills_and_aborts() -> None:
    kills = tuple(Incident(0.7 + 0.9 * n, ("kill", "lost_sequence", "lose")[n % 3], n) for n in range(12))
    committed, aborted = [], []
    for seed in range(len(PROTOCOLS) * len(BOUNDARIES)):
        target = a_life(*kills, seed=seed).target
        assert isinstance(target, ExactlyOnceTarget)
        committed.append(target.committed)
        aborted.append(target.aborted)
    assert all(committed)
    assert sum(map(bool, aborted)) > len(aborted) // 2


class NeverTold(ExactlyOnceLife):
    """The answer to each batch of partition 0 says that replicas are missing, so it may be there: no commit without it."""

    def _heal(self) -> None:
        self.target.denied[0] = True


def test_a_partition_that_is_written_and_never_told_holds_the_others_back_for_a_while_only() -> None:
    shapes = (("plain", 10, 100), ("plain", 11, 100)) * 40

    async def life() -> tuple[int, int]:
        running = NeverTold(Schedule(shapes, (), old=False, seed=3))
        running.runners = [Runner(0, running, set(range(PARTITIONS)))]
        running.target.denied[0] = True
        with patched(running):
            copying = asyncio.create_task(running.run())
            await asyncio.sleep(40)
            committed = [watch.last for watch in running.watches]
            running.target.denied.clear()
            await copying
        return committed[0] is not None, committed[1] is not None and committed[1] is running.watches[1].log[-1]

    assert run_simulated(life()) == (False, True)


def test_a_batch_that_is_too_much_for_a_thin_link_holds_the_others_back_for_a_while_only() -> None:
    """60 kB take 15 s. A transaction of this model may last 8 s, so they can't be committed before the link is better."""

    async def life() -> tuple[bool, bool, str]:
        shapes = (("plain", 10, 6_000), *[("plain", 11, 10)] * 40)
        running = ExactlyOnceLife(Schedule(shapes, (), old=False, seed=3, carries=4_000))
        running.runners = [Runner(0, running, set(range(PARTITIONS)))]
        with patched(running):
            copying = asyncio.create_task(running.run())
            await asyncio.sleep(120)
            copied = [watch.last is watch.log[-1] for watch in running.watches]
            told = [each.line for each in running.runners[0].link.problems if each.code.endswith("LINK_TOO_SLOW")]
            running.target.carries = 100_000
            await copying
            await asyncio.sleep(1)
        return copied[0], copied[1], "".join(told)

    too_large, small, told = run_simulated(life())
    assert (too_large, small) == (False, True)
    for part in ("orders-0", "60,351 bytes", "kB/s", "transaction.timeout.ms (8000)", "producer.override.transaction"):
        assert part in told


@contextmanager
def aborted_records_not_fed_again() -> Iterator[None]:
    """After an abort a task goes on where it was."""

    def aborted(self: TransactionalFlow, error: object) -> None:
        self._watch.settled(self)
        if self.flow.uncommitted is not None:
            self.flow.uncommitted = FlowPlace(self.flow.next_offset, self.flow.topic_id, -1)
            self.flow.go_back()
            self._on_aborted(self.flow)

    with mock.patch.object(TransactionalFlow, "aborted", aborted):
        yield


@contextmanager
def only_the_unacknowledged_fed_again() -> Iterator[None]:
    """What the target had acknowledged counts as there, although its transaction was aborted."""

    def go_back(self: PartitionFlow) -> None:
        assert self.uncommitted is not None
        self.uncommitted = FlowPlace(self.source_offset + 1, self.topic_id, self.uncommitted.leader_epoch)
        original(self)

    original = PartitionFlow.go_back
    with mock.patch.object(PartitionFlow, "go_back", go_back):
        yield


@contextmanager
def offsets_before_the_last_records() -> Iterator[None]:
    """The source offsets are noted while batches are still under way."""

    async def end(self: CopyTransactions) -> None:
        await self._note(None)
        await self._offsets.prepare()
        await self._offsets.write()
        await self._drain()
        await self._transactions.commit()
        self._offsets.committed()
        self._due = self._loop.time() + self._interval

    with mock.patch.object(CopyTransactions, "_end", end):
        yield


@contextmanager
def offsets_in_the_next_transaction() -> Iterator[None]:
    """The source offsets follow after the commit of their records."""

    async def end(self: CopyTransactions) -> None:
        await self._offsets.prepare()
        await self._offsets.write()
        await self._drain()
        await self._transactions.commit()
        self._offsets.committed()
        await self._note(None)
        self._due = self._loop.time() + self._interval

    with mock.patch.object(CopyTransactions, "_end", end):
        yield


@contextmanager
def partitions_given_away_unsettled() -> Iterator[None]:
    """A transaction stays open while its partitions go to another task."""

    class Held:
        async def __aenter__(self) -> None:
            await asyncio.sleep(0)

        async def __aexit__(self, *_: object) -> None:
            await asyncio.sleep(0)

    with mock.patch.object(CopyTransactions, "held", return_value=Held()):
        yield


def lives_of_all_seeds(incidents: tuple[Incident, ...]) -> None:
    for seed in range(24):
        a_life(*incidents, seed=seed)


ABORTS = tuple(Incident(0.5 + 0.6 * n, "lost_sequence", n) for n in range(8))
MOVES = tuple(Incident(0.5 + 0.8 * n, "hand_over", n) for n in range(8))


@pytest.mark.parametrize(
    ("fault", "incidents"),
    [
        pytest.param(aborted_records_not_fed_again, ABORTS, id="aborted_records_not_fed_again"),
        pytest.param(only_the_unacknowledged_fed_again, ABORTS, id="only_the_unacknowledged_fed_again"),
        pytest.param(offsets_before_the_last_records, ABORTS, id="offsets_before_the_last_records"),
        pytest.param(offsets_in_the_next_transaction, ABORTS, id="offsets_in_the_next_transaction"),
        pytest.param(partitions_given_away_unsettled, MOVES, id="partitions_given_away_unsettled"),
    ],
)
def test_a_fault_put_back_is_found(
    fault: Callable[[], AbstractContextManager[None]], incidents: tuple[Incident, ...]
) -> None:
    with fault(), pytest.raises((BrokenPromiseError, KeyError)):
        lives_of_all_seeds(incidents)
