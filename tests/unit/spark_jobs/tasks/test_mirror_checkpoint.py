"""A checkpoint task between clusters in memory: what it translates, writes and moves."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.translation import offset_translation
from mirror_connect.connectors.translation.offset_ranges import OffsetRange, RangeLogState, Segment
from mirror_connect.connectors.translation.offset_sync_store import OffsetSyncStore
from tests.fakes.writing_tasks import (
    CHECKPOINTS,
    DENIED,
    NO_LEADER,
    RANGES,
    SLOW,
    SYNCS,
    World,
    running,
)


async def test_the_news_of_a_round_are_written_once(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.rounds()
        await task.finish()
    assert (world.checkpoints, [json.loads(place)[1] for place in world.places]) == (
        [("g", 150, 201)],
        [{"partition": 0, "topic": "A.orders", "group": "g"}],
    )


async def test_what_a_process_left_out_of_connect_offsets_after_a_checkpoint_the_next_one_writes(world: World) -> None:
    world.syncs((100, 200))
    world.checkpointed((150, 201))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.places)
        await task.rounds()
        await task.finish()
    assert (world.checkpoints, [json.loads(place)[1] for place in world.places]) == (
        [("g", 150, 201)],
        [{"partition": 0, "topic": "A.orders", "group": "g"}],
    )


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointStoreInitialized")
async def test_nothing_is_told_before_the_syncs_have_been_read(world: World) -> None:
    world.syncs((100, 200))
    log = world.source.logs[SYNCS, 0]
    log.errors = [NO_LEADER] * 1_000_000
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.rounds()
        assert world.checkpoints == []
        log.errors.clear()
        await task.until(lambda: world.checkpoints)


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints")
async def test_after_a_restart_a_coarser_translation_takes_nobody_back(world: World) -> None:
    world.checkpointed((240, 230))
    world.commits("g", 250)
    world.syncs((200, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.rounds()
        world.syncs((375, 375))
        world.commits("g", 400)
        await task.until(lambda: len(world.checkpoints) > 1)
    assert world.checkpoints == [("g", 240, 230), ("g", 400, 376)]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds")
async def test_a_group_that_went_back_at_the_source_is_followed(world: World) -> None:
    world.syncs((0, 0), (100, 100))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        world.commits("g", 50)
        await task.until(lambda: len(world.checkpoints) > 1)
    assert world.checkpoints == [("g", 150, 101), ("g", 50, 1)]


async def test_a_group_that_cannot_be_read_is_named_once_and_the_others_are_translated(world: World) -> None:
    world.syncs((100, 200))
    world.commits("h", 100)
    world.source.denied.add("g")
    async with running(world, world.spec("Checkpoint", "g", "h")) as task:
        await task.until(lambda: world.checkpoints and task.link.log_lines)
        await task.rounds()
        assert (world.checkpoints, task.link.log_lines) == (
            [("h", 100, 200)],
            [
                "Group g can't be read at the source: not authorized to read the committed offsets of group g: grant "
                "DESCRIBE on group g to the source user; the others are translated"
            ],
        )


async def test_a_source_that_goes_away_is_named_once_and_waited_for(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        world.source.away = True
        await task.until(lambda: any("paused" in line for line in task.link.log_lines))
        await task.rounds()
        world.commits("g", 100)
        world.source.away = False
        await task.until(lambda: len(world.checkpoints) > 1)
        assert len([line for line in task.link.log_lines if "paused" in line]) == 1


async def test_a_source_that_goes_away_is_a_line_of_the_status_until_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(problems, "SHOWN_AFTER_S", 0.0)
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        world.source.away = True
        await task.until(lambda: task.link.problem_lines)
        (line,) = task.link.problem_lines
        world.source.away = False
        await task.until(lambda: not task.link.problem_lines)
    assert line.startswith("Offset translation is paused since ")
    assert ": no broker answers at fake:1; " in line


@pytest.mark.kafka_test("CheckpointStoreTest.testReadCheckpointsTopicError")
async def test_where_earlier_checkpoints_cannot_be_read_only_new_syncs_count(world: World) -> None:
    world.syncs((0, 0), (1000, 1000))
    world.commits("h", 1000)
    world.target.logs[CHECKPOINTS, 0].errors = [DENIED] * 1_000_000
    async with running(world, world.spec("Checkpoint", "g", "h")) as task:
        await task.until(lambda: world.checkpoints)
        assert world.checkpoints == [("h", 1000, 1000)]
        assert any(
            "grant READ on topic A.checkpoints.internal to the target user" in line for line in task.link.log_lines
        )
        await task.until(lambda: len(task.link.problem_lines) == 1)
        assert "grant READ on topic A.checkpoints.internal to the target user" in task.link.problem_lines[0]


async def test_offset_syncs_that_do_not_exist_yet_are_named_once_and_read_when_they_do(world: World) -> None:
    log = world.source.logs.pop((SYNCS, 0))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: task.link.log_lines)
        await task.rounds()
        assert [
            line for line in task.link.log_lines if "doesn't exist on the source cluster" in line
        ] == task.link.log_lines
        assert len(task.link.log_lines) == 1
        world.source.logs[SYNCS, 0] = log
        world.syncs((100, 200))
        await task.until(lambda: world.checkpoints)


@pytest.mark.parametrize(("topic", "hidden"), [("parcels", False), ("orders", True)])
async def test_without_offset_syncs_the_status_says_so_unless_there_are_ranges_of_a_topic_with_groups(
    world: World, monkeypatch: pytest.MonkeyPatch, topic: str, hidden: bool
) -> None:
    monkeypatch.setattr(problems, "SHOWN_AFTER_S", 0.0)
    del world.source.logs[SYNCS, 0]
    world.target.topic(RANGES)
    segment = Segment(topic, 0, 0, 0, b"x" * 16, b"y" * 16, RangeLogState(), (OffsetRange(0, 0, 5),))
    world.target.put(RANGES, (segment.key(), segment.value()))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        if hidden:
            await task.until(lambda: task.link.log_lines)
            await task.rounds()
            assert task.link.problem_lines == ()
            (notice,) = task.link.log_lines
            assert notice.endswith(
                "offsets are translated by offset ranges alone, and those outside all ranges are not"
            )
        else:
            await task.until(lambda: task.link.problem_lines)
            (line,) = task.link.problem_lines
            assert f"topic {SYNCS} doesn't exist on the source cluster: nothing can be translated before a " in line


async def test_records_that_cannot_be_read_are_passed_over_and_named_once(world: World) -> None:
    world.source.put(SYNCS, (b"?", b"?"), (b"?", None))
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        assert len(task.link.log_lines) == 1


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(OffsetSync("orders", 0, 120, 2**63 - 1), id="offset"),
        # Longer than any topic's name, and one that five `.*` match in very many ways.
        pytest.param(OffsetSync("-prod--v1--eu-" * 2300, 0, 1, 1), id="name"),
    ],
)
async def test_a_sync_that_nothing_can_be_is_passed_over(world: World, hostile: OffsetSync) -> None:
    world.syncs((100, 200))
    world.source.put(SYNCS, (hostile.key(), hostile.value()))
    spec = world.spec("Checkpoint", "g", topics=".*-prod-.*-v[0-9]+-.*-eu-.*-live|orders")
    async with running(world, spec) as task:
        await task.until(lambda: world.checkpoints)
        assert (world.checkpoints, len(task.link.log_lines)) == ([("g", 150, 201)], 1)


@pytest.mark.parametrize("where", ["of_syncs", "of_ranges"])
async def test_a_made_up_name_holds_nothing_up_whatever_the_expressions_are(world: World, where: str) -> None:
    world.syncs((100, 200))
    name = "a" * 200
    if where == "of_syncs":
        hostile = OffsetSync(name, 0, 5, 7)
        world.source.put(SYNCS, (hostile.key(), hostile.value()))
    else:
        world.target.topic(RANGES)
        segment = Segment(name, 0, 0, 0, b"x" * 16, b"y" * 16, RangeLogState(), (OffsetRange(0, 0, 5),))
        world.target.put(RANGES, (segment.key(), segment.value()))
    async with running(world, world.spec("Checkpoint", "g", topics=f"orders,{SLOW}")) as task:
        await task.until(lambda: world.checkpoints)
        assert world.checkpoints == [("g", 150, 201)]


async def test_a_topic_that_an_expression_is_slow_for_is_judged_beside_the_loop(world: World) -> None:
    world.source.groups["g"] = {("orders", 0): (150, ""), ("a" * 200, 0): (1, "")}
    world.syncs((100, 200))
    loop, longest, last = asyncio.get_running_loop(), 0.0, asyncio.get_running_loop().time()
    async with running(world, world.spec("Checkpoint", "g", topics=f"orders,{SLOW}")) as task:
        while not task.task.done():
            await asyncio.sleep(0.01)
            now = loop.time()
            longest, last = max(longest, now - last), now
        with pytest.raises(ConfigError, match="takes more than 1 s"):
            task.task.result()
    assert longest < 0.7


async def test_more_made_up_partitions_than_there_can_be_are_told_of_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_translation, "MOST_PARTITIONS", 10)
    made_up = [OffsetSync(f"t{number}", 0, 5, 7) for number in range(30)]
    world.source.put(SYNCS, *((each.key(), each.value()) for each in made_up))
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.rounds()
        told = [line for line in task.link.log_lines if "more than 10 partitions" in line]
    assert (world.checkpoints, len(told)) == ([("g", 150, 201)], 1)


@pytest.mark.parametrize("error", [ValueError, OverflowError, struct.error])
async def test_a_sync_that_the_translator_stumbles_over_is_passed_over(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    insert = OffsetSyncStore.insert

    def stumbles(store: OffsetSyncStore, sync: OffsetSync) -> None:
        if sync.upstream == 120:
            raise error("too much")
        insert(store, sync)

    monkeypatch.setattr(OffsetSyncStore, "insert", stumbles)
    world.syncs((100, 200), (120, 220), (140, 240))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        assert world.checkpoints == [("g", 150, 241)]
        assert [line for line in task.link.log_lines if line.endswith("the first at 1: too much")]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffset")
async def test_groups_are_moved_on_after_the_first_round(world: World) -> None:
    world.syncs((100, 200))
    synced = world.spec("Checkpoint", "g", sync__group__offsets__enabled="true")
    async with running(world, synced) as task:
        await task.until(lambda: world.target.groups)
    assert world.target.groups == {"g": {("A.orders", 0): (201, "")}}


async def test_groups_are_moved_on_although_the_source_is_gone(world: World) -> None:
    world.checkpointed((240, 230))
    world.source.away = True
    synced = world.spec("Checkpoint", "g", sync__group__offsets__enabled="true")
    async with running(world, synced) as task:
        await task.until(lambda: world.target.groups)
    assert world.target.groups == {"g": {("A.orders", 0): (230, "")}}


async def test_groups_are_left_alone_unless_that_is_asked_for(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.rounds()
    assert world.target.groups == {}


@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testConsumerConfigsForOffsetSyncsTopic")
async def test_syncs_are_read_from_the_target_if_that_is_their_place(world: World) -> None:
    topic = "mm2-offset-syncs.A.internal"
    world.target.topic(topic)
    sync = OffsetSync("orders", 0, 100, 200)
    world.target.put(topic, (sync.key(), sync.value()))
    placed = {"offset-syncs.topic.location": "target"}
    async with running(world, world.spec("Checkpoint", "g", **placed)) as task:
        await task.until(lambda: world.checkpoints)
    assert world.checkpoints == [("g", 150, 201)]
