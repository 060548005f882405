"""What the reports of tasks change: states, source offsets, keys, problems."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.supervisor.task_reports import NOT_COMMITTED
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import SourceOffset
from tests.fakes.supervised import A, Process, World, wanted


async def test_a_task_runs_when_it_says_so_itself(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    await process.ask()
    await process.say("STARTING", 0)
    silent = world.events.of(A)
    await process.say("RUNNING")
    assert (silent, world.events.of(A)) == ([], ["RUNNING"])


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("FINISHED", f"Task c-0 has ended; {NOT_COMMITTED}"),
        ("EPOCH_ENDED", f"Task c-0: {NOT_COMMITTED}"),
    ],
)
async def test_what_is_not_committed_at_the_end_is_not_told_as_committed(
    world: World, caplog: pytest.LogCaptureFixture, state: str, line: str
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.supervisor")
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say(state, committed=False)
    assert line in caplog.messages
    assert not [each for each in caplog.messages if "is committed" in each]


async def test_reported_source_offsets_are_taken_before_their_partitions_are_free(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.specs.owned = lambda: process.run.owned
    world.supervisor.want({A: wanted()})
    await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    assert world.specs.reported == [(SourceOffset("t", 0, 41), frozenset({TopicPartition("t", 0)}))]
    assert process.run.owned == frozenset()


async def test_source_offsets_of_a_run_that_may_not_write_any_more_are_not_taken(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.retire()
    world.supervisor.want({A: wanted("t-0")})
    await process.say("FINISHED", source_offsets=[["t", 0, 41]])
    assert world.specs.reported == []


async def test_source_offsets_of_partitions_that_the_run_does_not_own_are_not_taken(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", source_offsets=[["t", 0, 41], ["t", 1, 41]])
    assert [each for each, _ in world.specs.reported] == [SourceOffset("t", 0, 41)]


async def test_a_report_whose_answer_was_lost_comes_again_without_harm(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted()})
    given_away = process.run.version
    await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    # Another member has had the partition meanwhile, and this one has it again.
    world.supervisor.want({A: wanted("t-0")})
    await process.say("RUNNING", given_away, source_offsets=[["t", 0, 41]])
    once = list(world.specs.reported)
    await process.say("RUNNING", source_offsets=[["t", 0, 90]])
    assert [len(once), *(each.offset for each, _ in world.specs.reported)] == [1, 41, 90]


async def test_reported_keys_are_taken_of_a_run_that_may_write_and_of_no_other(world: World) -> None:
    world.supervisor.want({A: wanted()})
    process = await world.running(A)
    await process.say("RUNNING", offset_keys=["one"])
    world.supervisor.retire()
    await process.say("FINISHED", offset_keys=["other"])
    assert world.specs.keys == [(A, "one")]


async def test_a_stale_lookup_is_a_problem_of_its_running_task_in_status_and_links(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    stale = Problem("regions", ProblemCode.LOOKUP_STALE, "Lookup regions can't be renewed", "no such file", since=0.0)
    process.run.stale["regions"] = stale
    await process.say("RUNNING")

    def shown() -> list[tuple[str, str, int | None]]:
        found = world.metrics.connector(A.connector).present_problems(world.now)
        return [(each.code, each.subject, each.task) for each in found]

    assert (world.events.states[-1], shown()) == ((A, "RUNNING", stale.line), [("LOOKUP_STALE", "regions", A.task)])
    process.run.stale["regions"] = None
    await process.say("RUNNING")
    assert (world.events.states[-1], shown()) == ((A, "RUNNING", None), [])
