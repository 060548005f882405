"""A worker with exactly-once is killed again and again under load: who reads committed records sees each one once.

Processes die by SIGKILL: a task, Spark as a whole, the worker with everything. What was copied is read by librdkafka.
"""

from __future__ import annotations

import time
from typing import Final

import pytest

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker
from tests.e2e.numbered import Writer
from tests.e2e.product import DAEMON, DRIVER, JVM, TASK, WORKER, Product, mirror_config
from tests.e2e.reading import records
from tests.seeds import chance
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

NAME: Final = "once"
TOPIC: Final = "once-numbers"
COPY: Final = f"A.{TOPIC}"
PARTITIONS: Final = 3
RATE: Final = 2000
ALL: Final = (WORKER, DRIVER, JVM, DAEMON, TASK)
KILLS: Final = ((TASK,), (DRIVER, JVM, DAEMON, TASK), ALL)
SESSION_S: Final = 6
PROPERTIES: Final = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": f"{SESSION_S}000",
    "heartbeat.interval.ms": "2000",
}


INTERVAL: Final = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}


def exactly_once_config(source: LocalCluster, target: LocalCluster, boundary: dict[str, str]) -> dict[str, str]:
    return mirror_config(
        source,
        target,
        TOPIC,
        tasks_max="2",
        source_consumer_isolation_level="read_committed",
        exactly_once_support="required",
        **boundary,
    )


@pytest.mark.parametrize(
    ("boundary", "rounds"),
    [
        pytest.param(INTERVAL, 1, id="interval"),
        pytest.param({"transaction_boundary": "poll"}, 1, id="poll", marks=pytest.mark.long),
        pytest.param(
            {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "200"},
            10,
            id="many_rounds",
            marks=[pytest.mark.long, pytest.mark.timeout(3600)],
        ),
    ],
)
def test_each_record_is_seen_once_and_in_order_whatever_is_killed(
    boundary: dict[str, str], rounds: int, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source_cluster.create_topic(TOPIC, PARTITIONS)
    dice = chance(NAME)
    config = exactly_once_config(source_cluster, target_cluster, boundary)
    try:
        group = f"{NAME}-{boundary['transaction_boundary']}-{rounds}"
        with Product(target_cluster, group=group, properties=PROPERTIES) as product:
            with Writer(source_cluster, TOPIC, PARTITIONS, RATE) as writer:
                product.put(NAME, config)
                product.wait_running(NAME, tasks=2)
                for parts in KILLS * rounds:
                    time.sleep(dice.uniform(1.0, 3.0))
                    product.kill(*parts)
                    if WORKER in parts:
                        product.start()
                    product.wait_running(NAME, tasks=2)
                    product.wait_going_on(NAME, target_cluster, COPY)
            _wait_for_all_of_it(writer, target_cluster)
            # And the source offsets are those of the last records.
            last = {number: count - 1 for number, count in writer.counts.items()}
            # The coordinator ends a transaction in one partition after the other.
            wait_for(lambda: product.source_offsets(NAME) == last, f"the source offsets are {last}")
            log = product.log_text()
            assert "fenced" in log, product.log_tail(60)
    finally:
        source_cluster.delete_topic(TOPIC)
        target_cluster.delete_topic(COPY)


@pytest.mark.long
def test_with_two_workers_the_one_that_is_left_ends_the_transactions_of_the_other(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source_cluster.create_topic(TOPIC, PARTITIONS)
    config = exactly_once_config(source_cluster, target_cluster, INTERVAL)
    group = f"{NAME}-two"
    workers = [Product(target_cluster, group=group, properties=PROPERTIES) for _ in range(2)]
    try:
        with Writer(source_cluster, TOPIC, PARTITIONS, RATE) as writer:
            for each in workers:
                each.start()
            workers[0].put(NAME, config)
            workers[0].wait_running(NAME, tasks=2)
            # The one that leads, and the one that does not, in some order.
            for killed, left in (workers, reversed(workers)):
                time.sleep(3)
                killed.kill(*ALL)
                left.wait_running(NAME, tasks=2)
                left.wait_going_on(NAME, target_cluster, COPY)
                killed.start()
                left.wait_running(NAME, tasks=2)
        _wait_for_all_of_it(writer, target_cluster)
        assert any("fenced" in each.log_text() for each in workers)
    finally:
        for each in workers:
            each.close()
        source_cluster.delete_topic(TOPIC)
        target_cluster.delete_topic(COPY)


@pytest.mark.mm2
@pytest.mark.long
def test_a_java_worker_that_is_killed_and_ours_hand_the_copy_to_each_other(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Both ways, by SIGKILL: each takes over a transaction that the other has left open."""
    source_cluster.create_topic(TOPIC, PARTITIONS)
    config = exactly_once_config(source_cluster, target_cluster, INTERVAL)
    group = f"{NAME}-java"
    java = ConnectWorker(target_cluster, PROPERTIES, group=group, heap="512m")
    ours = Product(target_cluster, group=group, properties=PROPERTIES)
    try:
        with Writer(source_cluster, TOPIC, PARTITIONS, RATE) as writer:
            java.start()
            assert java.request("PUT", f"/connectors/{NAME}/config", config)[0] == 201
            java.wait_running(NAME, tasks=2)
            time.sleep(5)
            java.kill()
            ours.start()
            ours.wait_running(NAME, tasks=2)
            ours.wait_going_on(NAME, target_cluster, COPY)
            ours.kill(*ALL)
            # Java's worker ends if it joins while a member of ours that was killed is still in the group.
            time.sleep(SESSION_S + 2)
            java.start()
            java.wait_running(NAME, tasks=2)
            time.sleep(5)
            java.kill()
            ours.start()
            ours.wait_running(NAME, tasks=2)
            ours.wait_going_on(NAME, target_cluster, COPY)
        _wait_for_all_of_it(writer, target_cluster)
    finally:
        ours.close()
        java.close()
        source_cluster.delete_topic(TOPIC)
        target_cluster.delete_topic(COPY)


def _wait_for_all_of_it(writer: Writer, target: LocalCluster) -> None:
    """Readers of committed records see every number once, in order."""
    wanted = {number: list(range(count)) for number, count in writer.counts.items()}

    def copied() -> dict[int, list[int]]:
        return {number: _committed(target, number) for number in wanted}

    def missing() -> int:
        return sum(map(len, wanted.values())) - sum(map(len, copied().values()))

    wait_for(lambda: missing() <= 0, "all are there", pause=1.0, arrived=missing)
    found = copied()
    differences = {number: _differences(found[number], wanted[number]) for number in wanted}
    assert not any(differences.values()), differences


def _committed(cluster: LocalCluster, partition: int) -> list[int]:
    read = records(cluster, COPY, partition, isolation="read_committed")
    return [int((each.value or b"").split()[0]) for each in read]


def _differences(found: list[int], wanted: list[int]) -> list[str]:
    """The first places where what was found is not what was wanted."""
    places = [
        f"place {place}: {a} instead of {b}" for place, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b
    ]
    lengths = [] if len(found) == len(wanted) else [f"{len(found)} records instead of {len(wanted)}"]
    return lengths + places[:3]
