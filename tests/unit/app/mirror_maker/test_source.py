"""A source commits what its tasks have reported, and nothing else, whatever becomes of its membership."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

import pytest

from mirror_connect.app.mirror_maker import source as source_module
from mirror_connect.app.supervisor import task_runs
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, RebalanceNeeded
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from tests.fakes.mirrored_source import T0, T1, TASK, SourceWorld
from tests.fakes.supervised import Process, eventually


async def test_partitions_are_given_away_and_committed_before_the_member_may_join_again(world: SourceWorld) -> None:
    async with world.working(T0, T1) as process:
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    releasing = asyncio.create_task(world.source.release())
    await eventually(lambda: process.run.assigned == frozenset())
    # It still waits for acknowledgements.
    await process.say("RUNNING", version=process.run.version - 1, source_offsets=[["t", 0, 43]])
    await asyncio.sleep(0.1)
    assert (releasing.done(), world.member.commits) == (False, [])
    await process.say("RUNNING", source_offsets=[["t", 0, 44]])
    await releasing
    assert world.member.commits == [{T0: 45}]


async def test_what_is_reported_after_the_partition_was_given_away_is_not_committed(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        pass
    releasing = asyncio.create_task(world.source.release())
    await eventually(lambda: process.run.assigned == frozenset())
    await process.say("RUNNING")
    await releasing
    await process.say("RUNNING", source_offsets=[["t", 0, 99]])
    await world.source._commits.once()
    assert world.member.commits == []


async def test_a_lost_membership_ends_the_tasks_without_a_commit(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    world.source.lost()
    orders = await process.say("RUNNING", source_offsets=[["t", 0, 42]])
    assert (orders.lease_ms, orders.finish) == (0, True)
    await world.source._commits.once()
    assert world.member.commits == []


async def test_a_silent_coordinator_is_asked_again_with_the_newest_offset(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        world.member.silent = True
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
        await world.source._commits.once()
        world.member.silent = False
        await process.say("RUNNING", source_offsets=[["t", 0, 50]])
        await world.source._commits.once()
    assert world.member.commits == [{T0: 51}]


async def test_a_start_at_the_end_is_committed_at_once_and_one_that_is_unknown_keeps_no_other_waiting(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[TopicPartition, int] = {T0: 90}

    async def starts(_cluster: object, wanted: Collection[TopicPartition], _settings: object) -> object:
        return {partition: known[partition] for partition in wanted if partition in known}

    monkeypatch.setattr(source_module, "start_offsets", starts)
    monkeypatch.setattr(source_module, "LATE_START_S", 0.01)
    world.member.offsets = {}
    async with world.working(T0, T1) as process:
        assert (world.member.commits, process.run.assigned) == ([{T0: 90}], {T0})
        known[T1] = 5
        await eventually(lambda: process.run.assigned == {T0, T1})
    assert world.member.commits == [{T0: 90}, {T1: 5}]


async def test_nothing_is_copied_before_its_start_is_committed(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def starts(_cluster: object, wanted: Collection[TopicPartition], _settings: object) -> object:
        return dict.fromkeys(wanted, 90)

    monkeypatch.setattr(source_module, "start_offsets", starts)
    monkeypatch.setattr(source_module, "LATE_START_S", 0.01)
    world.member.offsets = {T1: 7}
    world.member.silent = True
    async with world.working(T0, T1) as process:
        assert process.run.assigned == {T1}
        world.member.silent = False
        await eventually(lambda: process.run.assigned == {T0, T1})
    assert world.member.commits == [{T0: 90}]


async def test_a_topic_that_may_not_be_read_waits_and_is_named_while_others_are_copied(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def starts(_cluster: object, wanted: Collection[TopicPartition], _settings: object) -> object:
        return dict.fromkeys(wanted, 90)

    monkeypatch.setattr(source_module, "start_offsets", starts)
    monkeypatch.setattr(source_module, "LATE_START_S", 0.01)
    secret = TopicPartition("t-secret", 0)
    world.source._source_topics.counts["t-secret"] = 1
    world.member.offsets, world.member.refused = {T1: 7}, {secret: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    async with world.working(T1, secret) as process:
        assert process.run.assigned == {T1}
        line = (
            "Group g: offsets of 1 partition were refused with TOPIC_AUTHORIZATION_FAILED; grant READ on topic t-secret"
        )
        assert f"{line} to the source user" in caplog.messages
        assert world.aborted == []
        world.member.refused = {}
        await eventually(lambda: process.run.assigned == {T1, secret})


async def test_where_no_topic_may_be_read_the_process_ends(world: SourceWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def starts(_cluster: object, wanted: Collection[TopicPartition], _settings: object) -> object:
        return dict.fromkeys(wanted, 90)

    monkeypatch.setattr(source_module, "start_offsets", starts)
    world.member.offsets = {}
    world.member.refused = dict.fromkeys((T0, T1), int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    async with world.working(T0, T1):
        pass
    (line,) = world.aborted
    assert line.endswith("grant READ on topic t to the source user")


async def test_a_position_that_goes_back_is_committed_at_once(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        await process.say("RUNNING", source_offsets=[["t", 0, -1]])
        await eventually(lambda: world.member.commits == [{T0: 0}])


async def test_a_release_waits_for_a_coordinator_that_is_away(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        pass
    releasing = asyncio.create_task(world.source.release())
    await eventually(lambda: process.run.assigned == frozenset())
    world.member.silent = True
    await process.say("RUNNING", source_offsets=[["t", 0, 44]])
    await asyncio.sleep(0.1)
    assert not releasing.done()
    world.member.silent = False
    await releasing
    assert world.member.commits == [{T0: 45}]


async def test_a_process_that_keeps_its_partitions_is_killed_before_the_member_joins_again(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.source._file = replace(world.source._file, rebalance_timeout_ms=1)
    monkeypatch.setattr(source_module, "LEAST_RELEASE_S", 0.05)
    monkeypatch.setattr(task_runs, "FINISH_PATIENCE_S", 0.2)
    world.supervisor.start()
    async with world.working(T0) as process:
        pass
    releasing = asyncio.create_task(world.source.release())
    await eventually(lambda: process.run.is_over)
    # Its last words count: the member is still one of the old generation.
    await process.say("RUNNING", version=process.run.version - 1, source_offsets=[["t", 0, 43]])
    await releasing
    assert (world.application.killed, world.member.commits) == ([process.pid], [{T0: 44}])


async def test_a_task_that_is_starting_keeps_the_group_waiting_for_a_moment_only(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "STARTING_PATIENCE_S", 0.05)
    monkeypatch.setattr(task_runs, "FINISH_PATIENCE_S", 0.2)
    world.supervisor.start()
    working = asyncio.create_task(world.source.work([T0]))
    await eventually(lambda: bool(world.tasks()))
    process = Process(world, world.run(TASK))
    await process.ask()
    await process.say("STARTING", 0)
    working.cancel()
    async with asyncio.timeout(30):
        await world.source.release()
    assert world.application.killed == [process.pid]


async def test_a_process_that_cannot_be_killed_keeps_nobody_waiting_and_writes_no_more(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.source._file = replace(world.source._file, rebalance_timeout_ms=1)
    monkeypatch.setattr(source_module, "LEAST_RELEASE_S", 0.05)
    monkeypatch.setattr(source_module, "TASKS_END_S", 0.05)
    async with world.working(T0) as process:
        pass
    await world.source.release()
    orders = await process.say("RUNNING", version=process.run.version - 1, source_offsets=[["t", 0, 43]])
    assert (orders.lease_ms, orders.finish, world.member.commits) == (0, True, [])


async def test_the_last_commit_waits_for_a_coordinator_that_is_away(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "TASKS_PATIENCE_S", 0.1)
    async with world.working(T0) as process:
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    world.member.silent = True
    ending = asyncio.create_task(world.source.end_tasks())
    await asyncio.sleep(0.3)
    world.member.silent = False
    await ending
    assert world.member.commits == [{T0: 42}]


async def test_the_end_in_the_middle_of_a_rebalance_is_a_usual_one(
    world: SourceWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(source_module, "TASKS_PATIENCE_S", 0.1)
    async with world.working(T0) as process:
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    world.member.refuses = RebalanceNeeded()
    await world.source.end_tasks()
    assert [record.message for record in caplog.records if record.exc_info] == []


async def test_a_source_that_is_away_again_is_told_again(world: SourceWorld, caplog: pytest.LogCaptureFixture) -> None:
    away = [CoordinatorLost("away")]

    async def ask() -> int:
        if away:
            raise away.pop()
        return 7

    for _ in range(2):
        assert await world.source._until_answered(ask) == 7
        away.append(CoordinatorLost("away"))
    assert caplog.messages.count("Group g waits: away") == 2
