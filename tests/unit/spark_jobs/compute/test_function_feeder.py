"""A feeder with a user's function: its process ends with whatever it belongs to, and nobody waits for it in vain."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from mirror_connect.connectors.user_code.user_function import ALLOWED
from mirror_connect.kafka_io.records.batch_builder import one_record
from mirror_connect.kafka_io.records.record_parts import RecordParts, rest_of
from mirror_connect.spark_jobs.compute import function_feeder, round_trip
from mirror_connect.spark_jobs.compute.arrow_rows import Rows
from mirror_connect.spark_jobs.compute.feeder import TaskDiedError
from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener
from mirror_connect.spark_jobs.compute.function_feeder import FunctionDiedError, transformed
from mirror_connect.spark_jobs.compute.records_table import COLUMNS
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes import record_functions
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.spark_rows import PARTITION, TOKEN, FunctionRows, all_of, streamed
from tests.waiting import state_reached

MODULE = record_functions.MODULE


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, MODULE)


async def test_a_function_that_ends_its_process_ends_the_attempt_and_is_named() -> None:
    spark = FunctionRows(f"{MODULE}:dies")
    spark.trip.begin({})
    spark.submit(encode(some_records(3, 3)))
    with pytest.raises(SparkLostError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    (failed,) = spark.failed
    assert isinstance(failed, FunctionDiedError)
    assert str(failed) == f"{MODULE}:dies has ended its process (exit code 9)"
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3, 1.0])
async def test_a_function_that_is_killed_as_it_starts_or_later_is_begun_again(after_s: float) -> None:
    spark = FunctionRows(f"{MODULE}:unchanged", change=streamed)
    spark.trip.begin({})
    spark.submit(encode(some_records(3, 30)))
    await state_reached(_functions, "the function's process is there", pause=0.001)
    await asyncio.sleep(after_s)
    for each in _functions():
        each.kill()
    # For Spark and the worker the task is lost, not FAILED.
    with pytest.raises(SparkLostError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)
    assert [str(each) for each in spark.failed] == [f"{MODULE}:unchanged has ended its process (exit code -9)"]


async def test_what_a_function_has_forked_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    spark = FunctionRows(f"{MODULE}:dies_with_a_child")
    spark.trip.begin({})
    spark.submit(encode(some_records(3, 3)))
    with pytest.raises(SparkLostError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    assert [str(each) for each in spark.failed] == [f"{MODULE}:dies_with_a_child has ended its process (exit code 9)"]
    child = int((tmp_path / "child").read_text())
    await state_reached(lambda: not _lives(child), "what it has forked has ended")
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)


async def test_a_function_that_closes_all_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_feeder, "_END_S", 0.1)
    spark = FunctionRows(f"{MODULE}:closes_all")
    spark.trip.begin({})
    spark.submit(encode(some_records(3, 3)))
    with pytest.raises(SparkLostError):
        await asyncio.wait_for(spark.trip.watch(), 60)
    assert [str(each) for each in spark.failed] == [f"{MODULE}:closes_all has ended its process (exit code -9)"]
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)


@pytest.mark.parametrize("run_is_over", [True, False])
async def test_a_function_that_never_returns_ends_with_its_epoch(
    run_is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not run_is_over:
        monkeypatch.setattr(round_trip, "END_S", 0.5)
    spark = FunctionRows(f"{MODULE}:endless")
    spark.trip.begin({})
    records = some_records(3, 10)
    first = spark.submit(encode(records[:4]))
    assert [each.offset for each in await all_of(spark, first)] == [0, 1, 2, 3]
    assert spark.trip.waits() is None
    # More than the connection and the function's process take without reading.
    large = [each._replace(value=bytes(1 << 20)) for each in records]
    spark.submit(encode(records[4:]) + b"".join(encode([each]) for each in large))
    await state_reached(lambda: spark.trip.waits() is not None, "Spark has records")
    waits = spark.trip.waits()
    assert waits is not None
    assert waits.offsets == {PARTITION: (4, 9)}
    await state_reached(lambda: _functions() != [], "the function's process is there")
    if run_is_over:
        spark.trip.end_run()
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)
    # What the task has sent is read by nobody: it ends as if the task had been killed.
    await state_reached(lambda: spark.failed != [], "the feeder has failed")
    assert isinstance(spark.failed[0], TaskDiedError)
    assert _functions() == []


@pytest.mark.parametrize(("number", "function"), [(-7, "unchanged"), (-8, "endless")])
def test_the_process_of_a_function_ends_when_the_task_does(number: int, function: str) -> None:
    rows = Rows(COLUMNS, ())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows.of([rows.read(one_record((7, 0, rest_of(RecordParts(b"k", b"v")))), PARTITION, 0)], 0))
    with contextlib.closing(FeederListener(TOKEN, number)) as listener, ThreadPoolExecutor(1) as pool:
        fed = pool.submit(lambda: list(transformed(TOKEN, number, f"{MODULE}:{function}")))
        with listener.accept(lambda: True) as connection:
            # Without the end of the rows, as of a process that was killed.
            connection.sendall(sink.getvalue().to_pybytes()[:-8])
        with pytest.raises(TaskDiedError):
            fed.result(60)
    assert _functions() == []


def _functions() -> list[psutil.Process]:
    """The processes of functions that this one has."""
    return [each for each in psutil.Process().children() if any("function_process" in part for part in each.cmdline())]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
