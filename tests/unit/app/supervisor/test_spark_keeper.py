"""Spark ends, cannot be started, falls silent; and what its tasks show meanwhile."""

from __future__ import annotations

import re

import pytest

from mirror_connect.app.supervisor import spark_keeper
from tests.fakes.supervised import A, B, FakeApplication, World, eventually, wanted


async def test_the_death_of_spark_begins_every_run_anew_and_says_why(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    runs = {(await world.running(task)).run for task in (A, B)}
    world.application.die(1)
    await eventually(lambda: len(world.applications) == 2)
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED"]
    assert (world.events.trace(A) or "").startswith("Spark ended: no room; it starts again")
    assert {world.run(A), world.run(B)}.isdisjoint(runs)


async def test_a_task_that_is_wanted_while_spark_starts_says_that_it_waits_for_it_until_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World()
    await world.start()
    await eventually(lambda: bool(world.applications))
    world.supervisor.want({A: wanted("t-0")})
    line = world.events.trace(A) or ""
    world.spark.driver_report(2, {})
    await world.running(A)
    await world.stop()
    assert re.fullmatch(r"Waiting for Spark, which was started at \d\d:\d\d:\d\d\.", line)
    assert world.events.states[1:] == [(A, "UNASSIGNED", "It is being started on Spark."), (A, "RUNNING", None)]


@pytest.mark.parametrize(
    ("code", "words", "end"),
    [
        (1, "its JVM was ended by signal 9 (SIGKILL)", "Spark ended: its JVM was ended by signal 9 (SIGKILL)"),
        (-9, "no", "Spark's driver was ended by signal 9 (SIGKILL), as the kernel does it when memory is short"),
        (-15, "", "Spark's driver was ended by signal 15 (SIGTERM)"),
        (3, "", "Spark ended with exit code 3"),
    ],
)
def test_an_end_of_spark_is_told_as_it_was(code: int, words: str, end: str) -> None:
    assert spark_keeper.described_end(code, words) == end


async def test_a_task_that_is_wanted_while_spark_is_away_says_why_it_waits(world: World) -> None:
    world.application.die(1)
    await eventually(lambda: world.spark.copying._keeper.problem is not None)
    world.supervisor.want({A: wanted("t-0")})
    assert world.events.of(A) == ["UNASSIGNED"]


async def test_spark_that_cannot_be_started_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def impossible(self: FakeApplication, url: str, token: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FakeApplication, "start", impossible)
    world.application.die(1)
    await eventually(lambda: len(world.applications) >= 4)
    assert "No space left on device" in (world.spark.copying._keeper.problem or "")


async def test_spark_that_cannot_be_watched_is_ended_and_not_called_one_that_did_not_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(self: FakeApplication) -> int:
        raise OSError(10, "No child processes")

    monkeypatch.setattr(FakeApplication, "exited", lost)
    first = world.application
    first.die(1)
    await eventually(lambda: len(world.applications) >= 3)
    assert "Spark could not be watched: ChildProcessError: [Errno 10]" in (world.spark.copying._keeper.problem or "")
    assert world.applications[1].ended


async def test_a_silent_driver_is_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 0.01)
    monkeypatch.setattr(spark_keeper, "DRIVER_SILENT_S", 0.0)
    world.application.die(1)
    await eventually(lambda: len(world.applications) == 2)
    world.now += 0.01
    await eventually(lambda: world.applications[1].ended)
