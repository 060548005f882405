"""What a worker takes of its tasks' reports, and what it forgets."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.metrics.figures import Lag, Rate
from mirror_connect.app.metrics.link_history import HistoryPoint, LinkHistory
from mirror_connect.app.metrics.worker_metrics import ProcessMetrics, WorkerMetrics
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_measures import PartitionMeasures, TaskMeasures
from mirror_connect.connectors.task_protocol import (
    ABANDONED,
    EPOCH_ENDED,
    FAILED,
    FINISHED,
    RUNNING,
    TaskId,
    TaskReport,
)

TASK = TaskId("c", 0)
PROBLEM = Problem("t-0", ProblemCode.PARTITION_UNREADABLE, "It can't be read")
ROW = PartitionMeasures("t", 0, "A.t", 9, 10, 0, None, 0, 10, 100)


class World:
    def __init__(self) -> None:
        self.now = 50.0
        self.metrics = WorkerMetrics(lambda: self.now, lambda: 1_000.0 + self.now)

    def tell(self, state: str = RUNNING, *, silent_s: float = 0.0, problems: tuple[Problem, ...] = ()) -> None:
        measures = TaskMeasures(self.metrics.now_ms(), (ROW,))
        report = TaskReport("a", 1, state, settled=True, problems=problems, measures=measures, loop_silent_s=silent_s)
        self.metrics.take(TASK, report, ())

    @property
    def problems(self) -> int:
        return len(self.metrics.connector("c").present_problems(self.now))


def test_figures_stay_while_the_epoch_changes_and_end_with_the_task() -> None:
    world = World()
    world.tell(problems=(PROBLEM,))
    world.tell(EPOCH_ENDED)
    assert world.problems == 1
    for over in (FINISHED, FAILED, ABANDONED):
        world.tell(problems=(PROBLEM,))
        world.tell(over)
        assert world.problems == 0


def test_problems_of_a_task_that_is_not_heard_are_not_told() -> None:
    world = World()
    world.tell(problems=(PROBLEM,))
    world.now += 10.1
    assert world.problems == 0


def test_a_task_that_hangs_tells_nothing_although_it_reports() -> None:
    world = World()
    world.tell()
    connector = world.metrics.connector("c")
    assert connector.telling(world.now) == {0: "a"}
    world.now += 11
    world.tell(silent_s=11.0)
    assert connector.telling(world.now) == {}


def test_a_bug_with_figures_is_logged_once_and_fails_no_report(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    broken = TaskReport("a", 1, RUNNING, settled=True, measures=TaskMeasures(1, latency_counts=(1, 2)))
    with caplog.at_level(logging.ERROR):
        world.metrics.take(TASK, broken, ())
        world.metrics.take(TASK, broken, ())
    assert [record.getMessage()[:6] for record in caplog.records] == ["A bug:"]


def test_only_what_is_there_is_kept() -> None:
    world = World()
    world.tell()
    world.metrics.history("A->B")
    world.metrics.history("C->B")
    world.metrics.keep({"c"}, {"A->B"})
    assert (set(world.metrics.connectors), set(world.metrics.links)) == ({"c"}, {"A->B"})
    world.metrics.keep(set(), set())
    assert (world.metrics.connectors, world.metrics.links) == ({}, {})


def test_a_flow_has_the_same_metrics_in_all_its_starts() -> None:
    process = ProcessMetrics()
    assert process.of_flow("A->B") is process.of_flow("A->B")
    assert process.of_flow("A->B") is not process.of_flow("B->A")


def test_a_history_keeps_an_hour() -> None:
    history = LinkHistory()
    for step in range(1_000):
        history.add(HistoryPoint(step * 10_000, 0, 0.0, 0.0, 0.0, None, None, "RUNNING"))
    points = history.points(60, 9_990_000)
    assert (len(points), points[0].time_ms, points[-1].time_ms) == (360, 6_400_000, 9_990_000)
    assert len(history.points(1, 9_990_000)) == 6


def test_a_state_has_a_beginning() -> None:
    history = LinkHistory()
    assert history.since_ms("RUNNING", 1_000) == 1_000
    assert history.since_ms("RUNNING", 2_000) == 1_000
    assert history.since_ms("FAILED", 3_000) == 3_000
    assert history.since_ms("RUNNING", 4_000) == 4_000


def test_lags_of_several_connectors() -> None:
    assert Lag.of_all([]) == Lag(None, None)
    assert Lag.of_all([Lag(3, 2.0, 1, 1), Lag(0, 0.0)]) == Lag(3, 2.0, 1, 1)
    assert Lag.of_all([Lag(3, None, 1), Lag(0, 0.0)]) == Lag(3, None, 1)
    assert Lag.of_all([Lag(None, None, unknown=2), Lag(None, None, unknown=1)]) == Lag(None, None, unknown=3)
    assert Rate.of_all([None, None]) is None
    assert Rate.of_all([None, Rate(1.0, 2.0), Rate(1.0, 2.0)]) == Rate(2.0, 4.0)


def test_partitions_are_known_by_topic_and_number() -> None:
    world = World()
    world.tell()
    assert set(world.metrics.connector("c").partitions) == {TopicPartition("t", 0)}
