"""A source commits what its tasks have reported, and nothing else, whatever becomes of its membership."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mirror_connect.app.mirror_maker import source as source_module
from mirror_connect.app.mirror_maker.client_files import read_sources, read_target
from mirror_connect.app.mirror_maker.source import MirroredSource
from mirror_connect.app.mirror_maker.topic_choice import TopicChoice
from mirror_connect.app.supervisor import task_runs
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from tests.fakes.supervised import Process, World, eventually

TASK = TaskId("mm", 0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOO_LARGE = Problem("t-0", ProblemCode.PARTITION_STALLED_RECORD_TOO_LARGE, "t-0 is stalled at offset 9", "too large")
DENIED = Problem("t-0", ProblemCode.PARTITION_READ_DENIED, "t-0 can't be read", "denied")


class Member:
    """The group's member: what is committed, and what it commits."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {T0: 40, T1: 7}
        self.commits: list[Mapping[TopicPartition, int]] = []
        self.refused: dict[TopicPartition, int] = {}
        self.silent = False

    def lease_remaining(self) -> float:
        return 5.0

    async def committed(self) -> dict[TopicPartition, int]:
        return self.offsets

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if self.silent:
            raise CoordinatorLost("away")
        self.commits.append(offsets)
        return {partition: code for partition, code in self.refused.items() if partition in offsets}


class Targets:
    def prepared(self, sources: Mapping[str, int]) -> dict[str, int]:
        return dict(sources)


class SourceWorld(World):
    """A source whose supervisor has this world's Spark."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        files = {"mm": "bootstrap.servers=127.0.0.1:1\ngroup.id=g\n", "target": "bootstrap.servers=127.0.0.1:2\n"}
        for name, text in files.items():
            (directory / f"{name}.properties").write_text(text)
        self.aborted: list[str] = []
        self.member = Member()
        self.source = MirroredSource(
            read_sources([str(directory / "mm.properties")], lambda _: None)[0],
            read_target(str(directory / "target.properties"), lambda _: None),
            TopicChoice("t", excludes=False),
            Targets(),  # type: ignore[arg-type]
            self.spark,
            flow="",
            commit_interval_ms=60_000,
            skips_oversize=False,
            aborted=self.aborted.append,
        )
        self.source.member = self.member  # type: ignore[assignment,misc]
        self.source._source_topics.counts = {"t": 2}
        self.supervisor = self.source._supervisor

    @contextlib.asynccontextmanager
    async def working(self, *partitions: TopicPartition) -> AsyncIterator[Process]:
        """The source's work, and a task process that copies its partitions."""
        working = asyncio.create_task(self.source.work(partitions))
        try:
            await eventually(lambda: bool(self.tasks()))
            yield await self.running(TASK)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SourceWorld]:
    world = SourceWorld(tmp_path)
    await world.start()
    yield world
    await world.stop()


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
    await world.source._commit()
    assert world.member.commits == []


async def test_a_lost_membership_ends_the_tasks_without_a_commit(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
    world.source.lost()
    orders = await process.say("RUNNING", source_offsets=[["t", 0, 42]])
    assert (orders.lease_ms, orders.finish) == (0, True)
    await world.source._commit()
    assert world.member.commits == []


async def test_a_silent_coordinator_is_asked_again_with_the_newest_offset(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        world.member.silent = True
        await process.say("RUNNING", source_offsets=[["t", 0, 41]])
        await world.source._commit()
        world.member.silent = False
        await process.say("RUNNING", source_offsets=[["t", 0, 50]])
        await world.source._commit()
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


async def test_a_record_that_the_target_refuses_is_named_with_what_to_do(world: SourceWorld) -> None:
    async with world.working(T0) as process:
        await process.say("RUNNING", problems=[TOO_LARGE.to_json()])
        world.source._end_at(source_module.SEND_FAILURES)
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
    monkeypatch.setattr(source_module, "FAILED_AGAIN_S", 0.01)
    async with world.working(T0) as process:
        await process.say("FAILED", trace="SomeError: the first line\nothers")
        await eventually(lambda: world.tasks() == [TASK])
        assert world.run(TASK) is not process.run
    assert world.aborted == []
    assert "Task mm-0 is FAILED: SomeError: the first line" in caplog.messages
