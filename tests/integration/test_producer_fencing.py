"""At a real broker: what a fenced producer has left open is aborted, and it can never commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from deploy.local import LocalCluster
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.app.worker_connectors.task_fencing import TaskFencing
from mirror_connect.connectors.errors import LeaseOver

pytestmark = pytest.mark.brokers


class Targets:
    def __init__(self, cluster: LocalCluster) -> None:
        self._producer = {"bootstrap.servers": cluster.bootstrap_servers}

    async def chosen(self, resolved: object) -> Target:
        return Target(True, self._producer, {})


def fencing(cluster: LocalCluster, lease_s: float = 8.0) -> TaskFencing:
    targets: object = Targets(cluster)
    return TaskFencing(targets, lambda task: f"fenced-{task}", lambda: lease_s)  # type: ignore[arg-type]


@pytest.fixture
def topic(target_cluster: LocalCluster) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": target_cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic("fenced-topic", 1, 1)]).values():
        future.result(180)
    yield "fenced-topic"
    for future in admin.delete_topics(["fenced-topic"]).values():
        future.result(180)


def ends(cluster: LocalCluster, topic: str) -> tuple[int, int]:
    """The last stable offset and the high watermark."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = []
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        (future,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}, isolation_level=level).values()
        found.append(future.result(180).offset)
    return found[0], found[1]


def opened(cluster: LocalCluster, topic: str, transactional_id: str) -> Producer:
    """A producer with a record in an open transaction, as a killed task leaves it."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(30) == 0
    return producer


def test_an_open_transaction_of_a_former_task_delays_nobody_after_the_fencing(
    target_cluster: LocalCluster, topic: str
) -> None:
    former = opened(target_cluster, topic, "fenced-c-3")
    assert ends(target_cluster, topic) == (0, 1)
    asyncio.run(fencing(target_cluster).fence("c", {}, range(5)))
    # The marker of the abort is there already.
    assert ends(target_cluster, topic) == (2, 2)
    with pytest.raises(KafkaException, match="fenced"):
        former.commit_transaction(30)


def test_a_worker_that_does_not_lead_any_more_fences_nobody(target_cluster: LocalCluster, topic: str) -> None:
    rightful = opened(target_cluster, topic, "fenced-c-0")
    with pytest.raises(LeaseOver):
        asyncio.run(fencing(target_cluster, lease_s=0).fence("c", {}, [0]))
    rightful.commit_transaction(30)
    assert ends(target_cluster, topic) == (2, 2)
