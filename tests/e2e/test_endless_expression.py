"""An expression in `topics` that takes for ever to match fails its own connector, with a line, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import wait_ends
from tests.e2e.numbered import Writer
from tests.e2e.product import Product, mirror_config

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

TOPIC: Final = "a" * 36 + "-"
ENDLESS: Final = "(a+)+"


@pytest.fixture(scope="module")
def worker(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker with a good connector, and one whose expression takes for ever."""
    for topic in (TOPIC, "endless-neighbour"):
        source_cluster.create_topic(topic)
    with Product(target_cluster, group="endless") as product:
        product.put(
            "good", mirror_config(source_cluster, target_cluster, "endless-neighbour", source_cluster_alias="E")
        )
        product.wait_running("good")
        product.put("endless", endless(source_cluster, target_cluster, ENDLESS))
        yield product


def endless(source: LocalCluster, target: LocalCluster, topics: str, tasks_max: str = "1") -> dict[str, str]:
    return mirror_config(source, target, topics, source_cluster_alias="F", tasks_max=tasks_max)


def test_it_fails_with_a_line_that_names_setting_expression_and_topic(worker: Product) -> None:
    worker.wait_states("endless", ["FAILED"])
    assert worker.status("endless")["connector"]["trace"].splitlines() == [
        f"Invalid value {ENDLESS} for configuration topics: matching the name {TOPIC} takes more than 1 s; "
        "simplify the expression, it can split a name in too many ways, as (a|aa)+ does"
    ]


def test_rest_answers_and_others_copy_while_it_is_matched(
    worker: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    slowest = 0.0
    worker.put("endless", endless(source_cluster, target_cluster, ENDLESS, "2"))
    with Writer(source_cluster, "endless-neighbour", 1, 200) as writer:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            begun = time.monotonic()
            assert worker.rest.get("/connectors/good/status").json()["connector"]["state"] == "RUNNING"
            slowest = max(slowest, time.monotonic() - begun)
    wait_ends(target_cluster, "E.endless-neighbour", writer.counts)
    worker.wait_states("endless", ["FAILED"])
    # A loop that waits for a match would have been silent for ever.
    assert slowest < 20


# It starts Spark once more.
@pytest.mark.long
def test_sigterm_ends_the_worker_in_the_middle_of_a_match_and_a_start_brings_it_back(
    worker: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    worker.put("endless", endless(source_cluster, target_cluster, ENDLESS, "3"))
    assert worker.stop() == 0
    worker.start()
    worker.wait_running("good")
    worker.wait_states("endless", ["FAILED"])


def test_a_mended_expression_heals_the_connector(
    worker: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    worker.put("endless", endless(source_cluster, target_cluster, "a+-"))
    worker.wait_running("endless")
