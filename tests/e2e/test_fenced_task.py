"""A task whose transactional id somebody took although the task is in charge: it goes on by itself."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.waiting import in_time, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak]

TOPIC = "fenced"
NAME = "fenced"
OTHER = b"of a process that was suspended and woke too late"


class OneRecord:
    """A feed of one record."""

    def __init__(self) -> None:
        self.batches = deque([build([NewRecord(b"k", OTHER, 0)])])
        self.written = asyncio.Event()

    def waiting(self) -> bool:
        return bool(self.batches)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        return self.batches.popleft() if self.batches else None

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        self.written.set()

    def failed(self, error: PartitionRefusedError) -> None:
        raise error


async def take_over(cluster: LocalCluster, transactional_id: str, topic: str) -> None:
    """What a zombie does whose clock says that it has a lease: the epoch is raised, and a record written with it."""
    connection = Cluster(cluster.client_properties(), "zombie", kind="producer")
    await connection.connect()
    await connection.refresh([topic])
    producer = BatchProducer(connection, ProducerSettings(), transactional_id, lambda: True, Problems(print))
    try:
        await producer.start()
        feed = OneRecord()
        producer.wake(producer.partition(topic, 0, feed))
        await in_time("the record of the zombie is acknowledged", feed.written.wait())
    finally:
        await producer.close()
        await connection.close()


def test_a_task_that_a_zombie_fenced_goes_on_and_is_not_failed(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product
) -> None:
    rows = [b"%d" % number for number in range(2000)]

    def more(first: int, end: int) -> None:
        produce(source_cluster, TOPIC, ({"value": value, "partition": 0} for value in rows[first:end]))

    def copied() -> list[bytes | None]:
        return values(target_cluster, f"A.{TOPIC}", 1)[0]

    def committed() -> bool:
        offsets = product.call("GET", f"/connectors/{NAME}/offsets")["offsets"]
        return any(each["offset"] == {"offset": 999} for each in offsets)

    source_cluster.create_topic(TOPIC, 1)
    more(0, 1000)
    said = len(product.log_text())
    product.put(NAME, mirror_config(source_cluster, target_cluster, TOPIC))
    try:
        product.wait_running(NAME)
        wait_for(committed, "the first records are committed")
        asyncio.run(take_over(target_cluster, f"{product.group}-{NAME}-0", f"A.{TOPIC}"))
        more(1000, 2000)
        wait_for(lambda: rows[1999] in copied() or "FAILED" in product.states(NAME), "the task goes on or fails")
        product.wait_running(NAME)
        lines = [line for line in product.log_text()[said:].splitlines() if f"Task {NAME}-0" in line]
        assert [line for line in lines if "is FAILED" in line] == []
        assert any("It restarts in" in line for line in lines), lines
        assert [value for value in copied() if value != OTHER] == rows
    finally:
        product.delete(NAME)
