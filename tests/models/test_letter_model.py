"""Dead letters in simulated time: none is lost, no position is ahead of them, and with exactly-once each comes once.

The tasks are the product's (letter_life.py). Faults that are put back have to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

import pytest

from mirror_connect.spark_jobs.copy import dead_letters
from mirror_connect.spark_jobs.copy.copy_transactions import CopyTransactions
from mirror_connect.spark_jobs.copy.dead_letters import DeadLetters, FlowLetters
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from tests.fakes.simulated_time import run_simulated
from tests.models.exactly_once_life import BOUNDARIES, PROTOCOLS
from tests.models.letter_life import ExactlyOnceLetterLife, LetterLife
from tests.models.life import Incident, Life, Schedule, live
from tests.models.schedules import EXAMPLES, lives
from tests.models.test_exactly_once_model import KINDS as TOLD_KINDS
from tests.models.watch import BrokenPromiseError

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

OWN = ("refuse_letters", "refuse_letters")
AT_LEAST_ONCE = (
    *OWN,
    "kill",
    "lose",
    "refuse",
    "refused_for_good",
    "limit",
    "slow",
    "lease",
    "epoch",
    "finish",
    "hand_over",
)
SHAPES = (("plain", 10, 100), ("plain", 11, 100), ("plain", 1, 10), ("lz4", 3, 10)) * 20
# From offset 42 on, where the second half of these batches begins, six records can't be transformed.
ALONE = tuple(("plain", count, 10) for count in (20, 22, 21, 21, 1, 1, 2, 2))


def test_whatever_happens_no_dead_letter_is_lost_and_no_position_is_ahead_of_one() -> None:
    kinds = (*AT_LEAST_ONCE, "truncate", "make_again", "leader", "written_and_refused", "forget")
    lives(kinds, examples=EXAMPLES // 2, kind=LetterLife)


def test_with_exactly_once_each_dead_letter_is_committed_once_with_its_position() -> None:
    lives((*OWN, *TOLD_KINDS), examples=EXAMPLES // 4, links=(None,), kind=ExactlyOnceLetterLife)


def test_few_letters_at_a_time_stop_nothing_for_ever() -> None:
    with mock.patch.multiple(dead_letters, PARTITION_BYTES=300, TASK_BYTES=500, BATCH_RECORDS=2):
        lives(AT_LEAST_ONCE, examples=EXAMPLES // 4, kind=LetterLife)
        lives((*OWN, *TOLD_KINDS), examples=EXAMPLES // 10, links=(None,), kind=ExactlyOnceLetterLife)


def a_life(
    kind: Callable[[Schedule], Life],
    *incidents: Incident,
    seed: int = 1,
    shapes: tuple[tuple[str, int, int], ...] = SHAPES,
) -> Life:
    return run_simulated(live(Schedule(shapes, incidents, old=False, seed=seed), kind))


def test_without_trouble_each_letter_comes_once() -> None:
    for seed in range(3):
        life = a_life(LetterLife, seed=seed)
        assert isinstance(life, LetterLife)
        assert life.letters.found
        assert life.letters.repeats == 0


def test_each_protocol_and_each_boundary_commits_letters_through_kills_and_aborts() -> None:
    kinds = ("kill", "lost_sequence", "lose", "refuse_letters")
    incidents = tuple(Incident(0.7 + 0.9 * n, kinds[n % 4], n) for n in range(12))
    for seed in range(len(PROTOCOLS) * len(BOUNDARIES)):
        life = a_life(ExactlyOnceLetterLife, *incidents, seed=seed)
        assert isinstance(life, LetterLife)
        assert life.letters.found


# Faults put back.


def positions_without_letters() -> AbstractContextManager[object]:
    """The source offset goes by the copies alone."""
    return mock.patch.object(FlowLetters, "oldest", property(lambda _self: None))


@contextmanager
def letters_forgotten_by_an_abort() -> Iterator[None]:
    """A partition that gave nothing but letters goes on behind them after an abort."""
    original = TransactionalFlow.take

    def take(self: TransactionalFlow, limit: int, *, latency_bound: bool, append_time: bool) -> object:
        before = self.flow.uncommitted
        batch = original(self, limit, latency_bound=latency_bound, append_time=append_time)
        if batch is None:
            self.flow.uncommitted = before
        return batch

    with mock.patch.object(TransactionalFlow, "take", take):
        yield


@contextmanager
def commits_without_waiting_for_letters() -> Iterator[None]:
    """A transaction is committed when its copies are acknowledged."""

    async def drained(self: CopyTransactions) -> None:
        await self._transactions.drain()

    with mock.patch.object(CopyTransactions, "_drained", drained):
        yield


@contextmanager
def letters_sent_at_once() -> Iterator[None]:
    """A letter does not wait for what is before it: its transaction is committed without the position."""

    def send(self: PartitionFlow) -> None:
        if self.letters:
            self.letters.release(1 << 62)

    with mock.patch.object(PartitionFlow, "_send_letters", send):
        yield


@contextmanager
def letters_that_are_never_sent() -> Iterator[None]:
    """They count as acknowledged."""

    def send(self: DeadLetters, group: object, errors: object) -> None:
        group.flow._sent.clear()  # type: ignore[attr-defined]

    with mock.patch.object(DeadLetters, "send", send):
        yield


KILLS = tuple(Incident(0.5 + 0.6 * n, ("refuse_letters", "kill")[n % 2], n) for n in range(8))
ABORTS = tuple(Incident(0.5 + 0.6 * n, ("refuse_letters", "lost_sequence", "slow")[n % 3], n) for n in range(9))
# For longer than a transaction waits for them.
REFUSED = (Incident(0.5, "refuse_letters", 2),)
REFUSALS = tuple(Incident(0.5 + 0.6 * n, ("refused_for_good", "limit")[n % 2], n) for n in range(8))


def lives_of_all_seeds(kind: Callable[[Schedule], Life], incidents: tuple[Incident, ...]) -> None:
    for seed in range(24):
        a_life(kind, *incidents, seed=seed, shapes=SHAPES if seed % 2 else ALONE)


@pytest.mark.parametrize(
    ("fault", "kind", "incidents"),
    [
        pytest.param(positions_without_letters, LetterLife, KILLS, id="positions_without_letters"),
        pytest.param(letters_that_are_never_sent, LetterLife, KILLS, id="letters_that_are_never_sent"),
        pytest.param(letters_forgotten_by_an_abort, ExactlyOnceLetterLife, REFUSED, id="letters_forgotten_by_an_abort"),
        pytest.param(commits_without_waiting_for_letters, ExactlyOnceLetterLife, ABORTS, id="commits_without_waiting"),
        pytest.param(letters_sent_at_once, ExactlyOnceLetterLife, REFUSALS, id="letters_sent_at_once"),
    ],
)
def test_a_fault_put_back_is_found(
    fault: Callable[[], AbstractContextManager[object]],
    kind: Callable[[Schedule], Life],
    incidents: tuple[Incident, ...],
) -> None:
    with fault(), pytest.raises((BrokenPromiseError, KeyError, AssertionError)):
        lives_of_all_seeds(kind, incidents)
