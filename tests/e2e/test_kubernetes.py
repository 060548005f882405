"""Tasks in pods that Spark asks a stand-in for Kubernetes for, with the files of deploy/kubernetes (tests/e2e/pods.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from deploy.local import LocalCluster
from deploy.local.spark_executor import Executor
from tests.e2e.ends import wait_ends
from tests.e2e.executors import PROPERTIES, at_work, contents, once_config
from tests.e2e.identity_topics import produce_shapes, produce_transactions
from tests.e2e.longest_pause import longest_pause
from tests.e2e.pods import DRIVER_POD, KUBERNETES, Pods
from tests.e2e.product import JVM, Product
from tests.seeds import chance
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

SHAPES, TX, NUMBERS, DRAINED = (f"in-pods-{name}" for name in ("shapes", "tx", "numbers", "drained"))
PARTITIONS: Final = {SHAPES: 3, TX: 2}
TASKS: Final = 4
EXECUTORS: Final = 2
GOES_ON_S: Final = 60.0
STARTS_S: Final = 300.0
NOT_FOUND: Final = 404


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


def test_an_executor_whose_node_is_drained_hands_over_before_its_pod_ends(
    pods: Pods,
    product: Product,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drained = []

    def busy() -> list[Executor]:
        return [each for each in product.executors() if at_work(each, target_cluster)]

    def drain() -> None:
        # The new pod of the test before gets tasks within a minute or two.
        wait_for_state(lambda: len(busy()) == EXECUTORS, "both executors are busy", STARTS_S)
        drained.append(chance(DRAINED).choice(busy()))
        assert pods.drain(drained[0]), product.log_tail(60)

    still = longest_pause(product, source_cluster, target_cluster, DRAINED, drain, tasks=TASKS, patience_s=STARTS_S)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= GOES_ON_S
    assert f"leaves executor {drained[0].id}, which is being decommissioned" in product.log_text()
    wait_for_state(lambda: len(product.executors()) == EXECUTORS, "another pod is there", STARTS_S)


def test_a_driver_that_starts_again_deletes_what_the_one_before_has_left(pods: Pods, product: Product) -> None:
    (before,) = applications(pods)
    product.kill(JVM)

    def of_the_new_driver() -> bool:
        return len(applications(pods)) == 1 and before not in applications(pods)

    wait_for_state(of_the_new_driver, "only what the new driver has is there", STARTS_S)
    wait_for_state(lambda: len(product.executors()) == EXECUTORS, "new pods are there", STARTS_S)
    assert (len(pods.asked()), len(pods.api.all("configmaps"))) == (EXECUTORS, 1)


def test_nothing_is_left_after_the_end_and_no_more_rights_were_needed(pods: Pods, product: Product) -> None:
    # If the worker dies, Kubernetes deletes them with its pod.
    for each in (*pods.asked(), *pods.api.all("configmaps")):
        assert [owner["name"] for owner in each["metadata"]["ownerReferences"]] == [DRIVER_POD]
    assert product.stop(60) == 0
    assert (pods.asked(), pods.api.all("configmaps")) == ([], [])
    wait_for_state(lambda: not pods.executors, "no executor is left", STARTS_S)
    assert [line for status, line in pods.api.refused if status != NOT_FOUND] == []


def applications(pods: Pods) -> set[str]:
    """Whose pods and ConfigMaps there are."""
    return {each["metadata"]["labels"]["spark-app-selector"] for each in (*pods.asked(), *pods.api.all("configmaps"))}
