from __future__ import annotations

from dataclasses import dataclass

from mirror_connect.app.supervisor.readiness import BRIEFLY_S, FAILING_S, Readiness, SparkReadiness
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from tests.fakes.spark_rig import FakeSpecs

READY, STARTING, FAILING = Readiness


@dataclass
class Spark:
    now: float = 100.0
    slots: int | None = None

    def __post_init__(self) -> None:
        self.readiness = SparkReadiness(lambda: self.slots, lambda: self.now)

    def after(self, seconds: float, slots: int | None) -> Readiness:
        """What it is when that has been so for some seconds."""
        self.slots = slots
        self.readiness.look()
        self.now += seconds
        self.readiness.look()
        return self.readiness.now


def test_a_worker_is_ready_when_spark_has_slots_and_a_start_that_takes_too_long_fails() -> None:
    spark = Spark()
    assert spark.readiness.now is STARTING
    assert spark.after(FAILING_S - 1.0, None) is STARTING
    assert spark.after(1.0, None) is FAILING
    assert spark.after(0.0, 4) is READY


def test_it_tells_only_when_something_has_changed() -> None:
    spark = Spark()
    assert not spark.readiness.look()
    spark.slots = 4
    assert spark.readiness.look()
    assert not spark.readiness.look()
    spark.slots = None
    # A Spark that ends and is back within seconds is nothing that the group needs to hear of.
    assert not spark.readiness.look()
    spark.now += BRIEFLY_S - 1.0
    assert not spark.readiness.look()
    spark.slots = 4
    assert not spark.readiness.look()


def test_a_spark_that_stays_away_gets_nothing_new_and_then_keeps_nothing() -> None:
    spark = Spark()
    assert spark.after(1000.0, 4) is READY
    assert spark.after(BRIEFLY_S - 0.1, None) is READY
    assert spark.after(0.1, None) is STARTING
    assert spark.after(FAILING_S - BRIEFLY_S, None) is FAILING
    assert spark.after(0.0, 2) is READY


def test_each_absence_counts_by_itself() -> None:
    spark = Spark()
    for _ in range(10):
        assert spark.after(1.0, 4) is READY
        assert spark.after(BRIEFLY_S - 1.0, None) is READY


def test_the_supervisor_has_the_group_hear_of_it_when_spark_comes_and_when_it_stays_away() -> None:
    now, told = [100.0], list[Readiness]()
    host = SparkHost({}, clock=lambda: now[0])
    supervisor = Supervisor(host, FakeSpecs(), lambda: 0.0, clock=lambda: now[0])
    supervisor.share(lambda: told.append(supervisor.readiness), lambda: True)
    assert supervisor.readiness is STARTING
    host.driver_report(2, {})
    host.driver_report(2, {})
    assert told == [READY]
    host.copying._keeper.slots = None
    for _ in range(int(FAILING_S) + 2):
        supervisor._watch.tick()
        now[0] += 1.0
    assert told == [READY, STARTING, FAILING]


def test_a_cluster_without_an_executor_is_no_place_for_tasks() -> None:
    spark = Spark()
    assert spark.after(1.0, 0) is STARTING
    assert spark.after(1.0, 8) is READY
    assert spark.after(BRIEFLY_S, 0) is STARTING
    assert spark.after(FAILING_S, 0) is FAILING
