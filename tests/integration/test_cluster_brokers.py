"""The cluster client against real brokers: logins, TLS, refusals, quotas, produced and listed offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from deploy.local import Listener, LocalCluster
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchPartition
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST, ListOffsets, OffsetForLeaderEpoch
from mirror_connect.kafka_io.protocol.produce import Produce, ProducePartition
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    fresh_topic,
    produce,
    read,
    running,
    spec_for,
)

pytestmark = pytest.mark.brokers
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def brokers() -> Iterator[LocalCluster]:
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT, Listener.SASL_SSL, Listener.SSL)
    with LocalCluster("wire", listeners=listeners, users={"alice": "alice-secret"}, mechanisms=MECHANISMS) as cluster:
        yield cluster


@asynccontextmanager
async def connected(properties: dict[str, str], client_id: str = "test") -> AsyncIterator[Cluster]:
    cluster = Cluster(properties, client_id)
    try:
        await cluster.connect()
        yield cluster
    finally:
        await cluster.close()


def batch(records: int, size: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    for offset in range(records):
        builder.append(offset, int(time.time() * 1000), b"key", b"v" * size, [])
    return bytes(builder.build())


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_every_password_mechanism_logs_in(brokers: LocalCluster, listener: str, mechanism: str) -> None:
    async with connected(brokers.client_properties("alice", listener, mechanism)) as cluster:
        assert cluster.cluster_id == brokers.cluster_id


async def test_tls_without_login_connects(brokers: LocalCluster) -> None:
    async with connected(brokers.client_properties(listener="SSL")) as cluster:
        assert list(cluster.nodes) == [1]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationSSLTest.testReplication")
async def test_records_are_copied_over_tls(brokers: LocalCluster) -> None:
    topic = fresh_topic("tls")
    for name in (topic, f"A.{topic}"):
        brokers.create_topic(name, 1)
    if OFFSETS_TOPIC not in brokers.admin().list_topics(timeout=60).topics:
        brokers.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
    produce(brokers, topic, [{"value": b"%d" % number, "partition": 0} for number in range(500)])
    tls = brokers.client_properties(listener="SSL")
    async with running(spec_for(brokers, brokers, {topic: 1}, consumer=tls, producer=tls)) as task:
        await task.copied(500)
        await task.finish()
    assert read(brokers, f"A.{topic}") == read(brokers, topic)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_wrong_password_is_refused_in_one_line_without_it(brokers: LocalCluster, mechanism: str) -> None:
    properties = brokers.client_properties("alice", "SASL_PLAINTEXT", mechanism)
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace("alice-secret", "wrong-secret")
    with pytest.raises(NotAuthorized) as caught:
        async with connected(properties):
            pass
    text = str(caught.value)
    assert ("user alice" in text, mechanism in text, "secret" in text, "\n" in text) == (True, True, False, False)


@pytest.mark.parametrize("spoken", ["PLAINTEXT", "SSL"])
async def test_the_wrong_security_protocol_is_guessed_from_the_refusal(brokers: LocalCluster, spoken: str) -> None:
    properties = {
        **brokers.client_properties(listener=spoken),
        "bootstrap.servers": brokers.bootstrap("SASL_PLAINTEXT"),
    }
    with pytest.raises(ClusterUnreachable, match=rf"security\.protocol has to be \w+, not {spoken}$"):
        async with connected({**properties, "request.timeout.ms": "5000"}):
            pass


async def test_a_certificate_nobody_vouches_for_is_named(brokers: LocalCluster) -> None:
    with pytest.raises(ClusterUnreachable, match="its certificate was not accepted"):
        async with connected({"bootstrap.servers": brokers.bootstrap("SSL"), "security.protocol": "SSL"}):
            pass


async def test_metadata_of_an_absent_topic_does_not_create_it(brokers: LocalCluster) -> None:
    async with connected(brokers.client_properties()) as cluster:
        await cluster.refresh(["absent"])
        assert (cluster.topic_error("absent"), cluster.leader("absent", 0)) == (3, None)
    await asyncio.sleep(0.5)
    assert "absent" not in brokers.admin().list_topics(timeout=60).topics


async def test_a_produced_batch_comes_back_byte_for_byte(brokers: LocalCluster) -> None:
    brokers.create_topic("bytes")
    sent = batch(10, 100)
    async with connected(brokers.client_properties()) as cluster:
        await cluster.refresh(["bytes"])
        produced = await cluster.send(
            1, Produce([ProducePartition("bytes", 0, [sent[:61], sent[61:]])]), purpose="produce"
        )
        assert [part.error for part in produced.partitions] == [0]
        fetched = await cluster.send(1, Fetch([FetchPartition("bytes", 0, 0, 1 << 20)], 500, 1, 1 << 20))
        # The broker sets the partition leader epoch (bytes 12 to 15), which no checksum covers; it is 0 on a new topic.
        assert fetched.partitions[0].records[16:] == sent[16:]
        listed = await cluster.send(1, ListOffsets({("bytes", 0): (LATEST, 0)}))
        assert [(part.error, part.offset) for part in listed] == [(0, 10)]
        listed = await cluster.send(1, ListOffsets({("bytes", 0): (EARLIEST, 0)}))
        assert [(part.error, part.offset) for part in listed] == [(0, 0)]
        ended = await cluster.send(1, OffsetForLeaderEpoch({("bytes", 0): (0, 0)}))
        assert ended["bytes", 0].end_offset == 10


async def test_each_producer_id_asked_for_with_a_transactional_id_has_the_next_epoch(brokers: LocalCluster) -> None:
    async with connected(brokers.client_properties()) as cluster:
        node = await cluster.coordinator("transaction", "fenced", TARGET_USER)
        epochs = []
        while len(epochs) < 2:
            answer = await cluster.send(node, InitProducerId("fenced"))
            if answer.error == 0:
                epochs.append(answer.producer_epoch)
            await asyncio.sleep(0.05)
        assert epochs == [0, 1]


async def test_a_broker_quota_delays_the_next_fetch(brokers: LocalCluster) -> None:
    brokers.create_topic("quota")
    brokers.run_tool(
        "kafka.admin.ConfigCommand",
        [
            *("--bootstrap-server", "{bootstrap}", "--command-config", "{config}", "--alter"),
            *("--add-config", "consumer_byte_rate=200000", "--entity-type", "clients", "--entity-name", "slow"),
        ],
    )
    async with connected(brokers.client_properties(), "slow") as cluster:
        await cluster.refresh(["quota"])
        data = batch(10, 50_000)
        await cluster.send(1, Produce([ProducePartition("quota", 0, [data])]), purpose="produce")
        request = Fetch([FetchPartition("quota", 0, 0, 1 << 20)], 500, 1, 1 << 20)
        throttle_ms = 0
        async with asyncio.timeout(180):
            while throttle_ms == 0:
                throttle_ms = (await cluster.send(1, request, purpose="fetch")).throttle_ms
        before = time.monotonic()
        await cluster.send(1, request, purpose="fetch")
        # A lower bound only: the broker said for how long it won't listen.
        assert time.monotonic() - before >= throttle_ms / 1000 * 0.95
