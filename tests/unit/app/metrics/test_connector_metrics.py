"""Partitions that move, attempts that follow each other, and reports that come again: what is counted stays true."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.latencies import latency_of_all
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import (
    BUCKETS,
    GroupMeasures,
    GroupPartition,
    PartitionMeasures,
    TaskMeasures,
)
from mirror_connect.connectors.task_measures import Window as MeasuredWindow

TASKS = range(2)
PARTITIONS = [TopicPartition("t", number) for number in range(3)]


def row(
    partition: TopicPartition, records: int, lag: int | None = 0, oldest_ms: int | None = None
) -> PartitionMeasures:
    end = None if lag is None else records + lag
    return PartitionMeasures(
        partition.topic, partition.partition, "A.t", records - 1, end, lag, oldest_ms, 0, records, records * 10
    )


def measures(at_ms: int, *rows: PartitionMeasures, **more: object) -> TaskMeasures:
    return TaskMeasures(at_ms, rows, **more)  # type: ignore[arg-type]


@dataclass
class Attempt:
    """A process of a task: what it has counted of each partition that it has, and in all."""

    name: str
    counted: dict[TopicPartition, int] = field(default_factory=dict)
    told: dict[TopicPartition, int] = field(default_factory=dict)
    gone: list[TopicPartition] = field(default_factory=list)
    total: int = 0
    reports: list[TaskMeasures] = field(default_factory=list)


class Copying(RuleBasedStateMachine):
    """Two tasks copy three partitions, which move between them."""

    @initialize()
    def begin(self) -> None:
        self.now, self.number = 100.0, 0
        self.metrics = ConnectorMetrics("c", self.now)
        self.attempts = {task: Attempt(f"{task}-0") for task in TASKS}
        self.owner = dict.fromkeys(PARTITIONS, 0)
        self.attempts[0].counted = dict.fromkeys(PARTITIONS, 0)
        self.acknowledged = dict.fromkeys(PARTITIONS, 0)
        # Acknowledged, but the process ended before it could tell.
        self.untold = dict.fromkeys(PARTITIONS, 0)
        self.seen = dict.fromkeys(PARTITIONS, 0)
        self.seen_total = self.seen_latencies = 0

    @rule(task=st.sampled_from(TASKS), partition=st.sampled_from(PARTITIONS))
    def move(self, task: int, partition: TopicPartition) -> None:
        """The former owner has told everything, as its last report confirms that it gave the partition away."""
        former = self.owner[partition]
        if former != task:
            self.report(former)
            attempt = self.attempts[former]
            del attempt.counted[partition]
            attempt.told.pop(partition, None)
            attempt.gone.append(partition)
            self.report(former)
            self.owner[partition] = task
            self.attempts[task].counted[partition] = 0

    @rule(partition=st.sampled_from(PARTITIONS), records=st.integers(1, 1_000))
    def copy(self, partition: TopicPartition, records: int) -> None:
        attempt = self.attempts[self.owner[partition]]
        attempt.counted[partition] += records
        attempt.total += records
        self.acknowledged[partition] += records

    @rule(task=st.sampled_from(TASKS))
    def report(self, task: int) -> None:
        self.now += 0.5
        attempt = self.attempts[task]
        rows = [row(each, count) for each, count in attempt.counted.items() if attempt.told.get(each) != count]
        gone = tuple((each.topic, each.partition) for each in attempt.gone)
        counts = (attempt.total, *[0] * (BUCKETS - 1))
        told = measures(int(self.now * 1000), *rows, gone=gone, latency_counts=counts)
        attempt.told, attempt.gone = dict(attempt.counted), []
        self._take(task, attempt.name, told)
        attempt.reports.append(told)
        for partition in attempt.counted:
            known = self.metrics.partitions[partition].growth.records
            assert known == self.acknowledged[partition] - self.untold[partition]

    @rule(task=st.sampled_from(TASKS), back=st.integers(1, 3))
    def repeat(self, task: int, back: int) -> None:
        """One of the last reports comes again: its answer was lost."""
        if reports := self.attempts[task].reports:
            self._take(task, self.attempts[task].name, reports[-min(back, len(reports))])

    @rule(task=st.sampled_from(TASKS), killed=st.booleans())
    def begin_attempt(self, task: int, killed: bool) -> None:
        if not killed:
            self.report(task)
        attempt = self.attempts[task]
        for partition, count in attempt.counted.items():
            self.untold[partition] += count - attempt.told.get(partition, 0)
        self.number += 1
        self.attempts[task] = Attempt(f"{task}-{self.number}", dict.fromkeys(attempt.counted, 0))

    def _take(self, task: int, attempt: str, told: TaskMeasures) -> None:
        self.metrics.task(task).hear(attempt, self.now, told.at_ms)
        self.metrics.take(task, told, self.now)

    @invariant()
    def nothing_goes_back_or_counts_twice(self) -> None:
        for partition, known in self.metrics.partitions.items():
            assert self.seen[partition] <= known.growth.records <= self.acknowledged[partition]
            assert known.growth.bytes == known.growth.records * 10
            self.seen[partition] = known.growth.records
        assert self.seen_total <= self.metrics.growth.records == sum(self.seen.values())
        self.seen_total = self.metrics.growth.records
        assert self.seen_latencies <= self.metrics.latency_counts[0] <= sum(self.acknowledged.values())
        self.seen_latencies = self.metrics.latency_counts[0]


TestCopying = Copying.TestCase
TestCopying.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class Told:
    """One connector, and reports of its tasks."""

    def __init__(self) -> None:
        self.metrics = ConnectorMetrics("c", 0.0)
        self.now = 100.0

    def tell(self, task: int, attempt: str, *rows: PartitionMeasures, **more: object) -> None:
        self.now += 0.5
        self.metrics.task(task).hear(attempt, self.now, int(self.now * 1000))
        self.metrics.take(task, measures(int(self.now * 1000), *rows, **more), self.now)

    def lag(self, *partitions: TopicPartition, now_ms: int = 60_000) -> tuple[int | None, float | None, int, int]:
        found = self.metrics.lag(partitions, self.metrics.telling(self.now), now_ms)
        return found.records, found.seconds, found.behind, found.unknown


A, B, C = PARTITIONS


def test_the_lag_is_the_sum_and_the_age_of_the_oldest() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, 5, 50_000), row(B, 10, 7, 40_000), row(C, 10))
    assert told.lag(A, B, C) == (12, 20.0, 2, 0)
    # It grows while nothing is told.
    assert told.lag(A, B, C, now_ms=61_500) == (12, 21.5, 2, 0)


def test_at_rest_it_is_0_and_not_unknown() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10))
    assert told.lag(A) == (0, 0.0, 0, 0)


def test_a_dead_source_is_unknown_and_no_0() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, None))
    assert told.lag(A) == (None, None, 0, 1)
    # Of what was fetched the age is known.
    told.tell(0, "x", row(A, 10, None, 55_000))
    assert told.lag(A) == (None, 5.0, 0, 1)


def test_a_lag_of_unknown_age_is_no_0_seconds() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, 5, None), row(B, 10))
    assert told.lag(A, B) == (5, None, 1, 0)


def test_what_no_task_has_told_yet_is_unknown() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10))
    assert told.lag(A, B) == (0, 0.0, 0, 1)


def test_a_task_that_reports_nothing_for_10_s_makes_its_partitions_unknown() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, 5, 50_000))
    told.now += 9.9
    assert told.lag(A)[0] == 5
    told.now += 0.2
    assert told.lag(A) == (None, None, 0, 1)
    assert told.metrics.rate(told.now) is None
    # What has not changed is not told again: the first report is enough.
    told.tell(0, "x")
    assert told.lag(A)[0] == 5


def test_a_new_attempt_knows_nothing_before_it_tells() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, 5, 50_000))
    told.tell(0, "y")
    assert told.lag(A) == (None, None, 0, 1)
    told.tell(0, "y", row(A, 0, 4, 50_000))
    assert told.lag(A)[0] == 4
    assert told.metrics.partitions[A].growth.records == 10


def test_a_partition_that_was_given_away_is_unknown_until_its_next_task_tells() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, 5, 50_000))
    told.tell(0, "x", gone=(("t", 0),))
    assert told.lag(A) == (None, None, 0, 1)
    told.tell(1, "y", row(A, 3, 2, 50_000))
    assert told.lag(A)[0] == 2
    # The former task's report comes late.
    told.tell(0, "x", gone=(("t", 0),))
    assert told.lag(A)[0] == 2


def test_removed_partitions_are_forgotten_and_their_counts_stay_in_the_sum() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10), row(B, 20))
    told.metrics.keep([B], [], 1)
    assert set(told.metrics.partitions) == {B}
    assert told.metrics.growth.records == 30
    told.tell(0, "x", row(A, 15))
    assert told.metrics.growth.records == 35


def test_a_task_that_is_not_there_any_more_is_forgotten() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10))
    told.tell(1, "y", row(B, 10))
    told.metrics.keep([A, B], [], 1)
    assert set(told.metrics.tasks) == {0}
    assert told.lag(A, B) == (0, 0.0, 0, 1)


def test_the_counts_of_all_attempts_of_a_task_are_added() -> None:
    told = Told()
    told.tell(0, "x", batches={"copied": (3, 300)}, commits=2, sampled=(10, 40), compressed_bytes=100, filtered=7)
    told.tell(0, "x", batches={"copied": (5, 500)}, commits=3, sampled=(20, 80), compressed_bytes=200, filtered=9)
    told.tell(0, "y", batches={"copied": (1, 100), "merged": (2, 20)}, commits=1, sampled=(5, 10), compressed_bytes=50)
    total = told.metrics.task(0).total
    assert total.batches == {"copied": (6, 600), "merged": (2, 20)}
    assert (total.commits, total.sampled, total.compressed_bytes, total.filtered) == (4, (25, 90), 250, 9)


def test_records_that_were_skipped_are_of_all_tasks_and_attempts_and_never_fewer() -> None:
    told = Told()
    told.tell(0, "x", records_skipped=3)
    told.tell(0, "y", records_skipped=1)
    told.tell(1, "z", records_skipped=10)
    # Those that are too large count apart.
    told.metrics.task(1).hear("z", told.now, 0, skipped=2)
    assert told.metrics.skipped == 16
    told.metrics.keep([], [], 1)
    assert set(told.metrics.tasks) == {0}
    assert told.metrics.skipped == 16


def test_latencies_of_a_topic_are_those_of_its_partitions() -> None:
    told = Told()
    window = MeasuredWindow(3, 9, 40, 6)
    told.tell(0, "x", row(A, 6)._replace(latency=window, latency_counts=(2, 3, 3, 3)))
    found = latency_of_all([told.metrics.latencies_of_topic("t", told.now) or ((), 0)])
    assert found is not None
    assert (found.max, 2 <= found.p50 <= 5, found.p99 <= 9) == (9, True, True)
    assert told.metrics.latencies_of_topic("other", told.now) is None


def group(*partitions: tuple[int | None, int | None], synced_ms: int | None = None) -> GroupMeasures:
    rows = tuple(GroupPartition("t", number, "A.t", *each) for number, each in enumerate(partitions))
    return GroupMeasures("g", 1, synced_ms, rows)


def test_a_group_counts_its_partitions_without_a_translation() -> None:
    told = Told()
    told.tell(0, "x", groups=(group((3, 0), (None, None), (4, 1)),))
    found = told.metrics.group("g", told.now)
    assert found is not None
    assert (found.read_again, found.skipped, found.untranslated) == (7, 1, 1)
    told.tell(0, "x", groups=(group((None, None)),))
    assert (found.read_again, found.skipped, found.untranslated) == (None, None, 1)


def test_a_group_is_unknown_while_its_task_tells_nothing() -> None:
    told = Told()
    told.tell(0, "x", groups=(group((3, 0)),))
    assert told.metrics.group("g", told.now + 11) is None
    assert told.metrics.group("other", told.now) is None


def test_a_partition_that_comes_back_within_an_attempt_counts_anew() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10))
    told.tell(0, "x", gone=(("t", 0),))
    told.tell(1, "y", row(A, 5))
    told.tell(1, "y", gone=(("t", 0),))
    told.tell(0, "x", row(A, 20))
    assert told.metrics.partitions[A].growth.records == told.metrics.growth.records == 35
    # It went and came back between two reports.
    told.tell(0, "x", row(A, 4))
    assert told.metrics.partitions[A].growth.records == 39


def test_a_report_that_comes_late_changes_nothing() -> None:
    told = Told()
    told.tell(0, "x", row(A, 10, 7, 50_000))
    late = measures(int(told.now * 1000), row(A, 10, 7, 50_000)._replace(latency=MeasuredWindow(1, 1, 1, 1)))
    told.tell(0, "x", row(A, 30, 1, 50_000))
    told.metrics.take(0, late, told.now)
    assert (told.lag(A)[0], told.metrics.growth.records) == (1, 30)
    assert told.metrics.partitions[A].latency.recent(told.now) is None
