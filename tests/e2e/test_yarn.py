"""Tasks in YARN's containers: what is copied is the same, and what is killed under load loses and repeats nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from deploy.local import LocalCluster, LocalError, hadoop_jars
from deploy.local.yarn_cluster import YarnCluster
from mirror_connect.spark_jobs.environment_archive import pack
from tests.e2e.ends import wait_ends
from tests.e2e.executors import PROPERTIES, at_work, contents, once_config
from tests.e2e.identity_topics import produce, produce_shapes, produce_transactions
from tests.e2e.longest_pause import longest_pause
from tests.e2e.product import EXECUTOR, Product
from tests.seeds import chance
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

SHAPES, TX, NUMBERS, MASTERLESS, PACKED = (
    f"on-yarn-{name}" for name in ("shapes", "tx", "numbers", "masterless", "packed")
)
PARTITIONS: Final = {SHAPES: 3, TX: 2}
TASKS: Final = 4
# Spark on YARN starts a container in the place of a lost one within seconds. A node manager here is a busy one.
GOES_ON_S: Final = 60.0
STARTS_S: Final = 300.0
EXECUTORS: Final = 2
SIZES: Final = {"spark.executor.instances": str(EXECUTORS), "spark.executor.cores": "4"}


@pytest.fixture(scope="module")
def yarn() -> Iterator[YarnCluster]:
    """Two nodes, each with room for one executor."""
    try:
        hadoop_jars.ensure(tries=1)
    except LocalError as error:
        pytest.skip(str(error))
    with YarnCluster(nodes=EXECUTORS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def product(yarn: YarnCluster, target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker whose tasks run there, exactly once."""
    properties = {**PROPERTIES, **SIZES}
    with Product(
        target_cluster, group="yarn", properties=properties, environment=yarn.environment, spark=yarn
    ) as worker:
        yield worker


def test_key_value_headers_timestamp_partition_and_order_are_the_same(
    yarn: YarnCluster, product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    for topic, partitions in PARTITIONS.items():
        source_cluster.create_topic(topic, partitions, {"retention.ms": "-1"})
    produce_shapes(source_cluster, SHAPES)
    produce_transactions(source_cluster, TX)
    wanted = {topic: contents(source_cluster, topic, partitions) for topic, partitions in PARTITIONS.items()}
    product.put("shapes", once_config(source_cluster, target_cluster, ",".join(PARTITIONS), tasks_max=str(TASKS)))
    product.wait_running("shapes", TASKS, STARTS_S)
    for topic, records in wanted.items():
        wait_ends(target_cluster, f"A.{topic}", {number: len(each) for number, each in enumerate(records)})
    for topic, partitions in PARTITIONS.items():
        assert contents(target_cluster, f"A.{topic}", partitions) == wanted[topic], topic
    executors = product.executors()
    assert {process.pid for process in product.parts()[EXECUTOR]} == {each.pid for each in executors}
    assert len({each.worker for each in executors}) == EXECUTORS
    # One application, whose driver is not in a container.
    assert len(yarn.application_masters) == 1
    product.delete("shapes")


def test_an_executor_that_is_killed_under_load_loses_and_repeats_nothing(
    product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    doomed = []

    def kill() -> None:
        busy = [each for each in product.executors() if at_work(each, target_cluster)]
        assert len(busy) == EXECUTORS, product.log_tail(60)
        doomed.append(chance(NUMBERS).choice(busy))
        doomed[0].kill()

    still = longest_pause(product, source_cluster, target_cluster, NUMBERS, kill, tasks=TASKS, patience_s=STARTS_S)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= GOES_ON_S
    wait_for_state(lambda: len(product.executors()) == EXECUTORS, "another container is there", STARTS_S)
    assert doomed[0].id not in {each.id for each in product.executors()}


def test_an_application_master_that_is_killed_under_load_loses_and_repeats_nothing(
    yarn: YarnCluster,
    product: Product,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """YARN starts another one, and kills the executors of the first."""
    before: list[psutil.Process] = []

    def kill() -> None:
        (master,) = yarn.application_masters
        before.extend([master, *(each.process for each in product.executors())])
        master.kill()
        wait_for_state(lambda: bool(set(yarn.application_masters) - {master}), "another one is there", STARTS_S)

    still = longest_pause(product, source_cluster, target_cluster, MASTERLESS, kill, tasks=TASKS, patience_s=STARTS_S)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in before)


def test_a_worker_that_stops_leaves_no_container(yarn: YarnCluster, product: Product) -> None:
    assert yarn.containers
    assert product.stop(60) == 0
    wait_for_state(lambda: not yarn.containers, "no container is left", STARTS_S)


def test_containers_have_the_packed_environment(
    yarn: YarnCluster, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """YARN unpacks what `mirror-connect spark-archive` packs. The worker before has given its slots back."""
    archive = tmp_path / "environment.tar.gz"
    pack(archive)
    source_cluster.create_topic(PACKED, 1)
    produce(source_cluster, PACKED, ({"value": b"%d" % number, "partition": 0} for number in range(100)))
    properties = {**PROPERTIES, **SIZES, "spark.archives": f"{archive}#environment"}
    with Product(
        target_cluster, group="yarn-packed", properties=properties, environment=yarn.environment, spark=yarn
    ) as worker:
        worker.put("packed", once_config(source_cluster, target_cluster, PACKED))
        worker.wait_running("packed", 1, STARTS_S)
        wait_ends(target_cluster, f"A.{PACKED}", {0: 100})
        places = {Path(process.exe()) for each in worker.executors() for process in each.tasks()}
        assert places
        assert all(place.is_relative_to(yarn.directory) for place in places), places


def test_nothing_of_a_cluster_is_left(yarn: YarnCluster) -> None:
    """`yarn` has downloaded what it needs."""
    with YarnCluster(nodes=1) as another:
        daemons = another.daemons
        assert len(daemons) == 2
    assert not any(daemon.alive for daemon in daemons)
    assert not another.directory.exists()
    assert yarn.active_nodes() == EXECUTORS
