"""Rows that Spark gives back: none is taken for another one, and their end is noticed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from mirror_connect.spark_jobs.compute import (
    row_sender,
)
from mirror_connect.spark_jobs.compute.row_reader import StrangeRowsError
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.spark_rows import SparkRows, answered, masks


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


async def test_wherever_spark_ends_in_its_rows_the_task_begins_again_and_does_not_fail() -> None:
    # As PySpark reads them: without a schema, and in the middle of one or of a batch, Arrow raises what is a ValueError.
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # noqa: PLC0415

    pads = answered(pa.RecordBatch.from_pydict({"__row": pa.array([None], pa.int64()), "__pad": [b""]}), masks)
    whole = pa.BufferOutputStream()
    with pa.ipc.new_stream(whole, pads.schema) as stream:
        stream.write_batch(pads)
    content = whole.getvalue().to_pybytes()
    cuts = [*range(12), *range(12, len(content), 97), len(content)]
    ends = [
        SparkRows(masks, change=lambda _, cut=cut: ArrowStreamSerializer().load_stream(BytesIO(content[:cut])))
        for cut in cuts
    ]
    for each in ends:
        each.trip.begin({})
    raised = await asyncio.gather(*(asyncio.wait_for(each.trip.watch(), 60) for each in ends), return_exceptions=True)
    assert {type(each) for each in raised} == {SparkLostError}
    for each in ends:
        with pytest.raises(SparkLostError):
            await asyncio.to_thread(each.trip.close)
