"""What follows from the last sequence that a leader tells: which batches are sent again, and when it is asked."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.client.copier_settings import WINDOW
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.leader_state import PATIENCE_S, RESUMES
from mirror_connect.kafka_io.producer.produce_outcome import Outcome
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from tests.fakes.producer_rig import Feed, batches

PRODUCER = ProducerIdAndEpoch(7, 0)
COUNT = 20


def far_partition(feed: Feed) -> TargetPartition:
    target = TargetPartition("a.orders", 0, feed, WINDOW, 1_000_000)
    target.leader.wide = True
    return target


def lost_in_flight(*, acknowledged: bool = True) -> tuple[TargetPartition, Feed, list[InFlightBatch]]:
    """Batches of three records, all of them sent but none answered but the first; then their connection broke."""
    feed = Feed(batches(1 + COUNT))
    target = far_partition(feed)
    first = target.next_batch(PRODUCER, latency_bound=False)
    assert first is not None
    target.answered(first, Outcome.WRITTEN, base_offset=0 if acknowledged else -1)
    sent = [target.next_batch(PRODUCER, latency_bound=False) for _ in range(COUNT)]
    found = [each for each in sent if each is not None]
    for each in found:
        target.answered(each, Outcome.RETRY)
    assert target.leader.unclear
    assert not target.sendable()
    return target, feed, found


def next_of(target: TargetPartition) -> InFlightBatch | None:
    return target.next_batch(PRODUCER, latency_bound=False) if target.sendable() else None


def test_it_goes_on_with_the_last_batch_that_the_leader_has() -> None:
    target, feed, sent = lost_in_flight()
    target.resume(sent[11].last_sequence)
    assert feed.acknowledged == [0, 1, 2]
    assert next_of(target) is sent[11]
    target.answered(sent[11], Outcome.WRITTEN, base_offset=sent[11].sequence)
    assert feed.acknowledged == list(range(3 + 12 * 3))
    assert next_of(target) is sent[12]


def test_also_when_the_leader_may_forget_the_producer_meanwhile() -> None:
    target, _, sent = lost_in_flight()
    target.remembered_until = 0.0
    target.resume(sent[11].last_sequence)
    assert next_of(target) is sent[11]
    assert next_of(target) is None


def test_what_lies_elsewhere_than_behind_the_former_batches_shows_that_some_are_missing() -> None:
    target, feed, sent = lost_in_flight()
    target.resume(sent[11].last_sequence)
    next_of(target)
    target.answered(sent[11], Outcome.WRITTEN, base_offset=sent[10].sequence)
    assert target.leader.lost
    assert not target.sendable()
    target.restamp(ProducerIdAndEpoch(7, 1), fenced=True)
    assert feed.acknowledged == [0, 1, 2]
    assert next_of(target) is sent[0]


@pytest.mark.parametrize("last", [None, 1, 2, 10_000], ids=["nothing", "less_than_it_had", "none_of_these", "no_such"])
def test_with_anything_else_all_are_sent_again(last: int | None) -> None:
    target, _, sent = lost_in_flight()
    target.resume(last)
    assert next_of(target) is sent[0]


def test_without_the_offset_of_the_former_batch_all_are_sent_again() -> None:
    target, _, sent = lost_in_flight(acknowledged=False)
    target.resume(sent[11].last_sequence)
    assert next_of(target) is sent[0]


def test_it_does_not_ask_for_ever_when_the_batch_is_refused() -> None:
    target, _, sent = lost_in_flight()
    for _ in range(RESUMES):
        assert target.leader.unclear
        target.resume(sent[11].last_sequence)
        assert next_of(target) is sent[11]
        target.leader.refuses(sent[11])
        target.answered(sent[11], Outcome.RETRY)
    assert not target.leader.unclear
    assert next_of(target) is sent[0]


def test_what_was_certainly_not_written_is_sent_again_without_a_question() -> None:
    target = far_partition(Feed(batches(1 + COUNT)))
    first = next_of(target)
    assert first is not None
    target.answered(first, Outcome.WRITTEN, base_offset=0)
    sent = [next_of(target) for _ in range(COUNT)]
    for each in sent:
        assert each is not None
        target.answered(each, Outcome.RETRY, absent=True)
    assert not target.leader.unclear
    assert next_of(target) is sent[0]


def test_a_partition_that_is_taken_away_asks_nothing() -> None:
    target, _, _ = lost_in_flight()
    target.abandon()
    assert not target.leader.unclear


def refused_again(target: TargetPartition, last: InFlightBatch) -> bool:
    """The leader tells this batch, and doesn't recognise it, as others have landed meanwhile; whether it is asked again."""
    target.resume(last.last_sequence)
    again = next_of(target)
    assert again is last
    target.leader.refuses(again)
    target.answered(again, Outcome.RETRY)
    return target.must_ask


def test_as_long_as_the_leader_has_more_each_time_it_is_asked_again() -> None:
    target, _, sent = lost_in_flight()
    assert all(refused_again(target, sent[at]) for at in range(5, 5 + 3 * RESUMES))
    assert target.leader.unclear


def test_a_leader_that_has_no_more_is_asked_no_more_after_some_refusals() -> None:
    target, _, sent = lost_in_flight()
    assert [refused_again(target, sent[5]) for _ in range(RESUMES)] == [True] * (RESUMES - 1) + [False]
    assert next_of(target) is sent[0]


def test_errors_instead_of_answers_are_in_vain_after_a_while() -> None:
    target, _, sent = lost_in_flight()
    leader = target.leader
    assert [leader.in_vain(100.0 + seconds) for seconds in (0.0, PATIENCE_S - 1, PATIENCE_S)] == [False, False, True]
    assert refused_again(target, sent[5])
    assert not leader.in_vain(200.0)
