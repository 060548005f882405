"""The lag that a source task tells, with clusters in memory, and how much it tells at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import MOST_ROWS, PartitionMeasures, TaskMeasures
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.consumer.log_ends import LogEnds
from mirror_connect.kafka_io.producer.batch_counts import BatchCounts
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures
from mirror_connect.spark_jobs.copy.copy_measures import AT_ONCE, CopyMeasures
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.request_rows import RequestRows
from mirror_connect.spark_jobs.copy.transaction_watch import TransactionWatch
from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow
from tests.fakes.partition_flows import LIMIT, batch, corrupt, take

NOW_MS = 1_700_000_000_000
P = TopicPartition("orders", 0)


class NoCluster:
    totals = RequestTotals()
    connections = 0

    def leader(self, _topic: str, _partition: int) -> None:
        return None


class World:
    """Flows without a task. A test tells what fetches and brokers would."""

    def __init__(self, partitions: int = 1) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.mono = 1_000.0
        self.ends = LogEnds(NoCluster(), self.positions.get, read_committed=False, wait_s=0.5)  # type: ignore[arg-type]
        self.flows: dict[TopicPartition, PartitionFlow] = {}
        self.counters: dict[str, int] = {}
        self.measures = CopyMeasures(
            self.flows,
            self.ends,
            self.positions.get,
            RequestRows([]),
            counters=self.counters,
            counts=BatchCounts(),
            commits=CommitMeasures(),
            buffered=lambda: (0, 1),
            clocks=(lambda: NOW_MS / 1000, lambda: self.mono),
        )
        for number in range(partitions):
            self.add(TopicPartition("orders", number))

    def add(self, key: TopicPartition, next_offset: int | None = 0) -> None:
        self.positions[key] = next_offset or 0
        self.flows[key] = PartitionFlow(
            TaskPartition(*key, f"A.{key.topic}"),
            next_offset,
            self.counters,
            check_crcs=True,
            read_committed=False,
            on_corrupt=lambda _flow, _error: None,
            on_refused=lambda _flow, _error: None,
            on_written=lambda _flow: None,
            measures=self.measures.add(key),
        )

    def told(self, end: int, key: TopicPartition = P) -> None:
        self.ends.of(key).told(end, self.positions[key], self.mono)

    def put(self, *parts: bytes, following_ms: int = -1, newest_ms: int = 2_000, key: TopicPartition = P) -> None:
        at = self.positions[key]
        after = at + sum(int.from_bytes(part[57:61], "big") for part in parts)
        self.positions[key] = after
        self.flows[key].put(
            CompletedFetch(
                key,
                memoryview(b"".join(parts)),
                at,
                after,
                after,
                after,
                0,
                (),
                newest_ms=newest_ms,
                following_ms=following_ms,
            )
        )

    def row(self, key: TopicPartition = P) -> PartitionMeasures | None:
        """What is told of this partition now; None if nothing is."""
        return next((row for row in self.measures.take().partitions if row[:2] == key), None)

    def lag(self) -> tuple[int | None, int | None]:
        found = self.row()
        assert found is not None
        return found.lag, found.oldest_ms


@pytest.fixture
def world() -> World:
    return World()


def test_lag_is_unknown_before_the_source_has_told_the_end(world: World) -> None:
    assert world.lag() == (None, None)
    assert world.row() is None


def test_a_link_at_rest_has_lag_0(world: World) -> None:
    world.told(0)
    assert world.lag() == (0, None)


def test_the_oldest_record_is_followed_from_fetch_to_acknowledgement(world: World) -> None:
    flow = world.flows[P]
    world.told(20)
    assert world.lag() == (20, None)
    world.put(batch(0, 10, 50_000), batch(10, 10, 50_000))
    assert world.lag() == (20, 1_000)
    first, second = take(flow), take(flow)
    assert first is not None
    assert second is not None
    assert world.row() is None
    flow.acked(first, 0)
    found = world.row()
    assert found is not None
    assert (found.lag, found.oldest_ms, found.records, found.waiting, found.source_offset) == (10, 1_000, 10, 10, 9)
    flow.acked(second, 10)
    assert world.lag() == (0, None)


def test_with_transactions_lag_lasts_until_the_commit(world: World) -> None:
    flow = world.flows[P]
    feed = TransactionalFlow(flow, TransactionWatch(None), lambda _: None, lambda _: None, lambda _: None)
    world.told(20)
    world.put(batch(0, 10, 50_000), batch(10, 10, 50_000))
    assert world.lag() == (20, 1_000)
    for base in (0, 10):
        taken = feed.take(LIMIT, latency_bound=False, append_time=False)
        assert taken is not None
        feed.acked(taken, base)
    # Nothing new is told: nobody sees these records yet.
    assert world.row() is None
    feed.committed()
    found = world.row()
    assert found is not None
    assert (found.lag, found.oldest_ms, found.records, found.waiting, found.source_offset) == (0, None, 20, 0, 19)


def test_an_aborted_transaction_leaves_all_of_its_records_missing(world: World) -> None:
    flow = world.flows[P]
    feed = TransactionalFlow(flow, TransactionWatch(None), lambda _: None, lambda _: None, lambda _: None)
    world.told(10)
    world.put(batch(0, 10, 50_000))
    taken = feed.take(LIMIT, latency_bound=False, append_time=False)
    assert taken is not None
    feed.acked(taken, 0)
    assert world.lag() == (10, 1_000)
    feed.aborted(RuntimeError("aborted"))
    world.positions[P] = flow.restart() or 0
    assert world.lag() == (10, 1_000)


def test_what_is_cut_off_behind_a_fetch_shows_the_age_of_the_next_record(world: World) -> None:
    world.told(30)
    world.put(batch(0, 20, 50_000), following_ms=7_777)
    taken = take(world.flows[P])
    assert taken is not None
    take(world.flows[P])
    world.flows[P].acked(taken, 0)
    assert world.lag() == (10, 7_777)


def test_where_nothing_is_fetched_the_next_record_is_not_older_than_the_last(world: World) -> None:
    world.told(30)
    world.put(batch(0, 20, 50_000), newest_ms=5_555)
    taken = take(world.flows[P])
    assert taken is not None
    world.flows[P].acked(taken, 0)
    assert world.lag() == (10, 5_555)


def test_a_record_after_a_long_rest_is_not_as_old_as_the_rest(world: World) -> None:
    world.put(batch(0, 20, 50_000), newest_ms=5_555)
    world.told(20)
    taken = take(world.flows[P])
    assert taken is not None
    world.flows[P].acked(taken, 0)
    assert world.lag() == (0, None)
    world.mono += 3_600
    world.told(20)
    world.mono += 0.3
    world.told(21)
    assert world.lag() == (1, NOW_MS - 300)


def test_a_control_batch_at_the_end_leaves_no_lag(world: World) -> None:
    marker = bytearray(batch(0, 1))
    marker[22] |= 0x20
    from google_crc32c import value  # noqa: PLC0415

    marker[17:21] = value(bytes(marker[21:])).to_bytes(4, "big")
    world.put(bytes(marker))
    world.told(1)
    assert world.lag()[0] == 1
    assert take(world.flows[P]) is None
    assert world.lag() == (0, None)


def test_a_stalled_partition_keeps_the_age_of_its_oldest_record(world: World) -> None:
    world.told(20)
    world.put(corrupt(batch(0, 10, 50_000)), batch(10, 10, 50_000))
    assert take(world.flows[P]) is None
    assert world.flows[P].stopped
    assert world.lag() == (20, 1_000)
    # It is not fetched any more, and its leader is asked for the end.
    del world.positions[P]
    world.ends.of(P).told(25, None, world.mono)
    assert world.lag() == (25, 1_000)


def test_a_truncated_log_begins_again_where_it_was_cut(world: World) -> None:
    world.add(P, 100)
    world.told(100)
    assert world.lag() == (0, None)
    world.positions[P] = 40
    world.ends.of(P).forget()
    assert world.lag() == (None, None)
    world.told(60)
    found = world.row()
    assert found is not None
    assert (found.lag, found.source_offset) == (20, 39)


def test_a_partition_without_a_position_is_measured_from_where_it_is_fetched(world: World) -> None:
    world.add(P, None)
    world.positions[P] = 50
    world.told(70)
    assert world.lag() == (20, None)
    world.put(batch(50, 20))
    assert world.lag() == (20, 1_000)


def test_a_source_that_is_silent_makes_the_lag_unknown_and_never_0(world: World) -> None:
    world.told(0)
    assert world.lag() == (0, None)
    list(world.ends._look(world.mono + 9))
    assert world.row() is None
    list(world.ends._look(world.mono + 11))
    assert world.lag() == (None, None)
    world.mono += 20
    world.told(0)
    assert world.lag() == (0, None)


def test_what_changed_is_told_in_turns_of_a_bounded_size() -> None:
    world = World(partitions=3 * MOST_ROWS)
    told: list[TaskMeasures] = [world.measures.take() for _ in range(4)]
    assert [len(each.partitions) for each in told] == [MOST_ROWS] * 3 + [0]
    assert told[0].more_partitions == 2 * MOST_ROWS
    numbers = [row.partition for each in told for row in each.partitions]
    assert sorted(numbers) == list(range(3 * MOST_ROWS))


def test_a_step_for_a_report_of_ten_thousand_partitions_makes_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(partitions=10_000)
    for key in world.flows:
        world.told(0, key)
    while world.measures.take().more_partitions > 100:
        pass
    for number in range(0, 10_000, 5):
        world.told(1, TopicPartition("orders", number))
    looked_at: list[int] = []
    make_rows = world.measures._make_rows

    def noted(most: int) -> None:
        looked_at.append(most)
        make_rows(most)

    monkeypatch.setattr(world.measures, "_make_rows", noted)
    while world.measures.make_some():
        pass
    assert sum(looked_at) == MOST_ROWS
    assert max(looked_at) <= AT_ONCE


def test_a_partition_that_went_away_is_named_until_it_comes_back(world: World) -> None:
    world.measures.forget(P, world.flows.pop(P).measures)
    assert world.measures.take().gone == (P,)
    world.add(P)
    flow = world.flows.pop(P)
    world.measures.forget(P, flow.measures)
    world.add(P)
    measures = world.measures.take()
    assert measures.gone == ()
    assert [row[:2] for row in measures.partitions] == [P]


def test_a_partition_that_leaves_while_a_report_is_made_has_no_row() -> None:
    world = World(partitions=150)
    assert world.measures.make_some()
    world.measures.forget(P, world.flows.pop(P).measures)
    measures = world.measures.take()
    assert measures.gone == (P,)
    assert sorted(row.partition for row in measures.partitions) == list(range(1, 150))


def test_the_last_report_tells_what_changed_while_it_was_made() -> None:
    world = World(partitions=150)
    for key, flow in world.flows.items():
        world.put(batch(0, 1, 50_000), batch(1, 1, 50_000), key=key)
        first = take(flow)
        assert first is not None
        flow.acked(first, 0)
    assert world.measures.make_some()
    second = take(world.flows[P])
    assert second is not None
    world.flows[P].acked(second, 1)
    rows = [row for row in world.measures.take(last=True).partitions if row[:2] == P]
    assert (rows[-1].records, rows[-1].source_offset) == (2, 1)
    assert sum(row.latency.count for row in rows if row.latency is not None) == 2


def test_ten_thousand_partitions_that_give_way_to_others_take_no_seconds() -> None:
    world = World(partitions=10_000)
    world.measures.take()
    leaving = dict(world.flows)
    world.flows.clear()
    begun = time.thread_time()
    for key, flow in leaving.items():
        world.measures.forget(key, flow.measures)
    for number in range(10_000):
        world.measures.add(TopicPartition("others", number))
    # Some 50 ms, and not seconds, as where each is compared with all others.
    assert time.thread_time() - begun < 1
    assert len(world.measures.take().gone) == 10_000


def test_measures_of_two_reports_become_one() -> None:
    row = PartitionMeasures("t", 0, "A.t", 1, 2, 0, None, 0, 1, 1)
    one = TaskMeasures(1, partitions=(row,), gone=(("u", 1),), commits=1)
    both = one.followed_by(
        TaskMeasures(2, partitions=(row._replace(topic="u", partition=1),), gone=(("t", 0),), commits=2)
    )
    assert [each.topic for each in both.partitions] == ["u"]
    assert (both.gone, both.commits, both.at_ms) == ((("t", 0),), 2, 2)


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
