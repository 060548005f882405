"""Twenty groups at random positions, while producers write in and without transactions: none skips or repeats a record.

Internal topics are compacted, the worker with its Spark is killed, both brokers are restarted, and groups go on meanwhile.
What a group skips or repeats is counted by the numbers in the records (benchmarks/group_truth.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final, Self

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.compaction import CLEANER, hasten, wait_compacted
from benchmarks.group_load import GroupLoad
from benchmarks.group_reading import PARTITIONS, end_offsets, read_numbers, truths
from deploy.local import LocalCluster, start_all
from mirror_connect.connectors.records.checkpoints import Checkpoint
from tests.brokers import started
from tests.e2e.moved_groups import PATIENCE_S, STAYS_S, MovedGroups, checkpoint_config, moved_groups
from tests.e2e.product import Product, mirror_config
from tests.seeds import chance
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]

TOPIC: Final = "orders"
REMOTE: Final = f"A.{TOPIC}"
CHECKPOINTS: Final = "A.checkpoints.internal"
RANGES: Final = "mm2-offset-runs.A.internal"
SYNCS: Final = "mm2-offset-syncs.B.internal"
RATE: Final = 250.0


@dataclass
class Failover:
    """All that was seen of one run."""

    moments: dict[str, MovedGroups] = field(default_factory=dict)
    compacted: dict[str, tuple[int, int]] = field(default_factory=dict)
    # Told by a checkpoint, whenever: group and partition, what it would skip.
    skipping_checkpoints: list[tuple[str, int]] = field(default_factory=list)
    checkpoints: int = 0
    copied: list[set[int]] = field(default_factory=list)
    visible: list[set[int]] = field(default_factory=list)


class CheckpointWatch:
    """Every checkpoint that is ever written, also those that compaction removes, from `with` to its end."""

    def __init__(self, target: LocalCluster) -> None:
        self.seen: list[Checkpoint] = []
        self._consumer = Consumer(
            {**target.librdkafka(), "group.id": "watch", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="checkpoints", daemon=True)

    def __enter__(self) -> Self:
        self._consumer.assign([TopicPartition(CHECKPOINTS, 0, 0)])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def _watch(self) -> None:
        while not self._over.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen.append(Checkpoint.decode(message.key(), message.value()))


@pytest.fixture(scope="module")
def failover() -> Iterator[Failover]:
    seed = chance(TOPIC).randrange(1 << 32)
    source, target = (LocalCluster(name, properties=CLEANER) for name in ("source", "target"))
    with ExitStack() as stack:
        stack.enter_context(started(source, target))
        source.create_topic(TOPIC, PARTITIONS)
        product = stack.enter_context(Product(target, group="failover"))
        load = stack.enter_context(GroupLoad(source, TOPIC, rate=RATE, seed=seed))
        for name, config in connectors(source, target).items():
            product.put(name, config)
        wait_for_state(
            lambda: CHECKPOINTS in target.admin().list_topics(timeout=60).topics, "there is a place for checkpoints"
        )
        watch = stack.enter_context(CheckpointWatch(target))
        yield run(Stage(source, target, product, load), watch)


def connectors(source: LocalCluster, target: LocalCluster) -> dict[str, dict[str, str]]:
    copy = mirror_config(source, target, TOPIC, consumer_isolation_level="read_committed", tasks_max="2")
    return {"copy": copy, "groups": checkpoint_config(copy)}


@dataclass(frozen=True)
class Stage:
    """Who takes part."""

    source: LocalCluster
    target: LocalCluster
    product: Product
    load: GroupLoad


def run(stage: Stage, watch: CheckpointWatch) -> Failover:
    source, target, product, load = stage.source, stage.target, stage.product, stage.load
    seen = Failover()
    for name in ("copy", "groups"):
        product.wait_running(name, 2)
    wait_written(source, 300)
    seen.moments["while_running"] = moved_groups(source, target, load, TOPIC)

    load.go_on()
    hasten(source, [SYNCS])
    hasten(target, [CHECKPOINTS, RANGES])
    for cluster, topic in ((source, SYNCS), (target, CHECKPOINTS), (target, RANGES)):
        seen.compacted[topic] = wait_compacted(cluster, topic, PATIENCE_S)
    product.kill()
    for cluster in (source, target):
        cluster.stop()
    start_all(source, target)
    product.start()
    for name in ("copy", "groups"):
        product.wait_running(name, 2)
    wait_written(source, 0)
    wait_written(source, least_end(source) + 100)
    seen.moments["after_compaction_and_restart"] = moved_groups(source, target, load, TOPIC)

    load.stop()
    seen.visible = [{number for _, number in log} for log in read_numbers(source, TOPIC, "read_committed")]
    # As in `moved_groups`, the waiting decides nothing: a test judges a later look.
    with suppress(AssertionError):
        wait_for(
            lambda: copied(target) == seen.visible,
            "everything is copied",
            PATIENCE_S,
            0.5,
            arrived=lambda: end_offsets(target, REMOTE),
        )
    time.sleep(STAYS_S)
    seen.copied = copied(target)
    told = list(watch.seen)
    seen.checkpoints = len(told)
    found = truths(source, target, TOPIC, REMOTE)
    for each in told:
        if each.downstream > found[each.partition].first_unread(each.upstream):
            seen.skipping_checkpoints.append((each.group, each.partition))
    return seen


def least_end(source: LocalCluster) -> int:
    """-1 while a broker that has just started knows of no leaders yet."""
    with suppress(KafkaException):
        return min(end_offsets(source, TOPIC).values())
    return -1


def wait_written(source: LocalCluster, records: int) -> None:
    wait_for(lambda: least_end(source) >= records, f"{records} records are written", PATIENCE_S)


def copied(target: LocalCluster) -> list[set[int]]:
    return [{number for _, number in log} for log in read_numbers(target, REMOTE)]


MOMENTS: Final = ("while_running", "after_compaction_and_restart")


@pytest.mark.parametrize("moment", MOMENTS)
def test_no_group_skips_a_record_that_it_has_not_read(failover: Failover, moment: str) -> None:
    assert failover.moments[moment].skipped == {}


@pytest.mark.parametrize("moment", MOMENTS)
def test_no_group_reads_a_record_again(failover: Failover, moment: str) -> None:
    assert failover.moments[moment].repeated == {}


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_group_has_come_to_every_partition(failover: Failover, moment: str) -> None:
    assert failover.moments[moment].missing == {}


def test_no_checkpoint_that_was_ever_told_skips_a_record(failover: Failover) -> None:
    assert (failover.skipping_checkpoints, failover.checkpoints > 0) == ([], True)


@pytest.mark.parametrize("topic", [SYNCS, CHECKPOINTS, RANGES])
def test_what_mappings_are_kept_in_was_compacted(failover: Failover, topic: str) -> None:
    left, written = failover.compacted[topic]
    assert left <= written * 0.75


def test_what_was_committed_at_the_source_and_nothing_else_is_on_the_target(failover: Failover) -> None:
    assert failover.copied == failover.visible
