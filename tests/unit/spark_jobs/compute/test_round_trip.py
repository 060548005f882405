"""Batches to Spark and back, beside a Spark without a JVM: nothing is mixed up, and what is lost ends the task."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import Action, Condition, Step
from mirror_connect.kafka_io.records import compiled, record_rewrite, varint
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of
from mirror_connect.spark_jobs.compute import arrow_rows, feeder_socket, round_trip
from mirror_connect.spark_jobs.compute.feeder import TaskDiedError, relayed
from mirror_connect.spark_jobs.compute.feeder_socket import END, FeederListener, NoPeerError, connect
from mirror_connect.spark_jobs.compute.round_trip import StrangeRowsError
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes.encoded_batches import CODECS, HEADER, NOW, Plain, encode, some_records, with_records
from tests.fakes.rewritten_batches import LOG_APPEND_TIME, offsets_of, records_of
from tests.fakes.spark_rows import PARTITION, TOKEN, Row, SparkRows
from tests.waiting import state_reached


def masks(row: Row) -> Row:
    return {"value": None if row["value"] is None else b"masked " + row["value"]}


def filters(row: Row) -> Row:
    return {"__keep": row["value"] is not None}


async def all_of(spark: SparkRows, batches: list[ComputedBatch]) -> list[Plain]:
    """The records that have come back, with their source offsets."""
    await state_reached(lambda: all(not each.busy for each in batches), "all batches are back")
    found: list[Plain] = []
    for each in batches:
        while (made := each.take()) is not None:
            found += [r._replace(offset=o) for r, o in zip(records_of(made), offsets_of(made), strict=True)]
    return found


def rechunked(batches: Iterator[Any], seed: int) -> Iterator[Any]:
    """As other batches, as Spark makes them: rows wait until a pad or many others come."""
    import pyarrow as pa  # noqa: PLC0415

    chance = random.Random(seed)
    held: list[Any] = []
    for each in batches:
        held.append(each)
        padded = each.column("__row").null_count > 0
        if padded or sum(one.num_rows for one in held) > 50:
            whole = pa.Table.from_batches(held).combine_chunks().to_batches()[0]
            at = 0
            while at < whole.num_rows:
                size = chance.randint(1, 20)
                yield whole.slice(at, size)
                at += size
            held = []
    yield from held


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


async def test_a_batch_comes_back_in_pieces_where_it_has_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_rewrite, "REWRITTEN_RECORDS", 40)
    monkeypatch.setattr(round_trip, "MESSAGE_BYTES", 300)
    spark = SparkRows(masks)
    spark.trip.begin({})
    records = some_records(3, 100)
    (batch,) = spark.submit(encode(records))
    assert [each.offset for each in await all_of(spark, [batch])] == [each.offset for each in records]
    assert batch.last_offset == 99
    await asyncio.to_thread(spark.trip.close)


async def test_a_batch_that_decompresses_to_much_comes_back_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(round_trip, "HELD_BYTES", 0)
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


async def test_a_batch_that_becomes_too_much_is_refused_and_its_rows_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(round_trip, "MOST_TRANSFORMED", 50_000)

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


@pytest.mark.parametrize("tolerant", [False, True])
async def test_a_record_that_is_too_large_for_spark_is_an_error_of_it_alone(
    tolerant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_trip, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(round_trip, "MOST_BYTES", 2_000)
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


def fails_at_each_tenth(row: Row) -> Row:
    if row["offset"] % 10 == 5:
        return {"__keep": True, "__error": "WHERE raised an error"}
    return {"__keep": row["offset"] % 2 == 0, "value": b"masked"}


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


async def test_submissions_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "ROOM_BYTES", 10)
    spark = SparkRows(masks)
    spark.trip.begin({})
    assert spark.trip.has_room()
    spark.submit(encode(some_records(1, 5)))
    assert not spark.trip.has_room()
    await state_reached(spark.trip.has_room, "there is room again")
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
    for each in (lost, complete):
        each.cancel()
    await asyncio.gather(lost, complete, return_exceptions=True)


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
    monkeypatch.setattr(round_trip, "QUICK_ANSWERS", 0)

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


def test_an_epoch_without_a_task_ends_in_order() -> None:
    spark = SparkRows(masks)
    spark.trip.close()


def test_a_task_that_dies_makes_the_feeder_fail() -> None:
    for number, last_words in enumerate((b"", b"\xff\xff\xff\xff", END)):
        listener = FeederListener(f"{TOKEN} died", number)

        def dies(listener: FeederListener = listener, words: bytes = last_words) -> None:
            with listener.accept(lambda: True) as connection:
                connection.sendall(words)

        task = threading.Thread(target=dies)
        task.start()
        with pytest.raises(TaskDiedError):
            list(relayed(f"{TOKEN} died", number))
        task.join()
        listener.close()


def test_strangers_are_not_taken_for_the_feeder() -> None:
    listener = FeederListener(TOKEN, -1)
    strangers = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for each in strangers:
        each.connect(listener._name)
    strangers[0].sendall(bytes(32))
    found = []
    feeder = threading.Thread(target=lambda: found.append(connect(TOKEN, -1)))
    feeder.start()
    with listener.accept(lambda: True) as connection:
        feeder.join()
        connection.sendall(b"rows")
        assert found[0].recv(4) == b"rows"
    for each in (*strangers, *found):
        each.close()
    listener.close()


def test_a_feeder_that_did_not_wait_for_the_answer_connects_again() -> None:
    listener = FeederListener(TOKEN, -3)
    with socket.socket(socket.AF_UNIX) as impatient:
        impatient.connect(listener._name)
        impatient.sendall(feeder_socket._proof(TOKEN, feeder_socket._FEEDER, listener._name))
    found = []
    feeder = threading.Thread(target=lambda: found.append(connect(TOKEN, -3)))
    feeder.start()
    with listener.accept(lambda: True) as connection:
        feeder.join()
        connection.sendall(b"rows")
        assert found[0].recv(4) == b"rows"
    found[0].close()
    listener.close()


def test_nobody_waits_for_ever() -> None:
    listener = FeederListener(TOKEN, -2)
    with pytest.raises(NoPeerError):
        listener.accept(lambda: True, 0.1)
    with pytest.raises(NoPeerError):
        listener.accept(lambda: False)
    listener.close()
    with pytest.raises(NoPeerError):
        connect(TOKEN, -2, 0.1)
    assert PARTITION.partition == 3


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
    monkeypatch.setattr(round_trip, "QUICK_ANSWERS", 0)
    monkeypatch.setattr(round_trip, "FLUSH_AGAIN_S", 600.0)
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
    await asyncio.sleep(10 * round_trip.FLUSH_S)
    assert len(flushes) == 1
    go.release()
    await all_of(spark, first)
    assert await asyncio.to_thread(come.acquire, timeout=60)
    go.release()
    await all_of(spark, second)
    assert len(flushes) == 2
    await asyncio.to_thread(spark.trip.close)


async def test_batches_that_wait_behind_each_other_go_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_trip, "QUICK_ANSWERS", 0)
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
