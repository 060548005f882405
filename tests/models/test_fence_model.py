"""Who may write a task's records and positions, in simulated time: pauses, cut and late networks, clocks that differ.

The workers and tasks are the product's own: Membership, Supervisor, TaskLease, BatchProducer with ProducerIdentity,
SourceOffsetsWriter (fence_workers.py). The model has the broker (fence_broker.py), the network, Spark and time. A failed
schedule is printed by hypothesis, smaller than it was found. `MODEL_SEED` chooses the schedules, `MODEL_SCHEDULES` how many.

The last tests put faults back, or take a protection away, and show that such schedules find it. Three protections are not
among them, as another one covers each: that the lease is looked at once more when an epoch has come (nothing is written with
that epoch without a lease), and when batches are taken (it is again when they are written); and that who stands by has none
to give (what it ran is retired before).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import pytest

from mirror_connect.app.group import lease
from mirror_connect.app.group.membership import Membership
from mirror_connect.app.supervisor.partition_assignment import LANDING_S
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_restarts import TaskRestarts
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.producer import producer_identity, sender
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.producer_identity import ProducerIdentity
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch
from mirror_connect.kafka_io.producer.task_lease import LeaseCheck, TaskLease
from tests.models import fence_workers
from tests.models.fence_life import WORKERS, Setting, live
from tests.models.watch import BrokenPromiseError
from tests.models.worker_schedules import (
    FAULTS_SEED,
    SCHEDULES,
    Incidents,
    Live,
    explore,
    in_simulated_time,
    look_for_a_fault,
)

PUNCTUAL = Setting()
LATE = Setting(late=True)
LYING = Setting(late=True, lies=True)
# Tasks without the right to their transactional id, and records so old that brokers keep nothing of their producer.
LEASE_ALONE = Setting(fences=False)
FAULTS_SCHEDULES = 2_000


@dataclass(frozen=True)
class Trouble(Incidents):
    kinds: tuple[str, ...] = (
        "pause",
        "pause",
        "pause",
        "cut",
        "cut",
        "late",
        "late",
        "deaf",
        "kill",
        "restart",
        "forget",
    )
    whom: tuple[str, ...] = ("machine", "machine", "worker", "task")
    at: tuple[str, ...] = ("now", "before epoch", "behind epoch", "before batch", "behind batch", "behind report")
    seconds: tuple[float, ...] = (1.5, 4.0, 7.0, 11.0, 12.5, 14.0, 25.0)
    waits: tuple[float, ...] = (0.0, 0.3, 1.0, 2.5, 6.0, 9.0, 14.0)


def under(setting: Setting) -> Live:
    """A life in which this may be counted on."""
    return lambda schedule: live(schedule, setting)


@pytest.fixture(autouse=True)
def _in_simulated_time() -> Iterator[None]:
    with in_simulated_time():
        yield


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("setting", "trouble"),
    [
        pytest.param(PUNCTUAL, Trouble(), id="nobody_is_fenced_and_who_writes_leads"),
        pytest.param(LATE, Trouble(), id="requests_arrive_when_the_lease_is_long_over"),
        pytest.param(LYING, Trouble(), id="clocks_stand_still_in_a_pause"),
        pytest.param(LEASE_ALONE, Trouble(), id="without_a_fence"),
    ],
)
def test_no_task_writes_behind_its_successors_first_write_and_the_rightful_one_goes_on(
    setting: Setting, trouble: Trouble
) -> None:
    explore(under(setting), trouble.schedules(WORKERS), SCHEDULES)


# Faults put back.


class NoLeaseCheck(LeaseCheck):
    def __call__(self) -> None:
        pass


def epochs_without_a_lease() -> AbstractContextManager[Any]:
    """The lease is looked at when an epoch is wanted, and not when the request for it is written."""
    return mock.patch.object(producer_identity, "LeaseCheck", NoLeaseCheck)


def batches_without_a_lease() -> AbstractContextManager[Any]:
    """The lease is looked at when batches are taken, and not when their request is written."""
    return mock.patch.object(sender, "LeaseCheck", NoLeaseCheck)


def fenced_is_failed() -> AbstractContextManager[Any]:
    """As it was: a task that is fenced is FAILED, whoever fenced it."""
    return mock.patch.object(TaskRestarts, "fenced", lambda self, run, trace: self._runs.fail(run, trace))


@contextmanager
def takes_its_place_back() -> Iterator[None]:
    """A producer that is fenced takes the next epoch, as an idempotent one without a transactional id does."""
    take = ProducerIdentity.take

    async def anew(self: ProducerIdentity, current: ProducerIdAndEpoch | None = None) -> ProducerIdAndEpoch:
        return await take(self)

    with (
        mock.patch.object(ProducerIdentity, "take", anew),
        mock.patch.object(ProducerIdentity, "fenced_by_others", property(lambda self: False)),
    ):
        yield


def positions_without_a_fence() -> AbstractContextManager[Any]:
    """Positions have a producer of their own, without the task's transactional id."""

    async def other(producer: BatchProducer) -> BatchProducer:
        sending = producer._sender
        plain = BatchProducer(sending._cluster, sending._settings, "", sending._lease, Problems(print))
        plain._identity._transactional_id = None
        await plain.start()
        return plain

    return mock.patch.object(fence_workers, "producer_of_positions", other)


def positions_without_a_lease() -> AbstractContextManager[Any]:
    """Positions are written with the task's epoch, by one that does not look at the lease."""

    async def other(producer: BatchProducer) -> BatchProducer:
        sending = producer._sender
        careless = BatchProducer(sending._cluster, sending._settings, "", lambda: True, Problems(print))
        careless._sender.producer, careless._sender._halted = sending.producer, False
        careless._sender.spawn(careless._sender._keep_metadata())
        return careless

    return mock.patch.object(fence_workers, "producer_of_positions", other)


def a_lease_without_its_margin() -> AbstractContextManager[Any]:
    """The lease is as long as the session: nothing is left for what is on its way, and for clocks that go slower."""
    return mock.patch.object(lease, "MARGIN_SECONDS", 0.0)


def a_lease_from_the_answer_on() -> AbstractContextManager[Any]:
    """The lease counts from when its task hears of it, and not from before it asked."""
    renew = TaskLease.renew

    def later(self: TaskLease, asked: float, lease_ms: int) -> None:
        renew(self, self._clock(), lease_ms)

    return mock.patch.object(TaskLease, "renew", later)


@contextmanager
def a_lease_of_who_stands_by() -> Iterator[None]:
    """As it was: any member of the group gives its tasks a lease, also those that it has not ended yet."""
    with (
        a_lease_of_the_next_leadership(),
        mock.patch.object(Membership, "leads_for", Membership.lease_remaining),
    ):
        yield


def a_lease_of_the_next_leadership() -> AbstractContextManager[Any]:
    """As it was: who leads again gives a lease to what it has not ended yet."""
    return mock.patch.object(Supervisor, "retire", lambda self: self.want({}))


def a_predecessor_that_lives() -> AbstractContextManager[Any]:
    """A task's next process begins while the one before, which did not end in time, is there still."""
    return mock.patch.object(TaskRuns, "is_gone", return_value=True)


LONG = (11.0, 12.5, 14.0, 25.0)
BEHIND = "wrote behind the first write of its successor"
ASKED = "asked for an epoch when the place of its worker was over"
WROTE = "wrote when the place of its worker was over"
PAUSE = Trouble(("pause",), ("machine",), seconds=LONG)
# It wakes when its successor, which waits for what it has left, has begun to write.
RESTART = Trouble(("pause", "restart"), ("task",), ("now",), (LANDING_S + 10,), (0.3, 1.0))
# Its last batches are late when the lease ends.
CUT = Trouble(("cut", "late"), ("worker", "task"), ("now",), (14.0,), (0.3, 7.0))
RETURN = Trouble(("pause", "cut"), ("machine",), ("now",), (14.0, 25.0), (2.5, 14.0))

FAULTS: dict[Callable[[], AbstractContextManager[Any]], tuple[Setting, Trouble, str]] = {
    epochs_without_a_lease: (PUNCTUAL, PAUSE, ASKED),
    batches_without_a_lease: (PUNCTUAL, PAUSE, WROTE),
    fenced_is_failed: (LATE, Trouble(("late", "pause"), ("machine", "task"), seconds=LONG), "task c-0 is FAILED"),
    takes_its_place_back: (LYING, PAUSE, BEHIND),
    positions_without_a_fence: (LYING, PAUSE, f"connect-offsets-0: .* {BEHIND}"),
    positions_without_a_lease: (PUNCTUAL, PAUSE, WROTE),
    a_lease_without_its_margin: (PUNCTUAL, CUT, WROTE),
    a_lease_from_the_answer_on: (PUNCTUAL, PAUSE, WROTE),
    a_lease_of_who_stands_by: (PUNCTUAL, PAUSE, f"{ASKED}|{WROTE}"),
    a_lease_of_the_next_leadership: (LEASE_ALONE, RETURN, BEHIND),
    a_predecessor_that_lives: (Setting(fences=False, lies=True), RESTART, BEHIND),
}


# Faults that take some tens of schedules have a seed of which one of the first ten finds them.
SEEDS: Final = {batches_without_a_lease: 1, a_lease_without_its_margin: 1, a_lease_from_the_answer_on: 5}
LEASE_ALONE_SEED: Final = 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_that_is_put_back_is_found(fault: Callable[[], AbstractContextManager[Any]]) -> None:
    setting, trouble, found = FAULTS[fault]
    seed = SEEDS.get(fault, FAULTS_SEED)
    with fault(), pytest.raises(BrokenPromiseError, match=found):
        look_for_a_fault(under(setting), trouble.schedules(WORKERS), FAULTS_SCHEDULES, seed)


def test_the_lease_alone_does_not_hold_off_what_arrives_when_it_is_long_over() -> None:
    setting, trouble = Setting(fences=False, late=True), Trouble(("late", "pause"), ("machine",), ("now",), LONG)
    with pytest.raises(BrokenPromiseError, match=BEHIND):
        look_for_a_fault(under(setting), trouble.schedules(WORKERS), FAULTS_SCHEDULES, LEASE_ALONE_SEED)
