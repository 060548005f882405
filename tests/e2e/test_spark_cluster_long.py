"""Executors that are frozen and wake, killed again and again, and lost with their host, under load and exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from deploy.local import LocalCluster
from deploy.local.spark_cluster import SparkCluster
from deploy.local.spark_executor import Executor, resume
from tests.e2e.executors import (
    PROPERTIES,
    at_work,
    check_turns,
    once_config,
    wait_all,
    wait_busy,
    wait_executors,
    wait_returned,
)
from tests.e2e.numbered import Writer
from tests.e2e.product import Product
from tests.e2e.progress import Progress
from tests.seeds import chance
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

NAME: Final = "executors"
PARTITIONS: Final = 8
TASKS: Final = 4
RATE: Final = 1_000
SUSPENDED_S: Final = 120.0
# How long those that wake are watched before anybody could end them.
WATCHED_S: Final = 10.0
# Spark kills a frozen executor within half a minute; a machine with much to do takes longer.
SPARK_KILLS_S: Final = 90.0
# The longest lease of a task on a cluster, and what a takeover may take beyond it.
LEASE_S: Final = 6.0
MOVES_S: Final = LEASE_S + 30.0
GOES_ON_S: Final = 10.0
KILLS: Final = 5


class Stage:
    """A worker with one connector whose tasks copy in two executors."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, spark: SparkCluster, product: Product, topic: str
    ) -> None:
        self.source, self.target, self.spark, self.product, self.topic = source, target, spark, product, topic
        self.copy = f"A.{topic}"
        self.copies = [(self.copy, partition) for partition in range(PARTITIONS)]

    def begin(self) -> None:
        """The connector copies."""
        wait_executors(self.product, 2)
        self.source.create_topic(self.topic, PARTITIONS)
        self.product.put(self.topic, once_config(self.source, self.target, self.topic, tasks_max=str(TASKS)))
        self.product.wait_running(self.topic, TASKS)

    def wait_busy(self, count: int) -> list[Executor]:
        """Tasks copy in so many executors, at least. After a loss all may be in one for a while."""
        return wait_busy(self.product, self.target, count)

    def goes_on(self) -> None:
        """Records come to every partition."""
        self.product.wait_going_on(self.topic, self.target, self.copy)

    def check_turns(self) -> None:
        """See executors.py."""
        check_turns(self.target, self.copy, PARTITIONS)


@pytest.fixture
def stage(
    source_cluster: LocalCluster, target_cluster: LocalCluster, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    name = f"{NAME}-{request.node.originalname[5:25].replace('_', '-')}"
    with (
        SparkCluster(workers=2, slots=8) as spark,
        Product(target_cluster, group=name, properties=PROPERTIES, spark=spark) as product,
    ):
        made = Stage(source_cluster, target_cluster, spark, product, name)
        made.begin()
        yield made


def told(capsys: pytest.CaptureFixture[str], what: str) -> None:
    with capsys.disabled():
        print(f" [{what}]", end="")


def wait_all_go_on(stage: Stage, progress: Progress, when: float) -> None:
    """Every partition got records that came 2 s after something happened, or later."""
    wait_for(
        lambda: all(progress.ends[each] > progress.at(each, when + 2.0) for each in stage.copies),
        "every partition goes on",
        MOVES_S,
        arrived=lambda: progress.total,
    )


def test_tasks_of_a_frozen_host_move_and_write_nothing_when_it_wakes_after_two_minutes(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            stage.goes_on()
            victim = chance(NAME).choice(stage.wait_busy(2))
            theirs = at_work(victim, stage.target)
            worker = stage.spark.worker_of(victim)
            when = time.monotonic()
            # The Spark worker too, which would kill the executor's JVM.
            worker.suspend()
            frozen = victim.suspend()
            wait_all_go_on(stage, progress, when)
            time.sleep(max(0.0, when + SUSPENDED_S - time.monotonic()))
            woken = time.monotonic()
            # At first the processes of tasks alone: so nobody ends them before they could write.
            awake = resume([each for each in frozen if each.pid in theirs])
            assert {each.pid for each in awake} == theirs
            time.sleep(WATCHED_S)
            wait_returned(theirs, stage.target)
            resume(frozen)
            worker.resume()
            time.sleep(WATCHED_S)
            stage.goes_on()
        wait_all(writer, stage.target, stage.copy)
    still = max(progress.longest_pause(each, when) for each in stage.copies)
    told(capsys, f"stood still for {still:.1f} s at most")
    assert still <= MOVES_S
    assert woken - when >= SUSPENDED_S
    stage.check_turns()


def test_a_frozen_executor_is_killed_by_spark_and_its_tasks_write_nothing_when_they_wake(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            stage.goes_on()
            victim = chance(f"{NAME}-frozen").choice(stage.wait_busy(2))
            theirs = at_work(victim, stage.target)
            when = time.monotonic()
            frozen = victim.suspend()
            wait_all_go_on(stage, progress, when)
            wait_for_state(lambda: not victim.alive, "Spark has killed its JVM", SPARK_KILLS_S)
            killed = time.monotonic() - when
            # The kernel wakes Python's processes then, as a group without a parent, or else this does.
            resume(frozen)
            time.sleep(WATCHED_S)
            wait_returned(theirs, stage.target)
            wait_executors(stage.product, 2)
            stage.goes_on()
        wait_all(writer, stage.target, stage.copy)
    still = max(progress.longest_pause(each, when) for each in stage.copies)
    told(capsys, f"stood still for {still:.1f} s at most, killed after {killed:.1f} s")
    assert still <= MOVES_S
    stage.check_turns()


def test_executors_killed_again_and_again_lose_and_repeat_nothing(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = chance(f"{NAME}-kills")
    pauses: dict[bool, list[float]] = {True: [], False: []}
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            for number in range(KILLS):
                stage.goes_on()
                wait_executors(stage.product, 2)
                victim = dice.choice(stage.wait_busy(1))
                time.sleep(dice.uniform(0.5, 2.0))
                theirs = at_work(victim, stage.target)
                when = time.monotonic()
                # Of one that is killed whole nobody says that it has ended: its lease is waited for.
                whole = number % 2 == 1
                victim.kill() if whole else victim.kill_jvm()
                # Without their JVM they copy on for a moment.
                wait_returned(theirs, stage.target)
                stage.goes_on()
                # What was just seen to go on may be newer than the watch's last look.
                progress.look()
                pauses[whole].append(max(progress.longest_pause(each, when) for each in stage.copies))
        wait_all(writer, stage.target, stage.copy)
    shown = {kind: ", ".join(f"{each:.1f}" for each in found) for kind, found in pauses.items()}
    told(capsys, f"stood still for {shown[False]} s, and if all of it was killed for {shown[True]} s")
    assert max(pauses[False]) <= GOES_ON_S
    assert max(pauses[True]) <= MOVES_S


def test_what_is_lost_with_a_host_goes_on_in_the_slots_that_are_left(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            stage.goes_on()
            stage.wait_busy(2)
            when = time.monotonic()
            stage.spark.remove_worker(chance(f"{NAME}-host").choice(stage.spark.workers))
            stage.goes_on()
        wait_all(writer, stage.target, stage.copy)
        assert len(stage.product.executors()) == 1
    still = max(progress.longest_pause(each, when) for each in stage.copies)
    told(capsys, f"stood still for {still:.1f} s at most")
    assert still <= MOVES_S
