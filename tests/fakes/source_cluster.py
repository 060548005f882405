"""A source cluster in memory: partitions as lists of batches, fetch sessions as a broker keeps them, errors on demand."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Any

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchedPartition, FetchPartition, FetchResponse
from mirror_connect.kafka_io.protocol.log_offsets import (
    EARLIEST,
    EpochEnd,
    ListedOffset,
    ListOffsets,
    OffsetForLeaderEpoch,
)
from mirror_connect.kafka_io.protocol.metadata import BrokerEntry

HEADER = struct.Struct(">qiibIhiqqqhii")
Key = tuple[str, int]


def batch(base: int, count: int, size: int = 100, epoch: int = 0) -> bytes:
    """A batch of the right outer form; its records are zeros."""
    head = HEADER.pack(base, size - 12, epoch, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    return head + bytes(size - len(head))


@dataclass
class Log:
    """`batches`: (base offset, records, bytes). `errors` are given one per fetch before any data."""

    leader: int = 1
    epoch: int = 0
    start: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    preferred: int = -1

    @property
    def end(self) -> int:
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else self.start

    def append(self, count: int = 10, size: int = 100) -> None:
        self.batches.append((self.end, count, batch(self.end, count, size, self.epoch)))

    def truncate(self, end: int, *, epoch: int | None = None) -> None:
        """Another leader, whose log ends there: under the next epoch, or the one given."""
        self.batches = [each for each in self.batches if each[0] + each[1] <= end]
        self.epoch = self.epoch + 1 if epoch is None else epoch
        assert self.end == end

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """As LeaderEpochFileCache.endOffsetFor: the highest epoch not above this one, and where it ends."""
        begun = {HEADER.unpack_from(data)[2]: base for base, _, data in reversed(self.batches)}
        begun.setdefault(self.epoch, self.end)
        if epoch == max(begun):
            return epoch, self.end
        later = [each for each in begun if each > epoch]
        if not later:
            return -1, -1
        return max((each for each in begun if each <= epoch), default=epoch), begun[min(later)]


class FakeSource:
    """What Fetcher uses of a Cluster. `fetches` are the requests each node got; `down` nodes lose every request.

    `takes_ids`: as brokers from 3.1 on, which read topics by id where they are told ids. `takes_epochs`: as those from 2.7
    on, which check with each fetch whether their log is the one that was read. `checks`: what was asked of leader epochs.
    """

    # Seconds between two looks of a fetch that waits for records.
    POLL_S = 0.002

    def __init__(self) -> None:
        self.totals, self.connections = RequestTotals(), 1
        self.logs: dict[Key, Log] = {}
        self.known: dict[Key, Log] = {}
        self.ids: dict[str, bytes] = {}
        self.known_ids: dict[str, bytes] = {}
        self.takes_ids = True
        self.takes_epochs = True
        self.checks: list[OffsetForLeaderEpoch] = []
        self.nodes = {node: BrokerEntry(node, "fake", node, None) for node in (1, 2)}
        self.fetches: list[tuple[int, Fetch]] = []
        self.purposes: list[str] = []
        self.down: set[int] = set()
        # Connections that nodes don't take, by purpose.
        self.refused: set[tuple[int, str]] = set()
        self.unreachable = False
        self.refreshes = 0
        self.refreshed: list[set[str]] = []
        # By node and connection.
        self.sessions: dict[tuple[int, str], dict[Key, FetchPartition]] = {}
        self.session_error = 0
        self.round_trip_s = 0.0
        self.appended = asyncio.Event()

    def log(self, topic: str, partition: int = 0, batches: int = 0, **fields: Any) -> Log:
        log = self.logs[topic, partition] = Log(**fields)
        for _ in range(batches):
            log.append()
        return log

    def leader(self, topic: str, partition: int) -> Leader | None:
        log = self.known.get((topic, partition))
        return None if log is None else Leader(log.leader, log.epoch)

    def topic_error(self, topic: str) -> int:
        return 0 if any(key[0] == topic for key in self.known) else 3

    def topic_id(self, topic: str) -> bytes | None:
        return self.known_ids.get(topic)

    def partition_count(self, topic: str) -> int | None:
        return sum(key[0] == topic for key in self.known) or None

    async def refresh(self, topics: set[str]) -> None:
        await asyncio.sleep(0)
        self.refreshes += 1
        self.refreshed.append(set(topics))
        if self.unreachable:
            raise ClusterUnreachable("no broker answers at fake:1: Connection refused")
        self.known = {key: log for key, log in self.known.items() if key[0] not in topics} | {
            key: Log(log.leader, log.epoch, log.start) for key, log in self.logs.items() if key[0] in topics
        }
        self.known_ids.update({topic: self.ids[topic] for topic in topics if topic in self.ids})

    async def send(self, node: int, request: Any, *, purpose: str = "control") -> Any:
        await asyncio.sleep(0)
        if node in self.down or (node, purpose) in self.refused:
            raise ConnectionLost("Connection refused", f"fake:{node}")
        if isinstance(request, ListOffsets):
            return [self._listed(key, asked[0]) for key, asked in request.wanted.items()]
        if isinstance(request, OffsetForLeaderEpoch):
            self.checks.append(request)
            return {key: self._ended(key, node, *asked) for key, asked in request.wanted.items()}
        if isinstance(request, ApiVersions):
            await asyncio.sleep(self.round_trip_s)
            return {}
        assert purpose in ("fetch", "fetch-second", "fetch-quiet")
        self.fetches.append((node, request))
        self.purposes.append(purpose)
        return await self._fetch(node, purpose, request)

    def _listed(self, key: Key, timestamp: int) -> ListedOffset:
        log = self.logs.get(key)
        if log is None:
            return ListedOffset(*key, 3, -1, -1, -1)
        return ListedOffset(*key, 0, -1, log.start if timestamp == EARLIEST else log.end, log.epoch)

    def _ended(self, key: Key, node: int, current: int, asked: int) -> EpochEnd:
        log = self.logs.get(key)
        error = 3 if log is None else 6 if log.leader != node else 74 if current < log.epoch else 0
        return EpochEnd(error, -1, -1) if log is None or error else EpochEnd(0, *log.epoch_end(asked))

    async def _fetch(self, node: int, purpose: str, request: Fetch) -> FetchResponse:
        if self.session_error and request.session_epoch > 0:
            error, self.session_error = self.session_error, 0
            return FetchResponse(0, error, 0, [], 10)
        if request.session_epoch <= 0:
            self.sessions[node, purpose] = {}
        session = self.sessions[node, purpose]
        wanted_now = {(wanted.topic, wanted.partition): wanted for wanted in request.partitions}
        for topic, partition, _ in request.forgotten:
            session.pop((topic, partition), None)
        session.update(wanted_now)
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            parts, room = [], request.max_bytes
            for key, wanted in session.items():
                part = self._other_topic(request, key, wanted) or self._read(node, key, wanted, room)
                if part is not None:
                    room -= len(part.records)
                    parts.append(part)
            left = deadline - asyncio.get_running_loop().time()
            if parts or left <= 0:
                return FetchResponse(0, 0, 99, parts, 50 + sum(len(p.records) for p in parts))
            await asyncio.sleep(min(left, self.POLL_S))

    def _other_topic(self, request: Fetch, key: Key, wanted: FetchPartition) -> FetchedPartition | None:
        if self.takes_ids and request.names is not None and wanted.topic_id != self.ids.get(key[0]):
            return FetchedPartition(*key, 100, -1, -1, -1, (), -1, memoryview(b""))
        return None

    def _read(self, node: int, key: Key, wanted: FetchPartition, room: int) -> FetchedPartition | None:
        log = self.logs.get(key)
        if log is None:
            return FetchedPartition(*key, 3, -1, -1, -1, (), -1, memoryview(b""))
        error = log.errors.pop(0) if log.errors else 0
        if not error and node not in (log.leader, log.preferred):
            error = 6
        if not error and 0 <= wanted.leader_epoch < log.epoch:
            error = 74
        if not error and self.takes_epochs and wanted.last_epoch >= 0:
            epoch, end = log.epoch_end(wanted.last_epoch)
            if epoch < 0 or wanted.offset < log.start:
                error = 1
            elif epoch < wanted.last_epoch or end < wanted.offset:
                return FetchedPartition(*key, 0, -1, -1, -1, (), -1, memoryview(b""), (epoch, end))
        if not error and not log.start <= wanted.offset <= log.end:
            error = 1
        if error:
            return FetchedPartition(*key, error, -1, -1, -1, (), -1, memoryview(b""))
        if log.preferred not in (-1, node):
            return FetchedPartition(*key, 0, log.end, -1, log.start, (), log.preferred, memoryview(b""))
        out = b""
        for base, count, data in log.batches:
            if base + count > wanted.offset and len(out) < min(room, wanted.max_bytes):
                out += data
        out = out[: max(min(room, wanted.max_bytes), 100)]
        return FetchedPartition(*key, 0, log.end, -1, log.start, (), -1, memoryview(out)) if out else None
