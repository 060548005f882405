"""Failed tasks of MirrorMaker 1: which are started again, when, and what ends the process."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.mirror_maker import failed_tasks
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.mirrored_source import T0, T1, TASK, SourceWorld
from tests.fakes.supervised import eventually

OTHER = TaskId("mm", 1)
TOO_LARGE = Problem("t-0", ProblemCode.PARTITION_STALLED_RECORD_TOO_LARGE, "t-0 is stalled at offset 9", "too large")
DENIED = Problem("t-0", ProblemCode.PARTITION_READ_DENIED, "t-0 can't be read", "denied")


async def test_a_record_that_the_target_refuses_is_named_with_what_to_do(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        await process.say("RUNNING", problems=[TOO_LARGE.to_json()])
        await eventually(lambda: bool(world.aborted))
    (line,) = world.aborted
    assert line.startswith("t-0 is stalled at offset 9: too large; ")
    assert line.endswith("--abort.on.send.failure false")


async def test_a_task_that_cannot_read_any_topic_ends_the_process(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        await process.say("FAILED", trace="PartitionRefusedError: all", problems=[DENIED.to_json()])
    assert world.aborted == ["t-0 can't be read: denied"]


async def test_a_task_that_fails_for_another_reason_is_started_again(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failed_tasks, "FAILED_AGAIN_S", 0.01)
    async with world.working(T0) as process:
        await process.say("FAILED", trace="SomeError: the first line\nothers")
        await eventually(lambda: world.tasks() == [TASK])
        assert world.run(TASK) is not process.run
    assert world.aborted == []
    assert "Task mm-0 is FAILED: SomeError: the first line" in caplog.messages


async def test_a_task_that_a_rebalance_has_started_is_not_started_again(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_tasks, "FAILED_AGAIN_S", 0.1)
    async with world.working(T0) as process:
        await process.say("FAILED", trace="SomeError: it failed")
    async with world.working(T1) as after:
        await asyncio.sleep(0.3)
        assert (await after.say("RUNNING")).finish is False


async def test_a_task_that_fails_twice_waits_as_long_the_second_time(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_tasks, "FAILED_AGAIN_S", 0.5)
    now = asyncio.get_running_loop().time
    async with world.working(T0) as process:
        await process.say("FAILED", trace="SomeError: it failed")
    await asyncio.sleep(0.3)
    async with world.working(T1) as after:
        failed_at = now()
        await after.say("FAILED", trace="SomeError: it failed")
        await eventually(lambda: world.tasks() == [TASK])
        assert now() - failed_at >= 0.5


async def test_the_problem_of_another_task_does_not_end_the_process(
    world: SourceWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.source._want({0: [T0], 1: [T1]})
    denied, failing = await world.running(TASK), await world.running(OTHER)
    await denied.say("RUNNING", problems=[DENIED.to_json()])
    await failing.say("FAILED", trace="MemoryError: no memory")
    assert world.aborted == []
    assert "Task mm-1 is started again in 30 s" in caplog.messages


async def test_where_refused_records_end_nothing_the_log_says_that_the_task_is_started_again(
    world: SourceWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.aborts = False
    async with world.working(T0) as process:
        await process.say("FAILED", trace="PartitionRefusedError: all", problems=[DENIED.to_json()])
    assert "Task mm-0 is started again in 30 s" in caplog.messages
