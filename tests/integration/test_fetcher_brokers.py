"""The fetcher against three real brokers that are killed, restarted and lose records."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch, Fetcher
from mirror_connect.kafka_io.protocol.fetch import Fetch
from tests.brokers import delete_before
from tests.fakes.fetched_copy import fetching

pytestmark = pytest.mark.brokers

PROPERTIES = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "auto.create.topics.enable": "true",
    "min.insync.replicas": "1",
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[LocalCluster]:
    racks = {node: {"broker.rack": f"rack-{node}"} for node in (1, 2, 3)}
    with LocalCluster("fetch", 3, properties=PROPERTIES, broker_properties=racks) as cluster:
        yield cluster


@dataclass
class Copy:
    """`ranges`: (fetch offset, next offset) as they came; `readers`: the node of every fetch sent."""

    cluster: Cluster
    fetcher: Fetcher = None  # type: ignore[assignment]
    notices: list[str] = field(default_factory=list)
    ranges: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    readers: list[int] = field(default_factory=list)
    held: list[CompletedFetch] = field(default_factory=list)
    holds: bool = False

    def take(self, fetched: CompletedFetch) -> None:
        self.ranges.setdefault(fetched.partition, []).append((fetched.fetch_offset, fetched.next_offset))
        if self.holds:
            self.held.append(fetched)
        else:
            fetched.release()

    async def reached(self, partition: TopicPartition, offset: int) -> None:
        await until(lambda: self.ranges.get(partition, [(0, -1)])[-1][1] >= offset)

    def has_no_gap(self, partition: TopicPartition) -> bool:
        ranges = self.ranges[partition]
        return all(before[1] == after[0] for before, after in itertools.pairwise(ranges))


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not true():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def copying(brokers: LocalCluster, limit: int = 32 << 20, **settings: str) -> AsyncIterator[Copy]:
    cluster = Cluster(brokers.client_properties(), "test")
    await cluster.connect()
    copy = Copy(cluster)
    send = cluster.send

    async def noted(node, request, **purpose):
        if isinstance(request, Fetch):
            copy.readers.append(node)
        return await send(node, request, **purpose)

    cluster.send = noted  # type: ignore[method-assign]
    named = {name.replace("_", "."): value for name, value in settings.items()}
    copy.fetcher = Fetcher(
        cluster, named, on_records=copy.take, problems=Problems(copy.notices.append), buffer_limit_bytes=limit
    )
    try:
        async with fetching(copy.fetcher):
            yield copy
    finally:
        await cluster.close()


async def create(brokers: LocalCluster, topic: str, partitions: int = 1, replication: int = 3) -> None:
    await asyncio.to_thread(brokers.create_topic, topic, partitions, None, replication)


async def produce(brokers: LocalCluster, topic: str, records: int, partition: int = 0, size: int = 100) -> None:
    def sent() -> None:
        producer = Producer({**brokers.librdkafka(), "acks": "all", "linger.ms": 5})
        for _ in range(records):
            producer.produce(topic, b"v" * size, partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    await asyncio.to_thread(sent)


@pytest.mark.soak
async def test_a_killed_leader_costs_no_record_and_repeats_none(brokers: LocalCluster) -> None:
    await create(brokers, "leader")
    await produce(brokers, "leader", 1000)
    partition = TopicPartition("leader", 0)
    async with copying(brokers) as copy:
        copy.fetcher.add(partition, None)
        await copy.reached(partition, 1000)
        former = copy.cluster.leader(*partition)
        broker = brokers.brokers[former.node_id - 1]
        await asyncio.to_thread(broker.kill)
        await produce(brokers, "leader", 500)
        await copy.reached(partition, 1500)
        assert copy.cluster.leader(*partition).epoch > former.epoch
        await asyncio.to_thread(brokers.start)
        await produce(brokers, "leader", 500)
        await copy.reached(partition, 2000)
        assert copy.has_no_gap(partition)


# test_standing_still.py takes a source away and gives it back.
@pytest.mark.soak
@pytest.mark.long
async def test_the_whole_cluster_may_go_and_come_back(brokers: LocalCluster) -> None:
    await create(brokers, "outage")
    await produce(brokers, "outage", 10)
    partition = TopicPartition("outage", 0)
    async with copying(brokers) as copy:
        copy.fetcher.add(partition, None)
        await copy.reached(partition, 10)
        await asyncio.to_thread(brokers.kill)
        await until(lambda: any(notice.startswith("The source cluster (bootstrap.servers ") for notice in copy.notices))
        await asyncio.to_thread(brokers.start)
        await produce(brokers, "outage", 10)
        await copy.reached(partition, 20)
        assert copy.has_no_gap(partition)


async def test_deleted_records_are_told_as_a_gap_of_known_size(brokers: LocalCluster) -> None:
    await create(brokers, "gap")
    await produce(brokers, "gap", 100)
    await asyncio.to_thread(delete_before, brokers, "gap", 60)
    partition = TopicPartition("gap", 0)
    async with copying(brokers) as copy:
        copy.fetcher.add(partition, 10)
        await copy.reached(partition, 100)
    assert copy.notices == [
        "source partition gap-0: offsets 10 to 59 are gone from the source (retention or deleted records): "
        "50 offsets skipped, reading continues at 60"
    ]


async def test_a_topic_is_never_created_by_asking_for_it(brokers: LocalCluster) -> None:
    partition = TopicPartition("asked-for", 0)
    async with copying(brokers) as copy:
        copy.fetcher.add(partition, None)
        await until(lambda: bool(copy.notices))
        await asyncio.sleep(1)
        assert "asked-for" not in brokers.admin().list_topics(timeout=60).topics
        await create(brokers, "asked-for")
        await produce(brokers, "asked-for", 5)
        await copy.reached(partition, 5)


async def test_a_topic_created_again_is_read_from_its_beginning(brokers: LocalCluster) -> None:
    await create(brokers, "again")
    await produce(brokers, "again", 50)
    partition = TopicPartition("again", 0)
    async with copying(brokers) as copy:
        copy.fetcher.add(partition, None)
        await copy.reached(partition, 50)
        await asyncio.to_thread(brokers.delete_topic, "again")
        await until(lambda: copy.fetcher.state(partition).problem is not None)
        copy.ranges.clear()
        await create(brokers, "again")
        await produce(brokers, "again", 3)
        await copy.reached(partition, 3)
        assert copy.ranges[partition][0][0] == 0


@pytest.mark.soak
async def test_a_replica_in_the_clients_rack_is_read_and_given_up_when_it_dies(brokers: LocalCluster) -> None:
    await create(brokers, "racks")
    await produce(brokers, "racks", 10)
    partition = TopicPartition("racks", 0)
    async with copying(brokers) as asking:
        async with asyncio.timeout(180):  # the broker that is asked may not know the topic yet
            while (found := asking.cluster.leader(*partition)) is None:
                await asking.cluster.refresh(["racks"])
        leader = found.node_id
    follower = leader % 3 + 1
    async with copying(brokers, client_rack=f"rack-{follower}") as copy:
        copy.fetcher.add(partition, None)
        await copy.reached(partition, 10)
        await until(lambda: copy.readers[-1] == follower)
        await asyncio.to_thread(brokers.brokers[follower - 1].kill)
        await produce(brokers, "racks", 10)
        await copy.reached(partition, 20)
        assert copy.has_no_gap(partition)
    await asyncio.to_thread(brokers.start)


async def test_what_nobody_releases_stays_within_the_limit(brokers: LocalCluster) -> None:
    await create(brokers, "pressure", 8, 1)
    for number in range(8):
        await produce(brokers, "pressure", 400, number, size=10_000)
    limit = 4 << 20
    async with copying(brokers, limit) as copy:
        copy.holds = True
        for number in range(8):
            copy.fetcher.add(TopicPartition("pressure", number), None)
        await until(lambda: bool(copy.held))
        await asyncio.sleep(2)
        # A batch of up to 1 MB may come above the limit from each of three brokers.
        assert sum(len(fetched.buffer) for fetched in copy.held) <= limit + 3_000_000
        copy.holds = False
        while copy.held:
            copy.held.pop().release()
        for number in range(8):
            await copy.reached(TopicPartition("pressure", number), 400)
