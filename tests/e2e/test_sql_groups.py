"""Groups that fail over exactly where a statement drops records, also after kills of the processes that copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from benchmarks.group_load import GroupLoad, Positions
from benchmarks.group_reading import PARTITIONS, committed, end_offsets, read_numbers, truths
from deploy.local import LocalCluster
from tests.e2e.product import Product, mirror_config
from tests.e2e.sql_processes import kill_some
from tests.seeds import chance
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

TOPIC: Final = "sql-orders"
REMOTE: Final = f"A.{TOPIC}"
RATE: Final = 250.0
PATIENCE_S: Final = 360.0
# Two of three are dropped, and the first of all. So most positions are in front of a record that is not on the target, and
# many in front of the first one that is.
FIRST: Final = 600
SQL: Final = (
    f"SELECT * FROM records WHERE CAST(CAST(value AS STRING) AS BIGINT) >= {FIRST}"
    " AND CAST(CAST(value AS STRING) AS BIGINT) % 3 = 0"
)


@pytest.fixture
def load(source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product) -> Iterator[GroupLoad]:
    source_cluster.create_topic(TOPIC, PARTITIONS)
    copy = mirror_config(source_cluster, target_cluster, TOPIC, consumer_isolation_level="read_committed")
    groups = {
        **{name: value for name, value in copy.items() if not name.startswith("sync.topic")},
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "groups": "group-.*",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "checkpoints.topic.replication.factor": "1",
    }
    seed = chance(TOPIC).randrange(1 << 32)
    with GroupLoad(source_cluster, TOPIC, rate=RATE, seed=seed) as made:
        product.put("sql-orders-copy", {**copy, "spark.transform.sql": SQL})
        product.put("sql-orders-groups", groups)
        for name in ("sql-orders-copy", "sql-orders-groups"):
            product.wait_running(name)
        yield made
    for name in ("sql-orders-copy", "sql-orders-groups"):
        product.delete(name)


def wait_written(source: LocalCluster, more: int) -> None:
    wanted = min(end_offsets(source, TOPIC).values()) + more
    wait_for(lambda: min(end_offsets(source, TOPIC).values()) >= wanted, f"{more} records more are written", PATIENCE_S)


def check(source: LocalCluster, target: LocalCluster, load: GroupLoad) -> None:
    """Stops the groups. In the end none skips a record that it has not read, nor reads one again."""
    positions = load.settle()

    def arrived() -> bool:
        moved = committed(target, load.groups, REMOTE)
        whole = all(places.keys() == positions[group].keys() for group, places in moved.items())
        return whole and not differences(source, target, positions)[0]

    with suppress(AssertionError):
        wait_for(arrived, "all groups go on exactly", PATIENCE_S, 1.0)
    assert differences(source, target, positions) == ({}, {})
    assert {group: sorted(places) for group, places in committed(target, load.groups, REMOTE).items()} == {
        group: list(range(PARTITIONS)) for group in positions
    }


def differences(
    source: LocalCluster, target: LocalCluster, positions: Positions
) -> tuple[dict[str, int], dict[str, int]]:
    """What is repeated and what is skipped, by group and partition."""
    moved = committed(target, list(positions), REMOTE)
    found = truths(source, target, TOPIC, REMOTE)
    repeated, skipped = {}, {}
    for group, places in moved.items():
        for partition, place in places.items():
            verdict = found[partition].judge(positions[group][partition], place)
            name = f"{group} partition {partition} {positions[group][partition]}->{place}"
            if verdict.repeated:
                repeated[name] = verdict.repeated
            if verdict.skipped:
                skipped[name] = verdict.skipped
    return repeated, skipped


def test_groups_go_on_exactly_where_records_were_dropped(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, load: GroupLoad
) -> None:
    wait_written(source_cluster, 150)
    check(source_cluster, target_cluster, load)
    load.go_on()
    dice = chance("sql-groups")
    for _ in range(3):
        kill_some(product, dice)
        wait_written(source_cluster, 30)
        product.wait_running("sql-orders-copy")
    check(source_cluster, target_cluster, load)
    load.stop()
    written = read_numbers(source_cluster, TOPIC, "read_committed")
    visible = [{n for _, n in log if n >= FIRST and n % 3 == 0} for log in written]
    wait_for(
        lambda: [{number for _, number in log} for log in read_numbers(target_cluster, REMOTE)] == visible,
        "what the statement keeps is there, and nothing else",
        PATIENCE_S,
        1.0,
        arrived=lambda: end_offsets(target_cluster, REMOTE),
    )
