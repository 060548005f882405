"""Logins with OAuth bearer tokens, for longer than a login lasts: by a source task on both sides, and by librdkafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
import pytest_asyncio

from deploy.local import Listener, LocalCluster
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.java_options import ALLOWED_URLS
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
from tests.waiting import state_reached

pytestmark = [pytest.mark.brokers, pytest.mark.asyncio(loop_scope="module")]

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


async def records_flow_on(cluster: LocalCluster, endpoint: TokenEndpoint) -> None:
    topic = fresh_topic("tokens")
    for name in (topic, f"A.{topic}"):
        cluster.create_topic(name, 2)
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
    came, was = [await asyncio.to_thread(read, cluster, name) for name in (f"A.{topic}", topic)]
    assert came == was


async def the_workers_logs_go_on(cluster: LocalCluster, endpoint: TokenEndpoint) -> None:
    written: list[bytes] = []
    read_back: list[LogRecord] = []
    clients = LogClients(endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT)), "worker")
    leader = LeaderWriter("leader", lambda: LeaderProducer(clients, "leader"), clients, WorkerLease(lambda: 60.0, 60.0))
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


async def idle_clients_have_a_token(cluster: LocalCluster, endpoint: TokenEndpoint) -> None:
    topic = fresh_topic("read")
    cluster.create_topic(topic, 1)
    produce(cluster, topic, [{"value": b"1"}])
    login = endpoint.client_properties(cluster.bootstrap(Listener.SASL_PLAINTEXT))
    admin = ClusterAdmin(login, "cluster", 30)
    readers = RecordReaders(login, "me", committed=True, client_id="test", statistics=False)

    def ask() -> tuple[str, int]:
        reader = readers.take()
        reader.begin(topic, 0, 0)
        try:
            return admin.cluster_id(), next(len(found.records) for _ in range(100) if (found := reader.read()).records)
        finally:
            readers.give_back(reader)

    first = await asyncio.to_thread(ask)
    given = endpoint.given
    # A token more for each of the two at least, without a call.
    await state_reached(lambda: endpoint.given >= given + 2, "each of the two has another token")
    assert await asyncio.to_thread(ask) == first == (cluster.cluster_id, 1)
    await asyncio.to_thread(readers.close)


Begun = dict[str, asyncio.Task[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def begun(cluster: LocalCluster) -> AsyncIterator[Begun]:
    """All three at the same time, as each takes twice the life of a token; a test waits for its own."""
    parts = (records_flow_on, the_workers_logs_go_on, idle_clients_have_a_token)
    with ExitStack() as stack:
        endpoints = [stack.enter_context(TokenEndpoint(TOKEN_S)) for _ in parts]
        # Each has allowed itself alone.
        urls = ",".join(each.url for each in endpoints)
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("KAFKA_OPTS", f"-D{ALLOWED_URLS}={urls}")
        tasks = {
            part.__name__: asyncio.create_task(part(cluster, endpoint))
            for part, endpoint in zip(parts, endpoints, strict=True)
        }
        yield tasks
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def test_records_flow_on_while_logins_and_tokens_end(begun: Begun) -> None:
    await begun["records_flow_on"]


async def test_the_workers_logs_go_on_while_logins_and_tokens_end(begun: Begun) -> None:
    await begun["the_workers_logs_go_on"]


async def test_clients_that_nobody_asks_for_anything_have_a_token_all_the_same(begun: Begun) -> None:
    await begun["idle_clients_have_a_token"]
