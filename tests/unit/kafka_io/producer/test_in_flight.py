"""What is in flight, by offsets; and how the positions of all feeds follow from it."""

from __future__ import annotations

import random
import struct
import time
from collections import deque
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.producer.in_flight import InFlight, NotInFlightError
from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.produce_outcome import Outcome
from mirror_connect.kafka_io.producer.target_partition import (
    REMEMBERED_MS,
    ProducerIdAndEpoch,
    TargetPartition,
)
from mirror_connect.kafka_io.records import batch_split
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.batch_split import split
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch, stamp
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow

RECORDS = 100
PRODUCER = ProducerIdAndEpoch(1, 0)


def now_ms() -> int:
    return int(time.time() * 1000)


def batch(first: int, count: int = RECORDS, size: int = 1_000, at: int | None = None) -> ProducerBatch:
    noise = random.Random(first)
    records = [NewRecord(b"k", noise.randbytes(size), now_ms() if at is None else at) for _ in range(count)]
    return build(records, first)


def test_a_batch_is_acknowledged_when_its_last_piece_is() -> None:
    whole = batch(100)
    flying = InFlight()
    flying.given(whole)
    pieces = split(whole, whole.size // 3)
    assert len(pieces) > 2
    assert [flying.acked(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert flying.oldest is None


def test_the_oldest_offset_follows_the_pieces() -> None:
    whole, behind = batch(100), batch(200)
    flying = InFlight()
    flying.given(whole)
    flying.given(behind)
    for piece in split(whole, whole.size // 3):
        flying.acked(piece)
        assert flying.oldest == piece.last_offset + 1


@pytest.mark.parametrize("wrong", [batch(0), batch(200), batch(50)], ids=["older", "newer", "overlapping"])
def test_what_was_not_given_out_is_no_acknowledgement(wrong: ProducerBatch) -> None:
    flying = InFlight()
    with pytest.raises(NotInFlightError):
        flying.acked(wrong)
    flying.given(batch(100))
    with pytest.raises(NotInFlightError):
        flying.acked(wrong)


# A partition of the source.


def flow_of(*batches: ProducerBatch, topic_id: bytes | None = None) -> PartitionFlow:
    flow = PartitionFlow(
        TaskPartition("t", 0, "A.t"),
        0,
        {},
        check_crcs=True,
        read_committed=False,
        on_corrupt=lambda _flow, error: pytest.fail(str(error)),
        on_refused=lambda _flow, error: pytest.fail(str(error)),
        on_written=lambda _flow: None,
    )
    flow.put(fetched(0, *batches, topic_id=topic_id))
    return flow


def fetched(offset: int, *batches: ProducerBatch, topic_id: bytes | None = None) -> CompletedFetch:
    data = b"".join(struct.pack(">q", each.first_offset) + stamp(each, -1, -1, -1)[8:] for each in batches)
    end = batches[-1].last_offset + 1
    return CompletedFetch(TopicPartition("t", 0), memoryview(data), offset, end, end, end, 0, (), topic_id)


def target_of(flow: Any) -> TargetPartition:
    return TargetPartition("A.t", 0, flow, 5, 1_000_000)


def sent_by(target: TargetPartition) -> InFlightBatch:
    sent = target.next_batch(PRODUCER, latency_bound=False)
    assert sent is not None
    return sent


def refuse_as_too_large(target: TargetPartition, sent: InFlightBatch) -> None:
    target.split(sent, PRODUCER)
    target.answered(sent, Outcome.RETRY, absent=True)


def acknowledge_pieces(target: TargetPartition) -> int:
    base = 0
    while target.again:
        piece = sent_by(target)
        target.answered(piece, Outcome.WRITTEN, base)
        base += piece.batch.count
    return base


def test_what_is_behind_a_batch_that_was_split_by_records_keeps_its_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_split, "REWRITTEN_RECORDS", 7)
    target = target_of(flow_of(batch(0), batch(100)))
    target.remembered_until = now_ms() + 60_000
    whole, behind = sent_by(target), sent_by(target)
    refuse_as_too_large(target, whole)
    counts = [sent.batch.count for sent in target.unacked]
    assert counts == [7] * 14 + [2, 100]
    assert [sent.sequence for sent in target.unacked] == [sum(counts[:n]) for n in range(len(counts))]
    assert (target.unacked[-1], behind.sequence, target.next_sequence) == (behind, 100, 200)


def test_the_position_passes_no_piece_that_is_not_acknowledged() -> None:
    flow = flow_of(batch(0), batch(100))
    target = target_of(flow)
    refuse_as_too_large(target, sent_by(target))
    while target.again:
        piece = sent_by(target)
        assert flow.source_offset == piece.batch.first_offset - 1
        target.answered(piece, Outcome.WRITTEN, piece.batch.first_offset)
    assert flow.source_offset == 99


def test_after_a_split_the_position_waits_for_each_batch_in_flight() -> None:
    flow = flow_of(batch(0), batch(100, size=200), batch(200, size=200))
    target = target_of(flow)
    refuse_as_too_large(target, sent_by(target))
    acknowledge_pieces(target)
    assert flow.source_offset == 99
    first, second = sent_by(target), sent_by(target)
    assert flow.source_offset == 99
    target.answered(second, Outcome.WRITTEN, 200)
    assert flow.source_offset == 99
    target.answered(first, Outcome.WRITTEN, 100)
    assert flow.source_offset == 299


def test_a_topic_made_again_begins_after_a_split() -> None:
    flow = flow_of(batch(0), topic_id=b"old")
    target = target_of(flow)
    refuse_as_too_large(target, sent_by(target))
    flow.put(fetched(0, batch(0), topic_id=b"new"))
    assert flow.take(1_000_000, latency_bound=False, append_time=False) is None
    acknowledge_pieces(target)
    assert flow.take(1_000_000, latency_bound=False, append_time=False) is not None
    assert flow.topic_id == b"new"


# The sending side.


class Row:
    """A feed of these batches; what was acknowledged, by source offsets."""

    def __init__(self, *batches: ProducerBatch) -> None:
        self.batches = deque(batches)
        self.acknowledged: list[tuple[int, int]] = []

    def waiting(self) -> bool:
        return bool(self.batches)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        return self.batches.popleft() if self.batches else None

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        self.acknowledged.append((batch.first_offset, base_offset))

    def failed(self, error: Exception) -> None:
        pytest.fail(str(error))


def established(target: TargetPartition) -> None:
    target.answered(sent_by(target), Outcome.WRITTEN, 0)


def test_a_batch_acknowledged_behind_a_missing_one_counts_again_when_it_goes_again() -> None:
    feed = Row(*(batch(number, 1) for number in range(3)))
    target = target_of(feed)
    established(target)
    head, behind = sent_by(target), sent_by(target)
    target.answered(behind, Outcome.WRITTEN, 2)
    target.answered(head, Outcome.RETRY)
    target.restamp(ProducerIdAndEpoch(1, 1), fenced=True)
    again = sent_by(target)
    assert again is head
    target.answered(again, Outcome.WRITTEN, 1)
    assert [first for first, _ in feed.acknowledged] == [0, 1]
    assert sent_by(target) is behind


@pytest.mark.parametrize(
    ("fenced", "until"),
    [
        pytest.param(True, 0.0, id="with_another_epoch"),
        pytest.param(False, 30.0, id="with_another_producer_id_which_nothing_fences"),
    ],
)
def test_a_lost_request_of_a_former_producer_lands_no_more_only_if_it_is_fenced(fenced: bool, until: float) -> None:
    target = target_of(Row(*(batch(number, 1) for number in range(2))))
    established(target)
    lost = sent_by(target)
    target.may_land_until = 30.0
    target.answered(lost, Outcome.RETRY)
    target.restamp(ProducerIdAndEpoch(1, 1) if fenced else ProducerIdAndEpoch(2, 0), fenced=fenced)
    target.answered(sent_by(target), Outcome.WRITTEN, 0)
    assert not target.unacked
    assert target.may_land_until == until


@pytest.mark.parametrize(
    ("age_ms", "in_flight"),
    [
        pytest.param(0, 5, id="of_today"),
        pytest.param(REMEMBERED_MS - 60_000, 5, id="of_this_morning"),
        pytest.param(REMEMBERED_MS + 60_000, 1, id="of_yesterday"),
    ],
)
def test_records_whose_producer_the_broker_may_forget_go_one_batch_at_a_time(age_ms: int, in_flight: int) -> None:
    target = target_of(Row(*(batch(number, 1, at=now_ms() - age_ms) for number in range(10))))
    established(target)
    count = 0
    while target.sendable():
        sent_by(target)
        count += 1
    assert count == in_flight


def test_after_a_refusal_batches_are_split_before_they_are_sent() -> None:
    feed = Row(*(batch(number * RECORDS) for number in range(3)))
    target = target_of(feed)
    refuse_as_too_large(target, sent_by(target))
    acknowledge_pieces(target)
    limit = target.largest
    assert limit is not None
    sizes = []
    while target.sendable():
        sent = sent_by(target)
        sizes.append(sent.size)
        target.answered(sent, Outcome.WRITTEN, -1)
    assert len(sizes) >= 4
    assert max(sizes) <= limit
    assert [first for first, _ in feed.acknowledged] == sorted(first for first, _ in feed.acknowledged)


def test_the_limit_that_the_topic_tells_replaces_the_one_that_was_tried() -> None:
    feed = Row(batch(0), batch(RECORDS))
    target = target_of(feed)
    refuse_as_too_large(target, sent_by(target))
    acknowledge_pieces(target)
    target.set_largest(90_000)
    sizes = []
    while target.sendable():
        sent = sent_by(target)
        sizes.append(sent.size)
        target.answered(sent, Outcome.WRITTEN, -1)
    assert len(sizes) == 2
    assert max(sizes) <= 90_000
