"""Offset syncs and ranges of a source task on clusters in memory: what is written where, and in which order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.translation.offset_range_index import Kind, Translation
from mirror_connect.kafka_io.protocol.fetch import FetchPartition
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.spark_jobs.mapping import offset_ranges_reader
from mirror_connect.spark_jobs.tasks import source_commits
from tests.fakes.mapped_task import RANGES, MappedWorld
from tests.fakes.source_task import OFFSETS
from tests.fakes.target_cluster import Batch
from tests.fakes.whole_cluster import FakeCluster


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> MappedWorld:
    made = MappedWorld()
    made.patch(monkeypatch)
    return made


async def test_ranges_are_on_the_target_before_the_positions_that_belong_to_them(world: MappedWorld) -> None:
    world.target.producers.delay = lambda: 0.005
    async with world.copying(world.spec()):
        for _ in range(5):
            world.records(20)
            await world.copied(20)
            assert world.index.newest is not None
            assert world.index.newest.ranges[-1].length >= (world.position or 0) + 1
    written = [topic for topic in world.topics_written() if topic in (RANGES, OFFSETS)]
    assert written == [RANGES, OFFSETS] * (len(written) // 2)


async def test_a_position_is_that_of_the_moment_before_its_ranges_were_written(world: MappedWorld) -> None:
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)

        def more(request: Produce) -> int:
            if request.batches[0].topic == RANGES and world.end < 60:
                world.records(10)
            return 0

        world.target.producers.before = more
        world.records(10)
        for _ in range(200):
            await asyncio.sleep(0.001)
            known = world.index.newest
            assert known is not None
            assert known.ranges[-1].length > (world.position or 0)
        await world.copied(60)


async def test_the_next_task_goes_on_in_the_range_that_the_former_one_left(world: MappedWorld) -> None:
    for _ in range(3):
        async with world.copying(world.spec()):
            world.records(10)
            await world.copied(10)
            await world.finish()
    newest = world.index.newest
    assert newest is not None
    assert (newest.number, [tuple(offset_range) for offset_range in newest.ranges]) == (
        0,
        [(0, 0, 30, True, False, False)],
    )


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in_this_process", "once_in_another_process"])
async def test_an_epoch_reads_only_new_ranges_and_translations_stay_exact(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """Another task writes in between, with a gap between what lies where: here only what it wrote shows that."""
    asked: list[int] = []
    given = FakeCluster._read

    def read(self: FakeCluster, node: int, key: tuple[str, int], wanted: FetchPartition, room: int) -> Any:
        if key[0] == RANGES and not any(request.session_epoch > 0 for _, request in self.fetches):
            asked.append(wanted.offset)
        return given(self, node, key, wanted, room)

    monkeypatch.setattr(FakeCluster, "_read", read)
    ends = [0]
    for epoch in range(4):
        process = {} if elsewhere and epoch == 2 else offset_ranges_reader._topics
        with monkeypatch.context() as patch:
            patch.setattr(offset_ranges_reader, "_topics", process)
            # Somebody else writes to the remote topic: so each epoch has a range of its own.
            world.target.producers.log("A.orders", 0).batches.append(Batch(-1, -1, -1, 1, b""))
            async with world.copying(world.spec()):
                world.records(10)
                await world.copied(10)
                await world.finish()
        ends.append(world.target.logs[RANGES, 0].end)
    positions = range(0, 40, 3)
    found = [world.index.translate(at) for at in positions]
    assert found == [Translation(at + at // 10 + 1, Kind.EXACT) for at in positions]
    # The first reading found nothing, and the second began there. The other process knew nothing; this one then read both.
    assert asked == [0, 0, 0 if elsewhere else ends[1], ends[1] if elsewhere else ends[2]]


async def test_what_is_acknowledged_before_the_former_ranges_are_known_is_recorded_too(world: MappedWorld) -> None:
    world.records(10)
    async with world.copying(world.spec()):
        await world.copied(10)
        await world.finish()
    log = world.target.logs.pop((RANGES, 0))
    world.records(10)
    async with world.copying(world.spec()):
        await world.copied(10)
        world.target.logs[RANGES, 0] = log
        world.records(10)
        await world.until(lambda: world.index.translate(30) is not None and world.index.translate(30).offset == 30)  # type: ignore[union-attr]
    assert [world.index.translate(at).exact for at in (5, 15, 25)] == [True] * 3  # type: ignore[union-attr]


async def test_a_crash_leaves_copies_that_no_translation_forgets_until_all_is_mirrored_again(
    world: MappedWorld,
) -> None:
    world.records(10)
    async with world.copying(world.spec()):
        await world.copied(10)
        world.target.producers.before = lambda request: (
            7 if any(batch.topic == RANGES for batch in request.batches) else 0
        )
        world.records(10)
        await world.until(lambda: world.link.counters["records"] == 20)
    # 10 to 19 lie at 10 to 19, and nothing tells of it; they are copied again, to 20.
    world.target.producers.before = lambda _request: 0
    seen = []
    async with world.copying(world.spec()):
        await world.until(lambda: world.position == 19)
        await world.until(lambda: bool(world.index.translate(15) and world.index.translate(15).exact))  # type: ignore[union-attr]
        seen = [world.index.translate(at).offset for at in (5, 12, 20)]  # type: ignore[union-attr]
    assert seen == [5, 22, 30]


@pytest.mark.parametrize("end", ["finished", "taken_away"])
async def test_a_task_whose_only_commit_is_its_last_one_tells_that_all_is_mirrored_again(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    world.records(10)
    async with world.copying(world.spec()):
        await world.copied(10)
    world.target.producers.before = lambda request: 7 if any(batch.topic == RANGES for batch in request.batches) else 0
    world.records(10)
    for _ in range(2):
        async with world.copying(world.spec()):
            await world.until(lambda: world.link.counters.get("records", 0) == 10)
    # 10 to 19 lie at 10 to 19 and at 20 to 29, and nothing tells of either.
    world.target.producers.before = lambda _request: 0
    monkeypatch.setattr(source_commits, "COMMIT_S", 60.0)
    spec = replace(world.spec(), commit_interval_ms=60_000)
    async with world.copying(spec):
        await world.until(lambda: world.link.counters.get("records", 0) == 10)
        if end == "finished":
            await world.finish()
        else:
            world.link.assign(replace(spec, assigned=(), assignment_version=2))
            await world.until(lambda: world.link.assignment_version == 2)
    found = [world.index.translate(at) for at in (5, 12, 20)]
    assert [(each.offset, each.exact) for each in found if each] == [(5, True), (32, True), (40, True)]


async def test_a_partition_that_is_taken_away_is_recorded_before_that_is_told(world: MappedWorld) -> None:
    spec = world.spec()
    async with world.copying(spec):
        world.records(10)
        await world.until(lambda: world.link.counters.get("records", 0) == 10)
        world.link.assign(replace(spec, assigned=(), assignment_version=2))
        await world.until(lambda: world.link.assignment_version == 2)
        assert (world.position, world.index.translate(9).offset, world.syncs()[-1]) == (9, 9, (9, 9))  # type: ignore[union-attr]


async def test_a_source_topic_made_again_begins_a_new_incarnation(world: MappedWorld) -> None:
    world.records(10)
    async with world.copying(world.spec()):
        await world.copied(10)
        world.source.ids["orders"] = b"n" * 16
        world.source.logs["orders", 0].batches.clear()
        world.records(4)
        world.link.assign(replace(world.spec(), assigned=(), assignment_version=2))
        await world.until(lambda: world.link.assignment_version == 2)
        world.target.logs[OFFSETS, 0].batches.clear()
        for partition in range(5):
            world.target.logs[OFFSETS, partition].batches.clear()
        world.link.assign(replace(world.spec(), assignment_version=3))
        await world.until(lambda: world.index.belongs_to(b"n" * 16, b"t" * 16))
    assert world.index.translate(2).offset == 12  # type: ignore[union-attr]


@pytest.mark.kafka_test("MirrorSourceConfigTest.testProducerConfigsForOffsetSyncsTopic")
@pytest.mark.parametrize("there", [False, True], ids=["source", "target"])
async def test_syncs_go_where_the_config_says(world: MappedWorld, there: bool) -> None:
    async with world.copying(_located(world, there=there)):
        world.records(250)
        await world.copied(250)
        await world.finish()
    assert {(0, 0), (101, 101), (202, 202), (249, 249)} <= set(world.syncs(there=there))
    assert world.syncs(there=not there) == []


def _located(world: MappedWorld, *, there: bool) -> TaskSpec:
    spec = world.spec()
    location = {"offset-syncs.topic.location": "target" if there else "source", "target.cluster.bootstrap.servers": "b"}
    return replace(spec, config={**spec.config, **location})


@pytest.mark.kafka_test("OffsetSyncWriterTest.testFirePendingOffsetSyncs")
@pytest.mark.kafka_test("MirrorSourceTaskTest.testSendSyncEvent")
async def test_one_request_is_under_way_at_a_time_and_the_newest_sync_waits(world: MappedWorld) -> None:
    world.source.producers.delay = lambda: 0.1
    async with world.copying(world.spec(offset__lag__max="0")):
        for _ in range(10):
            world.records(5)
            await world.copied(5)
        await world.until(lambda: bool(world.syncs()) and world.syncs()[-1] == (49, 49))
    assert world.source.producers.most_in_flight == 1


async def test_nothing_is_written_or_read_where_syncs_are_off(world: MappedWorld) -> None:
    spec = world.spec()
    async with world.copying(replace(spec, config={**spec.config, "emit.offset-syncs.enabled": "false"})):
        world.records(10)
        await world.copied(10)
        await world.finish()
    assert (world.syncs(), world.segments, world.link.log_lines) == ([], [], [])
