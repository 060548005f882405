"""The fetcher against a source in memory: records come in order, and none after a removal or a pause."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.consumer.fetcher import Fetcher
from tests.fakes.fetched_copy import A0, B0, copying, until
from tests.fakes.simulated_time import run_simulated, simulated_clock
from tests.fakes.source_cluster import FakeSource, batch


async def test_records_come_in_order_from_the_given_position() -> None:
    source = FakeSource()
    source.log("a", batches=5)
    async with copying(source, max_partition_fetch_bytes="200") as copy:
        copy.fetcher.add(A0, 20)
        await until(lambda: copy.reached(A0) == 50)
    assert copy.came == [(A0, 20, 40), (A0, 40, 50)]


async def test_a_first_batch_with_a_wrong_length_is_handed_over_for_the_reader_to_find_out() -> None:
    source = FakeSource()
    content = bytearray(batch(0, 10))
    content[10] = 1
    source.log("a").batches.append((0, 10, bytes(content)))
    async with copying(source) as copy:
        copy.holds = lambda _: True
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.held != [])
        assert (copy.held[0].fetch_offset, bytes(copy.held[0].buffer)) == (0, bytes(content))
        assert copy.fetcher.state(A0).position == 0


async def test_a_position_within_a_batch_is_named_beside_the_whole_batch() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 7)
        await until(lambda: copy.reached(A0) == 10)
    assert copy.came == [(A0, 7, 10)]


@pytest.mark.parametrize("code", [70, 71])
async def test_a_lost_fetch_session_is_begun_anew_without_a_word(code: int) -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        await copy.read_to(10)
        source.session_error = code
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert (copy.notices, source.session_error) == ([], 0)


async def test_a_removed_partition_brings_nothing_more() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    source.log("b", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(A0) == 10)
        copy.fetcher.remove(A0)
        log.append()
        source.logs["b", 0].append()
        await until(lambda: copy.reached(B0) == 20)
    assert copy.reached(A0) == 10


async def test_a_partition_added_again_is_read_from_its_new_position_only() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    async with copying(source) as copy:
        await copy.read_to(30)
        copy.came.clear()
        copy.fetcher.add(A0, 10)
        await until(lambda: copy.reached(A0) == 30)
    assert copy.came == [(A0, 10, 30)]


async def test_a_paused_fetcher_hands_nothing_over_until_resumed() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        await copy.read_to(10)
        copy.fetcher.pause()
        log.append()
        await asyncio.sleep(0.06)
        assert copy.reached(A0) == 10
        copy.fetcher.resume()
        await until(lambda: copy.reached(A0) == 20)


async def test_an_answer_that_is_dropped_says_nothing_of_the_end_of_a_log() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        await copy.read_to(10)
        copy.fetcher.pause()
        log.append()
        appended = time.monotonic()
        await asyncio.sleep(0.06)
        end = copy.fetcher.log_ends.of(A0)
        assert (end.end, end.known_at <= appended) == (10, True)


async def test_an_answer_with_an_error_says_nothing_of_the_end_of_a_log() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        await copy.read_to(10)
        log.errors = [5] * 100
        log.append()
        failing = time.monotonic()
        await asyncio.sleep(0.06)
        end = copy.fetcher.log_ends.of(A0)
        assert (end.end, end.known_at <= failing) == (10, True)


async def test_a_batch_larger_than_asked_for_still_comes() -> None:
    source = FakeSource()
    log = source.log("a")
    log.append(size=100)
    async with copying(source, max_partition_fetch_bytes="1", fetch_max_bytes="1") as copy:
        await copy.read_to(10)


class _FarSource(FakeSource):
    """Each answer takes four milliseconds."""

    async def send(self, node: int, request: Any, *, purpose: str = "control") -> Any:
        await asyncio.sleep(0.004)
        return await super().send(node, request, purpose=purpose)


def _arrivals(source: FakeSource, **settings: str) -> list[float]:
    """When each answer of partition a-0 came, in milliseconds of simulated time, until it was read to its end."""
    times: list[float] = []

    async def read() -> None:
        loop = asyncio.get_running_loop()
        async with copying(source, **settings) as copy:
            copy.holds = lambda _: times.append(round(loop.time() * 1000, 3)) is not None
            await copy.read_to(source.logs["a", 0].end)

    with mock.patch("time.monotonic", simulated_clock(time.monotonic, 0.0)):
        run_simulated(read())
    return times


def _between(times: list[float]) -> list[float]:
    return [round(after - before, 3) for before, after in pairwise(times)]


def test_answers_with_few_bytes_are_not_asked_for_without_a_pause() -> None:
    source = FakeSource()
    source.log("a", batches=4)
    assert _between(_arrivals(source, max_partition_fetch_bytes="100")) == [1.5, 1.5, 1.5]


def test_answers_with_many_bytes_follow_each_other_at_once() -> None:
    source = FakeSource()
    log = source.log("a")
    for _ in range(4):
        log.append(size=64 << 10)
    assert _between(_arrivals(source, max_partition_fetch_bytes=str(64 << 10))) == [0, 0, 0]


def test_an_answer_that_took_longer_than_the_pause_is_followed_at_once() -> None:
    source = _FarSource()
    source.log("a", batches=4)
    assert _between(_arrivals(source, max_partition_fetch_bytes="100")) == [4, 4, 4]


@pytest.mark.parametrize(
    ("name", "value"),
    [("auto.offset.reset", "newest"), ("isolation.level", "serializable"), ("fetch.max.bytes", "many")],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Fetcher(FakeSource(), {name: value}, on_records=lambda _: None, problems=Problems(print))
