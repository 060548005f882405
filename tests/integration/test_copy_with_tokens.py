"""Logins with OAuth bearer tokens, for longer than a login lasts: by a source task on both sides, and by librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from deploy.local import Listener, LocalCluster
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.consumer.record_reader import RecordReaders
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord
from mirror_connect.kafka_io.producer.leader_producer import LeaderProducer
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter
from tests.fakes.token_endpoint import TokenEndpoint
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

# The broker hangs up on whoever has not logged in anew for so long, and tokens end sooner than a test does.
# A seventh of a login is left when it is made anew: long enough for a machine that stands still for a moment.
LOGIN_S, TOKEN_S, COPYING_S = 6, 8, 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    mechanism = "listener.name.sasl_plaintext.oauthbearer."
    properties = {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{mechanism}connections.max.reauth.ms": str(LOGIN_S * 1000),
        f"{mechanism}sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT)
    with LocalCluster("tokens", listeners=listeners, properties=properties) as made:
        made.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        yield made


async def test_records_flow_on_while_logins_and_tokens_end(cluster: LocalCluster) -> None:
    topic = fresh_topic("tokens")
    for name in (topic, f"A.{topic}"):
        cluster.create_topic(name, 2)
    with TokenEndpoint(TOKEN_S) as endpoint:
        login = endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT))
        async with running(spec_for(cluster, cluster, {topic: 2}, consumer=login, producer=login)) as task:
            for tenth in range(COPYING_S * 10):
                rows = [{"value": b"%d.%d" % (tenth, n), "partition": n % 2} for n in range(20)]
                await asyncio.to_thread(produce, cluster, topic, rows)
                await asyncio.sleep(0.1)
            await task.copied(COPYING_S * 10 * 20)
            await task.finish()
        assert task.link.log_lines == []
        # Two clients, and each token serves them for less than its whole life.
        assert endpoint.given >= 2 * COPYING_S / TOKEN_S
    # Each record once: nothing was lost with a connection, and sent again without being known.
    assert read(cluster, f"A.{topic}") == read(cluster, topic)


async def test_the_workers_logs_go_on_while_logins_and_tokens_end(cluster: LocalCluster) -> None:
    written: list[bytes] = []
    read_back: list[LogRecord] = []
    with TokenEndpoint(TOKEN_S) as endpoint:
        clients = LogClients(endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT)), "worker")
        leader = LeaderWriter(
            "leader", lambda: LeaderProducer(clients, "leader"), clients, WorkerLease(lambda: 60.0, 60.0)
        )
        configs = KafkaTopicLog(clients, TopicPlan.for_configs(fresh_topic("configs"), 1), leader)
        await configs.start(read_back.append)
        await configs.claim()
        for number in range(COPYING_S * 2):
            written.append(b"%d" % number)
            await (configs.append if number % 2 else configs.append_as_member)(b"key", written[-1])
            await asyncio.sleep(0.5)
        await configs.read_to_end()
        await configs.stop()
        await asyncio.to_thread(clients.close)
        assert endpoint.given >= COPYING_S / TOKEN_S
    assert [record.value for record in read_back] == written


async def test_clients_that_nobody_asks_for_anything_have_a_token_all_the_same(cluster: LocalCluster) -> None:
    topic = fresh_topic("read")
    cluster.create_topic(topic, 1)
    produce(cluster, topic, [{"value": b"1"}])
    with TokenEndpoint(TOKEN_S) as endpoint:
        login = endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT))
        admin = ClusterAdmin(login, "cluster", 30)
        readers = RecordReaders(login, "me", committed=True, client_id="test", statistics=False)

        def ask() -> tuple[str, int]:
            reader = readers.take()
            reader.begin(topic, 0, 0)
            try:
                return admin.cluster_id(), next(
                    len(found.records) for _ in range(100) if (found := reader.read()).records
                )
            finally:
                readers.give_back(reader)

        first = await asyncio.to_thread(ask)
        given = endpoint.given
        await asyncio.sleep(COPYING_S)
        # A token more for each of the two at least, without a call.
        assert endpoint.given >= given + 2
        assert await asyncio.to_thread(ask) == first == (cluster.cluster_id, 1)
        await asyncio.to_thread(readers.close)
