"""The internal topics on a real broker: made and checked as Kafka Connect does it, followed through a broker's restart."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from deploy.local import Listener, LocalCluster
from mirror_connect.app.storage.offsets import OffsetStore, offset_key
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord
from tests.brokers import delete_before
from tests.waiting import wait_for_state

pytestmark = pytest.mark.brokers


def name() -> str:
    return f"log-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def opened(cluster: LocalCluster, plan: TopicPlan) -> AsyncIterator[tuple[KafkaTopicLog, list[LogRecord]]]:
    clients = LogClients({"bootstrap.servers": cluster.bootstrap_servers}, "test")
    records: list[LogRecord] = []
    log = KafkaTopicLog(clients, plan)
    try:
        await log.start(records.append)
        yield log, records
    finally:
        await log.stop()
        clients.close()


def told(cluster: LocalCluster, topic: str) -> dict[str, str | None]:
    """The configs of a topic, as its broker has them."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = cluster.admin().describe_configs([resource])[resource].result(180)
    return {name: each.value for name, each in found.items()}


def delete_first_records(cluster: LocalCluster, topic: str, before: int) -> None:
    admin = cluster.admin()
    # Brokers refuse it for a topic that is only compacted.
    for policy in ("delete", "compact"):
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(180)
        # The broker goes by it a moment later.
        wait_for_state(lambda policy=policy: told(cluster, topic)["cleanup.policy"] == policy, f"{topic} is {policy}")
        if policy == "delete":
            delete_before(cluster, topic, before)


async def test_absent_topic_is_made_compacted_with_the_settings_asked_for(one_broker: LocalCluster) -> None:
    plan = TopicPlan.for_offsets(name(), 7, -1, {"segment.ms": "3600000", "cleanup.policy": "delete"})
    async with opened(one_broker, plan) as (log, _):
        assert log.partitions == 7
    settings = told(one_broker, plan.name)
    assert settings["cleanup.policy"] == "compact"
    assert settings["segment.ms"] == "3600000"


async def test_a_log_whose_first_records_were_deleted_is_read_from_where_it_begins(one_broker: LocalCluster) -> None:
    plan = TopicPlan.for_statuses(name(), 1, 1)
    async with opened(one_broker, plan) as (log, _):
        await log.append_all([(b"key", str(number).encode()) for number in range(5)])
    delete_first_records(one_broker, plan.name, 3)
    async with opened(one_broker, plan) as (_, records):
        assert [record.value for record in records] == [b"3", b"4"]


async def test_more_replicas_than_brokers_are_refused_with_the_setting_to_change(one_broker: LocalCluster) -> None:
    with pytest.raises(
        ConfigError, match=r"^Invalid value 3 for configuration config\.storage\.replication\.factor: .*-1"
    ):
        async with opened(one_broker, TopicPlan.for_configs(name(), 3)):
            pass


async def test_existing_topic_that_is_not_only_compacted_is_refused_in_connects_words(one_broker: LocalCluster) -> None:
    one_broker.create_topic(topic := name(), 1, {"cleanup.policy": "compact,delete"})
    with pytest.raises(
        ConfigError, match=r"is required to have 'cleanup\.policy=compact'.*'cleanup\.policy=compact,delete'"
    ):
        async with opened(one_broker, TopicPlan.for_statuses(topic)):
            pass


async def test_config_topic_of_several_partitions_is_refused_in_connects_words(one_broker: LocalCluster) -> None:
    one_broker.create_topic(topic := name(), 2, {"cleanup.policy": "compact"})
    with pytest.raises(ConfigError, match=r"required to have a single partition .* but found 2 partitions\."):
        async with opened(one_broker, TopicPlan.for_configs(topic)):
            pass


async def test_existing_topic_keeps_its_partitions(one_broker: LocalCluster) -> None:
    one_broker.create_topic(topic := name(), 3, {"cleanup.policy": "compact"})
    async with opened(one_broker, TopicPlan.for_offsets(topic, 25, 1)) as (log, _):
        assert log.partitions == 3


async def test_records_land_in_the_partition_where_kafka_looks_for_them(one_broker: LocalCluster) -> None:
    keys = {
        offset_key("mm2-source", {"cluster": "A", "partition": 0, "topic": "orders"}): 19,
        offset_key("mm2-source", {"cluster": "A", "partition": 2, "topic": "orders"}): 12,
        offset_key("mm2-heartbeat", {"sourceClusterAlias": "A", "targetClusterAlias": "B"}): 9,
    }
    async with opened(one_broker, TopicPlan.for_offsets(name(), 25, 1)) as (log, records):
        await log.append_all([(key, b"{}") for key in keys])
        await log.read_to_end()
        assert {record.key: record.partition for record in records} == keys


async def test_reader_that_comes_later_gets_everything_in_order_tombstones_too(one_broker: LocalCluster) -> None:
    plan = TopicPlan.for_configs(name(), 1)
    entries = [(b"k", b"1"), (b"k", None), ("ü".encode(), b"")]
    async with opened(one_broker, plan) as (log, _):
        await log.append_all(entries)
    async with opened(one_broker, plan) as (_, records):
        assert [(record.key, record.value) for record in records] == entries


async def test_what_others_wrote_before_the_call_is_seen_after_it(one_broker: LocalCluster) -> None:
    plan = TopicPlan.for_statuses(name(), 5, 1)
    async with opened(one_broker, plan) as (log, records):
        other = Producer({"bootstrap.servers": one_broker.bootstrap_servers})
        for number in range(500):
            other.produce(plan.name, key=str(number), value=b"x")
        assert other.flush(60) == 0
        await log.read_to_end()
        assert len(records) == 500


async def test_end_behind_transaction_markers_and_aborted_records_is_reached(one_broker: LocalCluster) -> None:
    plan = TopicPlan.for_configs(name(), 1)
    async with opened(one_broker, plan) as (log, records):
        writer = Producer({"bootstrap.servers": one_broker.bootstrap_servers, "transactional.id": plan.name})
        await asyncio.to_thread(writer.init_transactions, 60)
        for key, finish in ((b"kept", writer.commit_transaction), (b"aborted", writer.abort_transaction)):
            writer.begin_transaction()
            writer.produce(plan.name, key=key, value=b"x")
            writer.flush(60)
            await asyncio.to_thread(finish, 60)
        await log.read_to_end(60)
        assert [record.key for record in records] == [b"kept"]


async def test_unreachable_cluster_is_named_with_the_reason() -> None:
    clients = LogClients({"bootstrap.servers": "127.0.0.1:1"}, "test")
    log = KafkaTopicLog(clients, TopicPlan.for_configs("c", 1))
    try:
        with pytest.raises(ClusterUnreachable, match=r"refused.*bootstrap\.servers 127\.0\.0\.1:1"):
            await log.start(lambda _: None, timeout=2)
    finally:
        clients.close()


async def test_worker_with_its_password_gets_in_and_one_with_another_is_told_so(one_broker: LocalCluster) -> None:
    properties = one_broker.client_properties("worker", Listener.SASL_PLAINTEXT)
    wrong = {**properties, "sasl.jaas.config": properties["sasl.jaas.config"].replace("right", "wrong")}
    for settings, error in ((properties, None), (wrong, NotAuthorized)):
        clients = LogClients(settings, "test")
        log = KafkaTopicLog(clients, TopicPlan.for_configs(name(), 1))
        try:
            if error is None:
                await log.start(lambda _: None)
                await log.append(b"k", b"v")
            else:
                with pytest.raises(error, match=r"refused the credentials .sasl\.mechanism PLAIN.") as refused:
                    await log.start(lambda _: None)
                assert "wrong-password" not in str(refused.value)
        finally:
            await log.stop()
            clients.close()


@pytest.mark.soak
async def test_store_goes_on_after_a_restart_of_its_broker(own_broker: LocalCluster) -> None:
    partition = {"cluster": "A", "partition": 0, "topic": "orders"}
    clients = LogClients({"bootstrap.servers": own_broker.bootstrap_servers}, "test")
    store = OffsetStore(KafkaTopicLog(clients, TopicPlan.for_offsets("offsets", 25, 1)))
    try:
        await store.start()
        await store.put("a", [(partition, {"offset": 1})])
        await asyncio.to_thread(own_broker.kill)
        during = asyncio.create_task(store.put("a", [(partition, {"offset": 2})]))
        await asyncio.to_thread(own_broker.start)
        await during
        assert await store.source_offsets("a", [partition]) == [{"offset": 2}]
    finally:
        await store.stop()
        clients.close()
