"""Topics of offset syncs and runs that are missing or refuse: told once each, and they hold no record and no position up."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_runs import Run, RunRecorder, Segment, Standing
from mirror_connect.kafka_io.protocol.wire import Produce
from mirror_connect.spark_jobs.mapping.offset_runs_writer import OffsetRuns
from mirror_connect.spark_jobs.mapping.partition_runs import PartitionRuns
from tests.fakes.mapped_task import RUNS, SYNCS, MappedWorld
from tests.fakes.source_task import OFFSETS
from tests.fakes.target_cluster import lost

DENIED, REFUSED = 29, 87


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> MappedWorld:
    made = MappedWorld()
    made.patch(monkeypatch)
    return made


def on(topic: str, error: int) -> Callable[[Produce], int]:
    return lambda request: error if any(batch.topic == topic for batch in request.batches) else 0


async def test_a_topic_of_runs_that_may_not_be_written_holds_nothing_up(world: MappedWorld) -> None:
    world.target.producers.before = on(RUNS, DENIED)
    async with world.copying(world.spec()):
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert world.notices("takes no offset runs") == [
            f"Topic {RUNS} on the target takes no offset runs at present: positions are committed without them"
        ]


async def test_runs_that_could_not_be_written_follow(world: MappedWorld) -> None:
    world.target.producers.before = on(RUNS, 7)
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        world.target.producers.before = lambda _request: 0
        await world.until(lambda: world.index.translate(9) is not None)
        await world.until(lambda: bool(world.notices("are written again")))
    assert world.index.translate(9).offset == 9  # type: ignore[union-attr]


async def test_after_a_topic_was_late_positions_wait_for_their_runs_again(world: MappedWorld) -> None:
    world.target.producers.before = on(RUNS, 7)
    sent, unanswered = 0, []

    def watch(request: Produce) -> int:
        nonlocal sent
        topics = [batch.topic for batch in request.batches]
        sent += RUNS in topics
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


async def test_a_topic_that_refuses_runs_ends_them_and_nothing_else(world: MappedWorld) -> None:
    world.target.producers.before = on(RUNS, REFUSED)
    async with world.copying(world.spec()):
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert len(world.notices("Offset runs are not recorded until this task starts again")) == 1


async def test_runs_that_are_not_recorded_any_more_take_no_room(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[PartitionRuns] = []
    add = OffsetRuns.add

    def added(self: OffsetRuns, partition: TaskPartition, reading_from: int | None) -> PartitionRuns:
        runs.append(add(self, partition, reading_from))
        return runs[-1]

    monkeypatch.setattr(OffsetRuns, "add", added)
    world.target.producers.before = on(RUNS, REFUSED)
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: bool(world.notices("Offset runs are not recorded")))
        (partition,) = runs
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
    hostile = Segment("orders", 0, number, number, b"x" * 16, b"y" * 16, Standing(), (Run(0, 0, 5),))
    world.target.put(RUNS, (hostile.key(), hostile.value()))
    for _ in range(2):
        async with world.copying(world.spec()):
            world.records(20)
            await world.copied(20)
            await world.finish()
    newest = Segment.decode(*world.target.records(RUNS)[-1])
    assert (newest.number, [tuple(run)[:3] for run in newest.runs]) == (0, [(0, 0, 40)])


async def test_an_error_of_the_runs_ends_them_and_nothing_else(
    world: MappedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        monkeypatch.setattr(RunRecorder, "changed", lambda _recorder: struct.pack(">q", 2**63))
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert world.position == 39
        assert len(world.notices("Offset runs are not recorded until this task starts again")) == 1
        assert len(world.segments) == 1


async def test_missing_topics_are_told_once_each_and_hold_nothing_up(world: MappedWorld) -> None:
    del world.source.logs[SYNCS, 0], world.target.logs[RUNS, 0]
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: len(world.link.notices) >= 2)
        await world.until(lambda: len(world.link.standing) == 2)
        assert set(world.link.standing) == set(world.link.notices)
        world.records(10)
        await world.copied(20)
        await asyncio.sleep(0.2)
    assert len(world.notices(f"Topic {RUNS} can't be read on the target: it doesn't exist")) == 1
    assert len(world.notices(f"can't be written to topic {SYNCS} on the source cluster A: it does not exist")) == 1


async def test_syncs_that_may_not_be_written_are_told_once_and_follow_when_they_may(world: MappedWorld) -> None:
    world.source.producers.before = lambda _request: DENIED
    async with world.copying(world.spec(offset__lag__max="0")):
        for _ in range(5):
            world.records(10)
            await world.copied(10)
        told = f"not authorized: grant WRITE on topic {SYNCS} to the source user"
        await world.until(lambda: bool(world.notices(told)))
        await world.until(lambda: any(told in line for line in world.link.standing))
        world.source.producers.before = lambda _request: 0
        await world.until(lambda: bool(world.syncs()) and world.syncs()[-1] == (49, 49))
        await world.until(lambda: bool(world.notices("Offset syncs are written again")))
        await world.until(lambda: world.link.standing == ())
    assert len(world.notices("Offset syncs can't be written")) == 1
    assert world.syncs() == sorted(world.syncs())


async def test_a_source_that_is_away_for_syncs_alone_stops_no_record(world: MappedWorld) -> None:
    world.source.producers.before = lambda _request: (_ for _ in ()).throw(lost())  # type: ignore[return-value]
    async with world.copying(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: bool(world.notices("Offset syncs can't be written")))
