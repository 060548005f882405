"""A broker far away, in simulated time: requests arrive in order, replicas follow, connections break, and leaders move.

It keeps producers as a Kafka broker does: of each the last five batches, and a new leader perhaps only the last one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.produce import Produce, ProducedPartition, ProduceResponse
from mirror_connect.kafka_io.protocol.producer_states import ProducersOfPartition
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, stamp
from tests.fakes.producer_rig import NOT_LEADER, REQUEST_TIMED_OUT
from tests.fakes.target_cluster import Batch, FakeTarget, Log, lost

AWAY_S: Final = 0.1
# Between the append and its acknowledgement by the other replicas.
REPLICATED_S: Final = 0.004
HANDLED_S: Final = 0.0005
ELECTION_S: Final = 0.03
STALE: Final = 12


@dataclass(eq=False)
class Sent:
    """A request under way, and what its client hears."""

    request: Produce
    answer: asyncio.Future[ProduceResponse]
    dropped: bool = False
    arrived: bool = False


@dataclass
class Replicated:
    """A partition's log; all replicas in sync have the first `everywhere` batches of it. `term`: of its leader."""

    log: Log = field(default_factory=Log)
    everywhere: int = 0
    term: int = 0


def known(batches: list[Batch]) -> list[Batch]:
    """Those of producers that a broker remembers."""
    return [each for each in batches if each.producer_id >= 0]


class FarBroker(FakeTarget):
    """`late`: so many of the next batches are written and answered with REQUEST_TIMED_OUT; `refused`: not written.

    `silent`: so often it does not tell its producers; `stale`: so often it tells as it would have before a dozen batches.
    `unlisted`: whether it tells of no producer. `lag`: tenths of a second by which the replicas follow later.
    """

    def __init__(self) -> None:
        super().__init__()
        self.round_trip = AWAY_S
        self.replicas: dict[tuple[str, int], Replicated] = {}
        self.late = self.refused = self.silent = self.stale = self.unlisted = self.lag = 0
        self.largest_window = 0
        self.tail_lost = self._forgotten = False
        self._cut_at = -1.0
        self._under_way: list[Sent] = []
        self._arrival = self._replication = self._leads_from = 0.0
        self.before_telling = self._tells

    def log(self, topic: str, partition: int) -> Log:
        return self.replicated(topic, partition).log

    def replicated(self, topic: str, partition: int) -> Replicated:
        return self.replicas.setdefault((topic, partition), Replicated())

    async def _produce(self, request: Produce) -> ProduceResponse:
        loop = asyncio.get_running_loop()
        if loop.time() == self._cut_at:
            raise lost()
        sent = Sent(request, loop.create_future())
        self._under_way.append(sent)
        self.largest_window = max(self.largest_window, len(self._under_way))
        self._arrival = max(loop.time() + AWAY_S / 2, self._arrival + HANDLED_S)
        loop.call_at(self._arrival, self._arrives, sent)
        try:
            return await sent.answer
        finally:
            self._under_way.remove(sent)

    def _arrives(self, sent: Sent) -> None:
        if sent.dropped:
            return
        sent.arrived = True
        loop = asyncio.get_running_loop()
        terms, answers = {}, []
        for each in sent.request.batches:
            place = self.replicated(each.topic, each.partition)
            code, base = self._appended(place, b"".join(bytes(part) for part in each.batch))
            terms[each.topic, each.partition] = place.term, len(place.log.batches)
            answers.append(ProducedPartition(each.topic, each.partition, code, base, -1, 0, ""))
        self._replication = max(loop.time() + REPLICATED_S + self.lag / 10, self._replication)
        loop.call_at(self._replication, self._replicates, sent, answers, terms)

    def _appended(self, place: Replicated, payload: bytes) -> tuple[int, int]:
        if asyncio.get_running_loop().time() < self._leads_from:
            return NOT_LEADER, -1
        if self.refused:
            self.refused -= 1
            return NOT_LEADER, -1
        code, base = place.log.append(payload, self.limit)
        if code == 0 and self.late:
            self.late -= 1
            return REQUEST_TIMED_OUT, -1
        return code, base

    def _replicates(
        self, sent: Sent, answers: list[ProducedPartition], terms: dict[tuple[str, int], tuple[int, int]]
    ) -> None:
        heard = []
        for answer in answers:
            place = self.replicated(answer.topic, answer.partition)
            term, end = terms[answer.topic, answer.partition]
            if answer.error == 0 and term != place.term:
                answer = answer._replace(error=NOT_LEADER, base_offset=-1)  # noqa: PLW2901
            elif answer.error == 0:
                place.everywhere = max(place.everywhere, end)
            heard.append(answer)
        asyncio.get_running_loop().call_later(AWAY_S / 2, self._answers, sent, ProduceResponse(heard, 0))

    def _answers(self, sent: Sent, response: ProduceResponse) -> None:
        if not sent.answer.done():
            sent.answer.set_result(response)

    def _tells(self) -> None:
        if self.silent:
            self.silent -= 1
            raise lost()

    def _told(self, partition: TopicPartition) -> ProducersOfPartition:
        told = super()._told(partition)
        if self.unlisted:
            return told._replace(producers=[])
        if self.stale:
            self.stale -= 1
            older = Log(self.log(*partition).batches[:-STALE])
            older.recent.extend(known(older.batches)[-1:])
            return told._replace(producers=older.producers)
        return told

    # What happens to it.

    def cut(self, landing: int, later_s: float, each_s: float = HANDLED_S) -> None:
        """The connection breaks: of what has not arrived, so many requests still do, some time later.

        `each_s`: from one to the next. A broker handles them one after the other, each with its replication.
        """
        self._cut_at = asyncio.get_running_loop().time()
        on_their_way = [sent for sent in self._under_way if not sent.arrived]
        for number, sent in enumerate(on_their_way):
            sent.dropped = True
            if number < landing:
                asyncio.get_running_loop().call_later(
                    AWAY_S / 2 + later_s + number * each_s, self._arrives, Sent(sent.request, sent.answer)
                )
        for sent in self._under_way:
            if not sent.answer.done():
                sent.answer.set_exception(lost())

    def forget(self) -> None:
        """It knows nothing of any producer any more. That happens once: brokers look for old producers every ten minutes."""
        if not self._forgotten:
            self._forgotten = True
            for place in self.replicas.values():
                place.log.recent.clear()

    def lose_tail(self, lost_batches: int) -> None:
        """An unclean election: also batches that all replicas had are gone."""
        self.tail_lost = True
        for place in self.replicas.values():
            place.everywhere = max(0, place.everywhere - lost_batches)
        self.move(kept=0, remembered=1)

    def others_write(self, records: int) -> None:
        """Somebody else writes into each partition."""
        for place in self.replicas.values():
            made = build([NewRecord(b"other", b"", int(time.time() * 1000)) for _ in range(records)])
            place.log.append(stamp(made, -1, -1, -1), self.limit)

    def move(self, kept: int, remembered: int) -> None:
        """Another replica leads. It has `kept` batches that not all have, and remembers so many of each producer."""
        for place in self.replicas.values():
            place.term += 1
            del place.log.batches[place.everywhere + kept :]
            place.log.recent = deque(known(place.log.batches)[-remembered:], maxlen=5)
        self._leads_from = asyncio.get_running_loop().time() + ELECTION_S
