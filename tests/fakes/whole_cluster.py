"""A cluster in memory that takes records, gives them back, and keeps the positions of groups."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions
from mirror_connect.kafka_io.protocol.features import FinalizedFeatures
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchedPartition, FetchPartition
from mirror_connect.kafka_io.protocol.groups import (
    FetchedOffset,
    GroupEntry,
    ListGroups,
    ListGroupsResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)
from mirror_connect.kafka_io.protocol.metadata import BrokerEntry, FindCoordinatorResponse
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId
from mirror_connect.kafka_io.protocol.topic_configs import DescribedConfigs, DescribeTopicConfigs
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, split_fetch, stamp
from mirror_connect.kafka_io.records.unpacked_records import unpack
from tests.fakes.source_cluster import FakeSource, Log
from tests.fakes.target_cluster import FakeTarget

GROUP_DENIED = 30


class FakeBroker:
    """The one broker of a cluster. `away`: nobody can be reached. `groups`: positions; `active` ones have members.

    `fetched`: how many fetches came.
    """

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], Log] = {}
        self.ids: dict[str, bytes] = {}
        self.producers = FakeTarget()
        self.groups: dict[str, dict[tuple[str, int], tuple[int, str]]] = {}
        self.active: set[str] = set()
        self.denied: set[str] = set()
        self.away = False
        self.fetched = 0
        self.features: dict[str, int] = {}

    def topic(self, name: str, partitions: int = 1) -> Log:
        """Creates a topic; its first partition."""
        for partition in range(partitions):
            self.logs.setdefault((name, partition), Log())
        return self.logs[name, 0]

    def put(self, topic: str, *records: tuple[bytes | None, bytes | None], partition: int = 0) -> None:
        """Appends records to a partition."""
        log = self.logs[topic, partition]
        for key, value in records:
            payload = stamp(build([NewRecord(key, value, 0)]), -1, -1, -1)
            epoch = struct.pack(">i", log.epoch)
            log.batches.append((log.end, 1, struct.pack(">q", log.end) + payload[8:12] + epoch + payload[16:]))

    def records(self, topic: str, partition: int = 0) -> list[tuple[bytes, bytes]]:
        """Key and value of every record."""
        return [(key, value) for key, value, _ in self.whole_records(topic, partition)]

    def whole_records(self, topic: str, partition: int = 0) -> list[tuple[bytes, bytes, bytes]]:
        """Key, value, and what is behind them: the headers as they are encoded."""
        found = []
        for _, _, data in self.logs[topic, partition].batches:
            for view in split_fetch(data):
                for _, _, rest in unpack(view, 0)[0]:
                    size = rest[0] >> 1
                    assert rest[0] < 0x80
                    assert rest[1 + size] < 0x80
                    end = 2 + size + (rest[1 + size] >> 1)
                    found.append((rest[1 : 1 + size], rest[2 + size : end], rest[end:]))
        return found


def headers_of(encoded: bytes) -> list[tuple[str, bytes]]:
    """Headers as `whole_records` gives them; short ones only, so that every length is one byte."""
    found, at = [], 1
    for _ in range(encoded[0] >> 1):
        texts = []
        for _ in range(2):
            size = encoded[at] >> 1
            texts.append(encoded[at + 1 : at + 1 + size])
            at += 1 + size
        found.append((texts[0].decode(), texts[1]))
    assert at == len(encoded)
    return found


class FakeClusters:
    """Stands for the class Cluster: `bootstrap.servers` of the properties names the broker."""

    def __init__(self, brokers: Mapping[str, FakeBroker]) -> None:
        self.brokers = brokers

    def __call__(self, properties: Mapping[str, str], client_id: str, kind: str = "consumer") -> FakeCluster:
        return FakeCluster(self.brokers[properties["bootstrap.servers"]])


class FakeCluster(FakeSource):
    """One client's view of a broker."""

    def __init__(self, broker: FakeBroker) -> None:
        super().__init__()
        self.broker = broker
        self.logs, self.ids = broker.logs, broker.ids
        self.nodes = {1: BrokerEntry(1, "fake", 1, None)}
        self._told: set[tuple[str, int]] = set()

    async def connect(self) -> None:
        await self.refresh(())

    async def close(self) -> None:
        await asyncio.sleep(0)

    def close_idle(self, _node_id: int) -> None:
        pass

    async def refresh(self, topics: Iterable[str]) -> None:
        if self.broker.away:
            raise ClusterUnreachable("no broker answers at fake:1")
        known = self.known
        await super().refresh(set(topics))
        self.known = {**known, **self.known}

    async def coordinator(self, kind: str, key: str, _user: str) -> int:
        return 1

    async def any_node(self, request: Any) -> Any:
        if isinstance(request, DescribeTopicConfigs):
            limit = TopicConfig("max.message.bytes", str(self.broker.producers.limit), ConfigSource.TOPIC)
            return [DescribedConfigs(topic, 0, None, [limit]) for topic in request.topics]
        if isinstance(request, FinalizedFeatures):
            return self.broker.features
        if isinstance(request, InitProducerId):
            return await self.send(1, request)
        return FindCoordinatorResponse(0, self.broker.producers.transactional_id_error, "", 1, "fake", 1)

    async def send(self, node: int, request: Any, *, purpose: str = "control") -> Any:
        if self.broker.away:
            raise ConnectionLost("Connection refused", "fake:1")
        broker = self.broker
        answer: Any
        match request:
            case InitProducerId() | ApiVersions() | AddPartitionsToTxn() | EndTxn():
                answer = await broker.producers.send(node, request)
            case Produce():
                answer = await self._produce(request)
            case ListGroups():
                states = {group: "Stable" if group in broker.active else "Empty" for group in broker.groups}
                answer = ListGroupsResponse(
                    0, 0, [GroupEntry(each, "consumer", state, "") for each, state in states.items()]
                )
            case OffsetFetch():
                denied, offsets = request.group in broker.denied, broker.groups.get(request.group, {})
                told = [] if denied else [FetchedOffset(*key, *each, 0) for key, each in offsets.items()]
                answer = OffsetFetchResponse(0, GROUP_DENIED if denied else 0, told)
            case OffsetCommit():
                broker.groups.setdefault(request.group, {}).update(request.offsets)
                answer = OffsetCommitResponse(0, dict.fromkeys(request.offsets, 0))
            case _:
                self.broker.fetched += isinstance(request, Fetch)
                answer = await super().send(node, request, purpose=purpose)
        return answer

    def _read(self, node: int, key: tuple[str, int], wanted: FetchPartition, room: int) -> FetchedPartition | None:
        """As a broker: the first answer of a session names every partition, also one without records."""
        found = super()._read(node, key, wanted, room)
        if found is None and key not in self._told:
            log = self.logs[key]
            found = FetchedPartition(*key, 0, log.end, -1, log.start, (), -1, memoryview(b""))
        self._told.add(key)
        return found

    async def _produce(self, request: Produce) -> Any:
        answer = await self.broker.producers.send(1, request)
        for batch, answered in zip(request.batches, answer.partitions, strict=True):
            log = self.logs[batch.topic, batch.partition]
            if answered.error == 0 and answered.base_offset >= 0:
                payload = b"".join(bytes(part) for part in batch.batch)
                count = struct.unpack_from(">i", payload, 57)[0]
                log.batches.append((log.end, count, struct.pack(">q", log.end) + payload[8:]))
        return answer
