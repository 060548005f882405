"""The supervisor as the herder sees it: wanted tasks, leadership, its log, its end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.fakes.supervised import A, Process, World, eventually, wanted


async def test_what_ran_in_a_leadership_that_is_over_has_no_lease_in_the_next_one(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.lease = 0.0
    world.supervisor.retire()
    # It leads again before the task has heard of anything.
    world.lease = 8.0
    world.supervisor.want({A: wanted("t-0")})
    orders = await process.say("RUNNING")
    assert (orders.finish, orders.lease_ms) == (True, 0)
    await process.say("FINISHED")
    following = await world.running(A)
    assert (await following.say("RUNNING")).lease_ms == 8000


async def test_the_log_follows_spark_and_its_tasks(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.supervisor")
    world.supervisor.want({A: wanted("t-0", "t-1")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    again = Process(world, process.run, pid=process.pid)
    await again.ask()
    await again.say("RUNNING")
    world.supervisor.want({A: wanted("t-0")})
    await again.say("RUNNING")
    world.supervisor.want({})
    await again.say("FINISHED")
    world.application.die(-9)
    await eventually(lambda: len(world.applications) == 2)
    world.spark.driver_report(2, {})
    await world.stop()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "Task c-0 is RUNNING with 2 partitions"),
        ("INFO", "Task c-0 copies 1 partition now"),
        ("INFO", "Task c-0 has ended; what it copied is committed"),
        (
            "ERROR",
            "Spark's driver was ended by signal 9 (SIGKILL), as the kernel does it when memory is short; "
            "it starts again after 0.01 s, and its tasks with it.",
        ),
        ("INFO", "Spark is starting"),
        ("INFO", "Spark is ready after 0.0 s: slots for 2 tasks"),
        ("INFO", "Spark has ended"),
    ]


async def test_stop_lets_tasks_finish(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    stopping = asyncio.create_task(world.supervisor.stop(5.0))
    await asyncio.sleep(0)
    told = await process.say("RUNNING")
    await process.say("FINISHED")
    await stopping
    assert (told.finish, world.tasks()) == (True, [])


async def test_nothing_is_wanted_any_more_once_it_stops(world: World) -> None:
    await world.supervisor.stop(0.0)
    world.supervisor.want({A: wanted("t-0")})
    assert world.tasks() == []
