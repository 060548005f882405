"""Groups that fail over exactly where a statement drops records, also after kills of the processes that copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.group_load import GroupLoad
from benchmarks.group_reading import PARTITIONS, end_offsets, read_numbers
from deploy.local import LocalCluster
from tests.e2e.moved_groups import PATIENCE_S, checkpoint_config, moved_groups
from tests.e2e.product import Product, mirror_config
from tests.e2e.sql_processes import kill_some
from tests.seeds import chance
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

TOPIC: Final = "sql-orders"
REMOTE: Final = f"A.{TOPIC}"
RATE: Final = 250.0
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
    seed = chance(TOPIC).randrange(1 << 32)
    with GroupLoad(source_cluster, TOPIC, rate=RATE, seed=seed) as made:
        product.put("sql-orders-copy", {**copy, "spark.transform.sql": SQL})
        product.put("sql-orders-groups", checkpoint_config(copy))
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
    found = moved_groups(source, target, load, TOPIC)
    assert (found.repeated, found.skipped, found.missing) == ({}, {}, {})


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
