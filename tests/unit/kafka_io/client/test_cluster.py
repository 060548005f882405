"""What a client knows of a cluster after metadata from several brokers."""

from __future__ import annotations

from mirror_connect.kafka_io.client.cluster import Cluster, Leader
from mirror_connect.kafka_io.protocol.metadata import MetadataResponse, PartitionEntry, TopicEntry

OLD, NEW = b"o" * 16, b"n" * 16


def told(cluster: Cluster, topic_id: bytes | None, epoch: int = 0, error: int = 0) -> None:
    partitions = [] if error else [PartitionEntry(0, 0, 1, epoch, [1], [1])]
    cluster._update(MetadataResponse(0, [], "c", 1, [TopicEntry(error, "orders", topic_id, partitions)]))


def client() -> Cluster:
    return Cluster({"bootstrap.servers": "127.0.0.1:9"}, "test")


def test_another_topic_of_the_same_name_counts_although_its_epochs_begin_anew() -> None:
    cluster = client()
    told(cluster, OLD, epoch=7)
    told(cluster, NEW, epoch=0)
    assert (cluster.topic_id("orders"), cluster.leader("orders", 0)) == (NEW, Leader(1, 0))


def test_a_broker_that_still_tells_of_a_deleted_topic_is_not_believed() -> None:
    cluster = client()
    for topic_id in (OLD, NEW, OLD):
        told(cluster, topic_id, epoch=3)
    assert (cluster.topic_id("orders"), cluster.topic_error("orders")) == (NEW, 0)


def test_a_topic_that_was_missing_for_a_moment_is_the_same_one() -> None:
    cluster = client()
    told(cluster, OLD)
    told(cluster, None, error=3)
    assert (cluster.topic_id("orders"), cluster.topic_error("orders")) == (None, 3)
    told(cluster, OLD)
    assert cluster.topic_id("orders") == OLD
