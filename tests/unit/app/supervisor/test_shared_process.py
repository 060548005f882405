"""Runs in the process that light tasks share: its plan, its end, and moves between it and a process of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.app.supervisor.process_ends import ABANDON_PATIENCE_S
from mirror_connect.app.supervisor.task_placement import ALONE_S, LIGHT_AFTER_S
from mirror_connect.app.supervisor.task_runs import FINISH_PATIENCE_S
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.supervised import A, B, Process, World, light, wanted

C = TaskId("other", 0)


async def plan(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.spark.plan(-1, 0.0))["runs"]
    return found


async def shared(world: World) -> dict[str, Any] | None:
    """The entry of the shared process in the plan."""
    return next((each for each in await plan(world) if each["shared"]), None)


async def runs_of(world: World, process_id: str) -> list[str] | None:
    """Which runs the worker names for a shared process; None: it is over."""
    found = await world.spark.shared_runs(process_id, -1, 0.0)
    return None if found is None else sorted(each["run_id"] for each in found["runs"])


@pytest.fixture
async def three(world: World) -> dict[str, Any]:
    """Two light tasks and a source task are wanted, and there are many slots: the entry of the shared process."""
    world.spark.driver_report(16, {})
    world.supervisor.want({A: light(), B: light(), C: wanted("t-0")})
    found = await shared(world)
    assert found is not None
    return found


async def test_light_tasks_have_one_query_together(world: World, three: dict[str, Any]) -> None:
    assert [each["run_id"] for each in await plan(world)] == [three["run_id"], world.run(C).run_id]
    assert await runs_of(world, three["run_id"]) == sorted(world.run(each).run_id for each in (A, B))
    assert world.spark.copying.wanting == 2


async def test_the_shared_process_is_over_with_its_last_run(world: World, three: dict[str, Any]) -> None:
    world.supervisor.want({C: wanted("t-0")})
    assert await shared(world) is None
    assert await runs_of(world, three["run_id"]) is None
    world.supervisor.want({A: light(), C: wanted("t-0")})
    following = await shared(world)
    assert following is not None
    assert following["run_id"] != three["run_id"]
    assert await runs_of(world, three["run_id"]) is None


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("task", "asks_shared"), [(A, False), (C, True)])
async def test_a_run_that_belongs_elsewhere_is_not_given_out(world: World, task: TaskId, *, asks_shared: bool) -> None:
    assert await Process(world, world.run(task), shared=asks_shared).ask() is None


@pytest.mark.usefixtures("three")
async def test_a_second_shared_process_replaces_the_first_at_once(world: World) -> None:
    first = await world.running(A, 7, shared=True)
    await world.running(B, 7, shared=True)
    assert await Process(world, first.run, 8, shared=True).ask() is not None
    assert world.application.killed == [7]


@pytest.mark.usefixtures("three")
async def test_a_process_of_ones_own_that_spark_has_reused_makes_it_gone(world: World) -> None:
    first = await world.running(A, 7, shared=True)
    await world.running(C, 7)
    assert await Process(world, first.run, 8, shared=True).ask() is not None
    assert world.application.killed == []


@pytest.mark.usefixtures("three")
async def test_a_run_that_ends_too_slowly_is_abandoned_before_its_process_is_killed(world: World) -> None:
    slow, other = await world.running(A, 7, shared=True), await world.running(B, 7, shared=True)
    world.supervisor.want({B: light(), C: wanted("t-0")})
    world.later(FINISH_PATIENCE_S + 0.2, 0.1)
    orders = await slow.say("RUNNING")
    assert (orders.abandon, orders.lease_ms, world.application.killed) == (True, 0, [])
    assert not (await other.say("RUNNING")).abandon
    await slow.say("ABANDONED")
    assert A in world.events.ended
    world.later(20)
    assert world.application.killed == []


@pytest.mark.usefixtures("three")
async def test_one_that_does_not_obey_takes_its_process_along(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.running(A, 7, shared=True)
    other = await world.running(B, 7, shared=True)
    world.supervisor.want({B: light(), C: wanted("t-0")})
    world.later(FINISH_PATIENCE_S + 3 * ABANDON_PATIENCE_S + 0.5, 0.1)
    assert world.application.killed == [7]
    assert "its process 7 with 1 other task was killed, as it did not finish in time" in caplog.text
    again = Process(world, other.run, 8, shared=True)
    assert await again.ask() is not None
    assert (await again.say("RUNNING")).end_epoch  # it is alone for a while, see test_task_placement.py
    assert "Spark has started it again" not in (world.events.states[-1][2] or "")


@pytest.mark.usefixtures("three")
async def test_a_process_that_hangs_is_killed_at_once(world: World) -> None:
    await world.running(A, 7, shared=True)
    await world.running(B, 7, shared=True)
    world.later(31)
    assert world.application.killed == [7]


@pytest.mark.usefixtures("three")
async def test_after_the_death_of_the_shared_process_each_of_its_tasks_gets_its_own(world: World) -> None:
    for task in (A, B):
        await world.running(task, 7, shared=True)
    world.application.alive.discard(7)
    world.application.signals[7] = 9
    for task in (A, B):
        again = Process(world, world.run(task), 8, shared=True)
        assert await again.ask() is not None
        assert (await again.say("RUNNING")).end_epoch
        await again.say("EPOCH_ENDED")
    assert await shared(world) is None
    assert len(await plan(world)) == 3
    alone = [await world.running(task) for task in (A, B)]
    for _ in range(int(ALONE_S + 200)):
        world.later(1)
        orders = [await each.say("RUNNING") for each in alone]
        if all(each.end_epoch for each in orders):
            break
    else:
        pytest.fail("they do not move back")


async def test_when_the_query_of_the_shared_process_has_ended_another_one_takes_over(
    world: World, three: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    process = await world.running(A, 7, shared=True)
    await runs_of(world, three["run_id"])
    old = {task: world.run(task).run_id for task in (A, B, C)}
    world.application.alive.discard(7)
    ended = {three["run_id"]: {"state": "ENDED", "error": "four times"}}
    for _ in range(5):
        world.spark.driver_report(16, ended)
    assert "The process that light tasks share has ended: four times" in caplog.text
    assert {task: world.run(task).run_id for task in (A, B, C)} == old
    following = await shared(world)
    assert following is not None
    assert following["run_id"] != three["run_id"]
    assert await runs_of(world, following["run_id"]) == sorted((old[A], old[B]))
    # Only the one that had been in the process may have been the cause.
    again, other = Process(world, process.run, 8, shared=True), Process(world, world.run(B), 8, shared=True)
    assert await again.ask() is not None
    assert await other.ask() is not None
    assert [(await each.say("RUNNING")).end_epoch for each in (again, other)] == [True, False]


async def test_a_query_that_ends_before_its_process_has_asked_fails_its_runs_in_the_end(
    world: World, three: dict[str, Any]
) -> None:
    for _ in range(3):
        found = await shared(world)
        assert found is not None
        world.spark.driver_report(16, {found["run_id"]: {"state": "ENDED", "error": "no Python"}})
    failed = {task: trace for task, state, trace in world.events.states if state == "FAILED"}
    assert set(failed) == {A, B}
    assert "no Python" in (failed[A] or "")


async def test_a_query_whose_state_is_unknown_is_given_up_for_another(world: World, three: dict[str, Any]) -> None:
    for _ in range(33):
        world.spark.driver_report(16, {three["run_id"]: {"state": "UNKNOWN", "error": "py4j"}})
        world.later(1)
    following = await shared(world)
    assert following is not None
    assert following["run_id"] != three["run_id"]


@pytest.mark.usefixtures("three")
async def test_what_is_told_of_a_former_query_of_its_own_does_not_concern_a_run_that_has_moved(world: World) -> None:
    process = await world.running(C)
    process.run.place(light=True)
    await process.say("EPOCH_ENDED")
    told = {process.run.run_id: {"state": "ENDED", "error": None}}
    world.spark.driver_report(16, told)
    again = await world.running(C, 7, shared=True)
    world.spark.driver_report(16, told)
    assert (again.run is process.run, again.run.is_over, world.application.killed) == (True, False, [])


@pytest.mark.usefixtures("three")
async def test_an_order_that_the_task_has_not_heard_yet_is_waited_for(world: World) -> None:
    slow = await world.running(A, 7, shared=True)
    await world.running(B, 7, shared=True)
    world.supervisor.want({B: light(), C: wanted("t-0")})
    world.later(FINISH_PATIENCE_S + ABANDON_PATIENCE_S + 1, 0.1)
    before = list(world.application.killed)
    assert (await slow.say("RUNNING")).abandon
    world.later(ABANDON_PATIENCE_S + 0.5, 0.1)
    assert (before, world.application.killed) == ([], [7])


@pytest.mark.usefixtures("three")
async def test_a_task_that_returns_without_a_commit_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    slow = await world.running(A, 7, shared=True)
    await world.running(B, 7, shared=True)
    world.supervisor.want({B: light(), C: wanted("t-0")})
    world.later(FINISH_PATIENCE_S + 0.2, 0.1)
    await slow.say("ABANDONED")
    assert "were not committed in time" in caplog.text


@pytest.mark.usefixtures("three")
async def test_the_next_epoch_in_the_same_process_is_no_sign_of_a_death(world: World) -> None:
    first = await world.running(A, 7, shared=True)
    # The last report of its epoch was lost.
    again = Process(world, first.run, 7, shared=True)
    assert await again.ask() is not None
    assert not (await again.say("RUNNING")).end_epoch
    assert "died" not in (world.events.states[-1][2] or "")
    assert world.application.killed == []


@pytest.mark.usefixtures("three")
async def test_a_light_task_without_a_slot_of_its_own_shares_again(world: World) -> None:
    await world.running(A, 7, shared=True)
    world.application.alive.discard(7)
    again = Process(world, world.run(A), 8, shared=True)
    await again.ask()
    await again.say("EPOCH_ENDED")
    world.spark.driver_report(1, {})
    assert not world.run(A).shares
    world.later(8)
    assert world.run(A).shares


@pytest.mark.usefixtures("three")
async def test_a_run_that_moves_is_in_no_plan_but_that_of_its_process(world: World) -> None:
    process = await world.running(C)
    run = process.run
    run.place(light=True)
    orders = await process.say("RUNNING", hold=60.0)
    assert (orders.end_epoch, orders.finish, orders.lease_ms > 0) == (True, False, True)
    before = await shared(world)
    assert before is not None
    assert run.run_id in {each["run_id"] for each in await plan(world)}
    assert await Process(world, run, 7, shared=True).ask() is None
    await process.say("EPOCH_ENDED")
    assert run.run_id not in {each["run_id"] for each in await plan(world)}
    assert run.run_id in (await runs_of(world, before["run_id"]) or [])
    assert await Process(world, run, 9).ask() is None
    again = await world.running(C, 7, shared=True)
    assert not (await again.say("RUNNING")).end_epoch


async def test_a_quiet_source_task_joins_the_light_ones(world: World) -> None:
    source = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    world.supervisor.want({A: light(), C: wanted("t-0", **{"connector.class": source})})
    await world.running(A, 7, shared=True)
    process = await world.running(C)
    for _ in range(int(LIGHT_AFTER_S) + 2):
        world.now += 1
        orders = await process.say("RUNNING")
    assert orders.end_epoch


@pytest.mark.usefixtures("three")
async def test_one_whose_process_dies_while_it_moves_begins_again_where_it_was(world: World) -> None:
    process = await world.running(C)
    process.run.place(light=True)
    world.application.alive.discard(process.pid)
    again = Process(world, process.run)
    assert await again.ask() is not None
    assert (await again.say("RUNNING")).end_epoch


@pytest.mark.usefixtures("three")
async def test_a_run_without_a_process_moves_at_once(world: World) -> None:
    run = world.run(C)
    run.place(light=True)
    assert run.run_id not in {each["run_id"] for each in await plan(world)}
    await world.running(C, 7, shared=True)


async def test_a_shared_process_that_is_there_needs_no_other_slot(world: World, three: dict[str, Any]) -> None:
    world.spark.driver_report(2, {})
    many = {TaskId("more", number): wanted(f"t-{number}") for number in range(3)}
    world.supervisor.want({A: light(), B: light(), **many})
    assert world.spark.has_no_slot(world.run(A))
    await runs_of(world, three["run_id"])
    assert not world.spark.has_no_slot(world.run(A))
    assert world.spark.has_no_slot(world.run(TaskId("more", 0)))


async def test_with_spark_its_shared_process_is_gone(world: World, three: dict[str, Any]) -> None:
    await world.running(A, 7, shared=True)
    world.application.die(1)
    async with asyncio.timeout(30):
        while await runs_of(world, three["run_id"]) is not None:
            await asyncio.sleep(0.01)
    following = await shared(world)
    assert following is not None
    assert following["run_id"] != three["run_id"]
