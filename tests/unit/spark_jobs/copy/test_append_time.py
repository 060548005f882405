"""LogAppendTime on both sides: batches go as they are for as long as the target's broker sets the times itself."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirror_connect.kafka_io.producer.in_flight_batch import InFlightBatch
from mirror_connect.kafka_io.producer.produce_outcome import Outcome, PartitionRefusedError
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME, BatchView, ProducerBatch
from mirror_connect.spark_jobs.copy.partition_flow import SMALL_BYTES, PartitionFlow
from tests.fakes.encoded_batches import CODECS, Plain, decode, encode, with_records
from tests.fakes.partition_flows import Heard, fetched, flow, take
from tests.fakes.rewritten_batches import only, records_of

NOW = int(time.time() * 1000)
APPENDED = NOW - 5_000
PRODUCER = ProducerIdAndEpoch(7, 0)
WINDOW = 5


def source_records(first: int, count: int, size: int, seed: int = 0) -> list[Plain]:
    """Records whose producer gave each another time."""
    rng = random.Random(f"{first} {seed}")
    return [Plain(n, NOW - 90_000 + 7 * n, b"k", rng.randbytes(size), ()) for n in range(first, first + count)]


def appended(first: int, count: int, codec: int = 0, size: int = 200, at: int = APPENDED) -> bytes:
    """A batch as a source's broker with LogAppendTime holds it."""
    return encode(source_records(first, count, size), codec, attributes=LOG_APPEND_TIME, max_timestamp=at)


def usual(first: int, codec: int = 0) -> bytes:
    """One that is never merged."""
    return appended(first, 100, codec, size=400)


def target_of(feed: PartitionFlow) -> TargetPartition:
    return TargetPartition("A.orders", 0, feed, WINDOW, 1_000_000)


def sent_by(target: TargetPartition) -> InFlightBatch:
    sent = target.next_batch(PRODUCER, latency_bound=False)
    assert sent is not None
    return sent


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_a_batch_keeps_its_bytes_if_the_target_sets_the_times(codec: int) -> None:
    copying, data = flow(Heard()), usual(0, codec)
    copying.put(fetched(0, 100, data))
    taken = take(copying, append_time=True)
    assert taken is not None
    assert (taken.records, taken.codec) == (only(data).records, codec)
    # Brokers refuse a request with the bit that says who set the times.
    sent = InFlightBatch(taken, 0, target_of(copying)._stamped(taken, PRODUCER).payload)
    view = BatchView(memoryview(b"".join(sent.payload)))
    assert (view.attributes, view.count) == (codec, 100)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
def test_otherwise_its_records_get_the_time_that_they_have_at_the_source(codec: int) -> None:
    copying = flow(Heard())
    copying.put(fetched(0, 100, usual(0, codec)))
    taken = take(copying)
    assert taken is not None
    assert {record.timestamp for record in records_of(taken)} == {APPENDED}
    assert taken.append_time is None


def test_it_is_re_encoded_all_the_same_for_another_reason() -> None:
    copying = flow(Heard(), 10)
    copying.put(fetched(10, 100, usual(0)))
    taken = take(copying, append_time=True)
    assert taken is not None
    assert (taken.count, taken.append_time) == (90, None)


@pytest.mark.parametrize("codec", [CODECS["none"], CODECS["lz4"]], ids=["plain", "compressed"])
def test_small_neighbours_are_merged_without_being_re_encoded_before(codec: int) -> None:
    heard = Heard()
    copying = flow(heard)
    copying.put(fetched(0, 40, *(appended(first, 4, codec, size=20) for first in range(0, 40, 4))))
    taken = take(copying, append_time=True)
    assert taken is not None
    assert (taken.count, heard.counters) == (40, {"merged": 10})
    expected = [record.content for first in range(0, 40, 4) for record in source_records(first, 4, 20)]
    assert [record.content for record in records_of(taken)] == expected
    assert taken.append_time == APPENDED


def test_what_was_held_back_is_re_encoded_if_the_target_has_other_times_by_now() -> None:
    copying = flow(Heard())
    copying.put(fetched(0, 116, *(appended(first, 4, CODECS["lz4"], size=20) for first in (0, 4, 8)), usual(12)))
    assert take(copying, append_time=True).count == 12  # type: ignore[union-attr]
    held = take(copying)
    assert held is not None
    assert (held.first_offset, held.last_offset, held.append_time) == (12, 111, None)
    assert {record.timestamp for record in records_of(held)} == {APPENDED}
    assert copying.source_offset == -1


def test_what_was_held_back_and_can_not_be_read_is_left_to_the_target() -> None:
    damaged = with_records(usual(4), b"\x01" * 40_000)
    copying = flow(Heard())
    copying.put(fetched(0, 104, *(appended(first, 2, size=20) for first in (0, 2)), damaged))
    assert take(copying, append_time=True).count == 4  # type: ignore[union-attr]
    copying._held.append(take(copying, append_time=True))  # type: ignore[arg-type]
    held = take(copying)
    assert held is not None
    assert held.records == b"\x01" * 40_000


class Batches:
    """A feed of batches that are one record each."""

    def __init__(self, count: int, **fields: int | None) -> None:
        self.left = deque(
            ProducerBatch(b"r", 1, at, at, 0, NOW, NOW, **fields)  # type: ignore[arg-type]
            for at in range(count)
        )
        self.seen: list[bool] = []

    def waiting(self) -> bool:
        return bool(self.left)

    def take(self, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        self.seen.append(append_time)
        return self.left.popleft() if self.left else None

    def acked(self, batch: ProducerBatch, base_offset: int) -> None: ...

    def failed(self, error: PartitionRefusedError) -> None: ...


def partition(feed: Batches) -> TargetPartition:
    return TargetPartition("A.orders", 0, feed, WINDOW, 1_000_000)


def test_the_newest_answer_says_whether_the_target_sets_the_times() -> None:
    feed = Batches(5)
    target = partition(feed)
    for log_append_time in (NOW, NOW, -1, NOW):
        target.answered(sent_by(target), Outcome.WRITTEN, 0, log_append_time)
    sent_by(target)
    assert feed.seen == [False, True, True, False, True]


@pytest.mark.parametrize(("absent", "learned"), [(False, False), (True, True)], ids=["perhaps_written", "not_written"])
def test_the_answer_for_a_repetition_does_not_say_it(absent: bool, learned: bool) -> None:
    """A broker that has the batch already answers that batch's own time, whatever the topic has."""
    target = partition(Batches(1))
    target.answered(sent_by(target), Outcome.RETRY, absent=absent)
    target.answered(sent_by(target), Outcome.WRITTEN, 0, NOW)
    assert target.append_time is learned


def test_an_answer_counts_for_some_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The config may have been changed meanwhile."""
    target = partition(Batches(1))
    target.answered(sent_by(target), Outcome.WRITTEN, 0, NOW)
    now = time.time()
    seen = []
    for later in (4.0, 6.0):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        seen.append(target.append_time)
    assert seen == [True, False]


def test_a_refusal_forgets_it() -> None:
    target = partition(Batches(2))
    target.answered(sent_by(target), Outcome.WRITTEN, 0, NOW)
    sent_by(target)
    target.fail(PartitionRefusedError("the time of a record is too old"))
    assert not target.append_time


@pytest.mark.parametrize(
    ("max_timestamp", "append_time", "answered", "established"),
    [
        pytest.param(1_000, None, NOW, True, id="old_records_with_the_time_of_the_target"),
        pytest.param(1_000, None, -1, False, id="old_records_with_their_own"),
        pytest.param(NOW, None, -1, True, id="new_records_with_their_own"),
        # What the target went by are times in the records, which nobody has looked at.
        pytest.param(NOW, NOW, -1, False, id="records_with_unknown_times"),
    ],
)
def test_the_broker_remembers_the_producer_by_the_times_that_records_have_there(
    max_timestamp: int, append_time: int | None, answered: int, established: bool
) -> None:
    feed = Batches(0)
    feed.left.append(ProducerBatch(b"r", 1, 0, 0, 0, 0, max_timestamp, append_time=append_time))
    target = partition(feed)
    target.answered(sent_by(target), Outcome.WRITTEN, 0, answered)
    assert target.established is established


# Any order of events.


@dataclass
class Broker:
    """One partition of the target. `lines`: what is under way, and the answers to it."""

    append_time: bool = False
    clock: int = NOW
    records: list[Plain] = field(default_factory=list)
    # What records of a batch may be with CreateTime: it was decided on while the newest answer told of LogAppendTime.
    kept: list[bool] = field(default_factory=list)
    recent: deque[tuple[int, int, int, int]] = field(default_factory=lambda: deque(maxlen=5))

    def append(self, payload: bytes, *, kept: bool) -> tuple[int, int]:
        """Base offset and log append time, as Kafka's brokers answer them."""
        view = only(payload)
        assert not view.log_append_time, "INVALID_TIMESTAMP"
        for sequence, count, base, at in self.recent:
            if (sequence, count) == (view.base_sequence, view.count):
                return base, at
        assert view.base_sequence == len(self.records), "OUT_OF_ORDER_SEQUENCE_NUMBER"
        base = len(self.records)
        self.clock += 1
        for record in decode(payload):
            at = self.clock if self.append_time else record.timestamp
            self.records.append(record._replace(timestamp=at))
            self.kept.append(kept and not self.append_time)
        newest = self.clock if self.append_time else view.max_timestamp
        self.recent.append((view.base_sequence, view.count, base, newest))
        return base, self.clock if self.append_time else -1


@dataclass
class Way:
    """What is under way: batch, whether it was decided on as for LogAppendTime, answer."""

    sent: InFlightBatch
    answer: tuple[int, int] | None = None


SHAPES = some.tuples(
    some.sampled_from([1, 3, 10, 30]), some.sampled_from([5, 300, SMALL_BYTES // 8]), some.sampled_from([0, 0, 3])
)
EVENTS = some.one_of(
    some.tuples(some.just("source"), some.lists(SHAPES, min_size=1, max_size=6), some.booleans()),
    *(some.tuples(some.just(name)) for name in ("send", "send", "send", "arrives", "arrives", "answers", "answers")),
    some.tuples(some.sampled_from(["lost", "lost", "configured", "refused"])),
)


class Life:
    def __init__(self) -> None:
        self.flow = flow(Heard())
        self.target = target_of(self.flow)
        self.broker = Broker()
        self.way: deque[Way] = deque()
        self.source: list[Plain] = []
        self.end = 0

    def event(self, name: str, shapes: Sequence[tuple[int, int, int]] = (), append_time: bool = True) -> None:
        getattr(self, f"_{name}")(*((shapes, append_time) if name == "source" else ()))

    def _source(self, shapes: Sequence[tuple[int, int, int]], append_time: bool) -> None:
        begin, parts = self.end, []
        for count, size, codec in shapes:
            records = source_records(self.end, count, size)
            at = APPENDED + self.end
            header = {"attributes": LOG_APPEND_TIME, "max_timestamp": at} if append_time else {}
            parts.append(encode(records, codec, **header))
            self.source += [record._replace(timestamp=at) if append_time else record for record in records]
            self.end += count
        self.flow.put(fetched(begin, self.end, *parts))

    def _send(self) -> None:
        if self.target.sendable() and (sent := self.target.next_batch(PRODUCER, latency_bound=self.end % 2 == 0)):
            self.way.append(Way(sent))

    def _arrives(self) -> None:
        for each in self.way:
            if each.answer is None:
                payload = b"".join(each.sent.payload)
                each.answer = self.broker.append(payload, kept=each.sent.batch.append_time is not None)
                return

    def _answers(self) -> None:
        if self.way and (answer := self.way[0].answer) is not None:
            self.target.answered(self.way.popleft().sent, Outcome.WRITTEN, *answer)

    def _lost(self) -> None:
        """The connection breaks: what has arrived was written, and nobody hears of it."""
        while self.way:
            self.target.answered(self.way.popleft().sent, Outcome.RETRY)

    def _configured(self) -> None:
        self.broker.append_time = not self.broker.append_time

    def _refused(self) -> None:
        """The head is refused for good, and is tried again from the source on."""
        if len(self.way) == 1 and self.way[0].answer is None and self.target.is_head(self.way[0].sent):
            sent = self.way.popleft().sent
            if sent.repeated:
                self.way.append(Way(sent))
                return
            self.target.answered(sent, Outcome.RETRY, absent=True)
            self.target.fail(PartitionRefusedError("refused"))
            begin = self.flow.restart() or 0
            again, self.target = self.target, target_of(self.flow)
            self.target.next_sequence = again.next_sequence
            self._read_again(begin)

    def _read_again(self, begin: int) -> None:
        data = [
            encode([record], attributes=LOG_APPEND_TIME, max_timestamp=record.timestamp)
            for record in self.source[begin:]
        ]
        if data:
            self.flow.put(fetched(begin, self.end, *data))

    def settle(self) -> None:
        for _ in range(10 * len(self.source) + 100):
            for name in ("send", "arrives", "answers"):
                self.event(name)


@settings(max_examples=300)
@given(some.lists(EVENTS, max_size=60))
def test_whatever_happens_records_come_once_in_order_and_with_times_that_are_right(
    events: list[tuple[str]],
) -> None:
    life = Life()
    for each in events:
        life.event(*each)
    life.settle()
    landed = life.broker.records
    assert [record.content[1:] for record in landed] == [record.content[1:] for record in life.source]
    for there, record, kept in zip(landed, life.source, life.broker.kept, strict=True):
        if there.timestamp <= NOW and not kept:
            assert there.timestamp == record.timestamp
    assert life.flow.source_offset == life.end - 1


@settings(max_examples=100)
@given(some.lists(SHAPES, min_size=12, max_size=30), some.integers(1, 10))
def test_after_the_target_has_no_append_time_any_more_no_more_than_what_is_in_flight_has_other_times(
    shapes: list[tuple[int, int, int]], until: int
) -> None:
    life = Life()
    life.broker.append_time = True
    life.event("source", shapes)
    for _ in range(until):
        life.event("send")
        life.event("arrives")
        life.event("answers")
    while life.target.sendable():
        life.event("send")
    batches = [(each.sent.sequence, each.sent.batch.count) for each in life.way]
    under_way = {number for first, count in batches for number in range(first, first + count)}
    assert len(life.way) <= WINDOW
    life.event("configured")
    life.settle()
    pairs = enumerate(zip(life.broker.records, life.source, strict=True))
    others = {n for n, (there, record) in pairs if there.timestamp <= NOW and there.timestamp != record.timestamp}
    assert others <= under_way
