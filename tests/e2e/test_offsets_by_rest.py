"""Offsets that are set and reset by REST are where copying goes on, and no task's last commit overwrites them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from tests.e2e.ends import wait_ends
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

RECORDS = 10


@pytest.fixture
def topic(source_cluster: LocalCluster, topic_name: Callable[[str], str]) -> str:
    """A topic of two partitions with the values 0 … 9 in each."""
    name = topic_name("offsets")
    source_cluster.create_topic(name, 2)
    producer = Producer(source_cluster.librdkafka())
    for number in range(RECORDS):
        for partition in range(2):
            producer.produce(name, str(number).encode(), partition=partition)
    assert producer.flush(60) == 0
    return name


@pytest.fixture
def connector(product: Product, topic: str) -> Iterator[str]:
    """The name of the test's connector, which is deleted behind it."""
    yield topic
    product.delete(topic)


def copied(cluster: LocalCluster, topic: str, partition: int) -> list[int]:
    return [int(value or b"") for value in values(cluster, f"A.{topic}", 2)[partition]]


def entry(topic: str, partition: int, offset: int) -> dict[str, object]:
    where = {"cluster": "A", "topic": topic, "partition": partition}
    return {"partition": where, "offset": {"offset": offset}}


def test_a_connector_made_stopped_begins_behind_the_offsets_it_was_given(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic: str, connector: str
) -> None:
    config = mirror_config(source_cluster, target_cluster, topic)
    made = product.rest.post("/connectors", json={"name": connector, "config": config, "initial_state": "STOPPED"})
    assert made.status_code == httpx.codes.CREATED, made.text
    changed = product.rest.patch(f"/connectors/{connector}/offsets", json={"offsets": [entry(topic, 0, 6)]})
    assert changed.status_code == httpx.codes.OK, changed.text
    product.call("PUT", f"/connectors/{connector}/resume")
    wait_ends(target_cluster, f"A.{topic}", {0: 3, 1: RECORDS})
    assert [copied(target_cluster, topic, partition) for partition in range(2)] == [[7, 8, 9], list(range(RECORDS))]


def test_offsets_changed_right_after_a_stop_are_kept_and_copied_from(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic: str, connector: str
) -> None:
    product.put(connector, mirror_config(source_cluster, target_cluster, topic))
    product.wait_running(connector)
    wait_ends(target_cluster, f"A.{topic}", {0: RECORDS, 1: RECORDS})
    # The task's last commit is on its way, and must not come behind what is set now.
    product.call("PUT", f"/connectors/{connector}/stop")
    changed = product.rest.patch(f"/connectors/{connector}/offsets", json={"offsets": [entry(topic, 1, 7)]})
    assert changed.status_code == httpx.codes.OK, changed.text
    assert product.source_offsets(connector) == {0: RECORDS - 1, 1: 7}
    product.call("PUT", f"/connectors/{connector}/resume")
    wait_ends(target_cluster, f"A.{topic}", {0: RECORDS, 1: RECORDS + 2})
    wait_for(
        lambda: product.source_offsets(connector) == {0: RECORDS - 1, 1: RECORDS - 1}, "the new positions are listed"
    )
    assert copied(target_cluster, topic, 1) == [*range(RECORDS), 8, 9]


def test_after_a_reset_everything_is_copied_again(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic: str, connector: str
) -> None:
    product.put(connector, mirror_config(source_cluster, target_cluster, topic))
    product.wait_running(connector)
    wait_ends(target_cluster, f"A.{topic}", {0: RECORDS, 1: RECORDS})
    product.call("PUT", f"/connectors/{connector}/stop")
    reset = product.rest.delete(f"/connectors/{connector}/offsets")
    assert reset.status_code == httpx.codes.OK, reset.text
    assert product.source_offsets(connector) == {}
    product.call("PUT", f"/connectors/{connector}/resume")
    wait_ends(target_cluster, f"A.{topic}", {0: 2 * RECORDS, 1: 2 * RECORDS})
    assert copied(target_cluster, topic, 0) == [*range(RECORDS), *range(RECORDS)]
