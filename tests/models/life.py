"""The life of partitions in simulated time: real source tasks between a source and a target that fail as a schedule says.

The tasks are the product's, from fetcher to positions. The clusters are in memory and keep what a broker keeps: logs, the
state of producers, connections that carry requests in their order. Each record that arrives is looked at in the moment in
which it is written, and so is each position (`Watch`).
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

from mirror_connect.connectors.job_contract import PartitionPosition, TaskPartition, TaskSpec
from mirror_connect.connectors.positions import TOPIC_ID_HEADER
from mirror_connect.connectors.topic_ids import topic_id_text
from mirror_connect.kafka_io.connection import ConnectionLost
from mirror_connect.kafka_io.wire import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.wire_control import InitProducerId, ProducerIdResponse
from mirror_connect.spark_jobs import batch_producer, mirror_source, target_partition
from mirror_connect.spark_jobs.produce_outcome import PartitionRefusedError
from tests.fakes.encoded_batches import HEADER, Plain, decode, encode
from tests.fakes.source_cluster import FakeSource
from tests.fakes.source_cluster import Log as SourceLog
from tests.fakes.target_cluster import FakeTarget
from tests.fakes.whole_cluster import FakeBroker, FakeClusters
from tests.fakes.worker_link import FakeWorkerLink

CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
TOPIC, REMOTE, OFFSETS = "orders", "A.orders", "connect-offsets"
PARTITIONS: Final = 2
NOW_S: Final = 1_790_000_000.0
DAY_MS: Final = 86_400_000
CONTROL, LOG_APPEND_TIME, TRANSACTIONAL = 0x20, 0x08, 0x10
TOO_LARGE, NOT_ENOUGH_REPLICAS_AFTER_APPEND, OUT_OF_ORDER, INVALID_EPOCH = 10, 20, 45, 47
LZ4: Final = 3
# Seconds until a schedule that has come to its end must have been copied: many times what the longest back-off takes.
PATIENCE_S: Final = 600.0


@dataclass(frozen=True)
class Incident:
    """Something that happens at a moment: `at` in simulated seconds from the beginning; `number` is what the kind needs."""

    at: float
    kind: str
    number: int


@dataclass(frozen=True)
class Schedule:
    """All of a life. `shapes`: the batches of the source, as (kind, records, bytes of a value); `seed`: of delays alone."""

    shapes: tuple[tuple[str, int, int], ...]
    incidents: tuple[Incident, ...]
    old: bool
    seed: int


class BrokenPromiseError(AssertionError):
    """What must hold does not."""


# --- what must hold ---------------------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Looks at one partition: every record of the source, in order; a position never ahead; repeats only after a fall.

    Records are named by (incarnation of the topic, offset). `falls`: how many things have happened after which records
    may repeat. `former`: the producer that has given the partition away. `committed`: the newest position of its owner: one
    that it has read or written. A former owner's may still arrive until the new one writes its first: that is true as well.
    """

    source: dict[int, list[int]] = field(default_factory=dict)
    written: list[tuple[int, int]] = field(default_factory=list)
    there: set[tuple[int, int]] = field(default_factory=set)
    committed: tuple[int, int] = (-1, -1)
    falls: int = 0
    repeats: int = 0
    former: int = -1

    def record(self, producer: int, incarnation: int, offset: int) -> None:
        """The target has written it."""
        name = (incarnation, offset)
        if producer == self.former:
            raise BrokenPromiseError(f"{name} came from a task that had given the partition away")
        if name <= self.committed:
            raise BrokenPromiseError(f"{name} is there again, although {self.committed} was committed")
        if self.written:
            last = self.written[-1]
            if name <= last:
                self.repeats += 1
                if not self.falls:
                    raise BrokenPromiseError(f"{name} came behind {last}, and nothing had happened")
                self.falls -= 1
            elif name != self._following(last) and (name[0] == last[0] or name != self._first(name[0])):
                raise BrokenPromiseError(f"{name} came behind {last}: {self._following(last)} is skipped")
        elif name != self._first(incarnation):
            raise BrokenPromiseError(f"{name} came first")
        self.written.append(name)
        self.there.add(name)

    def position(self, producer: int, incarnation: int, offset: int, *, owner: bool) -> None:
        """The target has written this position. `owner`: nobody has taken the producer's place meanwhile."""
        if producer == self.former:
            raise BrokenPromiseError(f"position {offset} came from a task that had given the partition away")
        missing = [
            each for each in self.source[incarnation] if each <= offset and (incarnation, each) not in self.there
        ]
        if missing:
            raise BrokenPromiseError(f"position {offset} is committed, and {missing[:5]} are not on the target")
        if owner:
            self.committed = (incarnation, offset)

    def complete(self, incarnation: int) -> bool:
        """Whether all of the topic that is there now is on the target."""
        wanted = self.source[incarnation]
        return all((incarnation, each) in self.there for each in reversed(wanted))

    def _first(self, incarnation: int) -> tuple[int, int] | None:
        wanted = self.source[incarnation]
        return (incarnation, wanted[0]) if wanted else None

    def _following(self, name: tuple[int, int]) -> tuple[int, int] | None:
        later = [each for each in self.source[name[0]] if each > name[1]]
        return (name[0], later[0]) if later else None


# --- the target -------------------------------------------------------------------------------------------------------


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


# --- the source -------------------------------------------------------------------------------------------------------


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


# --- tasks ------------------------------------------------------------------------------------------------------------


class LifeLink(FakeWorkerLink):
    """Reads positions from the target in memory, in no time that counts."""

    def __init__(self, spec: TaskSpec, target: LifeTarget) -> None:
        super().__init__(spec)
        self._target = target

    async def positions(self, partitions: Sequence[TaskPartition]) -> list[PartitionPosition]:
        await asyncio.sleep(0.001)
        for p in partitions:
            if p.partition in self._target.positions:
                offset, topic_id = self._target.positions[p.partition]
                self._target.watches[p.partition].committed = (self._target.incarnations[topic_id or ""], offset)
        return [
            PartitionPosition(p.topic, p.partition, *self._target.positions.get(p.partition, (None,)))
            for p in partitions
        ]


@dataclass
class Runner:
    """One Connect task: started again whenever it has ended. `wanted`: what it is to copy."""

    number: int
    life: Life
    wanted: set[int]
    version: int = 1
    link: LifeLink = None  # type: ignore[assignment]
    running: asyncio.Task[None] = None  # type: ignore[assignment]
    # One end and start at a time.
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)

    def start(self) -> None:
        spec = self.spec()
        self.link = LifeLink(spec, self.life.target)
        self.running = asyncio.create_task(mirror_source.run_source_task(spec, self.link))

    def spec(self) -> TaskSpec:
        return TaskSpec(
            run_id="run",
            connector="c",
            task=self.number,
            connector_class=CLASS,
            config={
                "name": "c",
                "connector.class": CLASS,
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
                "source.cluster.bootstrap.servers": "a",
                "emit.offset-syncs.enabled": "false",
            },
            source={"bootstrap.servers": "a", "auto.offset.reset": "earliest", "fetch.max.wait.ms": "400"},
            target={"bootstrap.servers": "b"},
            source_alias="A",
            target_alias="B",
            assigned=tuple(TaskPartition(TOPIC, p, REMOTE) for p in sorted(self.wanted)),
            assignment_version=self.version,
            transactional_id=f"connect-c-{self.number}",
            offsets_topic=OFFSETS,
            offsets_partitions=1,
            commit_interval_ms=1000,
            target_consumer={"bootstrap.servers": "b"},
        )

    def assign(self) -> None:
        """Tells the task what it is to copy now."""
        self.version += 1
        self.link.assign(self.spec())

    async def follows(self) -> None:
        """Until it has done what `assign` asked for, or is gone."""
        while not self.running.done() and self.link.assignment_version < self.version:
            await asyncio.sleep(0.05)

    async def again(self) -> None:
        """Until it has ended, then once more: a user restarts a task that failed because all its partitions stand still."""
        await asyncio.wait({self.running})
        self.look()
        self.start()

    def look(self) -> None:
        """Raises what has ended it, unless that is what it is meant to end with."""
        ended = self.running.done() and not self.running.cancelled()
        error = self.running.exception() if ended else None
        if error is not None and not isinstance(error, PartitionRefusedError):
            raise error


class Life:
    """Two tasks, a partition each at first; `run` goes through the schedule and waits until everything is copied."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.watches = [Watch() for _ in range(PARTITIONS)]
        self.source_broker, self.target_broker = FakeBroker(), FakeBroker()
        self.target = LifeTarget(random.Random(schedule.seed), self.watches)
        self.target_broker.producers = self.target
        self.target_broker.topic(REMOTE, PARTITIONS)
        self.target_broker.topic(OFFSETS)
        self.source = LifeSource(self.source_broker, self.watches, old=schedule.old)
        self.target.incarnations[topic_id_text(self.source.topic_id)] = 0
        self.runners = [Runner(number, self, {number}) for number in range(PARTITIONS)]
        self._moving = asyncio.Lock()

    async def run(self) -> None:
        shapes = deque(self.schedule.shapes)
        for _ in range(len(shapes) // 2):
            self._append(shapes.popleft())
        for runner in self.runners:
            runner.start()
        happening = [asyncio.create_task(self._happen(incident)) for incident in self.schedule.incidents]
        try:
            while shapes:
                # In bursts, so that several batches are in flight at a time, for as long as incidents happen.
                await asyncio.sleep(0.8)
                for _ in range(min(4, len(shapes))):
                    self._append(shapes.popleft())
            await asyncio.gather(*happening)
            self._heal()
            await self._all_copied()
        finally:
            for task in (*happening, *(runner.running for runner in self.runners)):
                task.cancel()
            await asyncio.gather(*happening, *(runner.running for runner in self.runners), return_exceptions=True)
            for work in self.target.works:
                work.cancel()
            await asyncio.gather(*self.target.works, return_exceptions=True)
        self._look()

    def _append(self, shape: tuple[str, int, int]) -> None:
        kind, count, size = shape
        self.source.append(count % PARTITIONS, kind, count, size)

    def _look(self) -> None:
        if self.target.broken is not None:
            raise self.target.broken
        for runner in self.runners:
            runner.look()

    async def _all_copied(self) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not all(watch.complete(self.source.incarnation) for watch in self.watches) or not self._committed():
            self._look()
            for runner in self.runners:
                if runner.running.done():
                    await runner.again()
            if asyncio.get_running_loop().time() > deadline:
                raise BrokenPromiseError(f"not all is copied and committed: {[w.committed for w in self.watches]}")
            await asyncio.sleep(0.25)

    def _committed(self) -> bool:
        for partition, watch in enumerate(self.watches):
            end = self.source_broker.logs[TOPIC, partition].end
            if watch.source[self.source.incarnation] and watch.committed != (self.source.incarnation, end - 1):
                return False
        return True

    def _heal(self) -> None:
        self.target.slow = 0.0
        self.target.refusals.clear()
        self.target.late.clear()
        self.target.lost_at.clear()
        self.target.limit = self.target.offsets_limit = 1 << 20
        for runner in self.runners:
            runner.link.lease = True

    def _fell(self) -> None:
        for watch in self.watches:
            watch.falls += 1

    # --- incidents ----------------------------------------------------------------------------------------------------

    async def _happen(self, incident: Incident) -> None:
        await asyncio.sleep(incident.at)
        number = incident.number
        runner = self.runners[number % PARTITIONS]
        match incident.kind:
            case "lose":
                self.target.lose()
            case "refuse":
                self.target.refusals.extend([((6, 19, 3, 2)[number % 4], False)] * (1 + number % 3))
            case "written_and_refused":
                self.target.refusals.extend([((20, 7)[number % 2], True)])
            case "one_passes":
                # The first of several in flight is refused, and the broker knows no producer that could be behind.
                self._fell()
                self.target.forget()
                self.target.refusals.append((19, False))
            case "late_and_lost":
                # Written and not told, those behind it written and told; then the broker has lost track.
                self._fell()
                self.target.late[number % PARTITIONS] = None
            case "lost_sequence":
                self._fell()
                self.target.refusals.append(((45, 59)[number % 2], False))
            case "refused_for_good":
                self._fell()
                self.target.refusals.append((87, False))
            case "forget":
                self._fell()
                self.target.forget()
            case "slow":
                self.target.slow = (0.05, 0.3, 1.0, 3.0)[number % 4]
            case "limit":
                # What was written and not told may be refused now, and comes again in pieces.
                self._fell()
                self.target.limit = (900, 2_500, 1 << 20)[number % 3]
                self.target.offsets_limit = (200, 1 << 20)[number % 2]
            case "lease":
                link = runner.link
                link.lease = False
                await asyncio.sleep(0.3)
                link.lease = True
            case "leader":
                log = self.source_broker.logs[TOPIC, number % PARTITIONS]
                log.leader, log.epoch = 3 - log.leader, log.epoch + 1
            case "kill":
                async with runner.ending:
                    self._fell()
                    runner.running.cancel()
                    await asyncio.wait({runner.running})
                    runner.start()
            case "epoch":
                async with runner.ending:
                    self._fell()
                    runner.link.end_epoch()
                    await runner.again()
            case "finish":
                async with runner.ending:
                    self._fell()
                    runner.link.finish()
                    await runner.again()
            case "hand_over":
                async with self._moving:
                    await self._hand_over(number % PARTITIONS)
            case "make_again":
                self.source.make_again()
                for partition in range(PARTITIONS):
                    self.source.append(partition, "plain", 20, 10)
                self.target.incarnations[topic_id_text(self.source.topic_id)] = self.source.incarnation
            case _:
                raise AssertionError(incident)

    async def _hand_over(self, partition: int) -> None:
        giver = next(runner for runner in self.runners if partition in runner.wanted)
        taker = next(runner for runner in self.runners if runner is not giver)
        self._fell()
        giver.wanted.discard(partition)
        giver.assign()
        await giver.follows()
        self.watches[partition].former = self.target.ids[f"connect-c-{giver.number}"][0]
        taker.wanted.add(partition)
        taker.assign()


def _simulated_now() -> float:
    return NOW_S + asyncio.get_running_loop().time()


@contextmanager
def patched(life: Life) -> Iterator[None]:
    """The tasks find these clusters; small batches stand for large ones."""
    clusters = FakeClusters({"a": life.source_broker, "b": life.target_broker})
    with (
        mock.patch.object(mirror_source, "Cluster", clusters),
        mock.patch.object(target_partition, "MERGE_LIMIT", 4_000),
        mock.patch.object(batch_producer, "MERGE_LIMIT", 4_000),
        mock.patch("time.time", _simulated_now),
        mock.patch.object(FakeSource, "POLL_S", 0.04),
    ):
        yield


async def live(schedule: Schedule) -> Life:
    """Goes through it. BrokenPromiseError, or whatever the product raised."""
    life = Life(schedule)
    with patched(life):
        await life.run()
    return life
