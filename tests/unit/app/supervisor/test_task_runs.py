"""Which runs there are, and which partitions they are assigned: tasks are wanted, restarted, fail and end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mirror_connect.app.supervisor.partition_assignment import LANDING_S
from mirror_connect.app.supervisor.task_runs import FINISH_PATIENCE_S
from tests.fakes.supervised import A, B, Process, World, wanted


async def test_a_wanted_task_is_in_the_plan(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    plan = await world.spark.plan(-1, 0.0)
    assert [(run["connector"], run["task"]) for run in plan["runs"]] == [("c", 0)]


async def test_a_plan_that_is_known_is_held_until_it_changes(world: World) -> None:
    known = (await world.spark.plan(-1, 0.0))["version"]
    asking = asyncio.create_task(world.spark.plan(known, 10.0))
    await asyncio.sleep(0)
    world.supervisor.want({A: wanted("t-0")})
    assert (await asking)["version"] > known


async def test_an_unwanted_task_is_told_to_finish_and_is_over_when_it_has(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({})
    orders = await process.say("RUNNING")
    before = list(world.events.ended)
    await process.say("FINISHED")
    assert (orders.finish, orders.abandon, before, world.events.ended) == (True, False, [], [A])


async def test_of_an_unwanted_task_nothing_is_remembered_once_it_is_over(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    process = await world.running(A)
    world.supervisor.want({B: wanted("t-1")})
    while_it_ends = world.specs.kept
    await process.say("FINISHED")
    assert (while_it_ends, world.specs.kept) == ({A, B}, {B})


async def test_an_unwanted_task_that_no_process_has_is_over_at_once(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.supervisor.want({})
    assert (world.tasks(), world.events.ended) == ([], [A])


async def test_another_config_waits_for_the_end_of_the_run_before(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", more="1")})
    old = world.run(A)
    await process.say("FINISHED")
    assert old.is_over
    assert world.run(A).identity["more"] == "1"


async def test_other_partitions_keep_the_run_and_are_told_as_a_new_version(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", "t-1")})
    orders = await process.say("RUNNING", 2)
    spec = await process.ask()
    assert orders.assignment_version == 3
    assert spec is not None
    assert [each.partition for each in spec.assigned] == [0, 1]


async def test_a_partition_that_moves_is_granted_after_it_was_drained(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", "t-1"), B: wanted("u-0")})
    one, two = await world.running(A), await world.running(B)
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1", "u-0")})
    before = (await two.say("RUNNING")).assignment_version
    await one.say("RUNNING")
    after = await two.ask()
    assert after is not None
    assert (after.assignment_version > before, len(after.assigned)) == (True, 2)


async def test_another_task_gets_partitions_of_one_that_was_killed_when_its_requests_cannot_land_any_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    both = {A: wanted("t-0"), B: wanted("t-1")}
    world.supervisor.want(both)
    first, second = await world.running(A), await world.running(B)
    # Regrouped with another config: both end, the first one settled, the second one not in time.
    world.supervisor.want({A: wanted("t-1", more="config"), B: wanted("t-0", more="config")})
    await first.say("FINISHED")
    await second.say("RUNNING")
    world.later(FINISH_PATIENCE_S + 0.1, 0.1)
    assert (world.run(B).assigned, world.run(A).assigned) == ({("t", 0)}, set())
    process = await world.running(A)
    world.later(LANDING_S - 1)
    early = world.run(A).assigned
    world.later(1.2, 0.1)
    assert (early, world.run(A).assigned) == (set(), {("t", 1)})
    assert (await process.say("RUNNING")).assignment_version == world.run(A).version
    lines = [r.getMessage() for r in caplog.records if "may still be written" in r.getMessage()]
    assert lines == [
        "Task c-0 waits for 1 partition, 30 s at most: another task has ended with requests under way there, which may "
        "still be written"
    ]


async def test_a_process_that_was_replaced_leaves_requests_to_which_no_other_task_gets_its_partitions(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0", "t-1"), B: wanted("t-2")})
    first, _ = await world.running(A), await world.running(B)
    world.application.alive.discard(first.pid)
    again = Process(world, world.run(A))
    await again.ask()
    # It drains at once what it has never had time to send anything of.
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-2", "t-1")})
    await again.say("RUNNING", world.run(A).version)
    early = world.run(B).assigned
    world.later(LANDING_S + 1)
    assert (early, world.run(B).assigned) == ({("t", 2)}, {("t", 1), ("t", 2)})


async def test_another_task_gets_a_partition_whose_owner_died_before_it_gave_it_up(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", "t-1"), B: wanted("t-2")})
    first, _ = await world.running(A), await world.running(B)
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-2", "t-1")})
    world.application.alive.discard(first.pid)
    # Spark runs the task again, which never had the partition: nothing is given up any more.
    await world.running(A)
    early = world.run(B).assigned
    world.later(LANDING_S + 1)
    assert (early, world.run(B).assigned) == ({("t", 2)}, {("t", 1), ("t", 2)})


async def test_another_task_gets_what_a_process_that_does_not_come_up_never_had(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    first, other = await world.running(A), await world.running(B)
    world.supervisor.want({A: wanted(), B: wanted("t-0", "t-1")})
    world.application.alive.discard(first.pid)
    coming = Process(world, world.run(A))
    await coming.ask()
    for _ in range(int(LANDING_S) + 1):
        world.later(1.0)
        await coming.say("STARTING", 0)
        await other.say("RUNNING")
    assert world.run(B).assigned == {("t", 0), ("t", 1)}


async def test_a_restart_ends_the_run_and_begins_another(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.restart(A)
    assert (await process.say("RUNNING")).finish
    await process.say("FINISHED")
    assert world.run(A) is not process.run
    assert world.events.ended == []


async def test_a_failed_task_stays_failed_while_nothing_changes(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("FAILED", trace="ValueError: no")
    world.supervisor.want({A: wanted("t-0")})
    assert (world.tasks(), world.events.states[-1]) == ([], (A, "FAILED", "ValueError: no"))


@pytest.mark.parametrize("how", ["restart", "config", "partitions"])
async def test_a_failed_task_is_tried_again_when_it_is_asked_for(world: World, how: str) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await (await world.running(A)).say("FAILED", trace="no")
    match how:
        case "restart":
            world.supervisor.restart(A)
        case "config":
            world.supervisor.want({A: wanted("t-0", more="1")})
        case "partitions":
            world.supervisor.want({A: wanted("t-1")})
    assert world.tasks() == [A]


async def test_a_failure_of_the_old_config_is_not_one_of_the_new(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", more="1")})
    await process.say("FAILED", trace="no")
    assert world.events.of(A) == ["RUNNING"]
    assert world.run(A).identity["more"] == "1"


async def test_one_failing_task_leaves_its_sibling_alone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    one, two = await world.running(A), await world.running(B)
    await one.say("FAILED", trace="no")
    assert not (await two.say("RUNNING")).finish
