"""Clusters in memory for the life of partitions: they keep what brokers keep, and fail as a schedule says.

The source has batches of all shapes. The target has logs, the state of producers, and connections that carry requests in
their order; each record and each position that it writes is told to its partition's `Watch`.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.connectors.positions import TOPIC_ID_HEADER
from mirror_connect.kafka_io.connection import ConnectionLost
from mirror_connect.kafka_io.wire import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.wire_control import InitProducerId, ProducerIdResponse
from tests.fakes.encoded_batches import HEADER, Plain, decode, encode
from tests.fakes.source_cluster import Log as SourceLog
from tests.fakes.target_cluster import FakeTarget
from tests.fakes.whole_cluster import FakeBroker
from tests.models.watch import BrokenPromiseError, Watch

TOPIC, REMOTE, OFFSETS = "orders", "A.orders", "connect-offsets"
PARTITIONS: Final = 2
NOW_S: Final = 1_790_000_000.0
DAY_MS: Final = 86_400_000
CONTROL, LOG_APPEND_TIME, TRANSACTIONAL = 0x20, 0x08, 0x10
TOO_LARGE, NOT_ENOUGH_REPLICAS_AFTER_APPEND, OUT_OF_ORDER, INVALID_EPOCH = 10, 20, 45, 47
LZ4: Final = 3


@dataclass
class ProducerState:
    epoch: int
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    newest: int = 0


class Line:
    """One connection: requests arrive in their order, and so do the answers."""

    def __init__(self) -> None:
        self.lost = asyncio.get_running_loop().create_future()
        self.sent = asyncio.get_running_loop().create_future()
        self.sent.set_result(None)
        # Cut at this request: it and those behind it never arrive, those before it do, however late.
        self.arrives = True


class LifeTarget(FakeTarget):
    """A broker with producer state for each partition; what it writes is told to the watches."""

    def __init__(self, rng: random.Random, watches: Sequence[Watch]) -> None:
        super().__init__()
        self.rng = rng
        self.watches = watches
        self.data: list[list[bytes]] = [[] for _ in watches]
        self.ends: dict[tuple[str, int], int] = {}
        self.states: dict[tuple[str, int], dict[int, ProducerState]] = {}
        self.ids: dict[str, tuple[int, int]] = {}
        self.slow = 0.0
        self.offsets_limit = 1 << 20
        # Codes for the next batches of data: before they are written, or after.
        self.refusals: deque[tuple[int, bool]] = deque()
        # Partitions whose next batch is written and not told; and the sequences that are then told to be out of order.
        self.late: dict[int, None] = {}
        self.lost_at: dict[int, int] = {}
        # By the client's producer id.
        self.lines: dict[int, Line] = {}
        self.works: set[asyncio.Task[Any]] = set()
        self.positions: dict[int, tuple[int, str | None]] = {}
        self.incarnations: dict[str, int] = {}
        self.broken: BaseException | None = None

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if isinstance(request, InitProducerId):
            await asyncio.sleep(0.001)
            name = request.transactional_id or ""
            number, epoch = self.ids.get(name, (len(self.ids) + 1, -1))
            if (request.producer_id, request.producer_epoch) not in ((-1, -1), (number, epoch)):
                return ProducerIdResponse(0, INVALID_EPOCH, -1, -1)
            self.ids[name] = (number, epoch + 1)
            return ProducerIdResponse(0, 0, number, epoch + 1)
        return await super().send(node_id, request, purpose=purpose)

    async def _produce(self, request: Produce) -> ProduceResponse:
        producer = HEADER.unpack_from(b"".join(bytes(part) for part in request.batches[0].batch))[9]
        line = self.lines.get(producer)
        if line is None or line.lost.done():
            line = self.lines[producer] = Line()
        before, done = line.sent, asyncio.get_running_loop().create_future()
        line.sent = done
        work = asyncio.create_task(self._carried(line, before, done, request))
        self.works.add(work)
        work.add_done_callback(self._ended)
        try:
            await asyncio.wait({work, line.lost}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The client is gone. What it had sent arrives, or doesn't.
            if not line.lost.done():
                line.lost.set_result(None)
            raise
        if work.done() and not line.lost.done():
            return work.result()
        raise ConnectionLost("broker localhost:9092: the broker closed the connection")

    async def _carried(
        self, line: Line, before: asyncio.Future[None], done: asyncio.Future[None], request: Produce
    ) -> ProduceResponse | None:
        await asyncio.wait({before})
        await asyncio.wait({line.lost}, timeout=self.slow + self.rng.choice((0.0, 0.0, 0.001, 0.02)))
        if line.lost.done():
            # What the broker has received it carries out all the same. Behind the first that it has not, nothing arrives.
            line.arrives = line.arrives and self.rng.random() < 0.7
        answer = self._written(request) if line.arrives else None
        done.set_result(None)
        await asyncio.sleep(self.slow + self.rng.choice((0.0, 0.001, 0.02)))
        return answer

    def _ended(self, work: asyncio.Task[Any]) -> None:
        self.works.discard(work)
        if not work.cancelled() and work.exception() is not None and self.broken is None:
            self.broken = work.exception()

    def _written(self, request: Produce) -> ProduceResponse:
        answers = []
        for batch in request.batches:
            payload = b"".join(bytes(part) for part in batch.batch)
            code, base = self._answer(batch.topic, batch.partition, payload)
            answers.append(ProducedPartition(batch.topic, batch.partition, code, base, -1, 0, ""))
        return ProduceResponse(answers, 0)

    def _answer(self, topic: str, partition: int, payload: bytes) -> tuple[int, int]:
        sequence = HEADER.unpack_from(payload)[11]
        if topic == REMOTE and self.lost_at.get(partition) == sequence:
            del self.lost_at[partition]
            return OUT_OF_ORDER, -1
        if topic == REMOTE and partition in self.late and self.late.pop(partition) is None:
            code, base = self._append(topic, partition, payload)
            self.lost_at[partition] = sequence
            return (NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1) if code == 0 else (code, base)
        refused, late = self.refusals.popleft() if self.refusals and topic == REMOTE else (0, False)
        if refused and not late:
            return refused, -1
        code, base = self._append(topic, partition, payload)
        return (refused, -1) if refused and code == 0 else (code, base)

    def _append(self, topic: str, partition: int, payload: bytes) -> tuple[int, int]:
        """By the rules of ProducerAppendInfo and ProducerStateManager."""
        key = (topic, partition)
        if len(payload) > (self.limit if topic == REMOTE else self.offsets_limit):
            return TOO_LARGE, -1
        fields = HEADER.unpack_from(payload)
        newest, producer, epoch, sequence, count = fields[8], fields[9], fields[10], fields[11], fields[12]
        states = self.states.setdefault(key, {})
        state = states.get(producer)
        if state is not None:
            if epoch < state.epoch:
                return INVALID_EPOCH, -1
            if epoch > state.epoch:
                if sequence != 0:
                    return OUT_OF_ORDER, -1
                state = None
            else:
                for known, records, base in state.recent:
                    if (known, records) == (sequence, count):
                        return 0, base
                known, records, _ = state.recent[-1]
                if sequence != known + records:
                    return OUT_OF_ORDER, -1
        if state is None:
            # A broker that knows nothing of a producer takes any sequence.
            state = states[producer] = ProducerState(epoch)
        base = self.ends.get(key, 0)
        state.recent.append((sequence, count, base))
        state.newest = newest
        self.ends[key] = base + count
        if topic == OFFSETS:
            self._note(producer, epoch, payload)
        else:
            for record in decode(payload):
                incarnation, offset, at = struct.unpack_from(">iqi", record.value or b"")
                if at != partition:
                    raise BrokenPromiseError(f"a record of partition {at} came into {partition}")
                self.watches[partition].record(producer, incarnation, offset)
        return 0, base

    def _note(self, producer: int, epoch: int, payload: bytes) -> None:
        for record in decode(payload):
            _, where = json.loads(record.key or b"")
            offset = json.loads(record.value or b"")["offset"]
            headers = dict(record.headers)
            topic_id = (headers.get(TOPIC_ID_HEADER) or b"").decode() or None
            self.positions[where["partition"]] = (offset, topic_id)
            incarnation = self.incarnations[topic_id or ""]
            owner = (producer, epoch) in self.ids.values()
            self.watches[where["partition"]].position(producer, incarnation, offset, owner=owner)

    # --- incidents ----------------------------------------------------------------------------------------------------

    def lose(self) -> None:
        """All connections break."""
        for line in self.lines.values():
            if not line.lost.done():
                line.lost.set_result(None)

    def forget(self) -> None:
        """Producers whose newest record is older than a day are dropped, as each ten minutes and at a restart."""
        for states in self.states.values():
            for producer in [p for p, state in states.items() if state.newest < NOW_S * 1000 - DAY_MS]:
                del states[producer]


class LifeSource:
    """The topic at the source: batches of all shapes, and other topics made under its name."""

    def __init__(self, broker: FakeBroker, watches: Sequence[Watch], *, old: bool) -> None:
        self.broker = broker
        self.watches = watches
        self.incarnation = -1
        self.times = int(NOW_S * 1000) - (2 * DAY_MS if old else 1000)
        self.fillers = random.Random(1).randbytes(20_000)
        self.make_again()

    @property
    def topic_id(self) -> bytes:
        return self.broker.ids[TOPIC]

    def make_again(self) -> None:
        self.incarnation += 1
        self.broker.ids[TOPIC] = struct.pack(">qq", 7, self.incarnation)
        for partition, watch in enumerate(self.watches):
            self.broker.logs[TOPIC, partition] = SourceLog()
            watch.source[self.incarnation] = []

    def append(self, partition: int, kind: str, count: int, size: int) -> None:
        log = self.broker.logs[TOPIC, partition]
        base = log.end
        offsets = list(range(base, base + count))
        if kind == "gaps":
            offsets = [offset for offset in offsets if offset % 3 != 1] or offsets[:1]
        records = [
            Plain(offset, self.times + offset, None, self._value(partition, offset, size), ()) for offset in offsets
        ]
        header = {
            "control": {"attributes": CONTROL | TRANSACTIONAL},
            "append_time": {"attributes": LOG_APPEND_TIME},
        }.get(kind, {})
        data = encode(records, LZ4 if kind == "lz4" else 0, base=base, last=base + count - 1, **header)
        log.batches.append((base, count, data))
        if kind != "control":
            self.watches[partition].source[self.incarnation] += offsets

    def _value(self, partition: int, offset: int, size: int) -> bytes:
        at = offset * 37 % 10_000
        return struct.pack(">iqi", self.incarnation, offset, partition) + self.fillers[at : at + size]
