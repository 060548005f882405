"""Transactions on real brokers, by the old protocol and the new one, read by Kafka's own consumer of committed records."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from deploy.local import LocalCluster, LocalError
from deploy.local.kafka_jars import KAFKA_VERSION, ensure
from deploy.local.kafka_releases import OLD_VERSIONS
from deploy.local.kafka_tools import run_tool
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.own_records import OwnRecords
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.producer.transaction_errors import AbortCause, TransactionAbortedError
from mirror_connect.kafka_io.producer.transactions import Transactions
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from tests.brokers import led, messages
from tests.fakes.lossy_cluster import LossyCluster
from tests.seeds import chance
from tests.waiting import state_reached, wait_for_state

pytestmark = [pytest.mark.brokers]

PARTITIONS: Final = 3
PATIENCE_S: Final = 180.0
# So that the coordinator aborts soon what is open for too long.
PROMPT: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
OLDEST, OLD = OLD_VERSIONS
OLD_PROTOCOL: Final = "4.3 with transaction.version 0"


@pytest.fixture(
    scope="module",
    params=[
        KAFKA_VERSION,
        # The model of transactions (tests/models) has both protocols.
        pytest.param(OLD_PROTOCOL, marks=pytest.mark.long),
        pytest.param(OLD, marks=pytest.mark.long),
        pytest.param(OLDEST, marks=pytest.mark.long),
    ],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A broker of each kind of transactions."""
    version = KAFKA_VERSION if request.param == OLD_PROTOCOL else request.param
    try:
        ensure(version, tries=1)
    except LocalError as error:
        pytest.skip(str(error))
    with LocalCluster("transactions", version=version, properties=PROMPT) as made:
        if request.param == OLD_PROTOCOL:
            made.run_tool(
                "org.apache.kafka.tools.FeatureCommand",
                [
                    "--bootstrap-server",
                    "{bootstrap}",
                    "--command-config",
                    "{config}",
                    "downgrade",
                    "--feature",
                    "transaction.version=0",
                ],
            )
        yield made


@pytest.fixture
def gives_epochs(request: pytest.FixtureRequest, cluster: LocalCluster) -> bool:
    """Whether it has the transactions of KIP-890."""
    return cluster.version == KAFKA_VERSION and OLD_PROTOCOL not in request.node.name


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    """A topic for data; the one for positions has the same name and `-positions` behind it."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, PARTITIONS)
    cluster.create_topic(f"{name}-positions")
    return name


class Numbers:
    """Gives the numbers from 0 on as text, `size` in a batch; again from the last commit on after an abort."""

    def __init__(self, size: int = 5) -> None:
        self.size = size
        self.end = self.next = self.acknowledged = self.final = 0

    def waiting(self) -> bool:
        return self.next < self.end

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        count = min(self.size, self.end - self.next)
        now = int(time.time() * 1000)  # brokers delete what is older than a week
        made = build([NewRecord(None, b"%d" % (self.next + number), now) for number in range(count)])
        made.first_offset, made.last_offset = self.next, self.next + count - 1
        self.next += count
        return made

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        assert batch.first_offset == self.acknowledged
        self.acknowledged = batch.last_offset + 1

    def failed(self, error: PartitionRefusedError) -> None:
        raise error

    def committed(self) -> None:
        self.final = self.acknowledged

    def aborted(self, error: TransactionAbortedError) -> None:
        self.next = self.acknowledged = self.final


class Writer:
    """One producer that copies numbers into each partition, and writes how far it is."""

    def __init__(self, cluster: LossyCluster, topic: str, timeout_ms: int) -> None:
        self.connection = cluster
        settings = ProducerSettings(transaction_timeout_ms=timeout_ms, retry_backoff_s=0.01)
        self.lines: list[str] = []
        self.producer = BatchProducer(
            cluster, settings, f"id-{topic}", lambda: True, Problems(self.lines.append), transactional=True
        )
        self.topic = topic
        self.feeds = [Numbers() for _ in range(PARTITIONS)]
        self.sides: list[TargetPartition] = []

    async def start(self, begin: list[int] | None = None) -> None:
        await self.producer.start()
        for number, feed in enumerate(self.feeds):
            feed.next = feed.acknowledged = feed.final = feed.end = (begin or [0] * PARTITIONS)[number]
            self.sides.append(self.producer.partition(self.topic, number, feed))
        self.positions = OwnRecords(self.producer, f"{self.topic}-positions", 0)

    @property
    def transactions(self) -> Transactions:
        assert self.producer.transactions is not None
        return self.producer.transactions

    def more(self, count: int) -> None:
        for feed, side in zip(self.feeds, self.sides, strict=True):
            feed.end += count
            self.producer.wake(side)

    async def write(self, count: int) -> None:
        """So many more numbers in each partition, and the positions, in the open transaction."""
        self.more(count)
        await state_reached(lambda: all(feed.acknowledged == feed.end for feed in self.feeds), "all is written")
        now = int(time.time() * 1000)
        await self.positions.write(
            [NewRecord(b"%d" % n, b"%d" % f.acknowledged, now) for n, f in enumerate(self.feeds)]
        )

    async def transaction(self, count: int) -> None:
        await self.transactions.begin()
        await self.write(count)
        await self.transactions.commit()


@asynccontextmanager
async def writing(
    cluster: LocalCluster, topic: str, *, timeout_ms: int = 60_000, begin: list[int] | None = None
) -> AsyncIterator[Writer]:
    connection = LossyCluster({"bootstrap.servers": cluster.bootstrap_servers}, "writer", kind="producer")
    await connection.connect()
    writer = Writer(connection, topic, timeout_ms)
    try:
        await writer.start(begin)
        yield writer
    finally:
        await writer.producer.close()
        await connection.close()


def seen(cluster: LocalCluster, topic: str, count: int) -> dict[int, list[int]]:
    """Partition → the numbers that Kafka's own consumer of committed records prints, of its first `count` records."""
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    arguments = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}", "--topic", topic]
    arguments += ["--isolation-level", "read_committed", "--from-beginning"]
    arguments += ["--max-messages", str(count), "--timeout-ms", str(int(PATIENCE_S * 1000))]
    arguments += ["--formatter-property", "print.partition=true"]
    # The present one reads from old brokers, too. Theirs is not among their jars here.
    said = run_tool(
        tool, arguments, properties=cluster.internal_properties(), directory=cluster.directory, version=KAFKA_VERSION
    )
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    for line in said.splitlines():
        if not line.startswith("Partition:"):
            continue  # what it logs
        partition, number = line.split("\t")
        found[int(partition.removeprefix("Partition:"))].append(int(number))
    return found


def committed(cluster: LocalCluster, topic: str, partition: int) -> list[int]:
    """The same by librdkafka, which is there at once."""
    return [int(m.value()) for m in messages(cluster, topic, partition, isolation="read_committed")]


def positions(cluster: LocalCluster, topic: str) -> list[int]:
    found = {
        int(m.key()): int(m.value()) for m in messages(cluster, f"{topic}-positions", 0, isolation="read_committed")
    }
    return [found.get(number, 0) for number in range(PARTITIONS)]


def all_there(cluster: LocalCluster, topic: str, count: int) -> None:
    """The markers follow soon after the decision."""

    def there() -> bool:
        return all(len(committed(cluster, topic, number)) >= count for number in range(PARTITIONS))

    wait_for_state(there, f"{count} numbers of {topic} can be read", PATIENCE_S)
    assert [committed(cluster, topic, number) for number in range(PARTITIONS)] == [list(range(count))] * PARTITIONS
    assert positions(cluster, topic) == [count] * PARTITIONS


async def timed_out(cluster: LocalCluster, topic: str) -> None:
    """Waits until the coordinator has ended what is open: readers of committed records get to the end again."""

    def end(partition: int, isolation: IsolationLevel) -> int | None:
        place = TopicPartition(topic, partition)
        found = led(cluster.admin().list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)[place])
        return None if found is None else int(found.offset)

    def ended() -> bool:
        both = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        return all(end(number, both[0]) == end(number, both[1]) is not None for number in range(PARTITIONS))

    await state_reached(ended, f"the transaction in {topic} is over", PATIENCE_S, in_thread=True)


async def test_each_number_is_seen_once_and_in_order_whatever_is_aborted_or_lost(
    cluster: LocalCluster, topic: str, gives_epochs: bool
) -> None:
    dice = chance(f"transactions {cluster.version}")
    kinds = (EndTxn, AddPartitionsToTxn, Produce)

    def loses(request: Any) -> str | None:
        return dice.choice(["before", "after"]) if isinstance(request, kinds) and dice.random() < 0.1 else None

    async with writing(cluster, topic) as writer:
        assert writer.transactions.gives_epochs == gives_epochs
        writer.connection.loses = loses  # type: ignore[method-assign]
        while writer.transactions.commits < 30:
            await writer.transactions.begin()
            if dice.random() < 0.2:
                writer.more(random.randint(1, 40))
                await asyncio.sleep(dice.random() * 0.02)
                await writer.transactions.abort("a test wants it")
                for feed in writer.feeds:
                    feed.end = feed.final
                continue
            with contextlib.suppress(TransactionAbortedError):
                await asyncio.wait_for(writer.write(dice.randint(1, 40)), PATIENCE_S)
                await writer.transactions.commit()
            for feed in writer.feeds:
                feed.end = feed.final
        ends = [feed.final for feed in writer.feeds]
        assert len(set(ends)) == 1
        assert writer.transactions.aborts >= 1
    await asyncio.to_thread(all_there, cluster, topic, ends[0])
    everything = list(range(ends[0]))
    found = await asyncio.to_thread(seen, cluster, topic, PARTITIONS * len(everything))
    assert found == dict.fromkeys(range(PARTITIONS), everything)


async def test_a_transaction_that_the_coordinator_timed_out_is_written_again(cluster: LocalCluster, topic: str) -> None:
    async with writing(cluster, topic, timeout_ms=1_500) as writer:
        writer.transactions.timeout_ms = 3_600_000  # so that the coordinator's timeout comes first
        await writer.transaction(5)
        await writer.transactions.begin()
        await writer.write(7)
        await timed_out(cluster, topic)
        with pytest.raises(TransactionAbortedError) as raised:
            await writer.transactions.commit()
        assert raised.value.cause in (AbortCause.EPOCH_REFUSED, AbortCause.BY_TARGET)
        assert [feed.next for feed in writer.feeds] == [5] * PARTITIONS
        await writer.transaction(0)
        # And in its middle, where brokers answer for the batches.
        await writer.transactions.begin()
        await writer.write(1)
        await timed_out(cluster, topic)
        writer.more(1)
        await asyncio.wait_for(writer.transactions.broken.wait(), PATIENCE_S)
        with pytest.raises(TransactionAbortedError):
            await writer.transactions.commit()
        await writer.transaction(0)
        assert not writer.producer.failed.done()
    await asyncio.to_thread(all_there, cluster, topic, 14)


async def test_a_successor_ends_what_is_open_before_it_begins_and_its_predecessor_knows(
    cluster: LocalCluster, topic: str
) -> None:
    async with writing(cluster, topic) as first:
        await first.transaction(5)
        await first.transactions.begin()
        await first.write(7)
        async with writing(cluster, topic, begin=[5] * PARTITIONS) as second:
            # The abort is complete: nothing holds readers back, and nothing of it is seen.
            assert await asyncio.to_thread(positions, cluster, topic) == [5] * PARTITIONS
            assert await asyncio.to_thread(committed, cluster, topic, 0) == list(range(5))
            await second.transaction(3)
            with pytest.raises(FencedError):
                await first.transactions.commit()
            await second.transaction(3)
    await asyncio.to_thread(all_there, cluster, topic, 11)


async def test_a_producer_that_is_closed_leaves_no_transaction_open(cluster: LocalCluster, topic: str) -> None:
    async with writing(cluster, topic) as writer:
        await writer.transaction(5)
        await writer.transactions.begin()
        await writer.write(7)
        await writer.transactions.close(PATIENCE_S)
    async with writing(cluster, topic, begin=[5] * PARTITIONS) as writer:
        await writer.transaction(1)
    await asyncio.to_thread(all_there, cluster, topic, 6)


async def test_a_timeout_that_the_target_forbids_is_a_config_error(cluster: LocalCluster, topic: str) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms.*transaction\.max\.timeout\.ms"):
        async with writing(cluster, topic, timeout_ms=2_000_000_000):
            pass
