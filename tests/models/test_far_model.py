"""Many batches in flight to a broker that remembers five: none is lost, none comes twice, and none is out of order.

The producer is the product's own; broker, network and time are a model. A failed schedule is printed by hypothesis, smaller
than it was found. `MODEL_SEED` chooses the schedules. The last tests put faults back, and such schedules find them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple
from unittest import mock

import pytest
from hypothesis import strategies as st

from mirror_connect.kafka_io.producer import target_connection
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.leader_state import LeaderState
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.records.record_batch import ProducerBatch, stamped_header
from tests.fakes.encoded_batches import decode
from tests.fakes.producer_rig import REQUEST_TIMED_OUT, TOPIC_DENIED, Feed, Rig, batches
from tests.fakes.simulated_time import run_simulated
from tests.models.far_broker import FarBroker
from tests.models.search import SEED, search
from tests.models.watch import BrokenPromiseError
from tests.models.worker_schedules import FAULTS_SEED, SCHEDULES

pytestmark = [pytest.mark.timeout(600)]

FAULT_SCHEDULES: Final = 200
PARTITIONS: Final = 2
BATCHES: Final = 90
HEADER_BYTES: Final = 61
# Until the distance is measured, and until the leader has told what it has.
MEASURED_S: Final = 10.0
ASKED_S: Final = 1.0
EVERY_S: Final = 0.005
# A partition may be answered 60 times, with late or refused batches, each after 3 s of replication and 1 s of backoff.
SETTLED_S: Final = 300.0
# Two and more arrive while a question is answered, and what follows from that is sent.
SLOW_S: Final = 0.015
# Each batch is in some, at most.
MOST_REQUESTS: Final = 12 * BATCHES


class Incident(NamedTuple):
    """After so many seconds. `number`: how many, or how much."""

    wait: float
    kind: str
    number: int


KINDS: Final = ("cut", "late_cut", "slow_cut", "move", "move", "lag", "late", "refused", "silent")


def schedules(*kinds: str) -> st.SearchStrategy[list[Incident]]:
    waits, numbers = (0.0, 0.003, 0.02, 0.06, 0.11, 0.2), (0, 1, 2, 4, 6, 9, 30)
    incident = st.builds(Incident, *map(st.sampled_from, (waits, kinds, numbers)))
    return st.lists(incident, min_size=1, max_size=8)


INCIDENTS: Final = schedules(*KINDS)


class WatchedFeed(Feed):
    """A feed that says when a batch is acknowledged before all replicas have it."""

    def __init__(self, made: list[ProducerBatch], broker: FarBroker, partition: int) -> None:
        super().__init__(made)
        self._broker = broker
        self._replicated = broker.replicated("a.orders", partition)

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        super().acked(batch, base_offset)
        everywhere = sum(each.count for each in self._replicated.log.batches[: self._replicated.everywhere])
        if len(self.acknowledged) > everywhere and not self._broker.tail_lost:
            raise BrokenPromiseError(
                f"{len(self.acknowledged)} records are acknowledged; all replicas have {everywhere}"
            )


@cache
def made(partition: int) -> list[ProducerBatch]:
    return batches(BATCHES, records=1 + partition)


async def come(rig: Rig, feeds: list[WatchedFeed], sides: list[TargetPartition]) -> None:
    for number in range(BATCHES):
        for partition, feed in enumerate(feeds):
            feed.batches.append(made(partition)[number])
            rig.producer.wake(sides[partition])
        # The first shows that producers are remembered; at the second, the distance is known, and the leader is asked.
        await asyncio.sleep({0: MEASURED_S, 1: ASKED_S}.get(number, EVERY_S))


async def meets(broker: FarBroker, incidents: list[Incident]) -> None:
    for incident in incidents:
        await asyncio.sleep(incident.wait)
        match incident.kind:
            case "cut":
                broker.cut(landing=incident.number, later_s=0.0)
            case "late_cut":
                broker.cut(landing=incident.number, later_s=0.04)
            case "slow_cut":
                broker.cut(landing=3 * incident.number, later_s=0.0, each_s=SLOW_S)
            case "in_vain":
                broker.telling_error = REQUEST_TIMED_OUT if incident.number % 2 else 0
            case "move":
                broker.move(kept=incident.number, remembered=5 if incident.number % 2 else 1)
            case "forget":
                broker.forget()
            case "limit":
                broker.limit = 150 if incident.number % 2 else 1 << 20
            case "deny":
                broker.telling_error = TOPIC_DENIED if incident.number % 2 else 0
            case "lose_tail":
                broker.lose_tail(incident.number)
            case "others_write":
                broker.others_write(1 + incident.number)
            case kind:
                setattr(broker, kind, incident.number)


def live(incidents: list[Incident]) -> FarBroker:
    """Every batch is there once and in order; BrokenPromiseError."""
    broker = copied(incidents)
    for partition in range(PARTITIONS):
        written = [each.payload[HEADER_BYTES:] for each in broker.log("a.orders", partition).batches]
        if written != [each.records for each in made(partition)]:
            raise BrokenPromiseError(f"partition {partition} has other batches: {len(written)} of {BATCHES}")
    return broker


def live_at_least(incidents: list[Incident], *, idle_s: float = 0.0) -> None:
    """Every record is there, for the first time in order; BrokenPromiseError. `idle_s`: see `copied`.

    A leader that has lost its state accepts what comes behind a missing batch. All of that comes again behind that batch.
    """
    broker = copied(incidents, idle_s=idle_s)
    kinds = {incident.kind for incident in incidents}
    for partition in range(PARTITIONS):
        written = [
            record.value for each in broker.log("a.orders", partition).batches for record in decode(each.payload)
        ]
        wanted = [record.value for each in made(partition) for record in decode(whole(each))]
        written = [value for value in written if value]
        if "forget" in kinds:
            written.reverse()
            wanted.reverse()
        # Of an unclean election some are missing.
        if "lose_tail" not in kinds and list(dict.fromkeys(written)) != wanted:
            raise BrokenPromiseError(f"partition {partition} has other records, or in another order")


def whole(each: ProducerBatch) -> bytes:
    return bytes(stamped_header(each, -1, -1, -1, transactional=False)) + bytes(each.records)


def copied(incidents: list[Incident], *, idle_s: float = 0.0) -> FarBroker:
    """Meets them while it copies; BrokenPromiseError if that does not end, or counts what not all replicas have.

    They begin that long before most of the batches come.
    """
    broker = FarBroker()

    async def run() -> None:
        rig = Rig(broker)
        await rig.producer.start()
        feeds = [WatchedFeed([], broker, partition) for partition in range(PARTITIONS)]
        sides = [rig.feed(feed, partition) for partition, feed in enumerate(feeds)]
        coming = asyncio.create_task(come(rig, feeds, sides))
        await asyncio.sleep(MEASURED_S + ASKED_S - idle_s)
        await meets(broker, incidents)
        await coming
        try:
            async with asyncio.timeout(SETTLED_S):
                while not all(len(feed.acknowledged) == total(at) for at, feed in enumerate(feeds)):
                    await asyncio.sleep(0.05)
                    if rig.producer.failed.done():
                        rig.producer.failed.result()
        except TimeoutError:
            raise BrokenPromiseError("copying does not go on") from None
        finally:
            await rig.producer.close()

    with mock.patch.object(target_connection, "MANY_FROM", 1):
        run_simulated(run())
    if len(broker.requests) > MOST_REQUESTS:
        raise BrokenPromiseError(f"{len(broker.requests)} requests were sent")
    return broker


def total(partition: int) -> int:
    return BATCHES * (1 + partition)


@pytest.mark.soak
def test_whatever_happens_far_away_every_batch_is_there_once_and_in_order() -> None:
    search(live, INCIDENTS, 2 * SCHEDULES, SEED, smaller=True)


@pytest.mark.soak
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("limit", "deny", "unlisted"), id="does_not_tell"),
        pytest.param(("in_vain", "refused"), id="can_not_tell"),
        pytest.param(("forget", "refused"), id="forgets"),
        pytest.param(("stale", "move", "lag"), id="leads_no_more"),
        pytest.param(("others_write", "refused", "move"), id="shared"),
        pytest.param(("lose_tail", "late", "silent"), id="loses_what_all_had"),
    ],
)
def test_where_a_leader_recognises_nothing_every_record_is_there_and_in_order(kinds: tuple[str, ...]) -> None:
    search(live_at_least, schedules("cut", "late_cut", *kinds, *kinds), SCHEDULES, SEED, smaller=True)


def test_more_are_in_flight_than_a_broker_remembers() -> None:
    assert live([]).largest_window > 2 * 5


def test_what_had_landed_is_not_sent_again() -> None:
    broker = live([Incident(0.06, "cut", 30)])
    assert broker.told > PARTITIONS


# Faults put back.


@contextmanager
def nobody_is_asked() -> Iterator[None]:
    """After a failure all are sent again, although the broker does not recognise the first ones."""
    with mock.patch.object(LeaderState, "asks", False):
        yield


@contextmanager
def what_the_leader_has_counts() -> Iterator[None]:
    """What the leader has is acknowledged, although no other replica may have it."""
    resume = TargetPartition.resume

    def resumed(self: TargetPartition, last_sequence: int | None) -> None:
        resume(self, last_sequence)
        for sent in self.unacked:
            sent.acked = sent.acked or sent.on_leader
        self._acknowledge()

    with mock.patch.object(TargetPartition, "resume", resumed):
        yield


@contextmanager
def who_is_not_recognised_begins_anew() -> Iterator[None]:
    """A new epoch as soon as the oldest batch is refused, although what landed after the question may be the reason."""
    with mock.patch.object(LeaderState, "doubt", return_value=False):
        yield


@contextmanager
def all_before_the_last_one_is_there() -> Iterator[None]:
    """What a leader has last counts for all before it, wherever it lies."""
    there = LeaderState._is_all_there

    def shown(self: LeaderState, resumed: InFlightBatch) -> bool:
        self._acked_end = resumed.base_offset - sum(sent.batch.count for sent in self.unacked if sent.on_leader)
        return there(self, resumed)

    with mock.patch.object(LeaderState, "_is_all_there", shown):
        yield


def test_a_leader_that_lost_its_state_is_not_believed_to_have_all_before() -> None:
    # It refuses a batch and accepts the next one, and its answers are lost.
    lost_state = [Incident(0.2, "refused", 1), Incident(0.0, "forget", 0), Incident(0.02, "cut", 30)]
    live_at_least(lost_state)
    with all_before_the_last_one_is_there(), pytest.raises(BrokenPromiseError):
        live_at_least(lost_state)


@pytest.mark.parametrize("fault", [nobody_is_asked, what_the_leader_has_counts], ids=lambda fault: fault.__name__)
def test_a_fault_that_is_put_back_is_found(fault: Callable[[], Any]) -> None:
    with fault(), pytest.raises(BrokenPromiseError):
        search(live, INCIDENTS, FAULT_SCHEDULES, FAULTS_SEED, smaller=False)


@contextmanager
def what_was_not_written_is_sent_again() -> Iterator[None]:
    """Also when the leader has refused all of it for its sequences."""
    doubted = mock.PropertyMock(return_value=False)
    with mock.patch.object(LeaderState, "doubted", doubted):
        yield


def test_what_a_leader_refuses_that_has_lost_the_last_batch_is_not_sent_for_ever() -> None:
    lost_one = [Incident(0.0, "lose_tail", 1)]
    live_at_least(lost_one, idle_s=0.5)
    with what_was_not_written_is_sent_again(), pytest.raises(BrokenPromiseError):
        live_at_least(lost_one, idle_s=0.5)


def test_what_lands_between_the_question_and_the_next_try_is_asked_for_again() -> None:
    landing = [Incident(0.05, "late_cut", 30)]
    live(landing)
    with who_is_not_recognised_begins_anew(), pytest.raises(BrokenPromiseError):
        live(landing)


@contextmanager
def getting_further_counts_for_nothing() -> Iterator[None]:
    """After three questions all are sent again, although the leader had more each time."""
    with mock.patch.object(LeaderState, "_furthest", mock.PropertyMock(return_value=BATCHES)):
        yield


def test_what_lands_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "EVERY_S", 0.001)
    landing = [Incident(0.06, "slow_cut", 30)]
    assert {each.epoch for each in live(landing).log("a.orders", 0).batches} == {0}
    with getting_further_counts_for_nothing(), pytest.raises(BrokenPromiseError):
        live(landing)


@contextmanager
def questions_in_vain_do_not_end() -> Iterator[None]:
    """A leader that answers Produce requests alone is asked for ever."""
    with mock.patch.object(LeaderState, "in_vain", return_value=False):
        yield


def test_a_leader_that_answers_no_question_any_more_gets_all_again_after_a_while() -> None:
    in_vain = [Incident(0.06, "in_vain", 1), Incident(0.0, "cut", 9)]
    live_at_least(in_vain)
    with questions_in_vain_do_not_end(), pytest.raises(BrokenPromiseError, match="does not go on"):
        live_at_least(in_vain)
