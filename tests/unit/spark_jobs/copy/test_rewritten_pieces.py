"""A batch that takes long to re-encode is made in a thread: in order, and forgotten when its flow is cleared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from mirror_connect.connectors.record_steps import Action, Step
from mirror_connect.kafka_io.records import record_rewrite
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME, CorruptBatchError, ProducerBatch
from mirror_connect.spark_jobs.copy import rewritten_pieces
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from tests.fakes.encoded_batches import patched, with_records
from tests.fakes.partition_flows import Heard, batch, compressed, fetched, flow, take

Work = Callable[[], ProducerBatch | None]


class Thread:
    """Runs what a flow gives it when a test says so."""

    def __init__(self) -> None:
        self.given: list[tuple[Work, Future[ProducerBatch | None]]] = []

    def __call__(self, work: Work) -> asyncio.Future[ProducerBatch | None]:
        made: Future[ProducerBatch | None] = Future()
        self.given.append((work, made))
        return asyncio.wrap_future(made)

    async def run(self) -> None:
        work, made = self.given.pop(0)
        if made.set_running_or_notify_cancel():
            try:
                made.set_result(work())
            except CorruptBatchError as error:
                made.set_exception(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


class Rig:
    """A flow beside a thread. `ready`: how often it said that it has a batch."""

    def __init__(self) -> None:
        self.thread, self.heard, self.ready = Thread(), Heard(), 0
        self.flow = flow(self.heard, 0, in_thread=self.thread, on_ready=self._on_ready)

    def _on_ready(self, _flow: PartitionFlow) -> None:
        self.ready += 1


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(rewritten_pieces, "_LONG", {0: 4_000})
    return Rig()


def append_time(base: int, count: int) -> bytes:
    return patched(batch(base, count), attributes=LOG_APPEND_TIME)


def offsets(batches: list[ProducerBatch | None]) -> list[tuple[int, int]]:
    return [(each.first_offset, each.last_offset) for each in batches if each is not None]


async def test_what_follows_waits_for_the_thread_and_comes_in_order(rig: Rig) -> None:
    rig.flow.put(fetched(0, 400, batch(0, 100), append_time(100, 100), batch(200, 100), batch(300, 100)))
    taken = [take(rig.flow)]
    assert (take(rig.flow), rig.flow.waiting(), len(rig.thread.given)) == (None, False, 1)
    assert rig.flow.source_offset == -1
    await rig.thread.run()
    assert (rig.ready, rig.flow.waiting()) == (1, True)
    taken += [take(rig.flow), take(rig.flow), take(rig.flow)]
    assert take(rig.flow) is None
    assert offsets(taken) == [(0, 99), (100, 199), (200, 299), (300, 399)]
    for each in taken:
        if each is not None:
            rig.flow.acked(each, -1)
    assert rig.flow.source_offset == 399


async def test_a_short_batch_needs_no_thread(rig: Rig) -> None:
    rig.flow.put(fetched(0, 2, append_time(0, 2)))
    assert offsets([take(rig.flow)]) == [(0, 1)]
    assert not rig.thread.given


async def test_each_piece_is_made_when_it_is_asked_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rewrite, "REWRITTEN_RECORDS", 40)
    rig.flow.put(fetched(0, 100, append_time(0, 100)))
    taken: list[ProducerBatch | None] = []
    for _ in range(3):
        assert take(rig.flow) is None
        assert len(rig.thread.given) == 1
        await rig.thread.run()
        taken.append(take(rig.flow))
    assert offsets(taken) == [(0, 39), (40, 79), (80, 99)]
    assert not rig.thread.given


async def test_a_flow_that_is_cleared_meanwhile_reads_the_batch_again(rig: Rig) -> None:
    content = batch(0, 100), append_time(100, 100)
    rig.flow.put(fetched(0, 200, *content))
    first = take(rig.flow)
    assert first is not None
    assert take(rig.flow) is None
    assert rig.flow.restart() == 100
    rig.flow.put(fetched(100, 200, *content))
    assert take(rig.flow) is None
    await rig.thread.run()
    assert (rig.ready, take(rig.flow)) == (0, None)
    await rig.thread.run()
    assert (rig.ready, offsets([take(rig.flow)])) == (1, [(100, 199)])


async def test_a_corrupt_batch_stops_the_flow_before_it(rig: Rig) -> None:
    corrupt = with_records(batch(100, 100), b"\x01" * 5_000, base=100, attributes=LOG_APPEND_TIME)
    rig.flow.put(fetched(0, 300, batch(0, 100), corrupt, batch(200, 100)))
    assert offsets([take(rig.flow), take(rig.flow)]) == [(0, 99)]
    await rig.thread.run()
    assert take(rig.flow) is None
    assert [error.offset for error in rig.heard.corrupt] == [100]
    assert (rig.flow.next_offset, rig.flow.behind_corrupt) == (100, 200)


async def test_a_batch_of_which_no_record_is_left_counts_as_done(rig: Rig) -> None:
    rig.flow.next_offset = 120
    content = with_records(append_time(0, 100), batch(0, 100)[61:], last_delta=149)
    rig.flow.put(fetched(120, 250, content, batch(150, 100)))
    assert take(rig.flow) is None
    await rig.thread.run()
    assert offsets([take(rig.flow), take(rig.flow)]) == [(150, 249)]
    assert rig.flow.next_offset == 250


async def test_batches_of_which_nothing_is_left_do_not_keep_the_loop() -> None:
    thread, heard, ready = Thread(), Heard(), []
    made = flow(heard, 0, steps=(Step(Action.FILTER),), in_thread=thread, on_ready=ready.append)
    made.put(fetched(0, 10_000, *(batch(base, 100, 1_000) for base in range(0, 10_000, 100))))
    rounds = 0
    while made.source_offset < 9_999:
        assert take(made) is None
        if thread.given:
            rounds += 1
            assert not made.waiting()
            await thread.run()
            assert len(ready) == rounds
    # Ten megabytes, of which about a millisecond's worth is handled at a time.
    assert 3 <= rounds <= 10


async def test_a_small_batch_of_many_records_is_transformed_in_a_thread() -> None:
    thread, heard = Thread(), Heard()
    made = flow(heard, 0, steps=(Step(Action.DROP_HEADERS, headers=(b"a",)),), in_thread=thread)
    made.put(fetched(0, 12_000, batch(0, 12_000, 1)))
    assert take(made) is None
    assert len(thread.given) == 1
    await thread.run()
    assert take(made) is not None


async def test_so_is_one_that_becomes_large() -> None:
    thread, heard = Thread(), Heard()
    made = flow(heard, 0, steps=(Step(Action.DROP_HEADERS, headers=(b"a",)),), in_thread=thread)
    made.put(fetched(0, 1, compressed(0, 8 << 20)))
    assert take(made) is None
    assert len(thread.given) == 1
