"""What nobody reports: silence, an end that drags on, missing slots."""

from __future__ import annotations

from mirror_connect.app.supervisor.idleness import FIRST_PROCESS_S, TASK_SILENT_S
from mirror_connect.app.supervisor.task_runs import FINISH_PATIENCE_S
from mirror_connect.app.supervisor.task_watch import NO_SLOT_S
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.supervised import A, B, World, wanted


async def test_a_silent_task_is_killed_and_keeps_its_run(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.later(TASK_SILENT_S + 1)
    assert (world.application.killed, world.run(A) is process.run) == ([process.pid], True)


async def test_tasks_are_not_taken_for_silent_when_this_worker_was_suspended(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await world.running(A)
    world.later(60, step=60)
    assert world.application.killed == []


async def test_a_task_that_does_not_finish_in_time_is_killed_and_then_over(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({})
    world.later(FINISH_PATIENCE_S - 0.1, step=0.1)
    patient = list(world.application.killed)
    world.later(0.3, step=0.1)
    assert (patient, world.application.killed, world.events.ended) == ([], [process.pid], [A])


async def test_a_killed_task_is_over_only_when_its_process_is_gone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.application.sticky.add(process.pid)
    world.supervisor.want({})
    world.later(FINISH_PATIENCE_S + 1, step=0.1)
    assert (world.events.ended, world.application.killed) == ([], [process.pid])


async def test_a_task_without_a_slot_is_unassigned_and_says_how_many_there_are(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1"), TaskId("c", 2): wanted("t-2")})
    await world.running(A)
    await world.running(B)
    world.later(NO_SLOT_S + 1)
    assert world.events.trace(TaskId("c", 2)) == (
        "Task c-2 has no Spark slot: 3 tasks want to run and spark.master=local[2,4] has 2 slots. "
        "Raise the slots or lower tasks.max."
    )


async def test_a_task_that_lost_its_slot_between_two_epochs_is_unassigned(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1"), TaskId("c", 2): wanted("t-2")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    world.later(NO_SLOT_S + 1)
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED"]


async def test_a_waiting_task_with_slots_enough_says_nothing_for_a_while(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.later(FIRST_PROCESS_S)
    assert world.events.states == []
