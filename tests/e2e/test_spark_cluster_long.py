"""Executors that are suspended, killed again and again, and lost with their host, under load and exactly once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Final

import pytest

from deploy.local import LocalCluster
from deploy.local.spark_cluster import SparkCluster
from tests.e2e.executors import PROPERTIES, at_work, once_config, wait_all
from tests.e2e.numbered import Writer
from tests.e2e.product import Product
from tests.e2e.progress import Progress
from tests.e2e.reading import CONTROL, batches
from tests.seeds import chance
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

NAME: Final = "executors"
PARTITIONS: Final = 8
TASKS: Final = 4
RATE: Final = 1_000
SUSPENDED_S: Final = 120.0
# The group's session, for which a task may write without another word, and what a takeover may take beyond it.
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
        """The connector copies in both executors."""
        self.source.create_topic(self.topic, PARTITIONS)
        self.product.put(self.topic, once_config(self.source, self.target, self.topic, tasks_max=str(TASKS)))
        self.product.wait_running(self.topic, TASKS)

    def wait_both_busy(self) -> None:
        """Tasks copy in both executors."""
        wait_for_state(
            lambda: sum(bool(at_work(each, self.target)) for each in self.product.executors()) == 2,
            "tasks copy in both executors",
            90,
        )

    def writers(self, partition: int) -> list[tuple[int, int]]:
        """The producers (id and epoch) of a copy's batches, in the order in which they took turns."""
        found = [
            batch.producer for batch in batches(self.target, self.copy, partition) if not batch.attributes & CONTROL
        ]
        return [producer for producer, _ in itertools.groupby(found)]


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


def test_partitions_of_a_suspended_executor_move_and_it_writes_nothing_when_it_wakes(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            stage.product.wait_going_on(stage.topic, stage.target, stage.copy)
            stage.wait_both_busy()
            victim = chance(NAME).choice(stage.product.executors())
            when = time.monotonic()
            victim.suspend()
            wait_for(
                lambda: all(progress.ends[each] > progress.at(each, when + 2.0) for each in stage.copies),
                "every partition goes on",
                MOVES_S,
                arrived=lambda: progress.total,
            )
            time.sleep(max(0.0, when + SUSPENDED_S - time.monotonic()))
            woken = time.monotonic()
            victim.resume()
            time.sleep(10)
            stage.product.wait_going_on(stage.topic, stage.target, stage.copy)
        wait_all(writer, stage.target, stage.copy)
    still = {each: progress.longest_pause(each, when) for each in stage.copies}
    with capsys.disabled():
        print(f" [stood still for {max(still.values()):.1f} s at most]", end="")
    assert max(still.values()) <= MOVES_S
    assert woken - when >= SUSPENDED_S
    # Who wrote before and writes again after another one has woken up too late.
    for _, partition in stage.copies:
        turns = stage.writers(partition)
        assert len(turns) == len(set(turns)), f"partition {partition}: {turns}"
    assert any(len(stage.writers(partition)) > 1 for _, partition in stage.copies)


def test_executors_killed_again_and_again_lose_and_repeat_nothing(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = chance(f"{NAME}-kills")
    pauses: dict[bool, list[float]] = {True: [], False: []}
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            for number in range(KILLS):
                stage.product.wait_going_on(stage.topic, stage.target, stage.copy)
                stage.wait_both_busy()
                time.sleep(dice.uniform(0.5, 2.0))
                when = time.monotonic()
                victim = dice.choice(stage.product.executors())
                # Of one that is killed whole nobody says that it has ended: its lease is waited for.
                whole = number % 2 == 1
                victim.kill() if whole else victim.kill_jvm()
                stage.product.wait_going_on(stage.topic, stage.target, stage.copy)
                pauses[whole].append(max(progress.longest_pause(each, when) for each in stage.copies))
                stage.spark.wait_executors(2)
        wait_all(writer, stage.target, stage.copy)
    with capsys.disabled():
        told = {kind: ", ".join(f"{each:.1f}" for each in found) for kind, found in pauses.items()}
        print(f" [stood still for {told[False]} s, and if all of it was killed for {told[True]} s]", end="")
    assert max(pauses[False]) <= GOES_ON_S
    assert max(pauses[True]) <= MOVES_S


def test_what_is_lost_with_a_host_goes_on_in_the_slots_that_are_left(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(stage.target, stage.copies) as progress:
        with Writer(stage.source, stage.topic, PARTITIONS, RATE) as writer:
            stage.product.wait_going_on(stage.topic, stage.target, stage.copy)
            stage.wait_both_busy()
            when = time.monotonic()
            stage.spark.remove_worker(chance(f"{NAME}-host").choice(stage.spark.workers))
            stage.product.wait_going_on(stage.topic, stage.target, stage.copy)
        wait_all(writer, stage.target, stage.copy)
        assert len(stage.product.executors()) == 1
    still = max(progress.longest_pause(each, when) for each in stage.copies)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= MOVES_S
