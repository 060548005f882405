"""A source task whose records go through Spark, on clusters in memory: what arrives, and what a lost Spark leaves behind."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.problems import ProblemCode
from mirror_connect.connectors.record_errors import TransformationError
from mirror_connect.connectors.records.source_offsets import parse_source_offset_value
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.spark_jobs.compute import row_sender
from mirror_connect.spark_jobs.copy import slow_transform
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes.source_task import OFFSETS, SourceTaskWorld
from tests.fakes.spark_rows import Row, SparkRows

CONFIG = {"spark.transform.sql": "SELECT …", "emit.offset-syncs.enabled": "false"}


def masks_and_filters(row: Row) -> Row:
    number = int(row["value"])
    return {"__keep": number % 3 != 0, "value": b"masked %d" % number}


class World(SourceTaskWorld):
    """`orders` with two partitions, copied to `A.orders`."""

    def __init__(self) -> None:
        super().__init__()
        self.source.topic("orders", 2)
        self.source.topic("mm2-offset-syncs.B.internal")
        self.target.topic("A.orders", 2)
        self.target.topic("mm2-offset-runs.A.internal")
        self._written = 0

    def put(self, count: int) -> None:
        for _ in range(count):
            self.source.put("orders", (b"k", b"%d" % self._written))
            self._written += 1

    @property
    def wanted(self) -> list[bytes]:
        return [b"masked %d" % number for number in range(self._written) if number % 3]

    @property
    def there(self) -> list[bytes]:
        return [value for _, value in self.target.records("A.orders")]

    @property
    def position(self) -> int | None:
        found = self.target.whole_records(OFFSETS)
        return parse_source_offset_value(found[-1][1]) if found else None

    def copying(self, spark: SparkRows | None) -> AbstractAsyncContextManager[None]:
        spec = self.spec_of([TaskPartition("orders", 0, "A.orders")], CONFIG)
        return self.running(spec, lambda *_: (self.position, None), None if spark is None else spark.trip)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    made.patch(monkeypatch)
    return made


async def copy_for_ever(world: World, spark: SparkRows | None) -> None:
    async with world.copying(spark):
        await world.until(lambda: False)


async def test_records_arrive_masked_and_those_that_are_dropped_count_as_copied(world: World) -> None:
    spark = SparkRows(masks_and_filters, text="SELECT …")
    world.put(100)
    async with world.copying(spark):
        await world.until(lambda: world.position == 99)
        world.put(1)
        await world.until(lambda: world.position == 100)
        await world.finish()
    assert world.there == world.wanted
    await asyncio.to_thread(spark.trip.close)


async def test_heartbeats_are_copied_as_they_are(world: World) -> None:
    world.source.topic("heartbeats")
    world.target.topic("A.heartbeats")
    world.source.put("heartbeats", (b"key", b"\x00\x01\x02"))
    spark = SparkRows(masks_and_filters, text="SELECT …")
    world.put(10)
    spec = world.spec_of(
        [TaskPartition("heartbeats", 0, "A.heartbeats", heartbeats=True), TaskPartition("orders", 0, "A.orders")],
        CONFIG,
    )
    async with world.running(spec, computing=spark.trip):
        await world.until(lambda: world.there == world.wanted and bool(world.target.records("A.heartbeats")))
        await world.finish()
    assert world.target.records("A.heartbeats") == [(b"key", b"\x00\x01\x02")]
    await asyncio.to_thread(spark.trip.close)


async def test_a_task_that_loses_spark_commits_what_arrived_and_the_next_one_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The batches that come before the end are to be of records.
    monkeypatch.setattr(row_sender, "QUICK_ANSWERS", 0)
    monkeypatch.setattr(row_sender, "HELD_BYTES", 0)

    def dies(batches: Iterator[Any]) -> Iterator[Any]:
        yield from itertools.islice(batches, 3)
        raise EOFError

    world.put(10)
    for _ in range(4):
        spark = SparkRows(masks_and_filters, change=dies, text="SELECT …")
        world.put(10)
        with pytest.raises(SparkLostError):
            await copy_for_ever(world, spark)
        with pytest.raises(SparkLostError):
            await asyncio.to_thread(spark.trip.close)
        assert world.there == world.wanted[: len(world.there)]
        # All that arrived is committed, so nothing of it comes again.
        assert world.position is not None
    spark = SparkRows(masks_and_filters, text="SELECT …")
    async with world.copying(spark):
        await world.until(lambda: len(world.there) >= len(world.wanted))
        await world.finish()
    assert world.there == world.wanted
    await asyncio.to_thread(spark.trip.close)


async def test_a_statement_that_does_not_return_is_shown_and_ends_the_task_after_its_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_transform, "SHOWN_S", 0.2)
    monkeypatch.setattr(slow_transform, "LOOK_S", 0.05)
    stuck, returns = threading.Event(), threading.Event()

    def hangs(batches: Iterator[Any]) -> Iterator[Any]:
        for each in batches:
            if stuck.is_set():
                returns.wait()
            yield each

    spark = SparkRows(masks_and_filters, change=hangs, text="SELECT …")
    spec = world.spec_of([TaskPartition("orders", 0, "A.orders")], {**CONFIG, "spark.transform.timeout.ms": "5000"})
    world.put(10)

    async def copy() -> None:
        async with world.running(spec, computing=spark.trip):
            await world.until(lambda: world.position == 9)
            stuck.set()
            world.put(10)
            code = ProblemCode.PARTITION_STALLED_TRANSFORMATION
            await world.until(lambda: [each.code for each in world.link.problems] == [code])
            await world.until(lambda: False)

    line = r"^orders, partition 0, offsets? 10( to 1\d)?: spark\.transform\.sql has not returned for "
    with pytest.raises(TransformationError, match=line):
        await copy()
    assert (world.position, len(world.there)) == (9, 6)
    returns.set()
    await asyncio.to_thread(spark.trip.close)


async def test_a_task_with_a_statement_copies_nothing_without_spark(world: World) -> None:
    world.put(10)
    with pytest.raises(ConfigError):
        await copy_for_ever(world, None)
    assert world.there == []


LETTERS = {
    **CONFIG,
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def fails_sometimes(row: Row) -> Row:
    number = int(row["value"])
    return {"__error": "the statement's value raised an error"} if number % 7 == 3 else {"value": b"masked %d" % number}


async def test_records_that_spark_can_not_take_go_to_the_dead_letter_topic(world: World) -> None:
    spark = SparkRows(fails_sometimes, text="SELECT …")
    world.target.topic("letters")
    world.put(100)
    spec = world.spec_of([TaskPartition("orders", 0, "A.orders")], LETTERS)
    async with world.running(spec, lambda *_: (world.position, None), spark.trip):
        await world.until(lambda: world.position == 99)
        # One that is alone, behind nothing but dropped ones.
        world.put(4)
        await world.until(lambda: world.position == 103)
        await world.finish()
    numbers = range(104)
    assert world.there == [b"masked %d" % number for number in numbers if number % 7 != 3]
    assert [value for _, value in world.target.records("letters")] == [b"%d" % n for n in numbers if n % 7 == 3]
    await asyncio.to_thread(spark.trip.close)
