"""The text of a running task's status: what is wrong now and what has happened."""

from __future__ import annotations

import pytest

from mirror_connect.app.supervisor.running_trace import LONGEST_LINE
from tests.fakes.spark_rig import SECRET
from tests.fakes.supervised import A, World, problems, wanted


async def test_partitions_that_stand_still_are_the_trace_of_a_running_task_until_they_move(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", problems=problems("t-0 stops at offset 3", "t-1 stops at offset 4"))
    await process.say("RUNNING", problems=problems("t-0 stops at offset 3", "t-1 stops at offset 4"))
    await process.say("RUNNING")
    both = "t-0 stops at offset 3\nt-1 stops at offset 4"
    assert world.events.states == [(A, "RUNNING", None), (A, "RUNNING", both), (A, "RUNNING", None)]


async def test_secrets_are_kept_out_of_what_is_said_of_partitions(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", problems=problems(f"t-0 {SECRET}"))
    assert SECRET not in str(world.events.states)


async def test_a_line_has_an_end_and_no_half_of_a_secret_stands_there(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    line = "x" * (LONGEST_LINE - 6) + SECRET + "y" * LONGEST_LINE
    await process.say("RUNNING", problems=problems(line), events=problems(line))
    told = world.events.states[-1][2]
    assert told is not None
    assert (SECRET[:6] in told, max(map(len, told.split("\n"))) < 1.1 * LONGEST_LINE) == (False, True)


async def test_what_has_happened_stays_in_the_trace_until_the_task_is_started_anew(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", events=problems("t-0: offsets 3 to 5 are gone"))
    await process.say("RUNNING", problems=problems("t-1 stops at offset 4"))
    await process.say("RUNNING")
    first, second, third = [trace.split("\n") for _, _, trace in world.events.states[1:]]
    assert first[0] == "Events since the task started:"
    assert first[1].endswith(" UTC t-0: offsets 3 to 5 are gone")
    assert (second, third) == (["t-1 stops at offset 4", *first], first)


async def test_what_has_happened_is_told_with_a_failure_that_follows(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", events=problems("t-0: offsets 3 to 5 are gone"))
    await process.say("FAILED", trace="ConfigError: no")
    task, state, trace = world.events.states[-1]
    assert (task, state, trace.splitlines()[0]) == (A, "FAILED", "ConfigError: no")
    assert trace.endswith(" UTC t-0: offsets 3 to 5 are gone")


async def test_what_has_happened_outlives_an_epoch(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED", events=problems("t-0: offsets 3 to 5 are gone"))
    process = await world.running(A)
    assert "t-0: offsets 3 to 5 are gone" in str(world.events.states[-1])


async def test_secrets_are_kept_out_of_what_has_happened(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", events=problems(f"t-0 {SECRET}"))
    assert "t-0" in str(world.events.states)
    assert SECRET not in str(world.events.states) + caplog.text
