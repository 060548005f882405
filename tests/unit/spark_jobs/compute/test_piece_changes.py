"""What has come back from Spark: dropped records, errors of records, and what has grown too large."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import Action, Condition, Step
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of
from mirror_connect.spark_jobs.compute import (
    sent_pieces,
)
from tests.fakes.encoded_batches import CODECS, encode, some_records, with_records
from tests.fakes.rewritten_batches import offsets_of
from tests.fakes.spark_rows import Row, SparkRows, all_of, fails_at_each_tenth, rechunked
from tests.waiting import state_reached


def filters(row: Row) -> Row:
    return {"__keep": row["value"] is not None}


async def test_a_filter_drops_records_and_counts_them() -> None:
    spark = SparkRows(filters, changes=())
    spark.trip.begin({})
    records = some_records(5, 200)
    batches = spark.submit(
        encode(records, CODECS["zstd"]), steps=(Step(Action.FILTER, Condition.HAS_HEADER, has=b"a"),)
    )
    stays = [each for each in records if "a" not in dict(each.headers)]
    assert await all_of(spark, batches) == [each for each in stays if each.value is not None]
    assert batches[0].filtered == len(records) - sum(each.value is not None for each in stays)
    await asyncio.to_thread(spark.trip.close)


async def test_a_batch_that_becomes_too_much_is_refused_and_its_rows_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent_pieces, "MOST_TRANSFORMED", 50_000)

    def grows(row: Row) -> Row:
        return {"value": row["value"] * 100}

    spark = SparkRows(grows, change=lambda batches: rechunked(batches, 1))
    spark.trip.begin({})
    large = [each._replace(value=bytes(40)) for each in some_records(1, 20)]
    small = [each._replace(value=bytes(4)) for each in some_records(1, 20, first=20)]
    first, second = spark.submit(encode(large) + encode(small))
    assert len(await all_of(spark, [second])) == 20
    with pytest.raises(CorruptBatchError, match="becomes more than"):
        first.take()
    await asyncio.to_thread(spark.trip.close)


async def test_an_error_in_a_record_that_cannot_be_read_is_that_of_the_batch() -> None:
    spark = SparkRows(lambda _: {"__error": "the statement's value raised an error"}, columns=())
    spark.trip.begin({})
    whole = encode(some_records(1, 1))
    # A key that is longer than its record.
    body = varint.encode(8) + b"\x00" + varint.encode(0) + varint.encode(0) + varint.encode(1000) + b"k\x00\x00"
    (batch,) = spark.submit(with_records(whole, body))
    await state_reached(lambda: not batch.busy, "it is back")
    with pytest.raises(CorruptBatchError):
        batch.take()
    await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_a_dead_letter_is_as_the_source_has_it_whatever_steps_have_made_of_it(codec: str) -> None:
    def fails(row: Row) -> Row:
        return {"__error": "no"} if row["value"] is None else {"value": row["value"]}

    spark = SparkRows(fails)
    spark.trip.begin({}, tolerant=True)
    records = some_records(8, 300, gaps=True)
    step = Step(Action.INSERT_HEADER, headers=(b"seen",), value=b"1")
    (batch,) = spark.submit(encode(records, CODECS[codec]), records[100].offset, (step,), letters=True)
    await all_of(spark, [batch])
    found = batch.skipped.take_letters()
    wanted = [each for each in records[100:] if each.value is None]
    assert [each.offset for each in found] == [each.offset for each in wanted]
    originals = [each.original for each in found if each.original is not None]
    assert [(each.timestamp, parts_of(each.rest)) for each in originals] == [
        (each.timestamp, RecordParts(each.key, None, tuple((name.encode(), value) for name, value in each.headers)))
        for each in wanted
    ]
    await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize("seed", range(3))
async def test_without_tolerance_a_batch_ends_in_front_of_a_record_with_an_error(seed: int) -> None:
    spark = SparkRows(fails_at_each_tenth, ("offset", "value"), change=lambda batches: rechunked(batches, seed))
    spark.trip.begin({})
    records = some_records(seed, 30, first=100)
    first, second = spark.submit(encode(records) + encode(some_records(seed, 3, first=205)))
    await state_reached(lambda: not second.busy, "both are back")
    made = first.take()
    assert made is not None
    assert (offsets_of(made), made.last_offset, first.filtered) == ([100, 102, 104], 104, 2)
    with pytest.raises(RecordError) as raised:
        first.take()
    assert (raised.value.offset, raised.value.reason) == (105, "WHERE raised an error")
    assert (raised.value.key, raised.value.value) == (records[5].key, records[5].value)
    with pytest.raises(RecordError, match="offset 205"):
        second.take()
    await asyncio.to_thread(spark.trip.close)


async def test_with_tolerance_such_records_are_left_out_and_counted() -> None:
    spark = SparkRows(fails_at_each_tenth, ("offset", "value"))
    spark.trip.begin({}, tolerant=True)
    (batch,) = spark.submit(encode(some_records(1, 30)))
    found = await all_of(spark, [batch])
    assert [each.offset for each in found] == list(range(0, 30, 2))
    assert [each.offset for each in batch.skipped.kept] == [5, 15, 25]
    assert batch.filtered == 12
    await asyncio.to_thread(spark.trip.close)
