"""A partition's feed in transactions: what is told when, and where it begins again after an abort."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.placed_records import Placed
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.spark_jobs.copy.acknowledged import Acknowledged
from mirror_connect.spark_jobs.copy.partition_flow import FlowPlace, PartitionFlow
from mirror_connect.spark_jobs.copy.transaction_watch import TransactionWatch
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from tests.fakes.partition_flows import LIMIT, Heard, batch, fetched, flow

ABORTED = RuntimeError("aborted")


class Fed:
    """A flow in transactions, and what it told."""

    def __init__(self, next_offset: int | None = 0, watch: TransactionWatch | None = None) -> None:
        self.heard = Heard()
        self.placed: list[tuple[int, int, int]] = []
        self.flow = flow(self.heard, next_offset, on_placed=self._place)
        self.watch = watch or TransactionWatch(None)
        self.committed: list[PartitionFlow] = []
        self.aborted: list[PartitionFlow] = []
        self.woken: list[PartitionFlow] = []
        self.feed = TransactionalFlow(
            self.flow, self.watch, self.committed.append, self.aborted.append, self.woken.append
        )

    def _place(self, each: Placed, base: int) -> None:
        self.placed.append((each.first_offset, each.count, base))

    def take(self) -> ProducerBatch:
        taken = self.feed.take(LIMIT, latency_bound=False, append_time=False)
        assert taken is not None
        return taken


def test_what_is_acknowledged_is_told_when_it_is_committed() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    for base in (10, 110):
        fed.feed.acked(fed.take(), base)
    assert (fed.heard.counters, fed.placed, fed.committed, fed.flow.measures.records) == ({}, [], [], 0)
    assert fed.feed.committed_offset == -1
    fed.feed.committed()
    assert (fed.heard.counters["records"], fed.heard.counters["batches"], fed.flow.measures.records) == (200, 2, 200)
    assert (fed.placed, fed.committed, fed.feed.committed_offset) == ([(0, 200, 10)], [fed.flow], 199)


def test_after_an_abort_all_is_taken_again_and_nothing_was_told() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 100, batch(0, 100)))
    fed.feed.acked(fed.take(), 0)
    fed.feed.committed()
    fed.flow.put(fetched(100, 300, batch(100, 100), batch(200, 100)))
    fed.feed.acked(fed.take(), 101)
    fed.take()
    fed.feed.aborted(ABORTED)
    assert (fed.aborted, fed.flow.restart(), fed.flow.source_offset) == ([fed.flow], 100, 99)
    assert fed.heard.counters["records"] == 100
    fed.flow.put(fetched(100, 300, batch(100, 100), batch(200, 100)))
    for base in (303, 403):
        fed.feed.acked(fed.take(), base)
    fed.feed.committed()
    assert fed.placed == [(0, 100, 0), (100, 200, 303)]
    assert fed.heard.others == []


def test_a_partition_without_a_position_begins_again_at_its_first_fetch() -> None:
    fed = Fed(None)
    fed.flow.put(fetched(40, 140, batch(40, 100), topic_id=b"i" * 16, epoch=3))
    fed.feed.acked(fed.take(), 0)
    fed.feed.aborted(ABORTED)
    assert (fed.flow.restart(), fed.flow.topic_id) == (40, b"i" * 16)


def test_the_epoch_before_the_transaction_is_known_after_an_abort() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 100, batch(0, 100), epoch=3))
    fed.feed.acked(fed.take(), 0)
    fed.feed.committed()
    fed.flow.put(fetched(100, 200, batch(100, 100), epoch=5))
    fed.take()
    fed.feed.aborted(ABORTED)
    assert fed.flow.restart() == 100
    assert fed.flow.leader_epoch == 3


def test_an_abort_does_not_touch_a_partition_that_gave_nothing() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 100, batch(0, 100)))
    fed.feed.acked(fed.take(), 0)
    fed.feed.committed()
    fed.flow.put(fetched(100, 200, batch(100, 100)))
    fed.feed.aborted(ABORTED)
    assert not fed.aborted
    assert fed.woken[1:] == [fed.flow]
    assert fed.take().first_offset == 100


def test_a_batch_that_was_carried_over_is_taken_again_after_an_abort() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    fed.feed.acked(fed.take(), 0)
    fed.take()
    fed.feed.committed()
    assert (fed.feed.committed_offset, fed.placed) == (99, [(0, 100, 0)])
    fed.feed.aborted(ABORTED)
    assert fed.flow.restart() == 100


def test_the_commits_marker_is_nobodys_record() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    fed.feed.acked(fed.take(), 0)
    fed.feed.committed()
    fed.feed.acked(fed.take(), 101)
    assert fed.heard.others == []
    fed.flow.put(fetched(200, 300, batch(200, 100)))
    fed.feed.acked(fed.take(), 211)
    assert fed.heard.others == [(201, 10)]


def test_another_topic_of_the_same_name_begins_after_the_commit() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 100, batch(0, 100), topic_id=b"1" * 16))
    fed.feed.acked(fed.take(), 0)
    fed.flow.put(fetched(0, 100, batch(0, 100), topic_id=b"2" * 16))
    assert fed.feed.take(LIMIT, latency_bound=False, append_time=False) is None
    assert fed.watch.due.is_set()
    assert (fed.flow.source_offset, fed.flow.topic_id) == (99, b"1" * 16)
    fed.feed.committed()
    assert fed.take().first_offset == 0
    assert fed.flow.topic_id == b"2" * 16


def test_a_partition_that_is_refused_waits_for_nothing() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    fed.feed.acked(fed.take(), 0)
    fed.take()
    assert fed.watch.in_flight == {fed.feed}
    fed.feed.failed(PartitionRefusedError("no", 100))
    assert not fed.watch.in_flight
    fed.feed.committed()
    assert (fed.feed.committed_offset, fed.flow.restart()) == (99, 100)


def test_a_poll_ends_when_all_that_was_fetched_is_sent() -> None:
    size = len(batch(0, 100))
    fed = Fed(watch=TransactionWatch(lambda: 2 * size))
    fed.watch.began()
    fed.flow.put(fetched(0, 300, batch(0, 100), batch(100, 100), batch(200, 100)))
    first = fed.take()
    assert not fed.watch.due.is_set()
    fed.take()
    assert fed.watch.due.is_set()
    fed.watch.began()
    fed.feed.acked(first, 0)
    assert not fed.watch.due.is_set()


def test_a_poll_ends_when_nothing_is_in_flight() -> None:
    fed = Fed(watch=TransactionWatch(lambda: 1 << 20))
    fed.watch.began()
    fed.flow.put(fetched(0, 100, batch(0, 100)))
    fed.feed.acked(fed.take(), 0)
    assert fed.watch.due.is_set()


def test_a_poll_goes_on_while_the_producer_takes_more_at_its_next_turn() -> None:
    turns: list[Callable[[], None]] = []
    fed = Fed(watch=TransactionWatch(lambda: 1 << 20, after_turn=turns.append))
    fed.watch.began()
    fed.flow.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    fed.feed.acked(fed.take(), 0)
    second = fed.take()
    turns.pop()()
    assert not fed.watch.due.is_set()
    fed.feed.acked(second, 100)
    turns.pop()()
    assert fed.watch.due.is_set()


def test_an_interval_ends_only_by_its_time_and_its_limit_of_bytes() -> None:
    fed = Fed()
    fed.watch.began()
    fed.flow.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    fed.feed.acked(fed.take(), 0)
    assert not fed.watch.due.is_set()
    fed.watch.most = 1
    fed.watch.began()
    fed.take()
    assert fed.watch.due.is_set()


def made(first: int, count: int, gaps: tuple[tuple[int, int], ...] | None = None) -> ProducerBatch:
    return ProducerBatch(b"records", count, first, first + count - 1, 0, 1_000, 2_000, upstream_offsets=gaps)


@pytest.mark.parametrize(
    ("batches", "placed"),
    [
        pytest.param([(made(0, 5), 7), (made(5, 5), 12)], [(0, 10, 7)], id="following_each_other"),
        pytest.param([(made(0, 5), 7), (made(6, 5), 12)], [(0, 5, 7), (6, 5, 12)], id="a_gap_at_the_source"),
        pytest.param([(made(0, 5), 7), (made(5, 5), 13)], [(0, 5, 7), (5, 5, 13)], id="a_gap_on_the_target"),
        pytest.param([(made(0, 5), -1), (made(5, 5), -1)], [(0, 5, -1), (5, 5, -1)], id="unknown_offsets"),
        pytest.param(
            [(made(0, 5, ((0, 4), (8, 1))), 7), (made(5, 5), 12)], [(0, 5, 7), (5, 5, 12)], id="gaps_in_a_batch"
        ),
    ],
)
def test_batches_that_follow_each_other_are_kept_as_one(
    batches: list[tuple[ProducerBatch, int]], placed: list[tuple[int, int, int]]
) -> None:
    kept = Acknowledged()
    for each, base in batches:
        kept.add(each, base)
    assert [(each.first_offset, each.count, each.base_offset) for each in kept.placed] == placed


def test_what_is_not_committed_is_missing_on_the_target() -> None:
    fed = Fed()
    fed.flow.put(fetched(0, 300, batch(0, 100), batch(100, 100), batch(200, 100)))
    first = fed.take()
    assert (fed.flow.begins_at, fed.flow.oldest_ms()) == (0, first.first_ms)
    fed.feed.acked(first, 0)
    assert (fed.flow.begins_at, fed.flow.source_offset) == (0, 99)
    second = fed.take()
    fed.feed.committed()
    assert (fed.flow.begins_at, fed.flow.oldest_ms()) == (100, second.first_ms)
    fed.feed.acked(second, 101)
    fed.feed.aborted(ABORTED)
    fed.flow.restart()
    assert (fed.flow.begins_at, fed.flow.oldest_ms()) == (100, second.first_ms)


def test_a_place_is_the_one_of_what_was_fetched_first() -> None:
    waiting = Fed(None).flow
    assert waiting.place == FlowPlace(None, None, -1)
    waiting.put(fetched(7, 107, batch(7, 100), topic_id=b"i" * 16))
    assert waiting.place == FlowPlace(7, b"i" * 16, -1)
