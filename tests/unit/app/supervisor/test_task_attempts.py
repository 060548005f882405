"""Of several processes that want to work on one run, one gets it."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from mirror_connect.connectors.task_protocol import TaskOrders
from tests.fakes.supervised import A, B, Process, World, wanted


async def test_a_predecessor_is_gone_before_a_new_attempt_gets_its_spec(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.sticky.add(old.pid)
    asking = asyncio.create_task(Process(world, old.run).ask())
    await asyncio.sleep(0.05)
    waited = not asking.done()
    world.application.alive.discard(old.pid)
    assert await asking is not None
    assert (waited, world.application.killed) == (True, [old.pid])


async def test_a_process_that_spark_replaces_after_its_death_is_told_in_the_log_and_in_the_status(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.alive.discard(old.pid)
    world.application.signals[old.pid] = 9
    new = Process(world, old.run)
    await new.ask()
    await new.say("RUNNING")
    line = f"process {old.pid} was ended by signal 9 (SIGKILL), as the kernel does it when memory is short; "
    line += "Spark has started it again"
    assert f"Task {A}: its {line}" in caplog.text
    assert world.events.states[-1][1] == "RUNNING"
    assert f"Its {line}" in (world.events.states[-1][2] or "")


async def test_a_process_that_is_replaced_while_it_lives_or_after_its_epoch_has_not_died(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    second = Process(world, old.run)
    await second.ask()
    await second.say("RUNNING")
    await second.say("EPOCH_ENDED")
    third = Process(world, old.run)
    await third.ask()
    await third.say("RUNNING")
    assert "was ended by" not in caplog.text
    assert "Spark has started it again" not in caplog.text


async def test_of_two_processes_that_wait_for_their_predecessors_end_the_one_that_asked_last_gets_the_spec(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.sticky.add(old.pid)
    first, second = Process(world, old.run), Process(world, old.run)
    asking = [asyncio.create_task(each.ask()) for each in (first, second, first)]
    await asyncio.sleep(0.05)
    waited = not asking[1].done()
    world.application.alive.discard(old.pid)
    specs = await asyncio.gather(*asking)
    assert (waited, [spec is not None for spec in specs]) == (True, [False, True, False])
    orders = [await each.say("RUNNING") for each in (first, second)]
    assert [(each.abandon, each.lease_ms) for each in orders] == [(True, 0), (False, 8000)]


async def test_a_process_that_asks_again_for_its_spec_does_not_displace_the_one_that_waits_for_its_end(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.sticky.add(old.pid)
    new = Process(world, old.run)
    asking = [asyncio.create_task(new.ask()) for _ in range(2)]
    await asyncio.sleep(0.05)
    before = await old.ask()
    world.application.alive.discard(old.pid)
    specs = await asyncio.gather(*asking)
    assert None not in (before, *specs)
    assert not (await new.say("RUNNING")).abandon


@pytest.mark.parametrize("failure", [None, ConfigError("a", "b", "no"), ClusterUnreachable("away")])
async def test_who_is_replaced_while_its_spec_is_built_gets_none_and_its_failure_is_nobodys(
    world: World, failure: Exception | None
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first, second = Process(world, world.run(A)), Process(world, world.run(A))
    world.specs.failure = failure
    world.specs.building.clear()
    early = asyncio.create_task(first.ask())
    await asyncio.sleep(0)
    world.specs.failure = None
    late = asyncio.create_task(second.ask())
    await asyncio.sleep(0)
    world.specs.building.set()
    assert [spec is not None for spec in await asyncio.gather(early, late)] == [False, True]
    await second.say("RUNNING")
    assert world.events.of(A) == ["RUNNING"]


async def test_a_process_whose_run_ends_while_its_spec_is_built_gets_none(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.specs.building.clear()
    asking = asyncio.create_task(process.ask())
    await asyncio.sleep(0)
    world.supervisor.want({})
    await process.say("FINISHED")
    world.specs.building.set()
    assert await asking is None


async def test_a_report_that_was_held_while_its_run_ended_gets_no_lease(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    held = asyncio.create_task(process.say("RUNNING", hold=10.0))
    await asyncio.sleep(0)
    world.specs.failure = ConfigError("a", "b", "no")
    await process.ask()
    assert await held == TaskOrders(lease_ms=0, finish=True, abandon=True)


async def test_reports_of_an_old_attempt_are_told_to_abandon(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    await Process(world, old.run).ask()
    assert await old.say("RUNNING") == TaskOrders(lease_ms=0, finish=True, abandon=True)


async def test_a_report_that_was_held_while_its_attempt_was_replaced_gets_no_lease(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    held = asyncio.create_task(old.say("RUNNING", hold=10.0))
    await asyncio.sleep(0)
    await Process(world, old.run).ask()
    assert (await held).abandon


async def test_an_old_attempt_that_asks_again_does_not_displace_the_new_one(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    new = Process(world, old.run)
    await new.ask()
    assert await old.ask() is None
    assert not (await new.say("RUNNING")).abandon


async def test_a_process_that_works_for_another_run_by_now_is_left_alone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    one = await world.running(A)
    other = Process(world, world.run(B), pid=one.pid)
    await other.ask()
    await other.say("RUNNING")
    await Process(world, one.run).ask()
    assert world.application.killed == []


async def test_an_epoch_that_ends_leaves_the_task_running_and_its_process_alone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    next_epoch = Process(world, process.run, pid=process.pid)
    assert await next_epoch.ask() is not None
    assert (world.events.of(A), world.application.killed) == (["RUNNING"], [])


async def test_an_epoch_a_death_and_a_restart_by_request_are_counted_for_what_they_are(world: World) -> None:
    def counted() -> tuple[int, int, int]:
        told = world.metrics.connector(A.connector).task(A.task)
        return told.attempts, told.epochs, told.restarts

    world.supervisor.want({A: wanted("t-0")})
    first = await world.running(A)
    assert counted() == (1, 0, 0)
    await first.say("EPOCH_ENDED")
    second = Process(world, first.run, pid=first.pid)
    await second.ask()
    await second.say("RUNNING")
    assert counted() == (2, 1, 0)
    world.application.alive.discard(second.pid)
    third = Process(world, first.run)
    await third.ask()
    await third.say("RUNNING")
    assert counted() == (3, 1, 1)
    world.supervisor.restart(A)
    await third.say("FINISHED")
    await world.running(A)
    assert counted() == (4, 1, 2)
