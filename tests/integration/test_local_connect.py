"""Apache's Connect worker and MirrorMaker 2, started for comparison: they run, copy, and end."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest
from confluent_kafka import Consumer, Message, Producer

from deploy.local import LocalCluster
from deploy.local.connect import ConnectWorker, DedicatedMirrorMaker
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.mm2]


def produce(cluster: LocalCluster, topic: str, value: bytes) -> None:
    producer = Producer(cluster.librdkafka())
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def first_value(cluster: LocalCluster, topic: str) -> bytes | None:
    settings = {
        "group.id": f"reader-{topic}",
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 500,
    }
    consumer = Consumer({**cluster.librdkafka(), **settings, "allow.auto.create.topics": False})
    try:
        consumer.subscribe([f"^{topic.replace('.', '[.]')}$"])

        def read() -> Message | None:
            message = consumer.poll(1)
            # Until the topic exists its absence arrives as a message.
            return message if message is not None and message.error() is None else None

        # Java's copying is not what these tests are about: it may come late.
        value: bytes | None = wait_for_state(read, f"the first record of {topic}", 180, 0).value()
        return value
    finally:
        consumer.close()


def test_connect_worker_runs_a_mirror_source_connector(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("by-connect")
    source_cluster.create_topic(topic)
    produce(source_cluster, topic, b"copied")
    with ConnectWorker(target_cluster, group=topic_name("connect"), heap="512m") as worker:
        config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "source",
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
            "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
            "topics": topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
        }
        assert worker.request("PUT", "/connectors/mirror/config", config)[0] == 201
        worker.wait_running("mirror")
        assert first_value(target_cluster, f"source.{topic}") == b"copied"
        pid = worker.process.pid
    assert not psutil.pid_exists(pid)


# The swap starts one, too (tests/e2e/test_mm2_swap.py).
@pytest.mark.long
def test_dedicated_mirror_maker_copies_a_topic(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("dedicated")
    source_cluster.create_topic(topic)
    produce(source_cluster, topic, b"copied")
    with DedicatedMirrorMaker(source_cluster, target_cluster, {"topics": topic}, heap="512m") as mirror:
        assert (first_value(target_cluster, f"source.{topic}"), mirror.cpu_seconds() > 0) == (b"copied", True)
