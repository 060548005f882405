"""The worker group on a real broker: one leader, takeover, and who keeps whom out."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from deploy.local import Listener, LocalCluster
from deploy.local.free_ports import free_port, give_back
from deploy.local.java_process import JavaProcess
from mirror_connect.app.group.membership import Membership
from mirror_connect.app.herder.interfaces import OUTSIDE
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.connectors.errors import GroupRefusedError, NotAuthorized
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from tests.waiting import state_reached

pytestmark = pytest.mark.brokers

SESSION_MS = 6_000
TIMES = {"heartbeat_interval_ms": 500, "rebalance_timeout_ms": 60_000}


@asynccontextmanager
async def member(
    cluster: LocalCluster, group: str, url: str = "http://me:1", session_ms: int = SESSION_MS
) -> AsyncIterator[Membership]:
    membership = Membership.of(
        {"bootstrap.servers": cluster.bootstrap_servers},
        group,
        url,
        session_timeout_ms=session_ms,
        **TIMES,
    )
    try:
        yield membership
    finally:
        await membership.leave()


def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


async def until(condition: Callable[[], bool], seconds: float = 180) -> None:
    await state_reached(condition, "what the group was to become", seconds)


def polled(consumer: Consumer, seconds: float, wanted: Callable[[], bool]) -> list[KafkaError]:
    """Poll until `wanted` or an error."""
    errors = []
    for _ in range(int(seconds * 10)):
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            errors.append(message.error())
        if errors or wanted():
            break
    return errors


async def test_two_members_have_one_leader_and_know_its_url(one_broker: LocalCluster) -> None:
    name = group()
    async with member(one_broker, name, "http://a:1") as a, member(one_broker, name, "http://b:1") as b:
        await a.join()
        await b.join()
        # Each hears of the group as it is now in an answer of its own.
        await until(lambda: (a.is_leader, a.leader_url, b.leader_url) == (True, "http://a:1", "http://a:1"))
        assert not b.is_leader


@pytest.mark.soak
async def test_standby_takes_over_when_the_leader_leaves(one_broker: LocalCluster) -> None:
    name = group()
    async with member(one_broker, name, "http://b:1") as b:
        async with member(one_broker, name, "http://a:1") as a:
            await a.join()
            await b.join()
        await until(lambda: b.is_leader and b.leader_url == "http://b:1")


async def test_group_of_a_consumer_refuses_us_with_what_to_do(one_broker: LocalCluster) -> None:
    name = group()
    with closing(Consumer({"bootstrap.servers": one_broker.bootstrap_servers, "group.id": name})) as consumer:
        one_broker.create_topic(name)
        consumer.subscribe([name])
        assert await asyncio.to_thread(polled, consumer, 60, lambda: bool(consumer.assignment())) == []
        assert consumer.assignment()
        async with member(one_broker, name) as ours:
            with pytest.raises(GroupRefusedError, match=rf"^group\.id {name} is in use .*: stop them, or set another"):
                await ours.join()


async def test_our_group_refuses_a_consumer(one_broker: LocalCluster) -> None:
    name = group()
    async with member(one_broker, name) as ours:
        await ours.join()
        with closing(Consumer({"bootstrap.servers": one_broker.bootstrap_servers, "group.id": name})) as consumer:
            one_broker.create_topic(name)
            consumer.subscribe([name])
            errors = await asyncio.to_thread(polled, consumer, 60, lambda: False)
            assert [error.code() for error in errors] == [KafkaError.INCONSISTENT_GROUP_PROTOCOL]
        await until(lambda: ours.is_leader)


async def test_name_of_a_consumer_group_without_members_is_taken_with_a_warning(
    one_broker: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    name = group()
    one_broker.create_topic(name)
    with closing(Consumer({"bootstrap.servers": one_broker.bootstrap_servers, "group.id": name})) as consumer:
        await asyncio.to_thread(consumer.commit, offsets=[TopicPartition(name, 0, 7)], asynchronous=False)
    async with member(one_broker, name) as ours:
        await ours.join()
    (line,) = (message for message in caplog.messages if "consumer group" in message)
    assert name in line


async def test_session_out_of_the_brokers_range_is_told_with_the_setting(one_broker: LocalCluster) -> None:
    client = {"bootstrap.servers": one_broker.bootstrap_servers}
    ours = Membership.of(client, group(), "http://me:1", session_timeout_ms=5_000, **TIMES)
    with pytest.raises(GroupRefusedError, match=r"session\.timeout\.ms 5000 .* group\.min\.session\.timeout\.ms"):
        await ours.join()
    await ours.leave()


@pytest.mark.soak
async def test_member_keeps_its_place_over_a_restart_of_the_coordinator(own_broker: LocalCluster) -> None:
    async with member(own_broker, "workers") as ours:
        await ours.join()
        await asyncio.to_thread(own_broker.kill)
        await until(lambda: ours.assignment == OUTSIDE)
        await asyncio.to_thread(own_broker.start)
        await until(lambda: ours.is_leader)


async def test_wrong_password_is_told_and_not_shown(one_broker: LocalCluster) -> None:
    properties = one_broker.client_properties("worker", Listener.SASL_PLAINTEXT)
    wrong = {**properties, "sasl.jaas.config": properties["sasl.jaas.config"].replace("right", "wrong")}
    ours = Membership.of(wrong, group(), "http://me:1", session_timeout_ms=SESSION_MS, **TIMES)
    with pytest.raises(NotAuthorized, match="PLAIN") as refused:
        await ours.join()
    assert "wrong-password" not in str(refused.value)
    await ours.leave()


@asynccontextmanager
async def java_worker(cluster: LocalCluster, name: str, directory: Path) -> AsyncIterator[Callable[[], bool]]:
    """Kafka Connect's own worker, killed at the end; gives whether it has become a member."""
    port = free_port()
    converter = "org.apache.kafka.connect.json.JsonConverter"
    properties = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": name,
        "key.converter": converter,
        "value.converter": converter,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.partitions": "3",
    }
    for kind in ("config", "offset", "status"):
        properties |= {f"{kind}.storage.topic": f"{name}-{kind}", f"{kind}.storage.replication.factor": "1"}
    file = directory / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    process = JavaProcess(
        "Kafka Connect",
        "org.apache.kafka.connect.cli.ConnectDistributed",
        [str(file)],
        log=directory / "connect.log",
        heap="256m",
    )

    def healthy() -> bool:
        assert process.alive, process.failure()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    try:
        yield healthy
    finally:
        await asyncio.to_thread(process.kill)
        give_back(port)


# test_mm2_swap.py refuses a worker whose group Java holds, and takes its topics over, in each run.
@pytest.mark.mm2
@pytest.mark.long
async def test_java_worker_keeps_us_out_and_leaves_us_its_topics(one_broker: LocalCluster, tmp_path: Path) -> None:
    name = group()
    async with java_worker(one_broker, name, tmp_path) as healthy:
        await until(healthy, 90)
        async with member(one_broker, name) as ours:
            with pytest.raises(GroupRefusedError, match="Java workers"):
                await ours.join()
    # It was killed, so that it is a member for 10 s, its session.timeout.ms: waited for by one that has patience for more.
    async with member(one_broker, name, session_ms=60_000) as ours:
        await ours.join()
        assert ours.is_leader
    clients = LogClients({"bootstrap.servers": one_broker.bootstrap_servers}, "test")
    store = ConfigStore(KafkaTopicLog(clients, TopicPlan.for_configs(f"{name}-config", 1)))
    await store.start()
    assert store.snapshot().session_key is not None
    await store.stop()
    clients.close()
