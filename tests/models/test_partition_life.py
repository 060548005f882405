"""Whatever happens to a partition, nothing is lost, skipped or out of order, and no position is ahead of its data.

Each example is a schedule: what the source holds, and which incidents come when. A failed one is printed by hypothesis,
smaller than it was found, with the line that runs it again. The last tests put faults back that this product once had, and
show that such schedules find them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mirror_connect.spark_jobs import mirror_source
from mirror_connect.spark_jobs.in_flight import InFlight, NotInFlightError
from mirror_connect.spark_jobs.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.positions_writer import PositionsWriter
from mirror_connect.spark_jobs.record_batch import Outgoing
from mirror_connect.spark_jobs.target_partition import ProducerId, TargetPartition
from tests.fakes.simulated_time import run_simulated
from tests.models.life import Incident, Schedule, live
from tests.models.watch import BrokenPromiseError

KINDS = (
    "lose",
    "refuse",
    "written_and_refused",
    "one_passes",
    "late_and_lost",
    "lost_sequence",
    "refused_for_good",
    "forget",
    "slow",
    "limit",
    "lease",
    "leader",
    "kill",
    "epoch",
    "finish",
    "hand_over",
    "make_again",
)
SHAPES = ("plain", "plain", "plain", "lz4", "gaps", "control", "append_time")
# `make soak` has more of them, and other ones each time.
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "700"))
SEED = int(os.environ.get("MODEL_SEED", "20261122"))


ALL_SIZES = ((1, 1, 1, 2, 5, 10, 30), (0, 10, 100, 400))
# None is merged with its neighbours: so several are in flight at a time.
LARGE = ((30, 31), (400,))


def schedules(
    kinds: tuple[str, ...] = KINDS, most: int = 10, sizes: tuple[tuple[int, ...], tuple[int, ...]] = ALL_SIZES
) -> st.SearchStrategy[Schedule]:
    counts, values = sizes
    shape = st.tuples(st.sampled_from(SHAPES), st.sampled_from(counts), st.sampled_from(values))
    moment = st.integers(0, 5_000).map(lambda ms: ms / 1000)
    incident = st.builds(Incident, moment, st.sampled_from(kinds), st.integers(0, 11))
    return st.builds(
        Schedule,
        st.lists(shape, min_size=4, max_size=40).map(tuple),
        st.lists(incident, max_size=most).map(tuple),
        st.booleans(),
        st.integers(0, 2**32),
    )


def lives(
    kinds: tuple[str, ...] = KINDS,
    examples: int = EXAMPLES,
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = ALL_SIZES,
    most: int = 10,
    **other: Any,
) -> Callable[[], None]:
    @seed(SEED)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        **other,
    )
    @given(schedules(kinds, most, sizes))
    def run(schedule: Schedule) -> None:
        run_simulated(live(schedule))

    return run


@pytest.mark.timeout(900)
def test_whatever_happens_no_record_is_lost_and_no_position_is_ahead() -> None:
    lives()()


@pytest.mark.timeout(900)
def test_batches_larger_than_the_target_takes_keep_their_order_through_kills() -> None:
    lives(("limit", "kill", "lose", "refuse", "slow", "epoch"))()


def repeats_at_the_end_of_an_epoch() -> int:
    shapes = (("plain", 10, 100), ("plain", 11, 100)) * 30
    incidents = (Incident(0.1, "slow", 3), Incident(1.0, "epoch", 0), Incident(1.0, "epoch", 1))
    life = run_simulated(live(Schedule(shapes, incidents, old=False, seed=1)))
    return sum(watch.repeats for watch in life.watches)


def test_the_end_of_an_epoch_repeats_nothing_of_what_a_thin_link_carries() -> None:
    assert repeats_at_the_end_of_an_epoch() == 0
    with mock.patch.object(mirror_source, "EPOCH_SETTLE_S", mirror_source.SETTLE_S):
        assert repeats_at_the_end_of_an_epoch() > 0


# --- faults put back --------------------------------------------------------------------------------------------------


@contextmanager
def counted_batches() -> Iterator[None]:
    """A position that follows from a number of batches, although a split one comes back in pieces."""
    taken: dict[PartitionFlow, int] = {}
    acked: dict[PartitionFlow, int] = {}
    take, ack, failed = PartitionFlow.take, PartitionFlow.acked, PartitionFlow.failed

    def counting_take(self: PartitionFlow, limit: int, *, slow_link: bool) -> Outgoing | None:
        outgoing = take(self, limit, slow_link=slow_link)
        taken[self] = taken.get(self, 0) + (outgoing is not None)
        return outgoing

    def counting_ack(self: PartitionFlow, outgoing: Outgoing, base_offset: int) -> None:
        taken[self] -= 1
        acked[self] = outgoing.last_offset
        ack(self, outgoing, base_offset)

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
        mock.patch.object(PartitionFlow, "position", property(position)),
    ):
        yield


@contextmanager
def a_piece_for_the_whole() -> Iterator[None]:
    """The first piece of a split batch is taken for all of it."""

    def acked(self: InFlight, outgoing: Outgoing) -> bool:
        if self._covered:
            self._covered.popleft()
        return True

    with mock.patch.object(InFlight, "acked", acked):
        yield


@contextmanager
def acknowledged_before_the_new_epoch() -> Iterator[None]:
    """With a new epoch all goes again, but what had been acknowledged behind a missing head still counts as there."""
    restamp = TargetPartition.restamp

    def keeping(self: TargetPartition, producer: ProducerId) -> None:
        known = [sent.acked for sent in self.unacked]
        restamp(self, producer)
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

    async def nothing(self: PositionsWriter) -> None:
        await asyncio.sleep(0)

    with mock.patch.object(PositionsWriter, "withdraw", nothing):
        yield


@contextmanager
def new_sequences_at_a_retry() -> Iterator[None]:
    """A batch that goes again gets another sequence, so that the broker can't tell a repetition."""
    send_again = TargetPartition._send_again

    def stamped_anew(self: TargetPartition, batches: Any) -> None:
        again = list(batches)
        for sent in again:
            restamped = self._stamped(sent.outgoing, ProducerId())
            sent.sequence, sent.payload = restamped.sequence, restamped.payload
        send_again(self, again)

    with mock.patch.object(TargetPartition, "_send_again", stamped_anew):
        yield


@contextmanager
def commits_what_was_fetched() -> Iterator[None]:
    """The position of what was read, not of what is there."""
    with mock.patch.object(PartitionFlow, "position", property(lambda self: (self.next_offset or 0) - 1)):
        yield


FAULTS = {
    "counted_batches": (counted_batches, ("limit", "kill", "slow", "lose", "refuse")),
    "a_piece_for_the_whole": (a_piece_for_the_whole, ("limit", "kill", "slow", "lose", "refuse")),
    "acknowledged_before_the_new_epoch": (acknowledged_before_the_new_epoch, ("late_and_lost", "slow")),
    "remembered_for_ever": (remembered_for_ever, ("forget", "one_passes", "lose")),
    "positions_not_withdrawn": (positions_not_withdrawn, ("hand_over", "slow")),
    "new_sequences_at_a_retry": (new_sequences_at_a_retry, ("lose", "written_and_refused")),
    "commits_what_was_fetched": (commits_what_was_fetched, ("slow", "kill")),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fault", "kinds"), FAULTS.values(), ids=FAULTS)
def test_a_fault_that_is_put_back_is_found(fault: Callable[[], Any], kinds: tuple[str, ...]) -> None:
    sizes = LARGE if fault is acknowledged_before_the_new_epoch else ALL_SIZES
    with fault(), pytest.raises((BrokenPromiseError, NotInFlightError)):
        # It ends with the first schedule that finds it: some tens, as a rule.
        lives(kinds, examples=6_000, sizes=sizes, most=30, phases=(Phase.generate,), report_multiple_bugs=False)()
