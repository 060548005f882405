"""The last records of a source's partitions, read from a real broker without a group."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.local import LocalCluster
from mirror_connect.app.planning.last_records import last_records
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.record_parts import RecordParts

pytestmark = pytest.mark.long
TOPIC = "last-records"


def test_the_last_records_of_each_partition_are_read(one_broker: LocalCluster) -> None:
    address = {"bootstrap.servers": one_broker.bootstrap()}
    admin = AdminClient(address)
    admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(60)
    producer = Producer({**address, "transactional.id": "last-records"})
    producer.init_transactions(60)
    for committed in (True, False):
        producer.begin_transaction()
        for number in range(10):
            # Partition 2 stays empty.
            producer.produce(
                TOPIC, f"{committed} {number}", None, number % 2, timestamp=1000 + number, headers=[("h", None)]
            )
        producer.flush(60)
        if committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    partitions = [TopicPartition(TOPIC, number) for number in range(3)]
    properties = {**address, "isolation.level": "read_uncommitted"}
    found, problem = last_records(properties, "preview", partitions, 8, 60.0)
    # A transaction's marker has an offset, too: four offsets are three records.
    assert [(record.partition, record.timestamp, record.parts) for record in found] == [
        (number % 2, 1000 + number, RecordParts(None, f"False {number}".encode(), ((b"h", None),)))
        for number in range(4, 10)
    ]
    assert problem == ""
    committed_ones, _ = last_records({**address, "isolation.level": "read_committed"}, "preview", partitions, 40, 60.0)
    assert [record.parts.value for record in committed_ones] == [f"True {number}".encode() for number in range(10)]
    assert last_records(properties, "preview", [TopicPartition(TOPIC, 2)], 8, 60.0) == ([], "")


def test_a_source_that_is_away_is_said_to_be() -> None:
    with pytest.raises(ClusterUnreachable):
        last_records({"bootstrap.servers": "127.0.0.1:1"}, "preview", [TopicPartition("a", 0)], 5, 1.0)
