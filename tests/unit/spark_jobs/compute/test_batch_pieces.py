"""Batches go through Spark in pieces: none has more than Spark can take, and what can't be read ends a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.kafka_io.records import compiled, record_rewrite
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.kafka_io.records.record_parts import parts_of
from mirror_connect.spark_jobs.compute import (
    batch_pieces,
    row_sender,
)
from tests.fakes.encoded_batches import CODECS, HEADER, encode, some_records, with_records
from tests.fakes.rewritten_batches import offsets_of
from tests.fakes.spark_rows import SparkRows, all_of, masks, rechunked
from tests.waiting import state_reached


async def test_a_batch_comes_back_in_pieces_where_it_has_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rewrite, "REWRITTEN_RECORDS", 40)
    monkeypatch.setattr(row_sender, "MESSAGE_BYTES", 300)
    spark = SparkRows(masks)
    spark.trip.begin({})
    records = some_records(3, 100)
    (batch,) = spark.submit(encode(records))
    assert [each.offset for each in await all_of(spark, [batch])] == [each.offset for each in records]
    assert batch.last_offset == 99
    await asyncio.to_thread(spark.trip.close)


async def test_a_batch_that_decompresses_to_much_comes_back_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_pieces, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(row_sender, "HELD_BYTES", 0)
    most: list[int] = []

    def notes(batches: Iterator[Any]) -> Iterator[Any]:
        for each in batches:
            most.append(each.num_rows - each.column("__row").null_count)
            yield each

    spark = SparkRows(masks, change=notes)
    spark.trip.begin({})
    records = [each._replace(value=bytes(400), headers=()) for each in some_records(3, 100)]
    (batch,) = spark.submit(encode(records, CODECS["zstd"]))
    found = await all_of(spark, [batch])
    assert [(each.offset, each.value) for each in found] == [(n, b"masked " + bytes(400)) for n in range(100)]
    assert max(most) <= 2
    await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize("tolerant", [False, True])
async def test_a_record_that_is_too_large_for_spark_is_an_error_of_it_alone(
    tolerant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_pieces, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(batch_pieces, "MOST_BYTES", 2_000)
    spark = SparkRows(masks)
    spark.trip.begin({}, tolerant=tolerant)
    records = [each._replace(value=bytes(100), headers=()) for each in some_records(3, 30)]
    records[17] = records[17]._replace(value=bytes(3_000))
    (batch,) = spark.submit(encode(records, CODECS["zstd"]), letters=tolerant)
    if tolerant:
        found = await all_of(spark, [batch])
        assert [each.offset for each in found] == [n for n in range(30) if n != 17]
        assert [each.offset for each in batch.skipped.kept] == [17]
        (letter,) = batch.skipped.take_letters()
        assert letter.original is not None
        assert parts_of(letter.original.rest).value == bytes(3_000)
    else:
        with pytest.raises(RecordError, match="offset 17"):
            await all_of(spark, [batch])
    await asyncio.to_thread(spark.trip.close)


async def test_pieces_in_front_of_records_that_cannot_be_read_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rewrite, "REWRITTEN_RECORDS", 2)
    monkeypatch.setattr(compiled, "functions", None)
    spark = SparkRows(masks, change=lambda batches: rechunked(batches, 1))
    spark.trip.begin({})
    records = some_records(1, 5)
    whole = encode(records)
    (batch,) = spark.submit(with_records(whole, whole[HEADER.size : -1]))
    await state_reached(lambda: not batch.busy, "it is back")
    made = batch.take()
    assert made is not None
    assert offsets_of(made) == [0, 1]
    with pytest.raises(CorruptBatchError):
        batch.take()
    await asyncio.to_thread(spark.trip.close)
