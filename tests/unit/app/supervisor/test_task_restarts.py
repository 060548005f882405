"""What follows when a process dies, is fenced or finds no room."""

from __future__ import annotations

import re

import pytest

from mirror_connect.app.supervisor.task_restarts import FENCED_PAUSES_S, ROOM_RETRY_S
from mirror_connect.app.supervisor.task_watch import STEADY_S
from tests.fakes.supervised import UTC, A, World, wanted


async def test_a_task_that_dies_is_tried_again_twice_and_then_failed(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(3):
        process = await world.running(A)
        world.application.alive.discard(process.pid)
        world.spark.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exit 139"}})
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED", "RUNNING", "UNASSIGNED", "RUNNING", "FAILED"]
    assert re.fullmatch(
        rf"Its process died at {UTC} \(exit 139\); it is started again", world.events.states[1][2] or ""
    )


async def test_a_process_that_a_signal_ended_is_told_with_it(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(3):
        process = await world.running(A)
        world.application.alive.discard(process.pid)
        world.application.signals[process.pid] = 9
        world.spark.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exited unexpectedly\n at x"}})
    ended = "was ended by signal 9 (SIGKILL), as the kernel does it when memory is short"
    assert f"{ended} at " in (world.events.states[1][2] or "")
    assert (world.events.states[-1][2] or "").splitlines()[0].endswith(f"its process {process.pid} {ended}.")


FENCED_TRACE = "FencedError: Another task took over the transactional id g-c-0.\n"


async def test_a_task_that_was_fenced_is_started_anew_and_not_failed(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("FENCED", trace=FENCED_TRACE)
    assert world.run(A) is not process.run
    assert world.events.states[-1] == (
        A,
        "UNASSIGNED",
        f"{FENCED_TRACE.strip()} It restarts in {FENCED_PAUSES_S[0]:g} s.",
    )
    assert (await world.spark.plan(-1, 0))["runs"] == []
    world.later(FENCED_PAUSES_S[0] + 1)
    await world.running(A)
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED", "RUNNING"]


async def test_a_task_that_is_fenced_again_and_again_is_failed_and_says_why(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for pause in (*FENCED_PAUSES_S, 0.0):
        await (await world.running(A)).say("FENCED", trace=FENCED_TRACE)
        world.later(pause + 1)
    assert world.events.states[-1] == (A, "FAILED", FENCED_TRACE)


async def test_a_task_that_was_fenced_rarely_is_never_failed(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(2 * len(FENCED_PAUSES_S)):
        process = await world.running(A)
        for _ in range(int(STEADY_S) // 10 + 1):
            await process.say("RUNNING")
            world.later(10)
        await process.say("FENCED", trace=FENCED_TRACE)
        world.later(FENCED_PAUSES_S[0] + 1)
    assert "FAILED" not in world.events.of(A)


FULL = "StreamingQueryException: java.io.IOException: No space left on device"


async def planned(world: World) -> list[str]:
    return [run["run_id"] for run in (await world.spark.plan(-1, 0.0))["runs"]]


async def test_a_task_for_which_spark_has_no_room_is_tried_for_ever_and_says_so_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(5):
        assert await planned(world) == [world.run(A).run_id]
        world.spark.driver_report(2, {world.run(A).run_id: {"state": "ENDED", "error": FULL}})
        assert await planned(world) == []
        world.later(ROOM_RETRY_S)
    (state,) = world.events.states
    assert state[:2] == (A, "UNASSIGNED")
    assert state[2] is not None
    assert "is full: free some space there" in state[2]
    assert len([line for line in caplog.messages if "is full" in line]) == 1
    await world.running(A)
    assert world.events.of(A) == ["UNASSIGNED", "RUNNING"]


async def test_a_query_that_ended_before_its_process_frees_nothing_until_that_is_gone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.application.sticky.add(process.pid)
    ended = {process.run.run_id: {"state": "ENDED", "error": "no room"}}
    world.spark.driver_report(2, ended)
    held = world.run(A) is process.run
    world.application.alive.discard(process.pid)
    world.spark.driver_report(2, ended)
    assert (held, world.run(A) is process.run) == (True, False)


async def test_a_run_that_dies_while_it_finishes_does_not_count_as_a_death(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(4):
        process = await world.running(A)
        world.supervisor.restart(A)
        world.application.alive.discard(process.pid)
        world.spark.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exit 9"}})
    assert "FAILED" not in world.events.of(A)
