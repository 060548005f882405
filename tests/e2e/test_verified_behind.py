"""`verify.follow.enabled`: what the connector has copied is verified behind it, and what differs is in its status."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import psutil
import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from tests.e2e.ends import wait_ends
from tests.e2e.product import WORKER, Product, mirror_config
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

PATIENCE_S = 360.0


def write(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    producer = Producer(cluster.librdkafka())
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def followers(product: Product) -> list[int]:
    """The pids of the processes that verify."""
    (worker,) = product.pids(WORKER)
    found = []
    for each in psutil.Process(worker).children():
        with contextlib.suppress(psutil.Error):  # one that has just ended
            if any("sampling_process" in word for word in each.cmdline()):
                found.append(each.pid)
    return found


def test_a_record_that_somebody_else_wrote_between_the_copies_is_told_in_the_connectors_status(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    product: Product,
    topic_name: Callable[[str], str],
) -> None:
    topic = topic_name("verified")
    source_cluster.create_topic(topic)
    write(source_cluster, topic, *(b"record %d" % number for number in range(100)))
    config = {
        **mirror_config(source_cluster, target_cluster, topic),
        "verify.follow.enabled": "true",
        "verify.follow.cpu.share": "1",
    }
    product.put(topic, config)
    product.wait_running(topic)
    wait_ends(target_cluster, f"A.{topic}", {0: 100})
    # One by one: what is there before it is first looked at counts as copied before.
    wait_for_state(lambda: len(followers(product)) == 1, "a process verifies", PATIENCE_S)

    written = 100

    def verified() -> re.Match[str] | None:
        nonlocal written
        write(source_cluster, topic, b"record %d" % written)
        written += 1
        # How much of it is a matter of the moment.
        return re.search(f"Connector {topic}: sampling verification: .*no fault", product.log_text())

    wait_for(verified, "the log tells how much is verified", PATIENCE_S, 0.5)
    assert "trace" not in product.status(topic)["connector"]

    wait_ends(target_cluster, f"A.{topic}", {0: written})
    write(target_cluster, f"A.{topic}", b"of somebody else")
    write(source_cluster, topic, b"behind it")

    def told() -> str:
        return str(product.status(topic)["connector"].get("trace") or "")

    wait_for(told, "the status tells what differs", PATIENCE_S)
    assert told().startswith(f"1 record differs from the source; first: {topic}-0: ")
    assert product.status(topic)["connector"]["state"] == "RUNNING"

    product.delete(topic)
    wait_for_state(lambda: not followers(product), "nobody verifies any more", PATIENCE_S)
