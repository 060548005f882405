"""A feeder with a user's function: its process ends with whatever it belongs to, and nobody waits for it in vain."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from mirror_connect.connectors.user_code.user_function import ALLOWED
from mirror_connect.spark_jobs.compute import function_feeder, round_trip
from mirror_connect.spark_jobs.compute.feeder import TaskDiedError
from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener
from mirror_connect.spark_jobs.compute.function_feeder import FunctionDiedError, transformed
from mirror_connect.spark_jobs.task_context import SparkLostError
from tests.fakes import record_functions
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.spark_rows import TOKEN, FunctionRows
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


async def test_a_function_that_never_returns_ends_after_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_feeder, "LAST_ROWS_S", 0.2)
    monkeypatch.setattr(round_trip, "END_S", 0.5)
    spark = FunctionRows(f"{MODULE}:never_returns")
    spark.trip.begin({})
    spark.submit(encode(some_records(3, 3)))
    with pytest.raises(SparkLostError):
        await asyncio.to_thread(spark.trip.close)
    # What the task has sent is read by nobody: it ends as if the task had been killed.
    await state_reached(lambda: spark.failed, "the feeder has failed")
    assert isinstance(spark.failed[0], TaskDiedError)
    assert not _functions()


def test_the_process_of_a_function_ends_when_the_task_does() -> None:
    listener = FeederListener(TOKEN, -7)
    with ThreadPoolExecutor(1) as pool:
        fed = pool.submit(lambda: list(transformed(TOKEN, -7, f"{MODULE}:unchanged")))
        listener.accept(lambda: True).close()
        with pytest.raises(TaskDiedError):
            fed.result(60)
    listener.close()
    assert not _functions()


def _functions() -> list[psutil.Process]:
    """The processes of functions that this one has."""
    return [each for each in psutil.Process().children() if any("function_process" in part for part in each.cmdline())]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
