"""A flow whose batches go through Spark and back: several at once, answered late and in bursts, and lost with a process.

The model: a log at the source, a target that acknowledges some time later, source offsets that are committed now and then.
Whatever happens, the target has all kept records in order, and no committed source offset is ahead of it.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections import deque
from collections.abc import Sequence

import pytest

from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch, stamp
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.spark_jobs.copy import read_ahead
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from tests.fakes.encoded_batches import CODECS, Plain, decode, encode, patched, some_records
from tests.fakes.partition_flows import LIMIT, Heard, corrupt, fetched, flow
from tests.fakes.rewritten_batches import offsets_of, only
from tests.seeds import numbers

TRANSACTIONAL, CONTROL = 0x10, 0x20


class Spark:
    """Answers what was submitted when a test says so, in order. It drops some records, and marks the others."""

    def __init__(self) -> None:
        self.given: deque[ComputedBatch] = deque()
        self.room = True

    def submit(self, batch: ComputedBatch) -> None:
        self.given.append(batch)

    def waits(self) -> None: ...

    def has_room(self) -> bool:
        return self.room

    def answer(self, count: int = 1) -> None:
        for _ in range(min(count, len(self.given))):
            batch = self.given.popleft()
            if batch.dropped:
                continue
            try:
                (whole,) = rewrite(batch.view, batch.from_offset)
            except CorruptBatchError as error:
                batch.end([], 0, error)
                continue
            made = transformed(whole)
            batch.end([] if made is None else [made], whole.count - (0 if made is None else made.count))


def transformed(batch: ProducerBatch) -> ProducerBatch | None:
    records = [
        each._replace(offset=offset, value=b"masked")
        for each, offset in zip(decode(stamp(batch, -1, -1, -1)), offsets_of(batch), strict=True)
        if kept(offset)
    ]
    if not records:
        return None
    (made,) = rewrite(only(encode(records, batch.codec)), 0)
    made.upstream_offsets = tuple((each.offset, 1) for each in records)
    made.first_offset, made.last_offset = batch.first_offset, batch.last_offset
    return made


def kept(offset: int) -> bool:
    return offset % 50 < 40 and offset % 3 != 0


class Model:
    """One partition, mirrored by one process after the other."""

    def __init__(self, seed: int, *, transactions: bool = False) -> None:
        self.chance = random.Random(seed)
        self.records: list[Plain] = []
        self.batches: list[tuple[int, int, bytes]] = []
        # The first offsets of aborted transactions, and all that readers of committed records don't see.
        self.aborted: list[int] = []
        self.unseen: set[int] = set()
        while len(self.records) < 400:
            if transactions and self.chance.random() < 0.3:
                self.add_transaction()
            else:
                self.add(self.chance.choice([1, 2, 9, 40]))
        self.target: list[int] = []
        self.committed = -1
        self.in_flight: deque[ProducerBatch] = deque()
        self.begin()

    def add(self, count: int, **header: int) -> None:
        """A batch at the end of the log."""
        first = len(self.records)
        some = some_records(self.chance.randrange(1 << 30), count, first=first, size=20)
        if header.get("attributes", 0) & CONTROL:
            key = struct.pack(">hh", 0, header.pop("committed"))
            some = [some[0]._replace(key=key, value=bytes(6), headers=())]
        self.records += some
        codec = 0 if header.get("attributes", 0) & CONTROL else self.chance.choice([*CODECS.values(), 0, 0])
        self.batches.append((first, first + len(some), encode(some, codec, **header)))

    def add_transaction(self) -> None:
        """Some batches, between which others may be, and a marker that they are committed or aborted."""
        first, committed = len(self.records), self.chance.random() < 0.5
        for _ in range(self.chance.randint(1, 3)):
            at = len(self.records)
            self.add(self.chance.choice([1, 9]), attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)
            self.unseen |= set() if committed else set(range(at, len(self.records)))
            if self.chance.random() < 0.5:
                self.add(3)
        self.unseen.add(len(self.records))
        self.add(1, attributes=TRANSACTIONAL | CONTROL, producer_id=7, producer_epoch=0, committed=int(committed))
        if not committed:
            self.aborted.append(first)

    def kept(self, offset: int) -> bool:
        return kept(offset) and offset not in self.unseen

    def begin(self) -> None:
        """A process begins where the former has committed. What was in flight may be on the target, or not."""
        for _ in range(self.chance.randint(0, len(self.in_flight))):
            self.write(self.in_flight.popleft())
        self.in_flight.clear()
        self.spark = Spark()
        self.heard = Heard()
        self.flow = flow(self.heard, self.committed + 1, computing=self.spark, read_committed=bool(self.aborted))
        self.position = self.committed + 1

    def write(self, batch: ProducerBatch) -> None:
        self.target += offsets_of(batch)

    def fetch(self) -> None:
        """Some batches from the one that holds the position."""
        if self.position >= len(self.records) or self.flow.stopped:
            return
        at = next(n for n, (_, end, _) in enumerate(self.batches) if end > self.position)
        some = self.batches[at : at + self.chance.randint(1, 4)]
        made = fetched(self.position, some[-1][1], *(each[2] for each in some))
        made.aborted = tuple((7, first) for first in self.aborted if self.overlaps(first, some[0][0], some[-1][1]))
        self.flow.put(made)
        self.position = some[-1][1]

    def overlaps(self, first: int, begin: int, end: int) -> bool:
        """Whether an aborted transaction is there, as brokers tell it."""
        marker = next(n for n in range(first, len(self.records)) if n in self.unseen and self.is_marker(n))
        return first < end and marker >= begin

    def is_marker(self, offset: int) -> bool:
        return self.records[offset].value == bytes(6) and offset in self.unseen

    def take(self) -> None:
        while len(self.in_flight) < 5 and self.flow.waiting():
            batch = self.flow.take(LIMIT, latency_bound=self.chance.random() < 0.3, append_time=False)
            if batch is None:
                return
            self.in_flight.append(batch)

    def acknowledge(self) -> None:
        if self.in_flight:
            batch = self.in_flight.popleft()
            self.write(batch)
            self.flow.acked(batch, len(self.target))

    def refuse(self) -> None:
        """The target refuses the oldest batch; the partition is tried again."""
        if self.in_flight:
            error = PartitionRefusedError("refused")
            error.offset = self.in_flight[0].first_offset
            self.in_flight.clear()
            self.flow.failed(error)
        self.again()

    def again(self) -> None:
        position = self.flow.restart()
        assert position is not None
        self.position = position

    def restart(self) -> None:
        """As after an error at the source: what was fetched and not sent is dropped."""
        self.again()

    def commit(self) -> None:
        self.committed = self.flow.source_offset

    def step(self) -> None:
        self.spark.room = self.chance.random() < 0.9
        step = self.chance.choices(
            [self.fetch, self.take, self.acknowledge, self.commit, self.answer, self.refuse, self.restart, self.begin],
            [6, 8, 6, 2, 6, 0.3, 0.3, 0.3],
        )[0]
        step()
        self.check()

    def answer(self) -> None:
        self.spark.answer(self.chance.choice([1, 1, 2, 30]))

    def check(self) -> None:
        there = set(self.target)
        for offset in range(max(self.committed, self.flow.source_offset) + 1):
            assert not self.kept(offset) or offset in there, f"{offset} is skipped"

    def finish(self) -> None:
        for _ in range(5000):
            if self.flow.source_offset == len(self.records) - 1:
                return
            self.fetch()
            self.take()
            self.spark.answer(30)
            self.take()
            self.acknowledge()
        raise AssertionError("it never ends")


@pytest.mark.parametrize("transactions", [False, True])
@pytest.mark.parametrize("seed", numbers(40, 2000))
def test_whatever_happens_kept_records_are_there_in_order(
    seed: int, transactions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", random.Random(seed).choice([1, 500, 5_000, 1 << 20]))
    model = Model(seed, transactions=transactions)
    for _ in range(300):
        model.step()
    model.finish()
    wanted = [each.offset for each in model.records if model.kept(each.offset)]
    assert sorted(set(model.target)) == wanted
    following = dict(itertools.pairwise(wanted))
    for before, after in itertools.pairwise(model.target):
        # The next one, or one that comes again.
        assert after == following.get(before) or after <= before
    assert not model.heard.corrupt


def put(made: PartitionFlow, parts: Sequence[bytes], until: int) -> None:
    made.put(fetched(0, until, *parts))


def some_batches(count: int) -> list[bytes]:
    return [encode(some_records(n, 10, first=n * 10)) for n in range(count)]


def test_several_batches_are_on_their_way_at_once_and_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Spark()
    made = flow(Heard(), 0, computing=spark)
    put(made, some_batches(30), 300)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert len(spark.given) == 30
    assert not made.waiting()
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 2)
    spark = Spark()
    made = flow(Heard(), 0, computing=spark)
    put(made, some_batches(30), 300)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert len(spark.given) == 2
    spark.room = False
    spark.answer(2)
    while made.take(LIMIT, latency_bound=False, append_time=False) is not None:
        pass
    assert len(spark.given) == 1


def test_batches_that_cannot_go_ahead_do_not_drop_those_behind_them() -> None:
    spark = Spark()
    made = flow(Heard(), 0, computing=spark, read_committed=True)
    parts = some_batches(6)
    for number in (1, 4):
        parts[number] = patched(parts[number], attributes=TRANSACTIONAL, producer_id=9, producer_epoch=0)
    for at in (0, 3):
        found = fetched(at * 10, at * 10 + 30, *parts[at : at + 3])
        found.aborted = ((7, 5),)
        made.put(found)
    given = []
    for _ in range(20):
        made.take(LIMIT, latency_bound=False, append_time=False)
        given += [each.from_offset for each in spark.given]
        spark.answer(30)
    assert sorted(given) == [0, 10, 20, 30, 40, 50]
    assert made.next_offset == 60


def test_it_is_woken_when_its_next_batch_is_there_and_for_no_other() -> None:
    spark = Spark()
    woken: list[PartitionFlow] = []
    made = flow(Heard(), 0, computing=spark, on_ready=woken.append)
    put(made, some_batches(3), 30)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    last = spark.given.pop()
    last.end([], 10)
    assert not woken
    spark.answer()
    assert len(woken) == 1
    assert made.waiting()


def test_answers_to_what_was_dropped_are_thrown_away() -> None:
    spark = Spark()
    woken: list[PartitionFlow] = []
    made = flow(Heard(), 0, computing=spark, on_ready=woken.append)
    put(made, some_batches(3), 30)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert made.restart() == 0
    spark.answer(3)
    assert not woken
    put(made, some_batches(3), 30)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert made.source_offset == -1
    spark.answer(3)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is not None


def test_what_is_behind_a_corrupt_batch_waits_for_it() -> None:
    spark, heard = Spark(), Heard()
    made = flow(heard, 0, computing=spark)
    first, second, third = some_batches(3)
    put(made, [first, corrupt(second), third], 30)
    assert made.take(LIMIT, latency_bound=False, append_time=False) is None
    assert len(spark.given) == 1
    spark.answer()
    assert made.take(LIMIT, latency_bound=False, append_time=False) is not None
    assert [each.offset for each in heard.corrupt] == [10]
    assert (made.next_offset, made.behind_corrupt) == (10, 20)
