"""A RegexRouter on the whole product: topics are made, configured and filled by their routed names, and groups find them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from tests.brokers import commit, committed, messages
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

PARTITIONS, RECORDS, READ = 3, 120, 25
ALIAS: Final = "routing"
SYNCS: Final = "mm2-offset-syncs.B.internal"


@dataclass
class Link:
    source: LocalCluster
    target: LocalCluster
    product: Product
    topic: str
    remote: str
    group: str


@pytest.fixture(scope="module")
def link(product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Link]:
    unique = time.time_ns()
    topic, group = f"routed-{unique}", f"reader-{unique}"
    made = Link(source_cluster, target_cluster, product, topic, f"plain.{unique}", group)
    source_cluster.create_topic(topic, PARTITIONS, {"retention.ms": "77000000"})
    rows = ({"value": b"%d" % number, "partition": number % PARTITIONS} for number in range(RECORDS))
    produce(source_cluster, topic, rows)
    commit(source_cluster, group, topic, READ, partitions=range(PARTITIONS))
    config = {
        **mirror_config(source_cluster, target_cluster, topic),
        "source.cluster.alias": ALIAS,
        "groups": group,
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.configs.enabled": "true",
        "sync.topic.configs.interval.seconds": "1",
        "offset.lag.max": "0",
    }
    route = {
        "transforms": "plain",
        "transforms.plain.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.plain.regex": rf"{ALIAS}\.routed-(\d+)",
        "transforms.plain.replacement": "plain.$1",
    }
    product.put(f"{topic}-source", config | route)
    wait_ends(target_cluster, made.remote, dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS))
    product.put(
        f"{topic}-checkpoint", config | {"connector.class": config["connector.class"].replace("Source", "Checkpoint")}
    )
    yield made
    for kind in ("source", "checkpoint"):
        product.delete(f"{topic}-{kind}")


def test_records_are_in_the_routed_topic_alone_in_their_partitions_and_order(link: Link) -> None:
    assert values(link.target, link.remote, PARTITIONS) == [
        [b"%d" % number for number in range(RECORDS) if number % PARTITIONS == partition]
        for partition in range(PARTITIONS)
    ]
    assert f"{ALIAS}.{link.topic}" not in link.target.admin().list_topics(timeout=60).topics


def test_the_routed_topic_has_the_configs_of_its_source_and_follows_them(link: Link) -> None:
    def retention() -> str | None:
        resource = ConfigResource(ResourceType.TOPIC, link.remote)
        found = link.target.admin().describe_configs([resource])[resource].result(60)
        return found["retention.ms"].value

    assert retention() == "77000000"
    entry = ConfigEntry("retention.ms", "88000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, link.topic, incremental_configs=[entry])
    link.source.admin().incremental_alter_configs([resource])[resource].result(60)
    wait_for_state(lambda: retention() == "88000000", "the changed config is on the target")


def test_a_new_partition_of_the_source_is_added_to_the_routed_topic(link: Link) -> None:
    from confluent_kafka.admin import NewPartitions  # noqa: PLC0415 — of this test alone

    link.source.admin().create_partitions([NewPartitions(link.topic, PARTITIONS + 1)])[link.topic].result(60)

    def there() -> bool:
        return (
            len(link.target.admin().list_topics(link.remote, timeout=60).topics[link.remote].partitions)
            == PARTITIONS + 1
        )

    wait_for_state(there, "the partition is on the target")
    produce(link.source, link.topic, [{"value": b"late", "partition": PARTITIONS}])
    wait_ends(link.target, link.remote, {PARTITIONS: 1})


def test_offset_syncs_name_the_topic_of_the_source(link: Link) -> None:
    def synced() -> set[int]:
        found = [OffsetSync.decode(m.key(), m.value()) for m in messages(link.source, SYNCS, 0)]
        return {each.partition for each in found if each.topic == link.topic}

    wait_for(lambda: synced() >= set(range(PARTITIONS)), "each partition has its offset sync")


def test_checkpoints_and_groups_name_the_routed_topic(link: Link) -> None:
    def translated() -> dict[int, int]:
        topic = f"{ALIAS}.checkpoints.internal"
        if topic not in link.target.admin().list_topics(timeout=60).topics:
            return {}
        found = [Checkpoint.decode(m.key(), m.value()) for m in messages(link.target, topic, 0)]
        return {
            each.partition: each.downstream for each in found if (each.group, each.topic) == (link.group, link.remote)
        }

    wanted = dict.fromkeys(range(PARTITIONS), READ)
    wait_for(lambda: translated() == wanted, "checkpoints name the routed topic, with the next record of the group")
    wait_for(
        lambda: committed(link.target, link.group, link.remote, range(PARTITIONS)) == wanted,
        "the group goes on in the routed topic",
    )
