"""A target with transactions in memory: its connection as a producer sees it, and feeds that give their batches again."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from functools import lru_cache
from typing import Any

import pytest

from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.kafka_io.producer.transaction_errors import TransactionAbortedError
from mirror_connect.kafka_io.producer.transactions import Transactions
from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions, ApiVersionsResponse
from mirror_connect.kafka_io.protocol.features import TRANSACTION_VERSION, FinalizedFeatures
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator, FindCoordinatorResponse
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from mirror_connect.kafka_io.protocol.topic_configs import DescribedConfigs, DescribeTopicConfigs
from mirror_connect.kafka_io.protocol.transactions import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
)
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from tests.fakes.encoded_batches import decode
from tests.fakes.producer_rig import until
from tests.fakes.transaction_broker import TOPIC_DENIED, Protocol, TransactionBroker, TransactionLog

ID = "group-connector-0"
NUMBER = struct.Struct(">q")


def served(broker: TransactionBroker, request: Any) -> Any:
    """The answer of a broker that does its work."""
    served_by: dict[type, Callable[[Any], Any]] = {
        FinalizedFeatures: lambda _: {TRANSACTION_VERSION: 2} if broker.protocol.gives_epochs else {},
        FindCoordinator: lambda _: FindCoordinatorResponse(0, 0, "", 1, "localhost", 9092),
        ApiVersions: lambda _: ApiVersionsResponse(0, {}),
        DescribeTopicConfigs: lambda asked: [DescribedConfigs(t, TOPIC_DENIED, None, []) for t in asked.topics],
        InitProducerId: broker.init,
        AddPartitionsToTxn: broker.add,
        EndTxn: broker.end,
        Produce: broker.produce,
    }
    return served_by[type(request)](request)


def write(request: Any) -> None:
    """As the connection does: with what is asked just before."""
    request.encode(request.highest, Writer(flexible=request.highest >= request.flexible_from))


def refused(request: Any, code: int) -> Any:
    """The same code for everything in a request."""
    if isinstance(request, EndTxn):
        return EndTxnResponse(0, code, -1, -1)
    if isinstance(request, InitProducerId):
        return InitProducerIdResponse(0, code, -1, -1)
    if isinstance(request, FindCoordinator):
        return FindCoordinatorResponse(0, code, "", -1, "", -1)
    if isinstance(request, AddPartitionsToTxn):
        return AddPartitionsToTxnResponse(0, dict.fromkeys(request.partitions, code))
    batches = [ProducedPartition(each.topic, each.partition, code, -1, -1, 0, "") for each in request.batches]
    return ProduceResponse(batches, 0)


class TransactionalTarget:
    """`before` and `after` look at each request: they raise ConnectionLost, or return a code to answer instead (0: none).

    `missing`: topics without leaders.
    """

    def __init__(self, protocol: Protocol) -> None:
        loop = asyncio.get_running_loop()
        self.broker = TransactionBroker(protocol, loop.time, loop.call_later)
        self.before: Callable[[Any], int] = lambda _request: 0
        self.after: Callable[[Any], int] = lambda _request: 0
        self.requests: list[Any] = []
        self.leaderless: set[str] = set()
        self.nodes = {1: None}

    def log(self, topic: str = "a.orders", partition: int = 0) -> TransactionLog:
        return self.broker.log(topic, partition)

    def leader(self, topic: str, partition: int) -> Leader | None:
        return None if topic in self.leaderless else Leader(1, 0)

    def topic_error(self, _topic: str) -> int:
        return 0

    def close_idle(self, _node_id: int) -> None:
        pass

    async def refresh(self, _topics: Iterable[str]) -> None:
        await asyncio.sleep(0)

    async def any_node(self, request: Any) -> Any:
        return await self.send(1, request)

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        await asyncio.sleep(0)
        write(request)
        self.requests.append(request)
        code = self.before(request)
        answer = served(self.broker, request) if not code else refused(request, code)
        code = self.after(request)
        await asyncio.sleep(0)
        return refused(request, code) if code else answer

    def asked(self, kind: type) -> list[Any]:
        return [each for each in self.requests if isinstance(each, kind)]


def lost() -> ConnectionLost:
    return ConnectionLost("the broker closed the connection", "localhost:9092")


def numbered(first: int, count: int) -> ProducerBatch:
    """Records that hold their own numbers."""
    made = build([NewRecord(None, NUMBER.pack(first + n), 1) for n in range(count)])
    made.first_offset, made.last_offset = first, first + count - 1
    return made


@lru_cache(maxsize=10_000)
def keyed_numbers(payload: bytes) -> tuple[tuple[bytes, int], ...]:
    """Keys and numbers of a batch. Models read the same ones again with each commit."""
    return tuple((record.key or b"", NUMBER.unpack(record.value or b"")[0]) for record in decode(payload))


def numbers(log: TransactionLog) -> list[int]:
    """What a reader of committed records finds."""
    return [number for each in log.committed() for _, number in keyed_numbers(each.payload)]


class NumberFeed:
    """Gives the numbers up to `end`, `size` in a batch, again from the last commit on after an abort."""

    def __init__(self, end: int, size: int = 3) -> None:
        self.end, self.size = end, size
        self.next = self.acknowledged = self.final = 0
        self.aborted_with: list[TransactionAbortedError] = []
        self.error: PartitionRefusedError | None = None
        self.placed: dict[int, int] = {}

    def waiting(self) -> bool:
        return self.next < self.end and self.error is None

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        if not self.waiting():
            return None
        made = numbered(self.next, min(self.size, self.end - self.next))
        self.next += made.count
        return made

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        assert batch.first_offset == self.acknowledged
        self.acknowledged = batch.last_offset + 1
        self.placed[batch.first_offset] = base_offset

    def failed(self, error: PartitionRefusedError) -> None:
        self.error = error
        self.next = error.offset

    def committed(self) -> None:
        self.final = self.acknowledged

    def aborted(self, error: TransactionAbortedError) -> None:
        self.aborted_with.append(error)
        self.next = self.acknowledged = self.final


class TransactionalRig:
    """A started transactional producer on a target in memory."""

    def __init__(self, target: TransactionalTarget, *, timeout_ms: int = 60_000) -> None:
        self.target = target
        self.leased = True
        self.notices: list[str] = []
        self.producer = BatchProducer(
            target,  # type: ignore[arg-type]
            ProducerSettings(retry_backoff_s=0.001, transaction_timeout_ms=timeout_ms),
            ID,
            lambda: self.leased,
            Problems(self.notices.append),
            transactional=True,
        )

    @property
    def transactions(self) -> Transactions:
        assert self.producer.transactions is not None
        return self.producer.transactions

    def feed(self, feed: Any, partition: int = 0, topic: str = "a.orders", *, ahead: bool = False) -> TargetPartition:
        side = self.producer.partition(topic, partition, feed, ahead=ahead)
        self.producer.wake(side)
        return side


@pytest.fixture(params=Protocol, ids=lambda protocol: protocol.name)
async def transactional_rig(request: pytest.FixtureRequest) -> AsyncIterator[TransactionalRig]:
    """A producer with transactions, by the old protocol and the new one. A test file gives it a name of its own."""
    made = TransactionalRig(TransactionalTarget(request.param))
    await made.producer.start()
    yield made
    await made.producer.close()


def position(number: int) -> NewRecord:
    """A record that a producer writes itself, such as a source offset."""
    return NewRecord(b"position", NUMBER.pack(number), 1)


def once(kind: type, *, times: int = 1, code: int = 0) -> Callable[[Any], int]:
    """Answers the next requests of a kind with a code, or loses them."""
    left = times

    def look(request: Any) -> int:
        nonlocal left
        if isinstance(request, kind) and left:
            left -= 1
            if not code:
                raise lost()
            return code
        return 0

    return look


async def commit_up_to(rig: TransactionalRig, feed: NumberFeed, end: int) -> None:
    """Feeds up to a number in one transaction."""
    await rig.transactions.begin()
    feed.end = end
    for target in rig.producer._sender.partitions.values():
        rig.producer.wake(target)
    await until(lambda: feed.next == end)
    await rig.transactions.commit()


async def aborted(rig: TransactionalRig) -> TransactionAbortedError:
    """Why a commit aborts the transaction; it is told."""
    with pytest.raises(TransactionAbortedError) as raised:
        await rig.transactions.commit()
    assert any("A transaction was aborted" in line for line in rig.notices)
    return raised.value
