"""Rows that Spark gives back: none is taken for another one, and their end is noticed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from mirror_connect.spark_jobs.compute import (
    row_sender,
)
from mirror_connect.spark_jobs.compute.row_reader import StrangeRowsError
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.spark_rows import SparkRows, masks


def without_the_third(batches: Iterator[Any]) -> Iterator[Any]:
    for each in batches:
        yield each.slice(0, 2)
        yield each.slice(3)


def twice(batches: Iterator[Any]) -> Iterator[Any]:
    for each in batches:
        yield each
        yield each


def backwards(batches: Iterator[Any]) -> Iterator[Any]:
    for each in batches:
        yield each.take(list(reversed(range(each.num_rows))))


@pytest.mark.parametrize("change", [without_the_third, twice, backwards])
async def test_rows_that_are_missing_double_or_in_another_order_end_the_task(change: Any) -> None:
    spark = SparkRows(masks, change=change)
    spark.trip.begin({})
    spark.submit(encode(some_records(1, 5)))
    with pytest.raises(StrangeRowsError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    # The worker is told of it. Spark has done nothing wrong.
    await asyncio.to_thread(spark.trip.close)


async def test_the_end_of_the_feeder_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sender, "QUICK_ANSWERS", 0)

    def dies(batches: Iterator[Any]) -> Iterator[Any]:
        yield next(batches)
        raise EOFError

    spark = SparkRows(masks, change=dies)
    spark.trip.begin({})
    (first,) = spark.submit(encode(some_records(1, 5)))
    with pytest.raises(SparkLostError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    assert first.take() is not None
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)


async def test_rows_that_end_too_early_are_no_end_in_order() -> None:
    spark = SparkRows(masks, change=lambda batches: itertools.islice(batches, 1))
    spark.trip.begin({})
    spark.submit(encode(some_records(1, 5)))
    with pytest.raises(SparkLostError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)
