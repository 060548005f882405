"""Lives of partitions that are copied with exactly-once: only what a reader of committed records sees counts.

A record and a position count when their transaction is committed. Nothing may come twice, whatever happens.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.source_offsets import parse_source_offset_headers
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import INTERVAL, POLL, SourceOffset, TaskPartition, TaskSpec
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, PartitionRefusedError
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions
from mirror_connect.kafka_io.protocol.features import TRANSACTION_VERSION
from mirror_connect.kafka_io.protocol.produce import Produce
from tests.fakes.encoded_batches import HEADER, decode
from tests.fakes.source_spec import OFFSETS
from tests.fakes.transaction_broker import Protocol, TransactionBroker, Written
from tests.fakes.transactional_target import served, write
from tests.models.life import Life, LifeLink
from tests.models.life_clusters import LETTERS, REMOTE, TOO_LARGE, VALUE, LifeTarget, Line, StoredPosition
from tests.models.watch import BrokenPromiseError, Place, Watch

# As coordinators do, though every ten seconds.
EXPIRY_S: Final = 1.0
TIMEOUT_MS: Final = 8_000
PROTOCOLS: Final = tuple(Protocol)
# Boundary and interval of the tasks.
BOUNDARIES: Final = ((INTERVAL, 300), (INTERVAL, 1_000), (POLL, 0), (INTERVAL, 60_000))


class ExactlyOnceTarget(LifeTarget):
    """A target with transactions. The watches are told of what is in one when it is committed."""

    def __init__(self, rng: random.Random, watches: Sequence[Watch], carries: int | None, protocol: Protocol) -> None:
        super().__init__(rng, watches, carries)
        loop = asyncio.get_running_loop()
        self.broker = TransactionBroker(protocol, loop.time, loop.call_later)
        self.broker.marking = lambda: self.rng.choice((0.0, 0.001, 0.05, 0.4))
        self.broker.decided = self._decided
        self.control = Line()
        self.aborted = self.committed = 0
        self._in_transaction: list[tuple[int, Place]] = []
        self.expiry = asyncio.create_task(self._expire())

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_S)
            self.broker.expire()

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if isinstance(request, Produce | ApiVersions):
            return await super().send(node_id, request, purpose=purpose)
        write(request)
        line = self.control
        try:
            await asyncio.wait({line.lost}, timeout=self.slow + self.rng.choice((0.0, 0.001, 0.02)))
        except asyncio.CancelledError:
            # The client is gone, and its request may have arrived.
            if self.rng.random() < 0.5:
                served(self.broker, request)
            raise
        if not line.lost.done() or self.rng.random() < 0.5:
            answer = served(self.broker, request)
            await asyncio.wait({line.lost}, timeout=self.slow + self.rng.choice((0.0, 0.001, 0.02)))
        if line.lost.done():
            raise ConnectionLost("the connection is gone", "localhost:9092")
        return answer

    def lose(self) -> None:
        super().lose()
        self.control.breaks()
        self.control = Line()

    def forget(self) -> None:
        for log in self.broker.logs.values():
            log.forget()

    def producer_of(self, transactional_id: str) -> int:
        return self.broker.ids[transactional_id].producer_id

    def _append(self, topic: str, partition: int, payload: bytes) -> tuple[int, int]:
        if topic == LETTERS and self.refuses_letters:
            return self.refuses_letters, -1
        if len(payload) > (self.limit if topic == REMOTE else self.offsets_limit):
            self.too_large += topic == REMOTE
            return TOO_LARGE, -1
        producer = HEADER.unpack_from(payload)[9]
        name = next((name for name, known in self.broker.ids.items() if known.producer_id == producer), "")
        return self.broker._produce(name, TopicPartition(topic, partition), payload)

    def _decided(self, name: str, committed: bool) -> None:
        self.committed += committed
        self.aborted += not committed
        self._in_transaction = []
        if not committed:
            return
        known = self.broker.ids[name]
        positions, records, letters = [], [], []
        for where in sorted(known.partitions):
            state = self.broker.log(*where).producers.get(known.producer_id)
            if state is not None:
                kind = {OFFSETS: positions, LETTERS: letters}.get(where.topic, records)
                kind.append((where, list(state.open)))
        try:
            touched = {where.partition for where, batches in records if self._tell(where.partition, batches)}
            touched |= {partition for _, batches in letters for partition in self._tell_letters(batches)}
            for _, batches in positions:
                touched -= self._tell_positions(batches)
        except BrokenPromiseError as error:
            self.broken = self.broken or error
            return
        if touched and self.broken is None:
            self.broken = BrokenPromiseError(f"partitions {touched} are committed without their positions")

    def _tell(self, partition: int, batches: list[Written]) -> bool:
        for batch in batches:
            for record in decode(batch.payload):
                incarnation, epoch, offset, at = VALUE.unpack_from(record.value or b"")
                if at != partition:
                    raise BrokenPromiseError(f"a record of partition {at} came into {partition}")
                self.watches[partition].record(batch.producer[0], incarnation, epoch, offset)
        return bool(batches)

    def _tell_letters(self, batches: list[Written]) -> set[int]:
        assert self.letters is not None
        found = [each for batch in batches for each in self.letters.read(batch.payload)]
        for partition, place in found:
            position = self.positions.get(partition)
            if position is not None and position.place is not None and position.place.is_behind(place):
                raise BrokenPromiseError(f"the letter of {place} is committed behind position {position.place}")
        self.letters.written((place for _, place in found), once=True)
        self._in_transaction = found
        return {partition for partition, _ in found}

    def _tell_positions(self, batches: list[Written]) -> set[int]:
        told = set()
        for batch in batches:
            for record in decode(batch.payload):
                _, where = json.loads(record.key or b"")
                offset = json.loads(record.value or b"")["offset"]
                origin = parse_source_offset_headers(record.headers)
                topic_id = topic_id_text(origin.topic_id or b"")
                partition = where["partition"]
                watch = self.watches[partition]
                place = watch.place(self.incarnations[topic_id], origin.leader_epoch, offset)
                self.positions[partition] = StoredPosition(offset, topic_id, origin.leader_epoch, place)
                watch.position(batch.producer[0], place, owner=True)
                assert place is not None
                if self.letters is not None:
                    self.letters.position(place)
                    for at, letter in self._in_transaction:
                        if at == partition and not place.is_behind(letter):
                            raise BrokenPromiseError(
                                f"the letter of {letter} is committed before its position: {place}"
                            )
                newest = next((each for each in place.down() if each.record), None)
                if newest is not watch.last and not (watch.last is not None and watch.is_gone(watch.last)):
                    raise BrokenPromiseError(f"position {place} is committed behind {watch.last}, which is there")
                told.add(partition)
        return told


class ExactlyOnceLink(LifeLink):
    """Reads positions as a worker does: committed ones, up to the high watermark."""

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        target = self._target
        assert isinstance(target, ExactlyOnceTarget)
        log = target.broker.log(OFFSETS)
        end = log.end
        while log.stable_end < end:
            await asyncio.sleep(0.01)
        return await super().source_offsets(partitions, fenceable=fenceable)


class ExactlyOnceLife(Life):
    """A life without falls: nothing that happens is a reason for a record to come twice.

    A task that can't know how its transaction has ended says that it is fenced. Its worker starts it again.
    """

    ends = (PartitionRefusedError, FencedError)

    def new_target(self) -> LifeTarget:
        schedule = self.schedule
        protocol = PROTOCOLS[schedule.seed % len(PROTOCOLS)]
        if protocol.gives_epochs:
            self.target_broker.features = {TRANSACTION_VERSION: 2}
        return ExactlyOnceTarget(random.Random(schedule.seed), self.watches, schedule.carries, protocol)

    def new_link(self, spec: TaskSpec) -> LifeLink:
        return ExactlyOnceLink(spec, self.target)

    def changed(self, spec: TaskSpec) -> TaskSpec:
        boundary, interval_ms = BOUNDARIES[self.schedule.seed // len(PROTOCOLS) % len(BOUNDARIES)]
        return replace(
            spec,
            target={**spec.target, "transaction.timeout.ms": str(TIMEOUT_MS)},
            exactly_once=True,
            transaction_boundary=boundary,
            transaction_interval_ms=interval_ms,
        )

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            assert isinstance(self.target, ExactlyOnceTarget)
            self.target.expiry.cancel()

    def _fell(self) -> None:
        """See the class."""
