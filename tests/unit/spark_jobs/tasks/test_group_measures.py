"""What a checkpoint task tells of groups that would fail over now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint, CheckpointMemory
from mirror_connect.connectors.task_measures import MOST_ROWS, GroupMeasures, GroupPartition, TaskMeasures, Window
from mirror_connect.connectors.translation.offset_ranges import OffsetRange, RangeLogState, Segment
from mirror_connect.connectors.translation.offset_translation import TranslatedPlace
from mirror_connect.spark_jobs.tasks.group_measures import GroupFigures
from mirror_connect.spark_jobs.tasks.group_sync import FoundAtTarget
from tests.fakes.writing_tasks import RANGES, World, running

THERE = TopicPartition("A.orders", 0)


def place(
    upstream: int, downstream: int | None, repeats: int = 0, group: str = "g", number: int = 0
) -> TranslatedPlace:
    checkpoint = None if downstream is None else Checkpoint(group, "A.orders", number, upstream, downstream)
    return TranslatedPlace(TopicPartition("orders", number), "A.orders", checkpoint, repeats)


def figures(*written: Checkpoint, group: str = "g") -> GroupFigures:
    memory = CheckpointMemory({group})
    memory.take(written)
    return GroupFigures(memory)


@pytest.mark.parametrize(
    ("written", "now", "at_target", "again", "skipped"),
    [
        pytest.param(Checkpoint("g", "A.orders", 0, 100, 200), place(100, 200), None, 0, 0, id="exactly_there"),
        pytest.param(Checkpoint("g", "A.orders", 0, 90, 190), place(100, 200), None, 10, 0, id="checkpoint_is_older"),
        pytest.param(Checkpoint("g", "A.orders", 0, 100, 200), place(100, 200, 7), None, 7, 0, id="coarse_translation"),
        pytest.param(Checkpoint("g", "A.orders", 0, 100, 200), place(100, 200), 150, 50, 0, id="not_synced_so_far"),
        pytest.param(
            Checkpoint("g", "A.orders", 0, 100, 200), place(60, 160), 200, 0, 40, id="went_back_at_the_source"
        ),
        pytest.param(Checkpoint("g", "A.orders", 0, 100, 200), place(5, None), None, None, None, id="not_translated"),
        pytest.param(None, place(100, 200), None, None, None, id="no_checkpoint_yet"),
        pytest.param(
            Checkpoint("g", "A.orders", 0, 100, 200), place(100, 200), -1, None, None, id="unknown_at_the_target"
        ),
    ],
)
def test_records_read_again_and_skipped(
    written: Checkpoint | None, now: TranslatedPlace, at_target: int | None, again: int | None, skipped: int | None
) -> None:
    told = figures(*([] if written is None else [written]))
    told.checked({"g": [now]}, 5)
    found = {}
    if at_target is not None:
        found["g"] = FoundAtTarget({THERE: at_target} if at_target >= 0 else {}, 9)
    groups, more = told.take(found)
    synced_ms = None if at_target is None else 9
    assert groups == (GroupMeasures("g", 5, synced_ms, (GroupPartition("orders", 0, "A.orders", again, skipped),)),)
    assert more == 0
    assert told.take({}) == ((), 0)


def test_checkpoint_latency_is_told_once() -> None:
    checkpoint = Checkpoint("g", "A.orders", 0, 100, 200)
    told = figures(checkpoint)
    told.checked({"g": [place(100, 200)]}, 5)
    told.wrote([checkpoint], 12)
    told.wrote([checkpoint], 8)
    assert told.take({})[0][0].partitions[0].latency == Window(8, 12, 20, 2)
    told.synced()
    assert told.take({})[0][0].partitions[0].latency is None


def test_thousands_of_groups_come_in_turns() -> None:
    told = figures()
    told.checked({f"g{n}": [place(1, 1, group=f"g{n}", number=p) for p in range(3)] for n in range(1_000)}, 5)
    seen: list[str] = []
    more = 1
    while more:
        groups, more = told.take({})
        assert 0 < sum(len(each.partitions) for each in groups) <= MOST_ROWS + 3
        seen += [each.group for each in groups]
    assert sorted(seen) == sorted(f"g{n}" for n in range(1_000))


def test_a_group_that_is_gone_is_told_without_partitions() -> None:
    told = figures()
    told.checked({"g": [place(1, 1)]}, 5)
    told.take({})
    told.checked({}, 6)
    assert told.take({}) == ((GroupMeasures("g", 6, None, ()),), 0)


async def test_a_task_tells_what_a_coarse_translation_repeats(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.until(lambda: _last(task.link.measures) is not None)
        await asyncio.sleep(0.6)
        found = _last(task.link.measures)
        await task.finish()
    assert found is not None
    # The sync is of 100: 101 to 149 may be read again.
    assert found.partitions[0][:5] == ("orders", 0, "A.orders", 49, 0)
    assert any(report.connections == (2, 3) for report in task.link.measures)


async def test_a_task_tells_that_offset_ranges_repeat_nothing(world: World) -> None:
    world.target.topic(RANGES)
    segment = Segment("orders", 0, 0, 0, bytes(16), bytes(16), RangeLogState(), (OffsetRange(0, 50, 400),))
    world.target.put(RANGES, (segment.key(), segment.value()))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await asyncio.sleep(0.6)
        found = _last(task.link.measures)
        await task.finish()
    assert world.checkpoints == [("g", 150, 200)]
    assert found is not None
    assert found.partitions[0][:5] == ("orders", 0, "A.orders", 0, 0)


async def test_a_checkpoint_right_before_the_end_is_told_with_its_latency(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        # The task measures twice a second: it is not asked to meanwhile.
        task.link.measures_wanted = False
        await task.until(lambda: task.link.counters.get("records"))
        await task.finish()
    assert len(task.link.measures) == 1
    found = _last(task.link.measures)
    assert found is not None
    latency = found.partitions[0].latency
    assert latency is not None
    assert latency.count == 1


def _last(measures: Sequence[TaskMeasures]) -> GroupMeasures | None:
    return next((group for report in reversed(measures) for group in report.groups), None)
