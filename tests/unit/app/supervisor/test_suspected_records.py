"""A record that needs more stack or memory than Spark has: how it is found, and what becomes of it and of its task."""

from __future__ import annotations

import pytest

from mirror_connect.app.supervisor.task_watch import STEADY_S
from mirror_connect.connectors.task_protocol import MEMORY, STACK, SourceRange
from tests.fakes.supervised import A, Process, World, wanted

TOO_LONG = SourceRange("t", 0, 7, 7)
NOT_ENOUGH = "Spark has not enough of it"


async def ends_with(process: Process, fatal: str | None, *lost: SourceRange) -> None:
    """Its task says what Spark had, and Spark's last try ends so."""
    await process.say("EPOCH_ENDED", lost=lost)
    process.world.application.alive.discard(process.pid)
    said = {"state": "ENDED", "error": NOT_ENOUGH, "fatal": fatal}
    process.world.spark.driver_report(2, {process.run.run_id: said})


async def test_a_record_that_needs_too_much_stack_is_looked_for_and_then_refused(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    for lost in (SourceRange("t", 0, 0, 99), SourceRange("t", 0, 5, 15), TOO_LONG):
        await process.say("EPOCH_ENDED", lost=[lost])
        process = await world.running(A)
        assert process.run.spec is not None
        assert (process.run.spec.suspects, process.run.spec.too_much) == ((lost,), ())
    await ends_with(process, STACK, TOO_LONG)
    process = await world.running(A)
    assert process.run.spec is not None
    assert (process.run.spec.suspects, process.run.spec.too_much) == ((), (TOO_LONG,))
    assert "FAILED" not in world.events.of(A)


async def test_more_records_than_one_are_each_refused_and_counted_as_no_death(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    records = [SourceRange("t", 0, offset, offset) for offset in range(5)]
    for record in records:
        await ends_with(await world.running(A), STACK, record)
    spec = (await world.running(A)).run.spec
    assert spec is not None
    assert spec.too_much == tuple(records)


@pytest.mark.parametrize("change", ["another config", "a restart", "a steady run"])
async def test_what_was_refused_is_forgotten_with(change: str, world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await ends_with(await world.running(A), STACK, TOO_LONG)
    process = await world.running(A)
    if change == "another config":
        world.supervisor.want({A: wanted("t-0", sql="another")})
    elif change == "a restart":
        world.supervisor.restart(A)
    else:
        for _ in range(int(STEADY_S) // 10 + 1):
            await process.say("RUNNING")
            world.later(10)
    await process.say("FINISHED" if change != "a steady run" else "EPOCH_ENDED")
    spec = (await world.running(A)).run.spec
    assert spec is not None
    assert spec.too_much == ()


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param((), id="nothing"),
        pytest.param((SourceRange("t", 0, 0, 9),), id="several"),
        pytest.param((TOO_LONG, SourceRange("t", 1, 3, 3)), id="of_two_partitions"),
    ],
)
@pytest.mark.parametrize("fatal", [STACK, MEMORY])
async def test_a_record_that_is_not_known_is_not_refused_and_the_task_fails_in_the_end(
    fatal: str, lost: tuple[SourceRange, ...], world: World
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(3):
        await ends_with(await world.running(A), fatal, *lost)
    assert world.events.states[-1][1] == "FAILED"
    trace = world.events.states[-1][2] or ""
    assert trace.splitlines()[1] == ": ".join(filter(None, ("; ".join(map(str, lost)), NOT_ENOUGH)))


async def test_a_record_of_an_attempt_before_the_last_one_is_not_refused(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(3):
        await (await world.running(A)).say("EPOCH_ENDED", lost=[TOO_LONG])
        await ends_with(await world.running(A), STACK)
    assert world.events.states[-1][1] == "FAILED"


async def test_a_record_that_needs_too_much_memory_is_named_and_never_left_out(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await ends_with(await world.running(A), MEMORY, TOO_LONG)
    assert world.events.states[-1] == (
        A,
        "FAILED",
        f"TransformationError: t, partition 0, offset 7: {NOT_ENOUGH}. Then restart the task",
    )


async def test_the_death_of_a_process_refuses_no_record(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(3):
        await ends_with(await world.running(A), None, TOO_LONG)
    assert world.events.states[-1][1] == "FAILED"
