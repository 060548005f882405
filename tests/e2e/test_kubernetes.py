"""Tasks in pods that Spark asks a stand-in for Kubernetes for, with the files of deploy/kubernetes (tests/e2e/pods.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from deploy.local import LocalCluster
from tests.e2e.ends import wait_ends
from tests.e2e.executors import PROPERTIES, at_work, contents, once_config
from tests.e2e.identity_topics import produce_shapes, produce_transactions
from tests.e2e.longest_pause import longest_pause
from tests.e2e.pods import DRIVER_POD, KUBERNETES, Pods
from tests.e2e.product import Product
from tests.seeds import chance
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

SHAPES, TX, NUMBERS = (f"in-pods-{name}" for name in ("shapes", "tx", "numbers"))
PARTITIONS: Final = {SHAPES: 3, TX: 2}
TASKS: Final = 4
EXECUTORS: Final = 2
GOES_ON_S: Final = 60.0
STARTS_S: Final = 300.0


@pytest.fixture(scope="module")
def pods() -> Iterator[Pods]:
    with Pods() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def product(pods: Pods, target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker whose tasks run there, exactly once."""
    with Product(target_cluster, group="pods", properties=PROPERTIES, spark=pods) as worker:
        yield worker


def test_key_value_headers_timestamp_partition_and_order_are_the_same(
    product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
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
    assert len(product.executors()) == EXECUTORS
    product.delete("shapes")


def test_pods_are_those_of_the_template_and_the_properties(pods: Pods) -> None:
    template = yaml.safe_load((KUBERNETES / "spark-executor-pod.yaml").read_text("utf-8"))
    asked = pods.asked()
    assert len(asked) == EXECUTORS
    for pod in asked:
        (container,) = pod["spec"]["containers"]
        (wanted,) = template["spec"]["containers"]
        # Nothing that Spark adds takes a restriction away.
        assert container["securityContext"] == wanted["securityContext"]
        assert pod["spec"]["securityContext"].items() >= template["spec"]["securityContext"].items()
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["metadata"]["labels"].items() >= template["metadata"]["labels"].items()
        assert container["image"] == pods.properties["spark.kubernetes.container.image"]
        assert container["resources"]["requests"]["cpu"] == "2"
        # 512 MB, and what the overhead of eight slots is.
        assert container["resources"]["limits"]["memory"] == "2312Mi"
        # The worker's pod owns it.
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["name"], owner["uid"]) == (DRIVER_POD, pods.driver["metadata"]["uid"])


def test_an_executor_that_is_killed_under_load_loses_and_repeats_nothing(
    pods: Pods,
    product: Product,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = {pod["metadata"]["name"] for pod in pods.asked()}

    def kill() -> None:
        busy = [each for each in product.executors() if at_work(each, target_cluster)]
        assert len(busy) == EXECUTORS, product.log_tail(60)
        chance(NUMBERS).choice(busy).kill()

    still = longest_pause(product, source_cluster, target_cluster, NUMBERS, kill, tasks=TASKS, patience_s=STARTS_S)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= GOES_ON_S
    wait_for_state(lambda: len(product.executors()) == EXECUTORS, "another pod is there", STARTS_S)
    assert len({pod["metadata"]["name"] for pod in pods.asked()} - before) == 1
