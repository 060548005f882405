"""Batches through a user's function in its own process and back, beside a Spark without a JVM."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.user_code.user_function import ALLOWED
from mirror_connect.spark_jobs.compute import function_process
from tests.fakes import record_functions
from tests.fakes.encoded_batches import Plain, encode, some_records
from tests.fakes.rewritten_batches import offsets_of
from tests.fakes.spark_rows import FunctionRows, all_of, rechunked
from tests.waiting import state_reached

MODULE = record_functions.MODULE


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, MODULE)


async def test_all_that_may_change_changes() -> None:
    spark = FunctionRows(f"{MODULE}:everything")
    spark.trip.begin({})
    records = some_records(6, 50, gaps=True)
    found = await all_of(spark, spark.submit(encode(records)))
    assert found == [
        Plain(
            each.offset,
            each.timestamp + 1,
            b"orders",
            None if each.value is None else b"new",
            (("offset", b"%d" % each.offset),),
        )
        for each in records
    ]
    await asyncio.to_thread(spark.trip.close)
    assert spark.failed == []


@pytest.mark.parametrize("seed", range(2))
async def test_what_is_unchanged_in_some_rows_alone_stays_there(seed: int) -> None:
    chance = random.Random(seed)
    spark = FunctionRows(f"{MODULE}:at_odd_offsets", change=lambda batches: rechunked(batches, seed))
    spark.trip.begin({})
    records = [
        each._replace(value=chance.choice([None, b"v"]), key=chance.choice([None, b"k"]))
        for each in some_records(seed, 40)
    ]
    found = await all_of(spark, spark.submit(encode(records)))
    assert found == [
        each._replace(key=b"odd", headers=())
        if each.offset % 2
        else each._replace(value=None if each.value is None else b"even")
        for each in records
    ]
    await asyncio.to_thread(spark.trip.close)


async def test_an_error_of_a_record_names_it_and_its_setting() -> None:
    spark = FunctionRows(f"{MODULE}:bad_at_tens")
    spark.trip.begin({})
    (batch,) = spark.submit(encode(some_records(3, 9, first=101)))
    await state_reached(lambda: not batch.busy, "it is back")
    made = batch.take()
    assert made is not None
    assert offsets_of(made) == list(range(101, 107))
    with pytest.raises(RecordError) as raised:
        batch.take()
    assert (raised.value.offset, raised.value.transformation) == (107, "spark.transform.python")
    assert raised.value.reason == "no customer"
    await asyncio.to_thread(spark.trip.close)


async def test_with_tolerance_only_records_that_fail_alone_are_left_out() -> None:
    spark = FunctionRows(f"{MODULE}:bad_at_tens")
    spark.trip.begin({}, tolerant=True)
    (batch,) = spark.submit(encode(some_records(3, 40)))
    found = await all_of(spark, [batch])
    assert [each.offset for each in found] == [n for n in range(40) if n % 10 not in (0, 7)]
    assert [each.offset for each in batch.skipped.kept] == [n for n in range(40) if n % 10 in (0, 7)]
    await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("too_short", f"{MODULE}:too_short returned 1 of value for 30 records"),
        ("none", f"{MODULE}:none can't be used: module {MODULE} has no function none"),
        ("NO_FUNCTION", f"{MODULE}:NO_FUNCTION can't be used: module {MODULE} has no function NO_FUNCTION"),
        ("dumps", f"{MODULE}:dumps can't be used: {MODULE} has dumps from json, which"),
    ],
)
async def test_a_wrong_function_ends_the_task_with_one_line(function: str, text: str) -> None:
    spark = FunctionRows(f"{MODULE}:{function}")
    spark.trip.begin({}, tolerant=True)
    spark.submit(encode(some_records(3, 30)))
    with pytest.raises(ConfigError) as raised:
        await asyncio.wait_for(spark.trip.watch(), 60)
    assert str(raised.value).startswith(f"Invalid spark.transform.python: {text}")
    await asyncio.to_thread(spark.trip.close)


async def test_a_function_that_the_worker_does_not_allow_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "other,tests.fakes.record_functions:mask")
    spark = FunctionRows(f"{MODULE}:dies")
    spark.trip.begin({})
    spark.submit(encode(some_records(3, 3)))
    with pytest.raises(ConfigError, match=r"spark\.transform\.python\.allowed has other, tests"):
        await asyncio.wait_for(spark.trip.watch(), 60)
    await asyncio.to_thread(spark.trip.close)


def test_a_function_whose_feeder_died_while_it_started_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the feeder had ended by then: another process is the parent.
    monkeypatch.setattr(os, "getpid", lambda: 1)
    process = function_process.start_function(f"{MODULE}:unchanged", subprocess.PIPE)
    assert process.wait(60) == function_process.FEEDER_DIED
    process.communicate()
