"""A target's coordinator of transactional ids and its partition logs, by the rules of Kafka's, without any I/O.

`Protocol` says which Kafka's: before KIP-890 (2.8, 3.9), its first releases (4.0), and later ones. When the coordinator
aborts a transaction by itself, these raise the epoch once, and 4.0 raised it twice.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from mirror_connect.kafka_io.protocol.transactions import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    EndTxnResponse,
)
from tests.fakes.target_cluster import HEADER

NONE, UNKNOWN_TOPIC, TOO_LARGE, TOPIC_DENIED, OUT_OF_ORDER, INVALID_EPOCH = 0, 3, 10, 29, 45, 47
INVALID_STATE, UNKNOWN_ID, CONCURRENT, NOT_ATTEMPTED, FENCED, ABORTABLE = 48, 49, 51, 55, 90, 120
TRANSACTIONAL_BIT = 0x10
LAST_EPOCH = 32_766
NOBODY = -1


class Protocol(Enum):
    OLD = auto()
    # 3.6 to 3.9: the leader asks the coordinator whether the partition is in the transaction.
    VERIFIED = auto()
    NEW_4_0 = auto()
    NEW = auto()

    @property
    def gives_epochs(self) -> bool:
        return self in (Protocol.NEW_4_0, Protocol.NEW)


@dataclass
class Written:
    """One batch, or the marker of a transaction's end. `kept`: None while its transaction is open."""

    base: int
    count: int
    producer: tuple[int, int]
    sequence: int
    payload: bytes
    marker: bool = False
    kept: bool | None = True


@dataclass
class Producer:
    epoch: int
    recent: deque[Written] = field(default_factory=lambda: deque(maxlen=5))
    open: list[Written] = field(default_factory=list)


class TransactionLog:
    """One partition."""

    def __init__(self) -> None:
        self.entries: list[Written] = []
        self.producers: dict[int, Producer] = {}
        self.end = 0

    @property
    def stable_end(self) -> int:
        """Where readers of committed records stop."""
        return min((state.open[0].base for state in self.producers.values() if state.open), default=self.end)

    def append(self, payload: bytes, *, from_zero: bool) -> tuple[int, int]:
        """(error, base offset), by the rules of ProducerAppendInfo. `from_zero`: KIP-890's stricter first sequence."""
        fields = HEADER.unpack_from(payload)
        attributes, producer_id, epoch, sequence, count = fields[5], fields[9], fields[10], fields[11], fields[12]
        assert attributes & TRANSACTIONAL_BIT, "a batch of a transactional producer has the bit"
        known = self.producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            return INVALID_EPOCH, -1
        if known is None or epoch > known.epoch:
            if sequence != 0 and (known is not None or from_zero):
                return OUT_OF_ORDER, -1
        else:
            for each in known.recent:
                if (each.sequence, each.count) == (sequence, count):
                    return NONE, each.base
            last = known.recent[-1] if known.recent else None
            if sequence != ((last.sequence + last.count) & 0x7FFFFFFF if last is not None else sequence):
                return OUT_OF_ORDER, -1
            if last is None and from_zero and sequence != 0:
                return OUT_OF_ORDER, -1
        if known is None:
            known = self.producers[producer_id] = Producer(epoch)
        elif epoch > known.epoch:
            known.epoch = epoch
            known.recent.clear()
        written = Written(self.end, count, (producer_id, epoch), sequence, payload, kept=None)
        known.recent.append(written)
        known.open.append(written)
        self.entries.append(written)
        self.end += count
        return NONE, written.base

    def mark(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        known = self.producers.setdefault(producer_id, Producer(epoch))
        if epoch > known.epoch:
            known.epoch = epoch
            known.recent.clear()
        for each in known.open:
            each.kept = committed
        known.open.clear()
        self.entries.append(Written(self.end, 1, (producer_id, epoch), -1, b"", marker=True))
        self.end += 1

    def forget(self) -> None:
        """Producers without an open transaction are forgotten, as when their newest record is a day old."""
        for producer_id in [key for key, known in self.producers.items() if not known.open]:
            del self.producers[producer_id]

    def committed(self, *, beyond_stable: bool = False) -> Iterator[Written]:
        """What a reader of committed records gets; `beyond_stable`: as Connect reads positions, up to the end of the log."""
        stable = math.inf if beyond_stable else self.stable_end
        return (each for each in self.entries if each.kept and not each.marker and each.base < stable)


class State(Enum):
    EMPTY = auto()
    ONGOING = auto()
    PREPARE_COMMIT = auto()
    PREPARE_ABORT = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass
class TransactionalId:
    producer_id: int
    epoch: int = -1
    last: int = -1
    state: State = State.EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    # Those of which the marker is still to be written.
    unmarked: set[TopicPartition] = field(default_factory=set)
    timeout_s: float = 60.0
    began: float = 0.0
    new: bool = False

    @property
    def completing(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


class TransactionBroker:
    """`clock`: seconds. `later(seconds, call)` runs what the broker does by itself.

    `marking`: seconds until a marker is there. `decided(id, committed)` hears of each transaction's end when it is decided.
    `denied`, `missing`: topics. `refuses`: topic → the code for its batches, which are not written; `hides`: they are.
    """

    def __init__(
        self, protocol: Protocol, clock: Callable[[], float], later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self.protocol = protocol
        self._clock = clock
        self._later = later
        self.marking: Callable[[], float] = lambda: 0.002
        self.decided: Callable[[str, bool], None] = lambda _id, _committed: None
        self.ids: dict[str, TransactionalId] = {}
        self.logs: dict[TopicPartition, TransactionLog] = {}
        self.denied: set[str] = set()
        self.missing: set[str] = set()
        self.refuses: dict[str, int] = {}
        self.hides: dict[str, int] = {}
        self.longest_timeout_s = 900.0
        self.limit = 1 << 20
        self._producers = 6

    def log(self, topic: str, partition: int = 0) -> TransactionLog:
        return self.logs.setdefault(TopicPartition(topic, partition), TransactionLog())

    # InitProducerId.

    def init(self, request: InitProducerId) -> InitProducerIdResponse:
        assert request.transactional_id is not None
        if request.transaction_timeout_ms / 1000 > self.longest_timeout_s:
            return InitProducerIdResponse(0, 50, -1, -1)
        known = self.ids.get(request.transactional_id)
        if known is None:
            self._producers += 1
            known = self.ids[request.transactional_id] = TransactionalId(self._producers)
        expected = None if request.producer_id == NOBODY else (request.producer_id, request.producer_epoch)
        if expected is not None and known.epoch >= 0 and expected[0] != known.producer_id:
            return InitProducerIdResponse(0, FENCED, -1, -1)
        if known.completing:
            return InitProducerIdResponse(0, CONCURRENT, -1, -1)
        if known.state is State.ONGOING:
            self._fence(request.transactional_id, known)
            return InitProducerIdResponse(0, CONCURRENT, -1, -1)
        if expected is None:
            known.epoch, known.last = known.epoch + 1, -1
        elif expected[1] == known.epoch >= LAST_EPOCH:
            self._producers += 1
            known.producer_id, known.last, known.epoch = self._producers, known.epoch, 0
        elif known.epoch < 0 or expected[1] == known.epoch:
            known.epoch, known.last = known.epoch + 1, known.epoch
        elif expected[1] != known.last:
            return InitProducerIdResponse(0, FENCED, -1, -1)
        known.state, known.timeout_s = State.EMPTY, request.transaction_timeout_ms / 1000
        known.partitions.clear()
        return InitProducerIdResponse(0, NONE, known.producer_id, known.epoch)

    def _fence(self, name: str, known: TransactionalId) -> None:
        """The coordinator ends what is open."""
        if self.protocol is Protocol.NEW:
            known.last, known.epoch = known.epoch, known.epoch + 1
        elif self.protocol is Protocol.NEW_4_0:
            known.last, known.epoch = known.epoch + 1, known.epoch + 2
        else:
            known.last, known.epoch = -1, known.epoch + 1
        self._end(name, known, committed=False)

    def expire(self) -> None:
        """Ends transactions that are open for too long, as the coordinator does every ten seconds."""
        for name, known in self.ids.items():
            if known.state is State.ONGOING and self._clock() - known.began >= known.timeout_s:
                self._fence(name, known)

    def _end(self, name: str, known: TransactionalId, *, committed: bool) -> None:
        self.decided(name, committed)
        known.state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
        known.unmarked = set(known.partitions)
        for partition in sorted(known.partitions):
            self._later(self.marking(), lambda partition=partition: self._mark(known, partition, committed=committed))  # type: ignore[misc]
        if not known.partitions:
            self._completed(known)

    def _mark(self, known: TransactionalId, partition: TopicPartition, *, committed: bool) -> None:
        self.log(*partition).mark(known.producer_id, known.epoch, committed=committed)
        known.unmarked.discard(partition)
        if not known.unmarked:
            self._completed(known)

    def _completed(self, known: TransactionalId) -> None:
        known.state = State.COMMITTED if known.state is State.PREPARE_COMMIT else State.ABORTED
        known.partitions.clear()

    # AddPartitionsToTxn.

    def add(self, request: AddPartitionsToTxn) -> AddPartitionsToTxnResponse:
        wrong = {p: TOPIC_DENIED for p in request.partitions if p.topic in self.denied}
        wrong |= {p: UNKNOWN_TOPIC for p in request.partitions if p.topic in self.missing}
        if wrong:
            return AddPartitionsToTxnResponse(0, {p: wrong.get(p, NOT_ATTEMPTED) for p in request.partitions})
        known = self.ids.get(request.transactional_id)
        code = self._add(known, (request.producer_id, request.producer_epoch), set(request.partitions))
        return AddPartitionsToTxnResponse(0, dict.fromkeys(request.partitions, code))

    def _add(self, known: TransactionalId | None, producer: tuple[int, int], partitions: set[TopicPartition]) -> int:
        if known is None or known.producer_id != producer[0]:
            return UNKNOWN_ID
        if known.epoch != producer[1]:
            return FENCED
        if known.completing:
            return CONCURRENT
        if known.state is not State.ONGOING:
            known.began = self._clock()
            known.partitions.clear()
        known.state = State.ONGOING
        known.partitions |= partitions
        return NONE

    # EndTxn.

    def end(self, request: EndTxn) -> EndTxnResponse:
        known = self.ids.get(request.transactional_id)
        code = UNKNOWN_ID if known is None else self._answer_end(known, request)
        if known is None or code or not request.gives_epoch:
            return EndTxnResponse(0, code, -1, -1)
        return EndTxnResponse(0, code, known.producer_id, known.epoch)

    def _answer_end(self, known: TransactionalId, request: EndTxn) -> int:
        if known.producer_id != request.producer_id:
            return UNKNOWN_ID
        repeated = request.gives_epoch and known.new and known.epoch == request.producer_epoch + 1
        ended = known.completing or known.state in (State.COMMITTED, State.ABORTED)
        if request.gives_epoch and known.new and ended:
            if not repeated:
                return FENCED
        elif known.epoch != request.producer_epoch:
            return FENCED
        if known.state is State.ONGOING:
            known.new = request.gives_epoch
            if request.gives_epoch:
                known.last, known.epoch = known.epoch, known.epoch + 1
            self._end(request.transactional_id, known, committed=request.committed)
            return NONE
        same = {
            State.PREPARE_COMMIT: request.committed,
            State.COMMITTED: request.committed,
            State.PREPARE_ABORT: not request.committed,
            State.ABORTED: not request.committed,
            State.EMPTY: False,
        }
        if not same[known.state]:
            return INVALID_STATE
        return CONCURRENT if known.completing else NONE

    # Produce.

    def produce(self, request: Produce) -> ProduceResponse:
        assert request.adds_partitions == self.protocol.gives_epochs
        assert request.transactional_id is not None
        answers = []
        for batch in request.batches:
            payload = b"".join(bytes(part) for part in batch.batch)
            where = TopicPartition(batch.topic, batch.partition)
            code, base = self._produce(request.transactional_id, where, payload)
            answers.append(ProducedPartition(batch.topic, batch.partition, code, base, -1, 0, ""))
        return ProduceResponse(answers, 0)

    def _produce(self, name: str, where: TopicPartition, payload: bytes) -> tuple[int, int]:
        if where.topic in self.denied:
            return TOPIC_DENIED, -1
        if where.topic in self.missing:
            return UNKNOWN_TOPIC, -1
        code = self._belongs(self.ids.get(name), where, HEADER.unpack_from(payload)[9:11])
        code = code or self.refuses.get(where.topic, NONE)
        if not code and len(payload) > self.limit:
            code = TOO_LARGE
        if code:
            return code, -1
        code, base = self.log(*where).append(payload, from_zero=self.protocol.gives_epochs)
        hidden = self.hides.get(where.topic, NONE)
        return (hidden, -1) if hidden else (code, base)

    def _belongs(self, known: TransactionalId | None, where: TopicPartition, producer: tuple[int, int]) -> int:
        """What the coordinator says to the partition's leader about a batch."""
        if self.protocol.gives_epochs:
            code = self._add(known, producer, {where})
            return INVALID_EPOCH if code == FENCED else code
        if self.protocol is Protocol.OLD:
            return NONE
        if known is None or known.producer_id != producer[0]:
            return UNKNOWN_ID
        if known.epoch != producer[1]:
            return INVALID_EPOCH
        return NONE if known.state is State.ONGOING and where in known.partitions else INVALID_STATE
