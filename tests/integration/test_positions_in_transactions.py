"""Positions that a Java worker with exactly-once wrote: in transactions, which may be aborted or open, on a real broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.app.storage.offsets import OffsetStore, offset_key, offset_value
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.consumer.log_clients import LogClients

pytestmark = pytest.mark.brokers

ORDERS: dict[str, Any] = {"cluster": "A", "partition": 0, "topic": "orders"}
PAYMENTS: dict[str, Any] = {"cluster": "A", "partition": 0, "topic": "payments"}


class JavaTask:
    """What a Java task with exactly-once does to the offsets topic: its positions are part of its transactions."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.topic = topic
        self.producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "transactional.id": f"java-{uuid.uuid4().hex[:8]}",
                "transaction.timeout.ms": 300_000,
            }
        )
        self.producer.init_transactions(60)

    def write(self, partition: dict[str, Any], offset: int) -> JavaTask:
        """Begins a transaction with one position, which is on the broker when this returns."""
        self.producer.begin_transaction()
        key, value = offset_key("mirror", partition), offset_value({"offset": offset})
        self.producer.produce(self.topic, key=key, value=value, partition=0)
        assert self.producer.flush(60) == 0
        return self

    def commit(self) -> None:
        self.producer.commit_transaction(60)

    def abort(self) -> None:
        self.producer.abort_transaction(60)


@asynccontextmanager
async def opened(cluster: LocalCluster, topic: str, patience_s: float = 60.0) -> AsyncIterator[OffsetStore]:
    clients = LogClients({"bootstrap.servers": cluster.bootstrap_servers}, "test")
    store = OffsetStore(KafkaTopicLog(clients, TopicPlan.for_offsets(topic, 1, 1)), patience_s)
    try:
        await store.start()
        yield store
    finally:
        await store.stop()
        clients.close()


@pytest.fixture
def topic(one_broker: LocalCluster) -> str:
    name = f"offsets-{uuid.uuid4().hex[:8]}"
    one_broker.create_topic(name, 1, {"cleanup.policy": "compact"})
    return name


async def test_an_aborted_position_is_not_believed_and_a_committed_one_is(one_broker: LocalCluster, topic: str) -> None:
    def java() -> None:
        task = JavaTask(one_broker, topic)
        task.write(ORDERS, 100).commit()
        task.write(ORDERS, 250).abort()

    await asyncio.to_thread(java)
    async with opened(one_broker, topic) as store:
        assert await store.source_offsets("mirror", [ORDERS]) == [{"offset": 100}]


async def test_a_position_behind_an_open_transaction_is_waited_for(one_broker: LocalCluster, topic: str) -> None:
    open_one = await asyncio.to_thread(lambda: JavaTask(one_broker, topic).write(PAYMENTS, 7))
    await asyncio.to_thread(lambda: JavaTask(one_broker, topic).write(ORDERS, 100).commit())
    async with opened(one_broker, topic) as store:
        asked = asyncio.create_task(store.source_offsets("mirror", [ORDERS, PAYMENTS]))
        await asyncio.sleep(1.5)
        # The last stable offset lies before both of them: an answer now would be "nothing is known of orders".
        assert not asked.done()
        await asyncio.to_thread(open_one.abort)
        assert await asked == [{"offset": 100}, None]


async def test_a_wait_for_an_open_transaction_ends_and_says_what_it_waited_for(
    one_broker: LocalCluster, topic: str
) -> None:
    await asyncio.to_thread(lambda: JavaTask(one_broker, topic).write(ORDERS, 1).commit())
    open_one = await asyncio.to_thread(lambda: JavaTask(one_broker, topic).write(PAYMENTS, 7))
    async with opened(one_broker, topic, patience_s=1.0) as store:
        with pytest.raises(
            ClusterUnreachable, match=rf"{topic}.*open transaction.*\b0 at offset 2\b.*transaction\.timeout"
        ):
            await store.source_offsets("mirror", [ORDERS])
        await asyncio.to_thread(open_one.commit)
        assert await store.source_offsets("mirror", [ORDERS, PAYMENTS]) == [{"offset": 1}, {"offset": 7}]
