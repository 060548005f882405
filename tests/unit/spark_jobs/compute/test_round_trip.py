"""Batches to Spark and back, beside a Spark without a JVM: nothing is mixed up, and what is lost ends the task."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.task_protocol import SourceRange
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.spark_jobs.compute import (
    round_trip,
)
from mirror_connect.spark_jobs.compute.piece_changes import TOO_MUCH
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes.encoded_batches import CODECS, NOW, Plain, encode, some_records, with_records
from tests.fakes.rewritten_batches import LOG_APPEND_TIME, offsets_of
from tests.fakes.spark_rows import Row, SparkRows, all_of, fails_at_each_tenth, masks, rechunked
from tests.waiting import state_reached


@pytest.mark.parametrize("seed", range(6))
async def test_records_of_all_kinds_come_back_masked_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    spark = SparkRows(masks, change=lambda batches: rechunked(batches, seed))
    spark.trip.begin({})
    records: list[Plain] = []
    contents = []
    for _ in range(20):
        some = some_records(chance.randrange(1 << 30), chance.choice([1, 3, 70]), first=len(records), size=30)
        contents.append(encode(some, chance.choice(list(CODECS.values()))))
        records += some
    batches = spark.submit(b"".join(contents), 2)
    found = await all_of(spark, batches)
    assert found == [
        each._replace(value=None if each.value is None else b"masked " + each.value) for each in records[2:]
    ]
    await asyncio.to_thread(spark.trip.close)


async def test_all_columns_are_there_and_all_that_may_change_changes() -> None:
    seen: list[Row] = []

    def changes(row: Row) -> Row:
        seen.append(row)
        return {
            "key": row["topic"].encode(),
            "value": row["secrets"]["SALT"].encode(),
            "headers": [*row["headers"], {"key": "offset", "value": b"%d" % row["offset"]}],
            "timestamp": None if row["offset"] % 2 else row["timestamp"],
        }

    columns = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "processed_at", "secrets")
    spark = SparkRows(changes, columns, ("key", "value", "headers", "timestamp"), secret_names=("PEPPER", "SALT"))
    spark.trip.begin({"PEPPER": "", "SALT": "größe"})
    records = some_records(6, 50, gaps=True)
    found = await all_of(spark, spark.submit(encode(records)))
    assert found == [
        Plain(
            each.offset, each.timestamp, b"orders", "größe".encode(), (*each.headers, ("offset", b"%d" % each.offset))
        )
        for each in records
    ]
    assert [row["offset"] for row in seen] == [each.offset for each in records]
    assert {row["partition"] for row in seen} == {3}
    assert [int(row["timestamp"].timestamp() * 1000 + 0.5) for row in seen] == [each.timestamp for each in records]
    assert min(row["processed_at"] for row in seen).year >= 2026
    await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize(
    ("value_schema", "expected"),
    [
        (None, [b'{"id":1}', None, b'{"id":1}{"id":2}', b'{"id":1} ']),
        ("id BIGINT", [b'{"id":1}', None, b"", b'{"id":1} ']),
    ],
)
async def test_an_object_that_something_follows_reaches_spark_as_no_object(
    value_schema: str | None, expected: list[bytes | None]
) -> None:
    seen: list[bytes | None] = []

    def looks(row: Row) -> Row:
        seen.append(row["value"])
        return {"__error": None if row["value"] else "none"}

    spark = SparkRows(looks, changes=(), value_schema=value_schema)
    spark.trip.begin({}, tolerant=True)
    values = [b'{"id":1}', None, b'{"id":1}{"id":2}', b'{"id":1} ']
    records = [each._replace(value=value) for each, value in zip(some_records(4, 4), values, strict=True)]
    await all_of(spark, spark.submit(encode(records)))
    assert seen == expected
    await asyncio.to_thread(spark.trip.close)


async def test_records_with_the_brokers_time_and_old_message_sets() -> None:
    spark = SparkRows(masks)
    spark.trip.begin({})
    some = [each._replace(value=b"v") for each in some_records(3, 5)]
    batches = spark.submit(encode(some, attributes=LOG_APPEND_TIME, max_timestamp=NOW + 500))
    old = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    for number in range(3):
        old.append(number, timestamp=NOW, key=None, value=b"old")
    found = await all_of(spark, [*batches, *spark.submit(bytes(old.build()))])
    assert [(each.timestamp, each.value) for each in found] == [(NOW + 500, b"masked v")] * 5 + [
        (NOW, b"masked old")
    ] * 3
    await asyncio.to_thread(spark.trip.close)


async def test_what_was_dropped_never_comes_back_and_the_rest_does() -> None:
    spark = SparkRows(masks)
    spark.trip.begin({})
    batches = spark.submit(b"".join(encode(some_records(n, 30, first=30 * n)) for n in range(10)))
    for each in batches[::2]:
        each.drop()
    found = await all_of(spark, batches[1::2])
    assert [each.offset for each in found] == [n for n in range(300) if n // 30 % 2]
    await state_reached(spark.trip.has_room, "there is room again")
    assert {id(each) for each in spark.ended} == {id(each) for each in batches[1::2]}
    await asyncio.to_thread(spark.trip.close)


async def test_a_batch_that_cannot_be_read_is_corrupt_and_others_go_on() -> None:
    spark = SparkRows(masks)
    spark.trip.begin({})
    good = encode(some_records(1, 5))
    bad = with_records(encode(some_records(1, 5), CODECS["lz4"]), b"no lz4")
    first, second, third = spark.submit(good + bad + good)
    await state_reached(lambda: not third.busy, "the last one is back")
    with pytest.raises(CorruptBatchError):
        second.take()
    assert first.take() is not None
    assert third.take() is not None
    await asyncio.to_thread(spark.trip.close)


async def test_submissions_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "ROOM_BYTES", 10)
    spark = SparkRows(masks)
    spark.trip.begin({})
    assert spark.trip.has_room()
    spark.submit(encode(some_records(1, 5)))
    assert not spark.trip.has_room()
    await state_reached(spark.trip.has_room, "there is room again")
    await asyncio.to_thread(spark.trip.close)


async def test_many_batches_that_end_at_once_leave_the_loop_time_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "ENDS_AT_ONCE", 4)
    spark = SparkRows(masks)
    spark.trip.begin({})
    loop = asyncio.get_running_loop()
    turns = [0]

    def turn() -> None:
        turns[0] += 1
        loop.call_soon(turn)

    ended_in: list[int] = []
    content = b"".join(encode(some_records(number, 2, first=2 * number)) for number in range(40))
    batches = spark.submit(content)
    for each in batches:
        each._on_made = lambda _: ended_in.append(turns[0])
    turn()
    await all_of(spark, batches)
    assert len(ended_in) == len(batches)
    assert max(ended_in.count(number) for number in ended_in) <= 3 * round_trip.ENDS_AT_ONCE
    await asyncio.to_thread(spark.trip.close)


def perhaps_dies(batches: Iterator[Any], seed: int) -> Iterator[Any]:
    """As Spark's batches, some of which never come."""
    chance = random.Random(seed)
    lives = chance.choice([0, 1, 5, 20, 1 << 30, 1 << 30])
    for number, each in enumerate(rechunked(batches, seed)):
        if number >= lives:
            raise EOFError
        yield each


@pytest.mark.parametrize("seed", range(30))
async def test_each_batch_ends_once_and_whole_or_the_task_hears_that_spark_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    spark = SparkRows(fails_at_each_tenth, ("offset", "value"), change=lambda batches: perhaps_dies(batches, seed))
    spark.trip.begin({}, tolerant=True)
    lost = asyncio.ensure_future(spark.trip.watch())
    wanted: list[ComputedBatch] = []
    for number in range(chance.randint(0, 30)):
        some = some_records(chance.randrange(1 << 30), chance.choice([1, 5, 60]), first=1_000 * number, size=20)
        (batch,) = spark.submit(encode(some, chance.choice(list(CODECS.values()))))
        wanted.append(batch)
        if chance.random() < 0.2:
            # A flow is cleared: nothing of it is wanted any more.
            for each in wanted:
                each.drop()
            wanted.clear()
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() / 100)
    complete = asyncio.ensure_future(state_reached(lambda: all(not each.busy for each in wanted), "all are back"))
    if chance.random() < 0.7:
        await asyncio.wait({lost, complete}, return_when=asyncio.FIRST_COMPLETED)
    ended = {id(each) for each in spark.ended}
    assert len(ended) == len(spark.ended)
    for each in wanted:
        if id(each) in ended:
            found = [offset for made in iter(each.take, None) for offset in offsets_of(made)]
            first = each.view.base_offset
            assert found == [n for n in range(first, each.view.last_offset + 1) if n % 2 == 0 and n % 10 != 5]
    for each in wanted:
        each.drop()
    with contextlib.suppress(SparkLostError):
        await asyncio.wait_for(asyncio.to_thread(spark.trip.close), 60)
    assert not spark.trip._sending.is_alive()
    assert not spark.trip._reading.is_alive()
    for future in (lost, complete):
        future.cancel()
    await asyncio.gather(lost, complete, return_exceptions=True)


def test_an_epoch_without_a_task_ends_in_order() -> None:
    spark = SparkRows(masks)
    spark.trip.close()


BAD = 1_234


def ends_spark(row: Row) -> Row:
    if row["offset"] == BAD:
        raise MemoryError("as Spark's attempt ends")
    return masks(row)


def with_a_bad_one() -> bytes:
    return b"".join(encode(some_records(n, 500, first=500 * n, size=20)) for n in range(6))


async def where_it_ends(suspects: tuple[SourceRange, ...]) -> tuple[SourceRange, ...]:
    """What Spark had when it ended."""
    spark = SparkRows(ends_spark, ("offset", "value"), change=lambda batches: rechunked(batches, 1))
    spark.trip.begin({}, suspects=suspects)
    spark.submit(with_a_bad_one())
    async with asyncio.timeout(60):
        with pytest.raises(SparkLostError):
            await spark.trip.watch()
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)
    return spark.trip.lost()


async def test_the_record_at_which_spark_ends_is_found_in_three_attempts() -> None:
    found: tuple[SourceRange, ...] = ()
    sizes = []
    for _ in range(3):
        found = await where_it_ends(found)
        assert [each[:2] for each in found] == [("orders", 3)]
        assert found[0].first <= BAD <= found[0].last
        sizes.append(found[0].last - found[0].first + 1)
    assert sizes[0] > sizes[1] > sizes[2] == 1


async def test_records_that_a_statement_keeps_for_long_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "HELD_S", 0.05)
    goes_on = threading.Event()

    def keeps(row: Row) -> Row:
        if row["offset"] == BAD:
            goes_on.wait(60)
        return masks(row)

    spark = SparkRows(keeps, ("offset", "value"), change=lambda batches: rechunked(batches, 1))
    spark.trip.begin({}, suspects=(SourceRange("orders", 3, BAD - 20, BAD + 20),))
    assert spark.trip.held() == ()
    batches = spark.submit(with_a_bad_one())
    # Of so few suspects Spark has one at a time.
    await state_reached(lambda: spark.trip.held() == (SourceRange("orders", 3, BAD, BAD),), "the record is told")
    goes_on.set()
    await all_of(spark, batches)
    assert spark.trip.held() == ()
    await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize("tolerant", [True, False])
async def test_a_record_that_needs_too_much_is_an_error_and_spark_does_not_get_it(tolerant: bool) -> None:
    pads = []

    def looks(row: Row) -> Row:
        if row["offset"] is None:
            pads.append((row["value"], row["__pad"]))
        return ends_spark(row)

    spark = SparkRows(looks, ("offset", "value"), change=lambda batches: rechunked(batches, 1))
    bad = SourceRange("orders", 3, BAD, BAD)
    # It is still suspected, too.
    spark.trip.begin({}, tolerant=tolerant, suspects=(bad,), too_much=(bad, SourceRange("orders", 4, 7, 7)))
    batches = spark.submit(with_a_bad_one())
    await state_reached(lambda: all(not each.busy for each in batches), "all batches are back")
    assert pads == [(None, b"")]
    if tolerant:
        found = await all_of(spark, batches)
        assert [each.offset for each in found] == [n for n in range(3_000) if n != BAD]
        (error,) = batches[2].skipped.kept
    else:
        made = batches[2].take()
        assert made is not None
        assert made.last_offset == BAD - 1
        with pytest.raises(RecordError) as raised:
            batches[2].take()
        error = raised.value
    assert (error.offset, error.reason) == (BAD, TOO_MUCH)
    assert spark.trip.lost() == ()
    await asyncio.to_thread(spark.trip.close)
