"""Transactions in simulated time: lost answers, timeouts, aborts, zombies, coordinators that move, by each protocol.

The producer is the product's own: BatchProducer with Transactions. The model has the coordinator and the partition logs
(tests/fakes/transaction_broker.py), the network and time. Nothing but transactions protects here: each task believes for
ever that it has the lease. A failed schedule is printed by hypothesis, smaller than it was found. `MODEL_SEED` chooses the
schedules, `MODEL_SCHEDULES` how many.

The last tests put faults back, and show that such schedules find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import strategies as st

from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.producer.transaction_coordinator import TransactionCoordinator
from mirror_connect.kafka_io.producer.transaction_partitions import TransactionPartitions
from mirror_connect.kafka_io.producer.transactions import Transactions
from tests.fakes.transaction_broker import Protocol
from tests.fakes.transactional_target import NumberFeed
from tests.models.transaction_life import Incident, Schedule, live
from tests.models.transaction_task import OFFSETS, TOPIC
from tests.models.watch import BrokenPromiseError
from tests.models.worker_schedules import FAULTS_SEED, SCHEDULES, explore, in_simulated_time, look_for_a_fault

KINDS = ("pause", "cut", "cut", "late", "late", "kill", "usurp", "forget", "move", "refuse", "hide", "slow")
WAITS = (0.0, 0.02, 0.1, 0.3, 0.7, 2.0, 5.0)
SECONDS = (0.1, 0.4, 1.0, 2.5, 4.0, 9.5, 12.0)
FAULTS_SCHEDULES = 1_500


def schedules(
    protocols: tuple[Protocol, ...] = tuple(Protocol), kinds: tuple[str, ...] = KINDS, most: int = 6
) -> st.SearchStrategy[Schedule]:
    incident = st.builds(
        Incident,
        st.sampled_from(WAITS),
        st.sampled_from(kinds),
        st.sampled_from(SECONDS),
        st.sampled_from((TOPIC, OFFSETS)),
    )
    incidents = st.lists(incident, min_size=1, max_size=most).map(tuple)
    return st.builds(Schedule, incidents, st.sampled_from(protocols), st.integers(0, 1000))


@pytest.fixture(autouse=True)
def _in_simulated_time() -> Iterator[None]:
    with in_simulated_time():
        yield


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.name)
def test_readers_of_committed_records_see_each_once_and_positions_belong_to_their_data(protocol: Protocol) -> None:
    explore(live, schedules((protocol,)), SCHEDULES // 2)


# Faults put back.


def no_new_epoch_after_a_lost_commit() -> AbstractContextManager[Any]:
    """The next transaction has the same epoch, so a commit that arrives late ends it in its middle."""
    never = property(lambda _self: False, lambda _self, _value: None)
    return mock.patch.object(TransactionCoordinator, "doubtful", never, create=True)


def an_abort_without_a_new_epoch() -> AbstractContextManager[Any]:
    """The producer goes on with the epoch of what it has aborted."""

    async def same(self: Transactions) -> ProducerIdAndEpoch:
        current = self._sender.producer
        await self._coordinator.end(current, committed=False, gives_epoch=self.gives_epochs)
        return current

    return mock.patch.object(Transactions, "_next_epoch", same)


@contextmanager
def a_commit_over_batches_without_an_answer() -> Iterator[None]:
    """Only what is acknowledged is waited for; what may be written or not is left behind."""

    def settled(self: TargetPartition) -> bool:
        return True

    with (
        mock.patch.object(TargetPartition, "settled", property(settled)),
        mock.patch.object(TransactionPartitions, "_is_settled", return_value=True),
    ):
        yield


def feeds_that_go_on_after_an_abort() -> AbstractContextManager[Any]:
    """What was acknowledged in an aborted transaction is not given again."""

    def aborted(self: NumberFeed, error: Exception) -> None:
        self.next = self.acknowledged

    return mock.patch.object(NumberFeed, "aborted", aborted)


def sequences_that_go_on_in_a_new_epoch() -> AbstractContextManager[Any]:
    """Sequences are not counted from 0."""
    restamp, renounce = TargetPartition.restamp, TargetPartition.renounce

    def kept(self: TargetPartition) -> None:
        sequence = self.next_sequence
        renounce(self)
        self.next_sequence = sequence

    def stamped(self: TargetPartition, producer: ProducerIdAndEpoch, *, fenced: bool) -> None:
        sequence = self.next_sequence
        restamp(self, producer, fenced=fenced)
        self.next_sequence = sequence

    return mock.patch.multiple(TargetPartition, renounce=kept, restamp=stamped)


def any_epoch_is_taken_for_a_timeout() -> AbstractContextManager[Any]:
    """Who is fenced takes the next epoch whether its transaction was open or not."""

    async def anyway(self: Transactions) -> ProducerIdAndEpoch:
        return await self._identity.take()

    return mock.patch.object(Transactions, "_next_epoch", anyway)


OLD = (Protocol.OLD, Protocol.VERIFIED)
NEW = (Protocol.NEW, Protocol.NEW_4_0)
FAULTS: dict[Callable[[], AbstractContextManager[Any]], tuple[tuple[Protocol, ...], tuple[str, ...]]] = {
    no_new_epoch_after_a_lost_commit: (OLD, ("late",)),
    an_abort_without_a_new_epoch: (OLD, ("late", "pause", "hide")),
    a_commit_over_batches_without_an_answer: (OLD + NEW, ("cut", "late", "hide")),
    feeds_that_go_on_after_an_abort: (OLD + NEW, ("pause", "forget", "late")),
    sequences_that_go_on_in_a_new_epoch: (NEW, ("pause", "usurp")),
    any_epoch_is_taken_for_a_timeout: (OLD + NEW, ("usurp", "pause")),
}


# Faults that take some tens of schedules have a seed of which one of the first ten finds them.
SEEDS: Final = {no_new_epoch_after_a_lost_commit: 3, an_abort_without_a_new_epoch: 1}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_that_is_put_back_is_found(fault: Callable[[], AbstractContextManager[Any]]) -> None:
    protocols, kinds = FAULTS[fault]
    with fault(), pytest.raises(BrokenPromiseError):
        look_for_a_fault(live, schedules(protocols, kinds), FAULTS_SCHEDULES, SEEDS.get(fault, FAULTS_SEED))


def test_a_life_without_incidents_goes_well() -> None:
    for protocol in Protocol:
        live(replace(Schedule((), protocol, 1)))
