"""Tasks on a standalone Spark cluster: what is copied is the same, and an executor that is killed under load loses nothing.

`make test-cluster` runs the core of the other files on such a cluster, too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

import pytest

from deploy.local import LocalCluster
from deploy.local.spark_cluster import SparkCluster
from tests.e2e.ends import wait_ends
from tests.e2e.executors import (
    PROPERTIES,
    contents,
    once_config,
    unpacked_libraries,
    wait_all,
    wait_busy,
    wait_executors,
)
from tests.e2e.identity_topics import produce_shapes, produce_singles, produce_transactions
from tests.e2e.numbered import Writer
from tests.e2e.product import EXECUTOR, Product, mirror_config
from tests.e2e.progress import Progress
from tests.seeds import chance
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]

SHAPES, SINGLES, TX, NUMBERS, WAITING = (
    f"on-executors-{name}" for name in ("shapes", "singles", "tx", "numbers", "waiting")
)
PARTITIONS: Final = {SHAPES: 3, SINGLES: 4, TX: 2}
TASKS: Final = 4
NUMBERS_PARTITIONS: Final = 8
RATE: Final = 2_000
LOADED_S: Final = (1.0, 2.0)
# What the partitions of a killed executor may stand still on a slow machine that runs other tests, too; alone it is 10 s
# (test_spark_cluster_long.py).
GOES_ON_S: Final = 180.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkCluster]:
    """Two Spark workers with eight slots each."""
    with SparkCluster(workers=2, slots=8) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def product(spark: SparkCluster, target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker whose tasks run there, exactly once."""
    with Product(target_cluster, group="spark-cluster", properties=PROPERTIES, spark=spark) as worker:
        wait_executors(worker, 2)
        yield worker


# `make test-cluster` has all of test_identity.py there, too.
@pytest.mark.long
def test_key_value_headers_timestamp_partition_and_order_are_the_same(
    product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    for topic, partitions in PARTITIONS.items():
        source_cluster.create_topic(topic, partitions, {"retention.ms": "-1"})
    produce_shapes(source_cluster, SHAPES)
    produce_singles(source_cluster, SINGLES, 1_000)
    produce_transactions(source_cluster, TX)
    wanted = {topic: contents(source_cluster, topic, partitions) for topic, partitions in PARTITIONS.items()}
    product.put("shapes", once_config(source_cluster, target_cluster, ",".join(PARTITIONS), tasks_max=str(TASKS)))
    product.wait_running("shapes", TASKS)
    for topic, partitions in wanted.items():
        wait_ends(target_cluster, f"A.{topic}", {number: len(each) for number, each in enumerate(partitions)})
    for topic, partitions in PARTITIONS.items():
        assert contents(target_cluster, f"A.{topic}", partitions) == wanted[topic], topic
    # None of them ran in the worker's own Spark process.
    assert {process.pid for process in product.parts()[EXECUTOR]} == {each.pid for each in product.executors()}
    assert len(product.executors()) == 2
    product.delete("shapes")


def test_an_executor_that_is_killed_under_load_loses_and_repeats_nothing(
    product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = f"A.{NUMBERS}"
    dice = chance(NUMBERS)
    source_cluster.create_topic(NUMBERS, NUMBERS_PARTITIONS)
    product.put("numbers", once_config(source_cluster, target_cluster, NUMBERS, tasks_max=str(TASKS)))
    product.wait_running("numbers", TASKS)
    copies = [(copy, partition) for partition in range(NUMBERS_PARTITIONS)]
    with Progress(target_cluster, copies) as progress:
        with Writer(source_cluster, NUMBERS, NUMBERS_PARTITIONS, RATE) as writer:
            product.wait_going_on("numbers", target_cluster, copy)
            time.sleep(dice.uniform(*LOADED_S))
            doomed = dice.choice(wait_busy(product, target_cluster, 2))
            assert unpacked_libraries(doomed) == set()
            when = time.monotonic()
            doomed.kill()
            product.wait_going_on("numbers", target_cluster, copy)
            time.sleep(dice.uniform(*LOADED_S))
        wait_all(writer, target_cluster, copy)
    still = max(progress.longest_pause(each, when) for each in copies)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= GOES_ON_S
    assert product.process.poll() is None
    wait_executors(product, 2)
    assert doomed.id not in {each.id for each in product.executors()}
    product.delete("numbers")


def test_a_master_that_is_not_there_is_named_at_the_start_and_when_no_executor_is_left(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source_cluster.create_topic(WAITING, 1)
    spark = SparkCluster(workers=1, slots=2)

    def named() -> bool:
        says = f"spark.master={spark.master_url} can't be reached: "
        (task,) = product.status("waiting").get("tasks") or [{"trace": ""}]
        return (task.get("trace") or "").startswith(says) and says in product.rest.get("/health").json()["message"]

    with (
        contextlib.closing(spark),
        Product(target_cluster, group="without-master", properties=PROPERTIES, spark=spark) as product,
    ):
        product.put("waiting", mirror_config(source_cluster, target_cluster, WAITING))
        wait_for_state(named, "status and health name the master that has not started")
        spark.start()
        product.wait_running("waiting")
        spark.master.end_all()
        for executor in product.executors():
            executor.kill()
        wait_for_state(named, "status and health name the master that is lost")
