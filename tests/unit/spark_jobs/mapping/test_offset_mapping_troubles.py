"""Missing or refusing topics of offset syncs and ranges: logged once each; no record or offset waits for them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_ranges import OffsetRange, RangeLogState, RangeRecorder, Segment
from mirror_connect.kafka_io.protocol.produce import Produce
from mirror_connect.spark_jobs.mapping.offset_ranges_writer import OffsetRangesWriter
from mirror_connect.spark_jobs.mapping.partition_ranges import PartitionRanges
from tests.fakes.mapped_task import RANGES, SYNCS, MappedWorld
from tests.fakes.source_task import OFFSETS
from tests.fakes.target_cluster import lost
from tests.fakes.whole_cluster import FakeCluster

DENIED, REFUSED = 29, 87


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> MappedWorld:
    made = MappedWorld()
    made.patch(monkeypatch)
    return made


def on(topic: str, error: int) -> Callable[[Produce], int]:
    return lambda request: error if any(batch.topic == topic for batch in request.batches) else 0


async def test_a_topic_of_ranges_that_may_not_be_written_holds_nothing_up(world: MappedWorld) -> None:
    world.target.producers.before = on(RANGES, DENIED)
    async with world.copying(world.spec()):
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert world.notices("accepts no offset ranges") == [
            f"Topic {RANGES} on the target accepts no offset ranges at present: source offsets are committed without them"
        ]


async def test_ranges_that_could_not_be_written_follow(world: MappedWorld) -> None:
    world.target.producers.before = on(RANGES, 7)
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: world.link.counters.get("commits", 0) > 0)
        world.target.producers.before = lambda _request: 0
        await world.until(lambda: (found := world.index.translate(9)) is not None and found.offset == 9)
        await world.until(lambda: bool(world.notices("are written again")))
    assert world.index.translate(9).offset == 9  # type: ignore[union-attr]


async def test_after_a_topic_was_late_positions_wait_for_their_ranges_again(world: MappedWorld) -> None:
    world.target.producers.before = on(RANGES, 7)
    sent, unanswered = 0, []

    def watch(request: Produce) -> int:
        nonlocal sent
        topics = [batch.topic for batch in request.batches]
        sent += RANGES in topics
        if OFFSETS in topics:
            unanswered.append(sent - world.link.counters.get("runs", 0))
        return 0

    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        world.target.producers.delay = lambda: 0.03
        world.target.producers.before = watch
        for _ in range(50):
            world.records(10)
            await asyncio.sleep(0.02)
    assert (len(unanswered) > 10, set(unanswered[-5:])) == (True, {0})


async def test_a_topic_that_refuses_ranges_ends_them_and_nothing_else(world: MappedWorld) -> None:
    world.target.producers.before = on(RANGES, REFUSED)
    async with world.copying(world.spec()):
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert len(world.notices("Offset ranges are not recorded until this task starts again")) == 1


async def test_ranges_that_are_not_recorded_any_more_take_no_room(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges: list[PartitionRanges] = []
    add = OffsetRangesWriter.add

    def added(self: OffsetRangesWriter, partition: TaskPartition, reading_from: int | None) -> PartitionRanges:
        ranges.append(add(self, partition, reading_from))
        return ranges[-1]

    monkeypatch.setattr(OffsetRangesWriter, "add", added)
    world.target.producers.before = on(RANGES, REFUSED)
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: bool(world.notices("Offset ranges are not recorded")))
        (partition,) = ranges
        kept = []
        for number in range(2, 30):
            recorder = partition.recorder
            if recorder is not None:
                # Each time a new segment begins.
                recorder.topics_are(b"%16d" % number, b"t" * 16)
            world.records(10)
            await world.copied(10 * number)
            kept.append(0 if recorder is None else len(recorder._finished))
    assert max(kept) == 0


@pytest.mark.parametrize("number", [2**62, 2**63 - 1])
async def test_a_segment_that_was_made_up_holds_no_record_up(world: MappedWorld, number: int) -> None:
    hostile = Segment("orders", 0, number, number, b"x" * 16, b"y" * 16, RangeLogState(), (OffsetRange(0, 0, 5),))
    world.target.put(RANGES, (hostile.key(), hostile.value()))
    for _ in range(2):
        async with world.copying(world.spec()):
            world.records(20)
            await world.copied(20)
            await world.finish()
    newest = Segment.decode(*world.target.records(RANGES)[-1])
    assert (newest.number, [tuple(offset_range)[:3] for offset_range in newest.ranges]) == (0, [(0, 0, 40)])


async def test_an_error_of_the_ranges_ends_them_and_nothing_else(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        monkeypatch.setattr(RangeRecorder, "changed", lambda _recorder: struct.pack(">q", 2**63))
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert world.position == 39
        assert len(world.notices("Offset ranges are not recorded until this task starts again")) == 1
        assert len(world.segments) == 1


async def test_missing_topics_are_told_once_each_and_hold_nothing_up(world: MappedWorld) -> None:
    del world.source.logs[SYNCS, 0], world.target.logs[RANGES, 0]
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: len(world.link.log_lines) >= 2)
        await world.until(lambda: len(world.link.problem_lines) == 2)
        assert set(world.link.problem_lines) == set(world.link.log_lines)
        world.records(10)
        await world.copied(20)
        await asyncio.sleep(0.2)
    assert len(world.notices(f"Topic {RANGES} can't be read on the target: it doesn't exist")) == 1
    assert len(world.notices(f"can't be written to topic {SYNCS} on the source cluster A: it does not exist")) == 1


async def test_syncs_that_may_not_be_written_are_told_once_and_follow_when_they_may(world: MappedWorld) -> None:
    world.source.producers.before = lambda _request: DENIED
    async with world.copying(world.spec(offset__lag__max="0")):
        for _ in range(5):
            world.records(10)
            await world.copied(10)
        told = f"not authorized: grant WRITE on topic {SYNCS} to the source user"
        await world.until(lambda: bool(world.notices(told)))
        await world.until(lambda: any(told in line for line in world.link.problem_lines))
        world.source.producers.before = lambda _request: 0
        await world.until(lambda: bool(world.syncs()) and world.syncs()[-1] == (49, 49))
        await world.until(lambda: bool(world.notices("Offset syncs are written again")))
        await world.until(lambda: world.link.problem_lines == ())
    assert len(world.notices("Offset syncs can't be written")) == 1
    assert world.syncs() == sorted(world.syncs())


async def test_a_source_that_is_away_for_syncs_alone_stops_no_record(world: MappedWorld) -> None:
    world.source.producers.before = lambda _request: (_ for _ in ()).throw(lost())  # type: ignore[return-value]
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: bool(world.notices("Offset syncs can't be written")))


async def test_the_leaders_of_its_own_topics_are_looked_up_with_those_of_the_remote_ones(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh, read = FakeCluster.refresh, []

    async def spied(cluster: FakeCluster, topics: Iterable[str]) -> None:
        read.append(set(topics))
        await refresh(cluster, topics)

    monkeypatch.setattr(FakeCluster, "refresh", spied)
    async with world.copying(world.spec()):
        await world.until(lambda: {"A.orders", OFFSETS, RANGES} in read)
    assert not world.target.producers.requests
