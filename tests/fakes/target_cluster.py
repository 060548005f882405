"""A target cluster in memory that keeps producer sequences as a Kafka broker does, and fails as a test says."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.topic_configs import ConfigSource, TopicConfig
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions, ApiVersionsResponse
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator, FindCoordinatorResponse
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from mirror_connect.kafka_io.protocol.producer_states import DescribeProducers, ProducersOfPartition, ProducerState
from mirror_connect.kafka_io.protocol.topic_configs import DescribedConfigs, DescribeTopicConfigs

HEADER = struct.Struct(">qiibIhiqqqhii")
OUT_OF_ORDER = 45
INVALID_EPOCH = 47
TOO_LARGE = 10
TOPIC_DENIED = 29


@dataclass
class Batch:
    producer_id: int
    epoch: int
    sequence: int
    count: int
    payload: bytes
    base: int = 0


@dataclass
class Log:
    """One partition: `lost_state` makes the broker forget its producers once, as after a truncation."""

    batches: list[Batch] = field(default_factory=list)
    epoch: int = -1
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=5))

    @property
    def end(self) -> int:
        return sum(batch.count for batch in self.batches)

    @property
    def producers(self) -> list[ProducerState]:
        """As DescribeProducers tells them."""
        if not self.recent:
            return []
        last = self.recent[-1]
        return [ProducerState(last.producer_id, last.epoch, (last.sequence + last.count - 1) & 0x7FFFFFFF)]

    def append(self, payload: bytes, limit: int) -> tuple[int, int]:
        """(error code, base offset), by the rules of ProducerAppendInfo."""
        if len(payload) > limit:
            return TOO_LARGE, -1
        fields = HEADER.unpack_from(payload)
        batch = Batch(fields[9], fields[10], fields[11], fields[12], payload)
        if batch.producer_id >= 0:
            if batch.epoch < self.epoch:
                return INVALID_EPOCH, -1
            if batch.epoch > self.epoch:
                if batch.sequence != 0:
                    return OUT_OF_ORDER, -1
                self.epoch = batch.epoch
                self.recent.clear()
            for known in self.recent:
                if (known.sequence, known.count) == (batch.sequence, batch.count):
                    return 0, known.base
            last = self.recent[-1] if self.recent else None
            if last is not None and batch.sequence != (last.sequence + last.count) & 0x7FFFFFFF:
                return OUT_OF_ORDER, -1
            self.recent.append(batch)
        base = batch.base = self.end
        self.batches.append(batch)
        return 0, base


class FakeTarget:
    """`before`/`after` look at each Produce: raise ConnectionLost there, or return an error code for all its batches.

    `delay` gives the seconds until a request's answer. `limit`: max.message.bytes of every topic; `describes`: whether it
    may be asked for. `telling_error`: the answer when asked for producers; `before_telling` is called then, and may raise.
    """

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], Log] = {}
        self.before: Callable[[Produce], int] = lambda _request: 0
        self.after: Callable[[Produce], int] = lambda _request: 0
        self.delay: Callable[[], float] = lambda: 0.0
        self.limit = 1 << 20
        self.describes = False
        self.telling_error = 0
        self.asked = self.told = 0
        self.before_telling: Callable[[], None] = lambda: None
        self.epoch = -1
        self.producer_id = 7
        self.requests: list[Produce] = []
        self.in_flight = 0
        self.most_in_flight = 0
        # Topic without leaders → its error in metadata.
        self.missing: dict[str, int] = {}
        self.throttle_ms = 0
        # Of each answer; -1: topics have CreateTime.
        self.log_append_time = -1
        self.refreshed: list[set[str]] = []
        self.transactional_id_error = 0
        self.round_trip = 0.0
        # How many of the next reads of metadata fail.
        self.unreachable = 0

    def log(self, topic: str, partition: int) -> Log:
        return self.logs.setdefault((topic, partition), Log())

    def leader(self, topic: str, partition: int) -> Leader | None:
        return None if topic in self.missing else Leader(1, 0)

    def topic_error(self, topic: str) -> int:
        return self.missing.get(topic, 0)

    async def refresh(self, topics: Iterable[str]) -> None:
        self.refreshed.append(set(topics))
        await asyncio.sleep(0)
        if self.unreachable:
            self.unreachable -= 1
            raise ClusterUnreachable("no broker answers at fake:1")

    def close_idle(self, _node_id: int) -> None:
        pass

    async def any_node(self, request: Any) -> Any:
        await asyncio.sleep(0)
        if isinstance(request, FindCoordinator):
            return FindCoordinatorResponse(0, self.transactional_id_error, "", 1, "localhost", 9092)
        return await self.send(1, request)

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        await asyncio.sleep(0)
        if isinstance(request, InitProducerId):
            known = (request.producer_id, request.producer_epoch)
            if request.transactional_id and known not in ((-1, -1), (self.producer_id, self.epoch)):
                return InitProducerIdResponse(0, INVALID_EPOCH, -1, -1)
            self.epoch += 1
            return InitProducerIdResponse(0, 0, self.producer_id, self.epoch)
        if isinstance(request, ApiVersions):
            await asyncio.sleep(self.round_trip)
            return ApiVersionsResponse(0, {})
        if isinstance(request, DescribeTopicConfigs):
            return [self._described(topic) for topic in request.topics]
        if isinstance(request, DescribeProducers):
            await asyncio.sleep(self.round_trip / 2)
            self.asked += 1
            self.before_telling()
            told = {partition: self._told(partition) for partition in request.partitions}
            await asyncio.sleep(self.round_trip / 2)
            return told
        assert isinstance(request, Produce)
        request.encode(8, Writer())
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._produce(request)
        finally:
            self.in_flight -= 1

    def _described(self, topic: str) -> DescribedConfigs:
        if not self.describes:
            return DescribedConfigs(topic, TOPIC_DENIED, None, [])
        limit = TopicConfig("max.message.bytes", str(self.limit), ConfigSource.TOPIC)
        return DescribedConfigs(topic, 0, None, [limit])

    def _told(self, partition: TopicPartition) -> ProducersOfPartition:
        self.told += 1
        if self.telling_error:
            return ProducersOfPartition(self.telling_error, [])
        return ProducersOfPartition(0, self.log(*partition).producers)

    async def _produce(self, request: Produce) -> ProduceResponse:
        error = self.before(request)
        answers = []
        for batch in request.batches:
            payload = b"".join(bytes(part) for part in batch.batch)
            code, base = (error, -1) if error else self.log(batch.topic, batch.partition).append(payload, self.limit)
            answers.append(ProducedPartition(batch.topic, batch.partition, code, base, self.log_append_time, 0, ""))
        late = self.after(request)
        if late:
            answers = [answer._replace(error=late, base_offset=-1) for answer in answers]
        await asyncio.sleep(self.delay())
        return ProduceResponse(answers, self.throttle_ms)


def lost() -> ConnectionLost:
    return ConnectionLost("the broker closed the connection", "localhost:9092")
