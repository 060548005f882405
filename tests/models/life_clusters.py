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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.records.source_offsets import parse_source_offset_headers
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.kafka_io.client.connection import ConnectionLost, RequestTimedOut
from mirror_connect.kafka_io.consumer.completed_fetch import whole_batches
from mirror_connect.kafka_io.protocol.fetch import FetchedPartition, FetchPartition
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from tests.fakes.encoded_batches import HEADER, Plain, decode, encode
from tests.fakes.source_cluster import Log as SourceLog
from tests.fakes.source_spec import OFFSETS
from tests.fakes.target_cluster import FakeTarget
from tests.fakes.whole_cluster import FakeBroker, FakeCluster, FakeClusters
from tests.models.watch import BrokenPromiseError, Place, Watch

if TYPE_CHECKING:
    from tests.models.letter_watch import LetterWatch

TOPIC, REMOTE, LETTERS = "orders", "A.orders", "letters"
# Of so many records none, some or most can't be transformed, if the connectors have a dead letter topic.
BAD: Final = 7
PARTITIONS: Final = 2
NOW_S: Final = 1_790_000_000.0
DAY_MS: Final = 86_400_000
CONTROL, LOG_APPEND_TIME, TRANSACTIONAL = 0x20, 0x08, 0x10
TOO_LARGE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, OUT_OF_ORDER, INVALID_EPOCH = 10, 19, 20, 45, 47
LZ4: Final = 3
# Of each record: which topic of this name, the leader epoch, the offset, the partition.
VALUE: Final = struct.Struct(">iiqi")


@dataclass
class ProducerState:
    epoch: int
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    newest: int = 0


@dataclass(frozen=True)
class StoredPosition:
    """What connect-offsets holds of a partition, and the place that it names."""

    offset: int
    topic_id: str | None
    epoch: int
    place: Place | None


class Line:
    """One connection: requests arrive in their order, and so do the answers. `lost`: why it broke."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[type[ConnectionLost]] = asyncio.get_running_loop().create_future()
        self.sent = asyncio.get_running_loop().create_future()
        self.sent.set_result(None)
        # Cut at this request: it and those behind it never arrive, those before it do, however late.
        self.arrives = True

    def breaks(self, why: type[ConnectionLost] = ConnectionLost) -> None:
        """For every request that is under way."""
        if not self.lost.done():
            self.lost.set_result(why)


class LifeTarget(FakeTarget):
    """A broker with producer state for each partition; what it writes is told to the watches.

    `carries`: how many bytes come through to it in a second; None: as many as there are.
    """

    def __init__(self, rng: random.Random, watches: Sequence[Watch], carries: int | None) -> None:
        super().__init__()
        self.rng = rng
        self.watches = watches
        self.data: list[list[bytes]] = [[] for _ in watches]
        self.ends: dict[tuple[str, int], int] = {}
        self.states: dict[tuple[str, int], dict[int, ProducerState]] = {}
        self.ids: dict[str, tuple[int, int]] = {}
        self.slow = 0.0
        self.carries = carries
        self.offsets_limit = 1 << 20
        # Of the remote topic: whether it has LogAppendTime. `_appended`: the time to tell of the last batch, -1 for none.
        self.append_time = False
        self._appended = -1
        # Codes for the next batches of data: before they are written, or after.
        self.refusals: deque[tuple[int, bool]] = deque()
        # Partitions of which every batch is refused; True: after it was written.
        self.denied: dict[int, bool] = {}
        # Partitions whose next batch is written and not told; and the sequences that are then told to be out of order.
        self.late: dict[int, None] = {}
        self.lost_at: dict[int, int] = {}
        # By the client's producer id.
        self.lines: dict[int, Line] = {}
        self.works: set[asyncio.Task[Any]] = set()
        self.positions: dict[int, StoredPosition] = {}
        self.incarnations: dict[str, int] = {}
        self.too_large = 0
        # Of the dead letter topic, if the connectors have one. `refuses_letters`: with this code.
        self.letters: LetterWatch | None = None
        self.refuses_letters = 0
        self.broken: BaseException | None = None

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if isinstance(request, InitProducerId):
            await asyncio.sleep(0.001)
            name = request.transactional_id or ""
            number, epoch = self.ids.get(name, (len(self.ids) + 1, -1))
            if (request.producer_id, request.producer_epoch) not in ((-1, -1), (number, epoch)):
                return InitProducerIdResponse(0, INVALID_EPOCH, -1, -1)
            self.ids[name] = (number, epoch + 1)
            return InitProducerIdResponse(0, 0, number, epoch + 1)
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
            timeout = request.timeout_ms / 1000
            await asyncio.wait({work, line.lost}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The client is gone. What it had sent arrives, or doesn't.
            line.breaks()
            raise
        if work.done() and not line.lost.done():
            return work.result()
        line.breaks(RequestTimedOut)
        raise line.lost.result()("broker localhost:9092: the connection is gone")

    async def _carried(
        self, line: Line, before: asyncio.Future[None], done: asyncio.Future[None], request: Produce
    ) -> ProduceResponse | None:
        await asyncio.wait({before})
        if self.carries is not None:
            size = sum(len(part) for batch in request.batches for part in batch.batch)
            await asyncio.wait({line.lost}, timeout=size / self.carries)
            line.arrives = line.arrives and not line.lost.done()
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
            self._appended = -1
            code, base = self._answer(batch.topic, batch.partition, payload)
            answers.append(
                ProducedPartition(batch.topic, batch.partition, code, base, -1 if code else self._appended, 0, "")
            )
        return ProduceResponse(answers, 0)

    def _answer(self, topic: str, partition: int, payload: bytes) -> tuple[int, int]:
        sequence = HEADER.unpack_from(payload)[11]
        if topic == LETTERS and self.refuses_letters:
            return self.refuses_letters, -1
        if topic == REMOTE and self.lost_at.get(partition) == sequence:
            del self.lost_at[partition]
            return OUT_OF_ORDER, -1
        if topic == REMOTE and partition in self.late and self.late.pop(partition) is None:
            code, base = self._append(topic, partition, payload)
            self.lost_at[partition] = sequence
            return (NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1) if code == 0 else (code, base)
        refused, late = self.refusals.popleft() if self.refusals and topic == REMOTE else (0, False)
        if topic == REMOTE and partition in self.denied:
            late = self.denied[partition]
            refused = NOT_ENOUGH_REPLICAS_AFTER_APPEND if late else NOT_ENOUGH_REPLICAS
        if refused and not late:
            return refused, -1
        code, base = self._append(topic, partition, payload)
        return (refused, -1) if refused and code == 0 else (code, base)

    def _append(self, topic: str, partition: int, payload: bytes) -> tuple[int, int]:
        """By the rules of ProducerAppendInfo and ProducerStateManager."""
        key = (topic, partition)
        if len(payload) > (self.limit if topic == REMOTE else self.offsets_limit):
            self.too_large += topic == REMOTE
            return TOO_LARGE, -1
        fields = HEADER.unpack_from(payload)
        newest, producer, epoch, sequence, count = fields[8], fields[9], fields[10], fields[11], fields[12]
        if fields[5] & LOG_APPEND_TIME:
            raise BrokenPromiseError("a broker refuses a request with the attribute of LogAppendTime")
        if self.append_time and topic == REMOTE:
            newest = self._appended = int(NOW_S * 1000)
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
                        # Whatever the topic has now, the answer has the time that the batch has there.
                        self._appended = max(newest, 0)
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
        elif topic == LETTERS:
            assert self.letters is not None
            self.letters.written((place for _, place in self.letters.read(payload)), once=False)
        else:
            for record in decode(payload):
                incarnation, log_epoch, offset, at = VALUE.unpack_from(record.value or b"")
                if at != partition:
                    raise BrokenPromiseError(f"a record of partition {at} came into {partition}")
                self.watches[partition].record(producer, incarnation, log_epoch, offset)
        return 0, base

    def _note(self, producer: int, epoch: int, payload: bytes) -> None:
        for record in decode(payload):
            _, where = json.loads(record.key or b"")
            offset = json.loads(record.value or b"")["offset"]
            origin = parse_source_offset_headers(record.headers)
            topic_id = topic_id_text(origin.topic_id or b"")
            watch = self.watches[where["partition"]]
            place = watch.place(self.incarnations[topic_id], origin.leader_epoch, offset)
            self.positions[where["partition"]] = StoredPosition(offset, topic_id, origin.leader_epoch, place)
            watch.position(producer, place, owner=(producer, epoch) in self.ids.values())
            if self.letters is not None:
                self.letters.position(place)

    def producer_of(self, transactional_id: str) -> int:
        """Its producer id."""
        return self.ids[transactional_id][0]

    # Incidents.

    def lose(self) -> None:
        """All connections break."""
        for line in self.lines.values():
            line.breaks()

    def forget(self) -> None:
        """Producers whose newest record is older than a day are dropped, as each ten minutes and at a restart."""
        for states in self.states.values():
            for producer in [p for p, state in states.items() if state.newest < NOW_S * 1000 - DAY_MS]:
                del states[producer]


class LifeSource:
    """The topic at the source: batches of all shapes, logs that are truncated, and other topics made under its name."""

    def __init__(self, broker: FakeBroker, watches: Sequence[Watch], *, old: bool) -> None:
        self.broker = broker
        self.watches = watches
        self.incarnation = -1
        self.letters: LetterWatch | None = None
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
            watch.made_again()

    def lead_elsewhere(self, partition: int) -> None:
        """Another leader, under the next epoch."""
        log = self.broker.logs[TOPIC, partition]
        log.leader, log.epoch = 3 - log.leader, log.epoch + 1

    def truncate(self, partition: int, batches: int) -> None:
        """An unclean election: the new leader hasn't got the last batches, or only has forgotten them."""
        log = self.broker.logs[TOPIC, partition]
        kept = log.batches[: max(0, len(log.batches) - batches)]
        log.truncate(kept[-1][0] + kept[-1][1] if kept else 0)
        self.watches[partition].truncated(log.end)

    def append(self, partition: int, kind: str, count: int, size: int) -> None:
        log = self.broker.logs[TOPIC, partition]
        base = log.end
        offsets = list(range(base, base + count))
        if kind == "gaps":
            offsets = [offset for offset in offsets if offset % 3 != 1] or offsets[:1]
        bad = {offset for offset in offsets if self.letters is not None and offset % BAD < offset // BAD % BAD}
        headers = (("bad", b"1"),)
        records = [
            Plain(
                offset,
                self.times + offset,
                None,
                self._value(partition, log.epoch, offset, size),
                headers if offset in bad else (),
            )
            for offset in offsets
        ]
        header = {
            "control": {"attributes": CONTROL | TRANSACTIONAL},
            "append_time": {"attributes": LOG_APPEND_TIME},
        }.get(kind, {})
        data = encode(
            records,
            LZ4 if kind == "lz4" else 0,
            base=base,
            last=base + count - 1,
            leader_epoch=log.epoch,
            **header,
        )
        log.batches.append((base, count, data))
        watch = self.watches[partition]
        watch.appended(log.epoch, count, [each for each in offsets if each not in bad] if kind != "control" else ())
        if self.letters is not None and kind != "control":
            self.letters.expect(watch.log[offset] for offset in bad)

    def _value(self, partition: int, epoch: int, offset: int, size: int) -> bytes:
        at = offset * 37 % 10_000
        return VALUE.pack(self.incarnation, epoch, offset, partition) + self.fillers[at : at + size]


class SourceOfRun(FakeCluster):
    """The source as one run of a task sees it. `read`: by partition, up to where it has been given records."""

    def __init__(self, broker: FakeBroker, watches: Sequence[Watch], read: Sequence[list[Place]]) -> None:
        super().__init__(broker)
        self._watches = watches
        self._places = read

    def _read(self, node: int, key: tuple[str, int], wanted: FetchPartition, room: int) -> FetchedPartition | None:
        found = super()._read(node, key, wanted, room)
        if found is not None and (behind := whole_batches(found.records).next_offset) > 0:
            self._places[key[1]].append(self._watches[key[1]].log[behind - 1])
        return found


class LifeClusters(FakeClusters):
    """`read_by`: what the present run of a task has read, by the task's number."""

    def __init__(
        self,
        source: FakeBroker,
        target: FakeBroker,
        watches: Sequence[Watch],
        read_by: Callable[[int], Sequence[list[Place]]],
    ) -> None:
        super().__init__({"a": source, "b": target})
        self._watches = watches
        self._read_by = read_by

    def __call__(self, properties: Mapping[str, str], client_id: str, kind: str = "consumer") -> FakeCluster:
        if kind != "consumer":
            return super().__call__(properties, client_id, kind)
        task = int(client_id.split("|")[1].rpartition("-")[2])
        return SourceOfRun(self.brokers["a"], self._watches, self._read_by(task))
