"""Groups in front of a partition's first copied record, where a filter drops what is before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror_connect.connectors.translation.offset_range_index import Kind, Translation
from tests.fakes.mapped_task import MappedWorld
from tests.fakes.range_logs import offsets
from tests.fakes.source_cluster import Log

NO_TOMBSTONES = {
    "transforms": "drop",
    "transforms__drop__type": "org.apache.kafka.connect.transforms.Filter",
    "transforms__drop__predicate": "tombstone",
    "predicates": "tombstone",
    "predicates__tombstone__type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}
LETTERS = "letters"
OF_JSON = {
    "transforms": "hide",
    "transforms__hide__type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms__hide__fields": "card",
    "value__converter": "org.apache.kafka.connect.json.JsonConverter",
    "value__converter__schemas__enable": "false",
    "errors__tolerance": "all",
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> MappedWorld:
    made = MappedWorld()
    made.patch(monkeypatch)
    return made


def tombstones(world: MappedWorld, count: int) -> None:
    world.source.put("orders", *[(b"k", None)] * count)


async def test_a_group_in_front_of_the_first_kept_record_goes_on_there(world: MappedWorld) -> None:
    tombstones(world, 5)
    world.records(3)
    async with world.copying(world.spec(**NO_TOMBSTONES)):
        await world.copied(3)
    assert [world.index.translate(at) for at in (0, 3, 5, 6)] == [
        Translation(offset, Kind.EXACT) for offset in (0, 0, 0, 1)
    ]


async def test_while_all_is_dropped_groups_go_on_at_the_beginning_of_the_target(world: MappedWorld) -> None:
    tombstones(world, 5)
    async with world.copying(world.spec(**NO_TOMBSTONES)):
        await world.until(lambda: world.position == 4)
    assert [(each.before.upstream, each.ranges) for each in world.segments] == [(0, ())]
    found = [world.index.translate(at) for at in (0, 2, 5)]
    assert [each.offset for each in found if each] == [0, 0, 0]


async def test_nothing_more_is_written_while_all_is_dropped_and_the_next_task_still_knows_the_start(
    world: MappedWorld,
) -> None:
    for _ in range(3):
        async with world.copying(world.spec(**NO_TOMBSTONES)):
            for _ in range(2):
                tombstones(world, 2)
                await world.until(lambda: world.position == world.end - 1)
            await world.finish()
    assert len(world.segments) == 1
    world.records(3)
    async with world.copying(world.spec(**NO_TOMBSTONES)):
        await world.copied(3)
    assert offsets(world.index, 0, 1, 11, 12, 14) == [0, 0, 0, 0, 2]


async def test_a_link_that_drops_nothing_in_front_writes_no_start(world: MappedWorld) -> None:
    world.target.producers.delay = lambda: 0.05
    world.records(3)
    async with world.copying(world.spec()):
        await world.copied(3)
    assert all(each.ranges for each in world.segments)


async def test_what_retention_has_removed_before_copying_is_in_front_of_the_start(world: MappedWorld) -> None:
    log = world.source.logs["orders", 0]
    log.start = 100
    tombstones(world, 5)
    world.records(3)
    async with world.copying(world.spec(**NO_TOMBSTONES)):
        await world.copied(3)
    assert offsets(world.index, 99, 100, 104, 105) == [None, 0, 0, 0]


async def test_what_is_older_than_a_link_that_began_at_the_end_has_no_place(world: MappedWorld) -> None:
    world.records(10)
    spec = world.spec(**NO_TOMBSTONES)
    async with world.copying(replace(spec, source={**spec.source, "auto.offset.reset": "latest"})):
        await world.until(lambda: world.source.fetched > 0)
        tombstones(world, 5)
        world.records(3)
        await world.copied(3)
    assert offsets(world.index, 9, 10, 14, 15) == [None, 0, 0, 0]


async def test_a_topic_made_again_whose_first_records_are_dropped_has_a_start_of_its_own(world: MappedWorld) -> None:
    world.records(3)
    async with world.copying(world.spec(**NO_TOMBSTONES)):
        await world.copied(3)
        world.source.logs["orders", 0] = Log()
        world.source.ids["orders"] = b"n" * 16
        # More than the former topic had. So no offset that is copied shows that it is another one.
        tombstones(world, 10)
        await world.until(lambda: world.position == 9)
        assert world.index.belongs_to(b"n" * 16, b"t" * 16)
        world.records(2)
        await world.until(lambda: world.position == 11)
    assert offsets(world.index, 0, 9, 10, 11) == [3, 3, 3, 4]


@pytest.mark.parametrize("letters", [{}, {"errors__deadletterqueue__topic__name": LETTERS}], ids=["skipped", "letters"])
async def test_records_that_no_transformation_takes_are_in_front_like_dropped_ones(
    world: MappedWorld, letters: dict[str, str]
) -> None:
    world.target.topic(LETTERS)
    world.source.put("orders", *[(b"k", b"no JSON")] * 5)
    async with world.copying(world.spec(**OF_JSON, **letters)):
        await world.until(lambda: world.position == 4)
        assert offsets(world.index, 0) == [0]
    world.source.put("orders", *[(b"k", b'{"card": 1}')] * 3)
    async with world.copying(world.spec(**OF_JSON, **letters)):
        await world.copied(3)
    assert offsets(world.index, 0, 4, 5, 7) == [0, 0, 0, 2]
    assert len(world.target.records(LETTERS)) == (5 if letters else 0)
