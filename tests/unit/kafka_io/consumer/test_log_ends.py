"""What is known of the ends of the source's logs, and when they are asked for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer import log_ends
from mirror_connect.kafka_io.consumer.fetch_queues import FetchQueue
from mirror_connect.kafka_io.consumer.fetch_state import Lane
from mirror_connect.kafka_io.consumer.log_ends import AT_ONCE, MOST_ASKED, UNKNOWN, UNKNOWN_AFTER_S, LogEnds
from mirror_connect.kafka_io.protocol.log_offsets import ListedOffset, ListOffsets

P = TopicPartition("t", 0)


class Brokers:
    """Two brokers: partitions with an odd number are at the second one."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ListOffsets]] = []
        self.end = 7
        self.error = 0
        self.away = False

    def leader(self, _topic: str, partition: int) -> Leader:
        return Leader(1 + partition % 2, 0)

    async def send(self, node: int, request: Any, *, purpose: str = "control") -> Any:
        self.asked.append((node, request))
        await asyncio.sleep(0)
        if self.away:
            raise ConnectionLost("Connection refused")
        return [ListedOffset(*key, self.error, -1, self.end, 0) for key in request.wanted]


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def ends(brokers: Brokers) -> LogEnds:
    return LogEnds(brokers, lambda _partition: 3, read_committed=False, wait_s=0.5)  # type: ignore[arg-type]


async def asked(ends: LogEnds, now: float) -> None:
    list(ends._look(now))
    await asyncio.gather(*ends._asking.values())


async def test_an_end_that_fetches_do_not_tell_is_asked_for(ends: LogEnds, brokers: Brokers) -> None:
    end = ends.of(P)
    await asked(ends, time.monotonic() + 0.6)
    assert brokers.asked == []
    await asked(ends, time.monotonic() + 0.8)
    assert [node for node, _ in brokers.asked] == [1]
    assert (end.end, end.is_known, list(ends.changed)) == (7, True, [P])


async def test_answers_for_other_partitions_say_that_nothing_changed(ends: LogEnds, brokers: Brokers) -> None:
    end, queue = ends.of(P), FetchQueue(1, Lane.BUSY)
    now = time.monotonic()
    end.told(7, 7, now)
    end.queue = queue
    ends.changed.clear()
    queue.answered_at = now + 100
    await asked(ends, now + 100.5)
    assert (brokers.asked, end.is_known, ends.changed) == ([], True, {})
    await asked(ends, now + 101)
    assert len(brokers.asked) == 1


@pytest.mark.parametrize("error", [pytest.param(0, id="away"), pytest.param(6, id="not_its_leader")])
async def test_an_end_that_nobody_tells_becomes_unknown(ends: LogEnds, brokers: Brokers, error: int) -> None:
    end = ends.of(P)
    now = time.monotonic()
    end.told(7, 7, now)
    ends.changed.clear()
    brokers.away, brokers.error = error == 0, error
    await asked(ends, now + UNKNOWN_AFTER_S - 0.1)
    assert end.is_known
    await asked(ends, now + UNKNOWN_AFTER_S + 0.1)
    assert (end.is_known, list(ends.changed)) == (False, [P])
    end.told(7, 7, now + 60)
    assert end.is_known


async def test_a_broker_that_hangs_is_asked_once_and_its_partitions_become_unknown(
    ends: LogEnds, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(node: int, request: Any, *, purpose: str = "control") -> Any:
        brokers.asked.append((node, request))
        await asyncio.sleep(3_600)

    monkeypatch.setattr(brokers, "send", hang)
    monkeypatch.setattr(log_ends, "LOOK_EVERY_S", 0.001)
    end = ends.of(P)
    end.told(7, 7, time.monotonic() - UNKNOWN_AFTER_S - 1)
    end.asked_at -= 60
    running = asyncio.create_task(ends.run())
    async with asyncio.timeout(60):
        while end.is_known or not brokers.asked:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(brokers.asked) == 1
    assert all(asking.done() for asking in ends._asking.values())


async def test_an_older_answer_does_not_take_the_end_back(ends: LogEnds, brokers: Brokers) -> None:
    end = ends.of(P)
    end.told(9, 3, time.monotonic() + 50)
    await asked(ends, time.monotonic() + 60)
    assert len(brokers.asked) == 1
    assert end.end == 9


async def test_thousands_are_asked_for_in_requests_of_a_bounded_size(ends: LogEnds, brokers: Brokers) -> None:
    for number in range(2_000):
        ends.of(TopicPartition("t", number))
    await asked(ends, time.monotonic() + 3)
    assert brokers.asked == []
    await asked(ends, time.monotonic() + 4)
    assert sorted(node for node, _ in brokers.asked) == [1] * 4 + [2] * 4
    assert max(len(request.wanted) for _, request in brokers.asked) == MOST_ASKED
    assert len(ends.changed) == 2_000


async def test_looking_at_ten_thousand_of_a_dead_source_does_not_block_the_loop(ends: LogEnds) -> None:
    now = time.monotonic()
    for number in range(10_000):
        end = ends.of(TopicPartition("t", number))
        end.told(7, 7, now - UNKNOWN_AFTER_S - 1)
        end.asked_at = now
    steps, unknown = [], 0
    for _ in ends._look(now):
        before, unknown = unknown, sum(not end.is_known for end in ends._ends.values())
        steps.append(unknown - before)
    assert unknown == 10_000
    assert max(steps) <= AT_ONCE


async def test_it_is_known_again_when_a_broker_that_was_silent_answers_that_nothing_changed(
    ends: LogEnds, brokers: Brokers
) -> None:
    end, queue = ends.of(P), FetchQueue(1, Lane.BUSY)
    now = time.monotonic()
    end.told(7, 7, now)
    end.queue, queue.answered_at, brokers.away = queue, now, True
    await asked(ends, now + UNKNOWN_AFTER_S + 1)
    assert not end.is_known
    ends.changed.clear()
    queue.answered_at = now + UNKNOWN_AFTER_S + 2
    await asked(ends, now + UNKNOWN_AFTER_S + 2.1)
    assert (end.is_known, end.end, list(ends.changed)) == (True, 7, [P])


async def test_it_is_remembered_when_all_was_fetched(ends: LogEnds) -> None:
    end = ends.of(P)
    now = time.monotonic()
    end.told(7, 7, now)
    end.told(7, 7, now + 5)
    end.told(9, 7, now + 6)
    assert end.reached_at == now + 5
    end.told(12, 8, now + 7)
    assert end.reached_at == now + 5


async def test_at_another_connection_it_is_known_since_the_last_answer(ends: LogEnds, brokers: Brokers) -> None:
    end, queue = ends.of(P), FetchQueue(1, Lane.BUSY)
    now = time.monotonic()
    end.told(7, 7, now - 3_600)
    end.queue = queue
    queue.answered_at = now
    ends.changed.clear()
    # To another leader, or to the connection for quiet partitions. Nothing was told of it for an hour, as nothing changed.
    end.leave()
    assert end.known_at == now
    brokers.away = True
    await asked(ends, now + UNKNOWN_AFTER_S - 0.1)
    assert (end.is_known, ends.changed) == (True, {})
    # A record comes meanwhile: it is not an hour old.
    end.told(8, 7, now + 1)
    assert end.reached_at == now


async def test_of_another_log_nothing_is_known(ends: LogEnds) -> None:
    end = ends.of(P)
    end.told(7, 7, time.monotonic())
    end.forget()
    assert (end.end, end.is_known) == (UNKNOWN, False)
    ends.forget(P)
    assert ends.of(P) is not end
    assert ends.changed == {}
