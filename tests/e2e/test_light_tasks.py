"""Tasks with little to do share one process: which one it is, what its death costs, and moves between it and others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import psutil
import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.heartbeats import HEARTBEATS_TOPIC, Heartbeat
from tests.brokers import started
from tests.e2e.ends import end_offsets
from tests.e2e.numbered import Writer, read
from tests.e2e.product import TASK, Product, mirror_config
from tests.e2e.reading import records
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]

ALIASES: Final = ("X", "Y")
TOPIC: Final = "numbers"
REMOTE: Final = f"A.{TOPIC}"
PARTITIONS: Final = 4
# Records of some 110 bytes a second: one light task's, and more than one may copy that shares a process.
LIGHT_RATE: Final = 100
HEAVY_RATE: Final = 20_000
MOVED_IN: Final = f"Task {TOPIC}-0 continues in the process that tasks with little to copy share"
MOVED_OUT: Final = f"Task {TOPIC}-0 continues in a process of its own"


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters of this module's own: the heartbeats would be in other tests' links, too."""
    with started(LocalCluster("light-source"), LocalCluster("light-target")) as (source, target):
        yield source, target


@pytest.fixture(scope="module")
def worker(clusters: tuple[LocalCluster, LocalCluster]) -> Iterator[Product]:
    """A worker with two heartbeat connectors."""
    with Product(clusters[1], group="light") as product:
        for alias in ALIASES:
            config = mirror_config(*clusters, TOPIC) | {
                "connector.class": "MirrorHeartbeatConnector",
                "source.cluster.alias": alias,
                "heartbeats.topic.replication.factor": "1",
            }
            del config["topics"]
            product.put(f"beats-{alias}", config)
        for alias in ALIASES:
            product.wait_running(f"beats-{alias}")
        yield product


def at_work(product: Product, target: LocalCluster) -> set[int]:
    """The task processes that have connections to the target; Spark keeps others for later."""
    port = int(target.bootstrap_servers.rpartition(":")[2])
    found = set()
    for process in product.parts()[TASK]:
        try:
            connections = process.net_connections("tcp")
        except psutil.NoSuchProcess:
            continue
        if any(each.raddr and each.raddr.port == port for each in connections):
            found.add(process.pid)
    return found


def beats(target: LocalCluster) -> dict[str, int]:
    """How many heartbeats there are, by source alias."""
    found = dict.fromkeys(ALIASES, 0)
    for record in records(target, HEARTBEATS_TOPIC, 0):
        found[Heartbeat.decode(record.key, record.value).source_alias] += 1
    return found


# Before the death below, after which no task shares a process for ten minutes.
@pytest.mark.long
def test_a_source_task_moves_in_and_out_and_copies_each_record_once(
    clusters: tuple[LocalCluster, LocalCluster], worker: Product
) -> None:
    source, target = clusters
    source.create_topic(TOPIC, PARTITIONS)
    worker.put(TOPIC, mirror_config(source, target, TOPIC))
    worker.wait_running(TOPIC)
    with Writer(source, TOPIC, PARTITIONS, LIGHT_RATE) as few:
        wait_for_state(lambda: MOVED_IN in worker.log_text(), "the source task shares a process", 180, 1.0)
        worker.wait_going_on(TOPIC, target, REMOTE)
    many = Writer(source, TOPIC, PARTITIONS, HEAVY_RATE)
    many.counts.update(few.counts)
    with many:
        wait_for_state(lambda: MOVED_OUT in worker.log_text(), "the source task has a process of its own")
        worker.wait_going_on(TOPIC, target, REMOTE)
        time.sleep(1)
    wait_for(
        lambda: all(end_offsets(target, REMOTE).get(each, 0) >= count for each, count in many.counts.items()),
        "every number has arrived",
        arrived=lambda: end_offsets(target, REMOTE),
    )
    time.sleep(1)
    for partition, arrived in read(target, REMOTE, end_offsets(target, REMOTE)).items():
        assert (arrived.first_seen, arrived.repeated) == (list(range(many.counts[partition])), 0)
    worker.delete(TOPIC)


def test_tasks_that_share_a_process_go_on_alone_when_it_has_died(
    clusters: tuple[LocalCluster, LocalCluster], worker: Product
) -> None:
    _, target = clusters
    wait_for_state(lambda: len(at_work(worker, target)) == 1, "both heartbeats come from one process")
    (shared,) = at_work(worker, target)
    before = beats(target)
    psutil.Process(shared).kill()
    wait_for_state(lambda: len(at_work(worker, target)) == 2, "each connector has a process of its own")
    assert shared not in at_work(worker, target)

    def both_go_on() -> bool:
        return all(count > before[alias] + 2 for alias, count in beats(target).items())

    wait_for(both_go_on, "both write heartbeats again", arrived=lambda: end_offsets(target, HEARTBEATS_TOPIC))
    for alias in ALIASES:
        worker.wait_running(f"beats-{alias}")
        (task,) = worker.status(f"beats-{alias}")["tasks"]
        assert f"Its process {shared} was ended by signal 9 (SIGKILL)" in task.get("trace", ""), task
