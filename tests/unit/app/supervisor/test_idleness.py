"""Nothing is copied and nobody says so: whatever a run's phase, its status does not go on saying RUNNING."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable

import pytest

from mirror_connect.app.supervisor.idleness import FIRST_PROCESS_S, PATIENCE_S, TASK_SILENT_S, UNHEARD_S
from mirror_connect.app.supervisor.task_run import Phase
from mirror_connect.app.supervisor.task_runs import FINISH_PATIENCE_S
from mirror_connect.app.supervisor.task_watch import STEADY_S
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from tests.fakes.spark_rig import SECRET
from tests.fakes.supervised import UTC, A, B, Process, World, wanted


def newest(world: World) -> tuple[str, str]:
    """State and trace as told last of task A."""
    return world.events.of(A)[-1], world.events.trace(A) or ""


def fits(trace: str, line: str) -> bool:
    """Whether a trace is this line, with a time in place of TIME."""
    return re.fullmatch(re.escape(line).replace("TIME", UTC), trace) is not None


async def silent(world: World) -> Process:
    """Its process says nothing any more."""
    process = await world.running(A)
    world.later(UNHEARD_S + 1)
    return process


async def hung(world: World) -> Process:
    """It reports, but its loop does not come round."""
    process = await world.running(A)
    for second in range(1, int(UNHEARD_S) + 2):
        world.later(1)
        await process.say("RUNNING", loop_silent_s=float(second))
    world.later(0.1)
    return process


async def silent_at_the_next_start(world: World) -> Process:
    """The process of the next epoch has asked for its spec and never reports."""
    await (await world.running(A)).say("EPOCH_ENDED")
    process = Process(world, world.run(A))
    await process.ask()
    world.later(UNHEARD_S + 1)
    return process


async def never_copying(world: World) -> Process:
    """The process of the next epoch reports, and does not come to copying."""
    await (await world.running(A)).say("EPOCH_ENDED")
    process = Process(world, world.run(A))
    await process.ask()
    for _ in range(int(PATIENCE_S) + 1):
        world.later(1)
        await process.say("STARTING", 0)
    world.later(0.1)
    return process


async def without_a_next_epoch(world: World) -> Process:
    """Spark does not begin the next epoch, though it has slots."""
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    world.later(PATIENCE_S + 1)
    return Process(world, process.run)


async def killed_and_not_gone(world: World) -> Process:
    """A restart waits for a process that does not die."""
    process = await world.running(A)
    world.application.sticky.add(process.pid)
    world.supervisor.restart(A)
    world.later(FINISH_PATIENCE_S + PATIENCE_S + 1)
    return process


async def dead(world: World) -> Process:
    """Spark has given up its query."""
    process = await world.running(A)
    world.application.alive.discard(process.pid)
    world.spark.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exit 139"}})
    return Process(world, world.run(A))


@pytest.mark.parametrize(
    ("how", "line"),
    [
        (
            silent,
            "Its process PID has reported nothing since TIME; it is killed after 30 s, and Spark starts the task again",
        ),
        (
            hung,
            "Its process PID reports, but has copied nothing since TIME; it is killed after 30 s, and Spark starts the task "
            "again",
        ),
        (
            silent_at_the_next_start,
            "A process started it at TIME and has reported nothing yet; after 30 s it is restarted",
        ),
        (
            never_copying,
            "Its process began at TIME and does not copy yet: it is connecting to its clusters or reading its source "
            "offsets",
        ),
        (without_a_next_epoch, "Its last epoch ended at TIME, and no Spark process has begun the next one yet"),
        (
            killed_and_not_gone,
            "Its process PID was killed at TIME and is not gone yet; the task starts again when it is",
        ),
        (dead, "Its process died at TIME (exit 139); it is started again"),
    ],
)
async def test_a_running_task_that_stops_copying_is_unassigned_with_since_when_and_what_is_done(
    world: World, how: Callable[[World], Awaitable[Process]], line: str
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await how(world)
    state, trace = newest(world)
    assert state == "UNASSIGNED"
    assert fits(trace, line.replace("PID", str(process.pid))), trace


async def test_a_task_that_no_process_of_sparks_begins_says_so(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.later(FIRST_PROCESS_S + 1)
    assert fits(newest(world)[1], "Spark was asked to run it at TIME, and no process has begun yet")


@pytest.mark.parametrize("how", [silent, hung, silent_at_the_next_start, never_copying, without_a_next_epoch])
async def test_it_is_said_once_and_a_task_that_copies_again_is_running(
    world: World, how: Callable[[World], Awaitable[Process]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.supervisor")
    world.supervisor.want({A: wanted("t-0")})
    process = await how(world)
    world.later(5, step=0.1)
    told = world.events.of(A)
    await process.ask()
    await process.say("RUNNING")
    assert (told, newest(world)) == (["RUNNING", "UNASSIGNED"], ("RUNNING", ""))
    lines = [line for line in caplog.messages if line.startswith("Task c-0 is ")]
    assert [line.split(": ")[0] for line in lines] == [
        "Task c-0 is RUNNING with 1 partition",
        "Task c-0 is UNASSIGNED",
        "Task c-0 is RUNNING with 1 partition",
    ]


@pytest.mark.parametrize("how", [silent, hung])
async def test_what_stands_still_is_killed_and_the_status_says_so(
    world: World, how: Callable[[World], Awaitable[Process]]
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await how(world)
    before = list(world.application.killed)
    for second in range(int(UNHEARD_S) + 2, int(TASK_SILENT_S) + 3):
        world.later(1)
        if how is hung and process.pid in world.application.alive:
            await process.say("RUNNING", loop_silent_s=float(second))
    state, trace = newest(world)
    assert (before, world.application.killed, state) == ([], [process.pid], "UNASSIGNED")
    assert fits(
        trace, f"Its process {process.pid} was stalled from TIME on and was killed; Spark starts the task again"
    )


async def test_a_process_that_never_reports_is_given_up_and_the_task_begins_anew(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    await process.ask()
    world.later(TASK_SILENT_S + 1)
    assert world.run(A) is not process.run
    assert fits(newest(world)[1], "Its process is given up at TIME (no report within 30 s); it is started again")


async def test_a_task_that_asks_again_and_again_while_its_cluster_is_away_keeps_its_run_and_its_line(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    world.specs.failure = ClusterUnreachable("The target cluster can't be reached")
    for _ in range(120):
        with pytest.raises(ClusterUnreachable):
            await process.ask()
        world.later(1)
    assert world.events.states == [(A, "UNASSIGNED", "The target cluster can't be reached")]
    assert world.run(A) is process.run


async def test_positions_that_can_not_be_read_are_told_by_the_task_that_waits_for_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise NotAuthorized("the worker's user may not read topic connect-offsets")

    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    await process.ask()
    monkeypatch.setattr(world.specs, "source_offsets", refused)
    with pytest.raises(NotAuthorized):
        await process.source_offsets()
    assert newest(world) == (
        "UNASSIGNED",
        "Its source offsets cannot be read: the worker's user may not read topic connect-offsets",
    )


async def test_new_partitions_that_a_running_task_does_not_get_are_a_line_of_its_status_until_it_has_them(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", "t-1")})
    world.specs.failure = ClusterUnreachable("The target cluster can't be reached")
    with pytest.raises(ClusterUnreachable):
        await process.ask()
    await process.say("RUNNING", 2)
    late = newest(world)
    world.specs.failure = None
    await process.ask()
    await process.say("RUNNING")
    line = "Its new partitions are not copied yet: The target cluster can't be reached"
    assert (late, newest(world)) == (("RUNNING", line), ("RUNNING", ""))


# What the driver can't tell.


async def test_a_query_that_spark_can_not_tell_of_is_named_once_and_a_task_that_reports_goes_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    unknown = {process.run.run_id: {"state": "UNKNOWN", "error": "Py4JError: no such target o17"}}
    for _ in range(int(TASK_SILENT_S) + 1):
        world.spark.driver_report(2, unknown)
        world.later(1)
        await process.say("RUNNING")
    named = [line for line in caplog.messages if "does not report" in line]
    assert named == ["Task c-0: Spark does not report the state of its query: Py4JError: no such target o17"]
    assert (world.events.of(A), world.run(A) is process.run) == (["RUNNING"], True)


async def test_a_query_that_spark_can_not_tell_of_and_no_process_works_on_is_begun_anew(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    world.spark.driver_report(2, {process.run.run_id: {"state": "UNKNOWN", "error": "Py4JError: gone"}})
    world.later(PATIENCE_S + 1)
    waiting = newest(world)
    world.later(TASK_SILENT_S)
    assert waiting[1].endswith("; Spark does not report the state of its query: Py4JError: gone")
    assert world.run(A) is not process.run
    assert "is given up, because Spark does not report its state" in newest(world)[1]


# What is no idleness.


async def test_a_worker_that_was_suspended_takes_nobody_for_idle(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    await world.running(A)
    await (await world.running(B)).say("EPOCH_ENDED")
    world.later(60, step=60)
    world.later(PATIENCE_S - 1)
    assert (world.events.of(A), world.events.of(B)) == (["RUNNING"], ["RUNNING"])


async def test_a_task_that_reports_runs_however_long_it_has_nothing_to_copy(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    for _ in range(int(STEADY_S)):
        world.later(1)
        await process.say("RUNNING", loop_silent_s=1.5)
    assert (world.events.of(A), process.run.phase) == (["RUNNING"], Phase.RUNNING)


async def test_no_secret_is_in_what_is_said_of_a_death(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.application.alive.discard(process.pid)
    world.spark.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": f"no {SECRET}"}})
    assert SECRET not in str(world.events.states)
