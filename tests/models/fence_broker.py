"""The target cluster of the fence's model: its partitions, the coordinator of transactional ids, and a task's connection.

Each batch that is written, and each producer epoch that is given, is looked at by what must hold of it (fence_watch.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator, FindCoordinatorResponse
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from tests.fakes.encoded_batches import Plain, decode
from tests.fakes.simulated import Process
from tests.fakes.target_cluster import HEADER, Log
from tests.models.fence_watch import Records, Writers
from tests.models.watch import BrokenPromiseError

SOURCE, TARGET, OFFSETS = "t", "A.t", "connect-offsets"
PARTITIONS: Final = 2
TRANSACTIONAL_ID_DENIED: Final = 53
PRODUCER_FENCED: Final = 90
REQUEST_S: Final = 3.0


@dataclass
class TransactionalId:
    """What the coordinator knows of it."""

    producer_id: int
    epoch: int = -1
    before: int = -1


class Broker:
    """`fences`: whether tasks have the right to the transactional id. `allowed` says of a worker whether its place in the
    group lasts; None: nobody asks.
    """

    def __init__(self, *, fences: bool, allowed: Callable[[str], bool] | None, partitions: int = PARTITIONS) -> None:
        self.fences = fences
        data = [(TARGET, partition) for partition in range(partitions)]
        self.positions: dict[int, int] = {}
        self.writers = {where: Writers(f"{where[0]}-{where[1]}") for where in ((OFFSETS, 0), *data)}
        self.records = {where[1]: Records(f"{where[0]}-{where[1]}") for where in data}
        self.broken: BrokenPromiseError | None = None
        self._allowed = allowed
        self._producers = 0
        self._ids: dict[str, TransactionalId] = {}
        # By partition and producer id: what brokers keep of a producer.
        self._logs: dict[tuple[tuple[str, int], int], Log] = {}

    def init(self, task: str, worker: str, request: InitProducerId) -> InitProducerIdResponse:
        """By the rules of TransactionMetadata.prepareIncrementProducerEpoch."""
        if request.transactional_id is None:
            return InitProducerIdResponse(0, 0, self._another_producer(), 0)
        if not self.fences:
            return InitProducerIdResponse(0, TRANSACTIONAL_ID_DENIED, -1, -1)
        self._look(f"{task} asked for an epoch", worker)
        if request.transactional_id not in self._ids:
            self._ids[request.transactional_id] = TransactionalId(self._another_producer())
        known = self._ids[request.transactional_id]
        if request.producer_id == -1:
            known.epoch, known.before = known.epoch + 1, -1
        elif request.producer_epoch == known.epoch:
            known.epoch, known.before = known.epoch + 1, known.epoch
        elif request.producer_epoch != known.before:
            return InitProducerIdResponse(0, PRODUCER_FENCED, -1, -1)
        return InitProducerIdResponse(0, 0, known.producer_id, known.epoch)

    def _another_producer(self) -> int:
        self._producers += 1
        return self._producers

    def produce(self, task: str, worker: str, request: Produce) -> ProduceResponse:
        self._look(f"{task} wrote", worker)
        answers = []
        for batch in request.batches:
            payload = b"".join(bytes(part) for part in batch.batch)
            code, base = self._append(task, (batch.topic, batch.partition), payload)
            answers.append(ProducedPartition(batch.topic, batch.partition, code, base, -1, 0, ""))
        return ProduceResponse(answers, 0)

    def _append(self, task: str, where: tuple[str, int], payload: bytes) -> tuple[int, int]:
        fields = HEADER.unpack_from(payload)
        log = self._logs.setdefault((where, fields[9]), Log())
        before = len(log.batches)
        code, base = log.append(payload, 1 << 20)
        if len(log.batches) == before:
            return code, base
        try:
            self._written(task, where, decode(payload), (fields[9], fields[10]))
        except BrokenPromiseError as error:
            self.broken = self.broken or error
        return code, base

    def _written(self, task: str, where: tuple[str, int], records: Sequence[Plain], producer: tuple[int, int]) -> None:
        """`producer`: its id and epoch."""
        self.writers[where].wrote(task)
        if where[0] == TARGET:
            self.records[where[1]].wrote([int(record.value or b"") for record in records], producer)
        else:
            for record in records:
                self._position(*position_in(record))

    def _position(self, partition: int, offset: int) -> None:
        self.positions[partition] = offset
        end = self.records[partition].end
        if offset >= end:
            raise BrokenPromiseError(f"position {offset} of partition {partition} is ahead of {end} records")

    def _look(self, what: str, worker: str) -> None:
        if self._allowed is not None and not self._allowed(worker) and self.broken is None:
            self.broken = BrokenPromiseError(f"{what} when the place of its worker was over")

    def forget(self) -> None:
        """The next batch of each producer is refused: it has to begin anew."""
        for (where, _), log in self._logs.items():
            if where[0] == TARGET and log.recent:
                log.recent[-1].sequence += 1_000_000


def position_in(record: Plain) -> tuple[int, int]:
    """The source partition, and its offset."""
    return json.loads(record.key or b"")[1]["partition"], json.loads(record.value or b"")["offset"]


class Connection:
    """spark_jobs' Cluster, through the simulated network. `at` is called at each step that a schedule can meet."""

    def __init__(self, process: Process, broker: Broker, task: str, worker: str, at: Callable[[str], bool]) -> None:
        self._process = process
        self._broker = broker
        self._task, self._worker = task, worker
        self._at = at
        self._connected = False

    def leader(self, topic: str, partition: int) -> Leader:
        return Leader(1, 0)

    def topic_error(self, topic: str) -> int:
        return 0

    async def refresh(self, topics: Iterable[str]) -> None:
        await asyncio.sleep(0)

    async def any_node(self, request: Any) -> Any:
        if isinstance(request, FindCoordinator):
            code = 0 if self._broker.fences else TRANSACTIONAL_ID_DENIED
            return await self._process.call(lambda: FindCoordinatorResponse(0, code, "", 1, "b", 9092), REQUEST_S)
        return await self.send(1, request)

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        broker, task, worker = self._broker, self._task, self._worker
        if isinstance(request, InitProducerId):
            return await self._send("epoch", request, 4, lambda: broker.init(task, worker, request))
        if isinstance(request, Produce):
            return await self._send("batch", request, 8, lambda: broker.produce(task, worker, request))
        await asyncio.sleep(0.001)
        return {}

    async def _send(self, what: str, request: Any, version: int, serve: Callable[[], Any]) -> Any:
        if not self._connected:
            await self._process.call(lambda: None, REQUEST_S)
            self._connected = True
        if self._at(f"before {what}"):
            # A suspended process gets no further than this.
            await asyncio.sleep(0)
        request.encode(version, Writer(flexible=version == 4))
        self._at(f"behind {what}")
        try:
            return await self._process.call(serve, REQUEST_S)
        except ConnectionLost:
            self._connected = False
            raise
