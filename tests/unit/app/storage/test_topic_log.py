"""The log of an internal topic, against clients in memory: how far it is read, and what is told when it can't be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from mirror_connect.app.storage import topic_log
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord

Entries = Sequence[tuple[bytes, bytes | None]]


class Clients:
    """A topic of two partitions; `failures`: how many times its ends can't be told."""

    def __init__(self) -> None:
        self.ends = {0: 0, 1: 0}
        self.stable: dict[int, int] | None = None
        self.failures = 0
        self.written: list[tuple[Entries, bool]] = []

    async def end_offsets(
        self, topic: str, partitions: Iterable[int], timeout: float, *, last_stable: bool = False
    ) -> dict[int, int]:
        if self.failures:
            self.failures -= 1
            raise ClusterUnreachable("no leader")
        ends = self.stable if last_stable and self.stable is not None else self.ends
        return {partition: ends[partition] for partition in partitions}

    async def write(self, topic: str, entries: Entries, *, leased: bool = True) -> None:
        self.written.append((entries, leased))

    def unreachable(self, what: str) -> ClusterUnreachable:
        return ClusterUnreachable(what)


class Leader:
    claimed = False

    def __init__(self) -> None:
        self.written: list[Entries] = []

    async def claim(self) -> None:
        self.claimed = True

    def relinquish(self) -> None:
        self.claimed = False

    async def write(self, topic: str, entries: Entries) -> None:
        self.written.append(entries)


class Tail:
    """Stands for TopicTail; `deliver` is what the log hears of it."""

    denied: NotAuthorized | None = None

    def __init__(
        self,
        clients: Clients,
        topic: str,
        partitions: Iterable[int],
        deliver: Callable[[Sequence[LogRecord], Mapping[int, int]], None],
        *,
        empty_after_ms: int,
    ) -> None:
        self.deliver = deliver
        self.stopped = False
        tails.append(self)

    def stop(self) -> None:
        self.stopped = True


tails: list[Tail] = []


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    tails.clear()
    monkeypatch.setattr(topic_log, "TopicTail", Tail)
    monkeypatch.setattr(topic_log, "ensure_topic", lambda *_: 2)
    monkeypatch.setattr(topic_log, "_RETRY_PAUSE", 0.001)


def made(clients: Clients, leader: Leader | None = None) -> KafkaTopicLog:
    anything: Any = clients
    writes: Any = leader
    return KafkaTopicLog(anything, TopicPlan.for_configs("configs", 1, {}), writes)


@pytest.fixture
def clients() -> Clients:
    return Clients()


@pytest.fixture
async def read() -> list[LogRecord]:
    return []


@pytest.fixture
async def log(clients: Clients, read: list[LogRecord]) -> AsyncIterator[KafkaTopicLog]:
    opened = made(clients)
    await opened.start(read.append)
    yield opened
    await opened.stop()


def record(offset: int) -> LogRecord:
    return LogRecord(b"k", b"v", 0, offset, 0)


async def test_an_empty_topic_is_read_at_once(log: KafkaTopicLog) -> None:
    assert log.partitions == 2
    await log.read_to_end(0.0)


async def test_the_end_is_where_the_topic_ended_at_the_call(
    log: KafkaTopicLog, clients: Clients, read: list[LogRecord]
) -> None:
    clients.ends = {0: 2, 1: 0}
    reading = asyncio.create_task(log.read_to_end())
    await asyncio.sleep(0)
    clients.ends = {0: 3, 1: 0}
    tails[-1].deliver([record(0)], {0: 1})
    await asyncio.sleep(0.01)
    assert not reading.done()
    tails[-1].deliver([record(1)], {0: 2})
    await asyncio.wait_for(reading, 10)
    assert [each.offset for each in read] == [0, 1]


async def test_ends_are_asked_for_again_while_there_is_time(log: KafkaTopicLog, clients: Clients) -> None:
    clients.failures = 3
    await log.read_to_end()
    assert clients.failures == 0


async def test_ends_that_nobody_tells_are_the_clusters_error(log: KafkaTopicLog, clients: Clients) -> None:
    clients.failures = 1_000_000
    with pytest.raises(ClusterUnreachable, match=r"^no leader$"):
        await log.read_to_end(0.0)


async def test_partitions_that_are_behind_are_named(log: KafkaTopicLog, clients: Clients) -> None:
    clients.ends = {0: 0, 1: 4}
    with pytest.raises(ClusterUnreachable, match=r"partitions \[1\] were not read to their end in 0.1 s"):
        await log.read_to_end(0.1)


async def test_an_open_transaction_is_named_with_its_place(log: KafkaTopicLog, clients: Clients) -> None:
    clients.ends, clients.stable = {0: 4, 1: 4}, {0: 4, 1: 2}
    tails[-1].deliver([], {0: 4, 1: 2})
    with pytest.raises(ClusterUnreachable, match=r"open transaction \(partition 1 at offset 2\)"):
        await log.read_to_end(0.1)


async def test_a_start_does_not_wait_for_an_open_transaction(clients: Clients) -> None:
    clients.ends, clients.stable = {0: 4, 1: 0}, {0: 0, 1: 0}
    opened = made(clients)
    await asyncio.wait_for(opened.start(lambda _: None), 10)
    await opened.stop()


async def test_a_missing_right_is_told_before_the_time_is_over(
    log: KafkaTopicLog, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_log, "_DENIED_CHECK_S", 0.01)
    clients.ends = {0: 1, 1: 0}
    tails[-1].denied = NotAuthorized("READ on topic configs")
    with pytest.raises(NotAuthorized, match="READ on topic configs"):
        await asyncio.wait_for(log.read_to_end(3600), 10)


async def test_a_start_that_fails_stops_reading(clients: Clients) -> None:
    clients.failures = 1_000_000
    with pytest.raises(ClusterUnreachable):
        await made(clients).start(lambda _: None, 0.0)
    assert tails[-1].stopped


async def test_after_the_end_nothing_is_handed_over(log: KafkaTopicLog, read: list[LogRecord]) -> None:
    tail = tails[-1]
    tail.deliver([record(0)], {0: 1})
    await asyncio.sleep(0)
    await log.stop()
    tail.deliver([record(1)], {0: 2})
    await asyncio.sleep(0)
    assert (tail.stopped, [each.offset for each in read]) == (True, [0])


async def test_what_members_write_needs_no_lease(log: KafkaTopicLog, clients: Clients) -> None:
    await log.append(b"a", None)
    await log.append_as_member(b"b", b"1")
    await log.append_all([])
    assert clients.written == [([(b"a", None)], True), ([(b"b", b"1")], False)]
    assert log.claimed


async def test_a_leader_writes_what_is_appended_and_gives_its_claim_up_at_the_end(clients: Clients) -> None:
    leader = Leader()
    log = made(clients, leader)
    assert not log.claimed
    await log.claim()
    assert log.claimed
    await log.append(b"a", b"1")
    await log.append_as_member(b"b", b"1")
    await log.stop()
    assert (leader.written, clients.written) == ([[(b"a", b"1")]], [([(b"b", b"1")], False)])
    assert not leader.claimed


async def test_records_that_come_together_leave_the_loop_its_turns_and_their_order(
    log: KafkaTopicLog, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[int | str] = []
    monkeypatch.setattr(topic_log, "_PIECE_S", -1.0)  # each record takes too long
    log._on_record = lambda each: passed.append(each.offset)
    clients.ends = {0: 5, 1: 0}
    reading = asyncio.create_task(log.read_to_end())
    await asyncio.sleep(0)

    async def others() -> None:
        while len(passed) < 9:
            passed.append("others")
            await asyncio.sleep(0)

    busy = asyncio.create_task(others())
    tails[-1].deliver([record(0), record(1), record(2)], {0: 3})
    tails[-1].deliver([record(3), record(4)], {0: 5})
    await asyncio.wait_for(reading, 10)
    await busy
    assert [each for each in passed if each != "others"] == [0, 1, 2, 3, 4]
    assert passed.index(4) - passed.index(0) > 4, passed


async def test_what_was_brought_and_not_passed_on_ends_with_the_log(
    log: KafkaTopicLog, read: list[LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_log, "_PIECE_S", -1.0)
    log._receive([record(0), record(1)], {0: 2})
    await log.stop()
    await asyncio.sleep(0.01)
    assert [each.offset for each in read] == [0]
