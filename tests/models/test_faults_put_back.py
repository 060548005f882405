"""Faults that this product once had, or that its rules keep it from, put back: schedules of a partition's life find each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from mirror_connect.connectors.records.source_offsets import NO_EPOCH, source_offset_headers
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.fetch_state import PartitionFetchState
from mirror_connect.kafka_io.consumer.fetch_upkeep import FetchUpkeep
from mirror_connect.kafka_io.consumer.leader_epochs import LeaderEpochs
from mirror_connect.kafka_io.producer.in_flight import InFlight, NotInFlightError
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.target_connection import TargetConnection
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.spark_jobs.copy import source_offsets_writer
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.source_offsets_writer import SourceOffsetsWriter
from tests.fakes.simulated_time import run_simulated
from tests.models.life import Incident, Schedule, live
from tests.models.schedules import ALL_SIZES, LARGE, SINGLE, THIN, Sizes, lives
from tests.models.search import SEED
from tests.models.watch import BrokenPromiseError


@contextmanager
def counted_batches() -> Iterator[None]:
    """A position that follows from a number of batches, although a split one comes back in pieces."""
    taken: dict[PartitionFlow, int] = {}
    acked: dict[PartitionFlow, int] = {}
    take, ack, failed = PartitionFlow.take, PartitionFlow.acked, PartitionFlow.failed

    def counting_take(
        self: PartitionFlow, limit: int, *, latency_bound: bool, append_time: bool
    ) -> ProducerBatch | None:
        batch = take(self, limit, latency_bound=latency_bound, append_time=append_time)
        taken[self] = taken.get(self, 0) + (batch is not None)
        return batch

    def counting_ack(self: PartitionFlow, batch: ProducerBatch, base_offset: int) -> None:
        taken[self] -= 1
        acked[self] = batch.last_offset
        ack(self, batch, base_offset)

    def counting_failed(self: PartitionFlow, error: Any) -> None:
        failed(self, error)
        taken[self] = 0

    def position(self: PartitionFlow) -> int:
        if taken.get(self, 0) == 0 and not self._held and self.next_offset is not None:
            return self.next_offset - 1
        return acked.get(self, -1)

    with (
        mock.patch.object(PartitionFlow, "take", counting_take),
        mock.patch.object(PartitionFlow, "acked", counting_ack),
        mock.patch.object(PartitionFlow, "failed", counting_failed),
        mock.patch.object(PartitionFlow, "source_offset", property(position)),
    ):
        yield


@contextmanager
def a_piece_for_the_whole() -> Iterator[None]:
    """The first piece of a split batch is taken for all of it."""

    def acked(self: InFlight, batch: ProducerBatch) -> bool:
        if self._covered:
            self._covered.popleft()
        return True

    with mock.patch.object(InFlight, "acked", acked):
        yield


@contextmanager
def a_split_commit_never_ends() -> Iterator[None]:
    """A commit counts as there when its batch is acknowledged, and one that was split comes back in pieces only."""
    given = OwnRecords.take
    counts: dict[tuple[OwnRecords, int], int] = {}

    def take(self: OwnRecords, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        batch = given(self, limit, latency_bound=latency_bound, append_time=append_time)
        if batch is not None:
            counts[self, batch.last_offset] = batch.count
        return batch

    def acked(self: OwnRecords, batch: ProducerBatch, _: int) -> None:
        self._in_flight.acked(batch)
        if batch.count == counts.get((self, batch.last_offset)):
            ack = self._acks.popleft()
            if not ack.done():
                ack.set_result(None)

    with mock.patch.object(OwnRecords, "take", take), mock.patch.object(OwnRecords, "acked", acked):
        yield


@contextmanager
def acknowledged_before_the_new_epoch() -> Iterator[None]:
    """With a new epoch all goes again, but what had been acknowledged behind a missing head still counts as there."""
    restamp = TargetPartition.restamp

    def keeping(self: TargetPartition, producer: ProducerIdAndEpoch, *, fenced: bool) -> None:
        known = [sent.acked for sent in self.unacked]
        restamp(self, producer, fenced=fenced)
        for sent, acked in zip(self.unacked, known, strict=True):
            sent.acked = acked

    with mock.patch.object(TargetPartition, "restamp", keeping):
        yield


@contextmanager
def remembered_for_ever() -> Iterator[None]:
    """Five batches in flight, although the broker forgets producers of old records."""
    with mock.patch.object(TargetPartition, "established", property(lambda self: self.remembered_until > 0)):
        yield


@contextmanager
def positions_not_withdrawn() -> Iterator[None]:
    """Positions that were not committed in time when a partition was given away stay on their way."""

    async def nothing(self: SourceOffsetsWriter) -> None:
        await asyncio.sleep(0)

    with mock.patch.object(SourceOffsetsWriter, "withdraw", nothing):
        yield


@contextmanager
def new_sequences_at_a_retry() -> Iterator[None]:
    """A batch that goes again gets another sequence, so that the broker can't tell a repetition."""
    send_again = TargetPartition._send_again

    def stamped_anew(self: TargetPartition, batches: Any) -> None:
        again = list(batches)
        for sent in again:
            restamped = self._stamped(sent.batch, ProducerIdAndEpoch())
            sent.sequence, sent.payload = restamped.sequence, restamped.payload
        send_again(self, again)

    with mock.patch.object(TargetPartition, "_send_again", stamped_anew):
        yield


@contextmanager
def commits_what_was_fetched() -> Iterator[None]:
    """The position of what was read, not of what is there."""
    with mock.patch.object(PartitionFlow, "source_offset", property(lambda self: (self.next_offset or 0) - 1)):
        yield


@contextmanager
def two_topics_at_once() -> Iterator[None]:
    """What is read behind a topic made again, or behind a truncation, goes while what was read before is still out."""

    def at_once(self: PartitionFlow, following: CompletedFetch) -> bool:
        if following.topic_id not in (None, self.topic_id):
            self._epochs.clear()
            self.topic_id = following.topic_id
        return True

    with mock.patch.object(PartitionFlow, "_may_begin", at_once):
        yield


@contextmanager
def held_batches_passed() -> Iterator[None]:
    """Batches of one record each are merged past one that was looked at before them and didn't fit."""
    merged_plain = PartitionFlow._merged_plain

    def passing(self: PartitionFlow, limit: int) -> ProducerBatch | None:
        held, self._held = self._held, deque()
        try:
            return merged_plain(self, limit)
        finally:
            self._held.extendleft(reversed(held))

    with mock.patch.object(PartitionFlow, "_merged_plain", passing):
        yield


@contextmanager
def position_passes_what_is_held() -> Iterator[None]:
    """What was looked at, didn't fit and was not sent counts as there."""

    def position(self: PartitionFlow) -> int:
        oldest = self._in_flight.oldest
        return (self.next_offset or 0) - 1 if oldest is None else oldest - 1

    with mock.patch.object(PartitionFlow, "source_offset", property(position)):
        yield


@contextmanager
def epochs_ignored() -> Iterator[None]:
    """A position is one of any log: reading goes on at the old offset."""
    with mock.patch.object(PartitionFetchState, "last_epoch", NO_EPOCH):
        yield


@contextmanager
def epochs_not_committed() -> Iterator[None]:
    """Positions without their epochs: what is truncated while no task runs is passed over."""
    with mock.patch.object(
        source_offsets_writer, "source_offset_headers", lambda topic_id, _: source_offset_headers(topic_id)
    ):
        yield


@contextmanager
def epoch_unknown_where_a_position_goes_back() -> Iterator[None]:
    """The first position behind a truncation that was found at the start has none."""
    go_on = LeaderEpochs.go_on

    def without_epoch(self: LeaderEpochs, offset: int, expected: int | None, _: int = NO_EPOCH) -> None:
        go_on(self, offset, expected)

    with mock.patch.object(LeaderEpochs, "go_on", without_epoch):
        yield


@contextmanager
def metadata_older_than_the_position() -> Iterator[None]:
    """A task that still knows the former topic takes it for a newer one than that of its position."""

    def begin(self: FetchUpkeep, work: PartitionFetchState) -> None:
        if self._cluster.leader(*work.key) is None:
            self.want_metadata()
        self._check_incarnation(work)
        self._queues.place(work)
        self.doubt(work)

    with mock.patch.object(FetchUpkeep, "begin", begin):
        yield


@contextmanager
def never_halved() -> Iterator[None]:
    """A request that got no answer in time goes again as large as it was."""
    with mock.patch.object(TargetConnection, "timed_out"):
        yield


@contextmanager
def given_back_and_passed() -> Iterator[None]:
    """What was looked at, not sent and given back isn't fetched again."""
    clear = PartitionFlow.clear

    def passing(self: PartitionFlow) -> None:
        self._held.clear()
        clear(self)

    with mock.patch.object(PartitionFlow, "clear", passing):
        yield


@dataclass(frozen=True)
class Fault:
    """`kinds`, `sizes`, `links`: of schedules in which it matters.

    `known`: one that has found it, and is gone through first. Of the others one in some hundreds does, or in a thousand.
    """

    put_back: Callable[[], AbstractContextManager[None]]
    kinds: tuple[str, ...]
    sizes: Sizes = ALL_SIZES
    links: tuple[int | None, ...] = (None,)
    known: Schedule | None = None


TOPICS_MADE_AGAIN = Schedule(
    shapes=(("plain", 30, 400),) * 7,
    incidents=(
        *(Incident(0.0, "make_again", 0), Incident(0.013, "make_again", 0), Incident(0.136, "slow", 11)),
        *(Incident(0.459, "slow", 0), Incident(0.59, "make_again", 0), Incident(0.928, "make_again", 0)),
        *(Incident(2.392, "make_again", 0), Incident(0.433, "make_again", 0), Incident(3.474, "make_again", 0)),
    ),
    old=False,
    seed=0,
)
HISTORIES = Schedule(
    shapes=(("plain", 30, 400),) * 4,
    incidents=(Incident(0.003, "slow", 1), Incident(0.804, "truncate", 2)),
    old=False,
    seed=0,
)

SPLIT_COMMIT = Schedule(
    shapes=(("plain", 2, 10), ("append_time", 1, 400), ("append_time", 1, 10), ("plain", 2, 100), ("lz4", 1, 100)),
    incidents=(
        *(
            Incident(2.519, "slow", 7),
            Incident(4.893, "slow", 8),
            Incident(0.452, "slow", 8),
            Incident(0.183, "limit", 2),
        ),
        *(Incident(0.009, "slow", 8), Incident(0.233, "limit", 2), Incident(0.296, "hand_over", 11)),
    ),
    old=False,
    seed=983124,
)
BEHIND_A_MISSING_HEAD = Schedule(
    shapes=(
        *(("lz4", 30, 600), ("gaps", 30, 600), ("plain", 30, 600), ("plain", 31, 600), ("plain", 31, 600)),
        *(("lz4", 30, 600), ("plain", 30, 600), ("gaps", 31, 600), ("gaps", 31, 600), ("gaps", 30, 600)),
        ("plain", 31, 600),
    ),
    incidents=(Incident(0.228, "late_and_lost", 0), Incident(1.573, "slow", 6), Incident(0.444, "late_and_lost", 8)),
    old=False,
    seed=408089,
)

FAULTS = {
    "counted_batches": Fault(counted_batches, ("limit", "kill", "slow", "lose", "refuse")),
    "a_piece_for_the_whole": Fault(a_piece_for_the_whole, ("limit", "kill", "slow", "lose", "refuse")),
    "a_split_commit_never_ends": Fault(a_split_commit_never_ends, ("limit", "hand_over", "slow"), known=SPLIT_COMMIT),
    "acknowledged_before_the_new_epoch": Fault(
        acknowledged_before_the_new_epoch, ("late_and_lost", "slow"), LARGE, known=BEHIND_A_MISSING_HEAD
    ),
    "remembered_for_ever": Fault(remembered_for_ever, ("forget", "one_passes", "lose")),
    "positions_not_withdrawn": Fault(positions_not_withdrawn, ("hand_over", "slow")),
    "new_sequences_at_a_retry": Fault(new_sequences_at_a_retry, ("lose", "written_and_refused")),
    "commits_what_was_fetched": Fault(commits_what_was_fetched, ("slow", "kill")),
    "two_topics_at_once": Fault(two_topics_at_once, ("make_again", "slow"), LARGE, known=TOPICS_MADE_AGAIN),
    "two_histories_at_once": Fault(two_topics_at_once, ("truncate", "slow", "kill"), known=HISTORIES),
    "held_batches_passed": Fault(held_batches_passed, ("slow",), SINGLE),
    "position_passes_what_is_held": Fault(position_passes_what_is_held, ("epoch", "finish", "slow")),
    "given_back_and_passed": Fault(given_back_and_passed, ("deny", "slow")),
    "epochs_ignored": Fault(epochs_ignored, ("truncate", "kill")),
    "epochs_not_committed": Fault(epochs_not_committed, ("truncate", "kill")),
    "epoch_unknown_where_a_position_goes_back": Fault(
        epoch_unknown_where_a_position_goes_back, ("truncate", "kill", "slow")
    ),
    "metadata_older_than_the_position": Fault(metadata_older_than_the_position, ("make_again", "hand_over")),
    "never_halved": Fault(never_halved, ("hand_over",), LARGE, (THIN,)),
}


# Of three faults that a split batch shows one is found in seconds, and these two only in many.
SLOW = ("counted_batches", "a_piece_for_the_whole")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=name, marks=pytest.mark.long if name in SLOW else ()) for name, fault in FAULTS.items()],
)
def test_a_fault_that_is_put_back_is_found(fault: Fault) -> None:
    # What is found where the product has a group of tasks comes as a group of errors.
    kinds = pytest.RaisesExc((BrokenPromiseError, NotInFlightError))
    found = pytest.RaisesGroup(kinds, allow_unwrapped=True, flatten_subgroups=True)
    if fault.known is not None:
        run_simulated(live(fault.known))
    with fault.put_back(), found:
        if fault.known is not None:
            run_simulated(live(fault.known))
        # It ends with the first schedule that finds it: some tens, as a rule.
        lives(fault.kinds, 6_000, fault.sizes, 30, fault.links, number=SEED, smaller=False)
