"""Writes of a leader that is replaced, on real brokers: they end with its lease, and what is late is fenced."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from deploy.local import Listener, LocalCluster
from deploy.local.far_link import FarLink, far_cluster
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.connectors.errors import ClusterUnreachable, LeaseOver, NotAuthorized, OutcomeUnknown
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.producer.leader_producer import LeaderProducer
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter
from tests.integration.mirror_rig import read
from tests.integration.rights import allow

pytestmark = [pytest.mark.brokers, pytest.mark.soak]

KEY = b"connector-mirror"
LATE_S = 5.0


class Leader:
    """A worker as far as its config topic goes; its place in the group ends `until` then."""

    def __init__(self, client: dict[str, str], topic: str, group: str, lease_s: float) -> None:
        # However long a busy machine takes for the beginning.
        self.until = time.monotonic() + 120.0
        lease = WorkerLease(lambda: max(0.0, self.until - time.monotonic()), lease_s)
        self.clients = LogClients(client, "test", lease)
        name = f"connect-cluster-{group}"
        writer = LeaderWriter(name, lambda: LeaderProducer(self.clients, name), self.clients, lease)
        self.log = KafkaTopicLog(self.clients, TopicPlan.for_configs(topic, 1), writer)
        self.statuses = KafkaTopicLog(self.clients, TopicPlan.for_configs(topic, 1))
        self.seen: list[bytes | None] = []


@asynccontextmanager
async def leading(client: dict[str, str], topic: str, group: str, lease_s: float = 60.0) -> AsyncIterator[Leader]:
    leader = Leader(client, topic, group, lease_s)
    try:
        await leader.log.start(lambda record: leader.seen.append(record.value))
        await leader.log.claim()
        yield leader
    finally:
        await leader.log.stop()
        await asyncio.to_thread(leader.clients.close)


@pytest.fixture
def names() -> tuple[str, str]:
    mark = uuid.uuid4().hex[:8]
    return f"configs-{mark}", f"group-{mark}"


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[LocalCluster, FarLink]]:
    with far_cluster("far-leader", 0.0) as made:
        yield made


async def test_a_write_that_is_late_never_lands_behind_the_next_leaders(
    far: tuple[LocalCluster, FarLink], names: tuple[str, str]
) -> None:
    cluster, link = far
    beside = cluster.internal_properties()
    async with leading({"bootstrap.servers": cluster.bootstrap_servers}, *names, lease_s=20.0) as old:
        await old.log.append(KEY, b"first")
        link.one_way_s = LATE_S
        try:
            # Its heartbeats do not get through any more either.
            old.until = time.monotonic() + 2.0
            with pytest.raises(ClusterUnreachable):
                await old.log.append(KEY, b"late")
            # Not with the broker's answer, which takes two ways and was asked for two seconds before the end of the lease.
            assert -0.5 < time.monotonic() - old.until < 2 * LATE_S - 2.0
            with pytest.raises(LeaseOver):
                await old.log.append(KEY, b"later")
            async with leading(beside, *names) as new:
                await new.log.append(KEY, b"second")
                await asyncio.sleep(2 * LATE_S)
                await new.log.read_to_end()
                assert new.seen == [b"first", b"second"]
        finally:
            link.one_way_s = 0.0


async def test_a_leader_that_was_fenced_though_it_leads_writes_again_after_another_claim(
    one_broker: LocalCluster, names: tuple[str, str]
) -> None:
    client = {"bootstrap.servers": one_broker.bootstrap_servers}
    async with leading(client, *names) as rightful:
        await rightful.log.append(KEY, b"first")
        async with leading(client, *names):  # a process that was suspended in front of its claim
            pass
        with pytest.raises(ClusterUnreachable):
            await rightful.log.append(KEY, b"fenced")
        assert not rightful.log.claimed
        await rightful.log.claim()
        await rightful.log.append(KEY, b"second")
        await rightful.log.read_to_end()
        assert rightful.seen == [b"first", b"second"]


async def test_entries_of_one_write_are_there_all_or_none(one_broker: LocalCluster, names: tuple[str, str]) -> None:
    client = {"bootstrap.servers": one_broker.bootstrap_servers}
    async with leading(client, *names) as leader:
        with pytest.raises(ClusterUnreachable):
            await leader.log.append_all([(b"a", b"small"), (b"b", b"x" * 2_000_000)])
        await leader.log.claim()
        await leader.log.append_all([(b"c", b"1"), (b"d", b"2")])
        await leader.log.read_to_end()
        assert leader.seen == [b"1", b"2"]


# tests/models/test_leader_model.py has brokers that hang.
@pytest.mark.long
async def test_what_waits_for_a_broker_is_given_up_before_the_lease_ends(
    own_broker: LocalCluster, names: tuple[str, str]
) -> None:
    client = {"bootstrap.servers": own_broker.bootstrap_servers}
    async with leading(client, *names, lease_s=16.0) as leader:
        leader.until = time.monotonic() + 60.0
        await leader.statuses.append(b"status", b"before")
        await asyncio.to_thread(own_broker.kill)
        leader.until = time.monotonic() + 16.0
        with pytest.raises((OutcomeUnknown, LeaseOver)):
            await leader.statuses.append(b"status", b"late")
        assert time.monotonic() < leader.until
        await asyncio.to_thread(own_broker.start)
        await asyncio.sleep(3)
    assert [record.value for record in read(own_broker, names[0])] == [b"before"]


async def test_without_the_right_to_the_transactional_id_there_is_the_lease_and_one_line(
    names: tuple[str, str], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, group = names
    users = {"admin": "admin-secret", "worker": "worker-secret"}
    with LocalCluster(
        "leader-rights", listeners=[Listener.SASL_PLAINTEXT], users=users, authorizer=True, super_users=["admin"]
    ) as cluster:
        cluster.create_topic(topic, 1, {"cleanup.policy": "compact"})

        may = partial(asyncio.to_thread, allow, cluster, "User:worker")

        # Who may write nowhere may not be idempotent either, which ends the producer; the next write has another one.
        await may(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        clients = LogClients(cluster.client_properties("worker"), "rightless")
        for _ in range(2):
            with pytest.raises(
                NotAuthorized, match=r"denied it .*: grant IDEMPOTENT_WRITE on the cluster .* to the worker's user$"
            ):
                await asyncio.wait_for(clients.write(topic, [(KEY, b"denied")]), 60)
        rights = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
        await may(ResourceType.TOPIC, topic, *rights)
        await clients.write(topic, [(KEY, b"allowed")])
        clients.close()
        # librdkafka's own line of it is one of the log, where secrets are hidden; not one on standard error.
        assert capfd.readouterr().err == ""
        assert "CRITICAL" in {each.levelname for each in caplog.records}
        with caplog.at_level(logging.WARNING):
            async with leading(cluster.client_properties("worker"), topic, group) as leader:
                await leader.log.append(KEY, b"alone")
                await leader.log.claim()
                await leader.log.read_to_end()
                assert leader.seen == [b"allowed", b"alone"]
                told = [each.getMessage() for each in caplog.records if "transactional id" in each.getMessage()]
                assert len(told) == 1
                assert f"connect-cluster-{group}" in told[0]
                leader.until = 0.0
                with pytest.raises(LeaseOver):
                    await leader.log.append(KEY, b"late")
                leader.until = time.monotonic() + 60
                name = f"connect-cluster-{group}"
                await may(ResourceType.TRANSACTIONAL_ID, name, AclOperation.WRITE, AclOperation.DESCRIBE)
                await leader.log.claim()
                await leader.log.append(KEY, b"fenced")
                await leader.log.read_to_end()
                assert leader.seen == [b"allowed", b"alone", b"fenced"]


async def test_a_write_is_read_back_at_once_although_a_marker_is_the_last_in_the_log(
    one_broker: LocalCluster, names: tuple[str, str]
) -> None:
    took = []
    async with leading({"bootstrap.servers": one_broker.bootstrap_servers}, *names) as leader:
        end = 0
        for _ in range(8):
            await leader.log.append(KEY, b"value")
            # The record, and the marker, which the broker writes when it has answered already.
            end += 2
            while (await leader.clients.end_offsets(names[0], [0], 10))[0] < end:
                await asyncio.sleep(0.005)
            asked = time.monotonic()
            await leader.log.read_to_end()
            took.append(time.monotonic() - asked)
    # A broker keeps a reader that has all waiting for half a second, if it is not told otherwise.
    assert min(took) < 0.3
