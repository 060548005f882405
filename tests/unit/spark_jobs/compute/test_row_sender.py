"""Rows for the feeder: what goes first, what goes together, and when they are flushed."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mirror_connect.spark_jobs.compute import arrow_rows, row_sender
from mirror_connect.spark_jobs.compute.arrow_rows import Rows
from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener
from mirror_connect.spark_jobs.compute.row_sender import RowSender
from tests.fakes.encoded_batches import CODECS, encode, some_records
from tests.fakes.spark_rows import SparkRows, all_of, masks
from tests.waiting import state_reached


async def test_rows_that_are_no_records_go_first_until_spark_is_quick_or_a_record_is_there() -> None:
    samples: list[int] = []

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        for each in batches:
            samples.append(each.num_rows if each.column("__row").null_count == each.num_rows else -1)
            yield each

    spark = SparkRows(masks, change=counted)
    await state_reached(lambda: len(samples) >= 2, "rows that are no records went first")
    spark.trip.begin({})
    records = some_records(5, 3)
    found = await all_of(spark, spark.submit(encode(records, CODECS["none"])))
    assert [each.value for each in found] == [each.value and b"masked " + each.value for each in records]
    assert samples[0] == arrow_rows.SAMPLES
    assert -1 in samples
    await asyncio.to_thread(spark.trip.close)


async def test_while_a_flush_is_on_its_way_there_is_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sender, "QUICK_ANSWERS", 0)
    monkeypatch.setattr(row_sender, "FLUSH_AGAIN_S", 600.0)
    come, go = threading.Semaphore(0), threading.Semaphore(0)
    flushes: list[int] = []

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        for each in batches:
            if each.column("__row").null_count:
                flushes.append(each.num_rows)
                come.release()
                assert go.acquire(timeout=60)
            yield each

    spark = SparkRows(masks, change=slow)
    spark.trip.begin({})
    first = spark.submit(encode(some_records(1, 3)))
    assert await asyncio.to_thread(come.acquire, timeout=60)
    second = spark.submit(encode(some_records(2, 3)))
    await asyncio.sleep(10 * row_sender.FLUSH_S)
    assert len(flushes) == 1
    go.release()
    await all_of(spark, first)
    assert await asyncio.to_thread(come.acquire, timeout=60)
    go.release()
    await all_of(spark, second)
    assert len(flushes) == 2
    await asyncio.to_thread(spark.trip.close)


def test_a_flush_that_is_due_does_not_wait_until_nothing_waits_and_a_full_stream_needs_none() -> None:
    listener = FeederListener(uuid.uuid4().hex, 0)
    # It is not run: nobody else takes what is put into its queue.
    sender = RowSender(listener, Rows(()), "", on_part=lambda _: None, on_failure=lambda _: None)
    for _ in range(3):
        sender.answered()
    sender._unflushed, sender._flushed_at = True, time.monotonic() - row_sender.FLUSH_S
    with pytest.raises(queue.Empty):
        sender._next()
    sender._flushing = True
    assert sender._next() is not None
    # The answer counts, though others wait in front of it.
    sender.answered()
    with pytest.raises(queue.Empty):
        sender._next()
    sender._unflushed_bytes = row_sender.PUSHING_BYTES
    assert sender._next() is not None
    listener.close()


async def test_batches_that_wait_behind_each_other_go_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sender, "QUICK_ANSWERS", 0)
    messages: list[int] = []

    def counted(batches: Iterator[Any]) -> Iterator[Any]:
        for each in batches:
            messages.append(each.num_rows - each.column("__row").null_count)
            yield each

    spark = SparkRows(masks, change=counted)
    records = [some_records(number, 2, first=2 * number) for number in range(50)]
    spark.trip.begin({})
    batches = spark.submit(b"".join(encode(each, CODECS["lz4"]) for each in records))
    found = await all_of(spark, batches)
    assert [each.offset for each in found] == list(range(100))
    assert sum(messages) == 100
    assert max(messages) > 2
    await asyncio.to_thread(spark.trip.close)


async def test_batches_that_come_while_a_flush_is_on_its_way_go_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sender, "QUICK_ANSWERS", 0)
    monkeypatch.setattr(row_sender, "FLUSH_AGAIN_S", 600.0)
    come, go = threading.Semaphore(0), threading.Semaphore(0)
    messages: list[int] = []

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        for each in batches:
            if each.column("__row").null_count:
                come.release()
                assert go.acquire(timeout=60)
            else:
                messages.append(each.num_rows)
            yield each

    spark = SparkRows(masks, change=slow)
    spark.trip.begin({})
    batches = spark.submit(encode(some_records(1, 3)))
    assert await asyncio.to_thread(come.acquire, timeout=60)
    for number in range(2, 5):
        batches += spark.submit(encode(some_records(number, 3)))
        # The sender has looked at it before the next one is there.
        await asyncio.sleep(0.05)
    go.release()
    assert await asyncio.to_thread(come.acquire, timeout=60)
    go.release()
    await all_of(spark, batches)
    assert messages == [3, 9]
    await asyncio.to_thread(spark.trip.close)


def test_the_sender_does_not_wait_for_ever_if_a_flush_becomes_due_as_it_begins_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SimpleQueue.get does so if the rest of its time is over once it has its lock (Python up to 3.12)."""
    listener = FeederListener(uuid.uuid4().hex, 0)
    # It is not run: nobody else takes what is put into its queue.
    sender = RowSender(listener, Rows(()), "", on_part=lambda _: None, on_failure=lambda _: None)
    done = threading.Event()

    def wait_often() -> None:
        for number in range(20_000):
            sender._unflushed = False
            sender.answered()
            sender._next()
            monkeypatch.setattr(row_sender, "FLUSH_S", 1e-8 * (number % 200))
            sender._unflushed, sender._flushed_at = True, time.monotonic()
            with contextlib.suppress(queue.Empty):
                sender._next()
        done.set()

    waiting = threading.Thread(target=wait_often, daemon=True)
    waiting.start()
    there = done.wait(60)
    # What waits for ever gets something.
    sender.answered()
    waiting.join(10)
    listener.close()
    assert there
