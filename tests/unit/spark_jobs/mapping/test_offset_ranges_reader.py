"""The newest segments that earlier tasks have left: what is read of their topic, and what ends the reading."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.records.binary import INT32
from mirror_connect.spark_jobs.mapping import offset_ranges_reader
from mirror_connect.spark_jobs.mapping.offset_ranges_reader import read_newest
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS
from tests.fakes.mapped_task import RANGES
from tests.fakes.whole_cluster import FakeBroker, FakeCluster

TOPIC_DENIED = 29


class World:
    """A target with the topic of ranges. `ended`: how often a connection was closed."""

    def __init__(self) -> None:
        self.target = FakeBroker()
        self.target.topic(RANGES)
        self.target.ids[RANGES] = b"r" * 16
        self.lines: list[str] = []
        self.ended = 0
        self.made: list[FakeCluster] = []

    def cluster(self, properties: Mapping[str, str], client_id: str) -> FakeCluster:
        world = self

        class Cluster(FakeCluster):
            async def close(self) -> None:
                world.ended += 1

        self.made.append(Cluster(self.target))
        return self.made[-1]

    def offsets_asked(self) -> list[int]:
        """Where each reading began."""
        return [
            partition.offset
            for made in self.made
            for _, request in made.fetches[:1]
            for partition in request.partitions
        ]

    async def read(self, *wanted: bytes) -> Mapping[bytes, tuple[bytes, bytes]] | None:
        properties = {"bootstrap.servers": "b", "fetch.max.wait.ms": "60000"}
        return await read_newest(properties, "reader", RANGES, wanted, self.lines.append)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(offset_ranges_reader, "Cluster", made.cluster)
    monkeypatch.setattr(offset_ranges_reader, "_topics", {})
    return made


def in_slot(prefix: bytes, slot: int) -> bytes:
    return prefix + INT32.pack(slot)


async def test_the_last_record_of_each_partition_is_its_newest_segment_in_whichever_slot(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 7), b"1"), (in_slot(b"b", 0), b"2"), (in_slot(b"a", 3), b"3"))
    assert await world.read(b"a", b"b") == {b"a": (in_slot(b"a", 3), b"3"), b"b": (in_slot(b"b", 0), b"2")}


async def test_other_partitions_are_left_out(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"), (in_slot(b"c", 0), b"2"))
    assert list(await world.read(b"a") or ()) == [b"a"]


async def test_records_without_key_or_value_are_no_segments(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"), (in_slot(b"a", 1), None), (None, b"2"))
    assert await world.read(b"a") == {b"a": (in_slot(b"a", 0), b"1")}


async def test_an_empty_topic_has_no_segments_and_is_read_at_once(world: World) -> None:
    assert await world.read(b"a") == {}
    # A broker answers when the wait is over. The first commit of a new connector waits for that.
    assert {request.max_wait_ms <= 20 for made in world.made for _, request in made.fetches} == {True}


async def test_without_the_topic_there_is_no_answer(world: World) -> None:
    del world.target.logs[RANGES, 0]
    assert await world.read(b"a") is None


async def test_a_missing_right_to_read_is_an_error(world: World) -> None:
    world.target.logs[RANGES, 0].errors = [TOPIC_DENIED] * 1_000
    with pytest.raises(NotAuthorized, match=f"grant READ on topic {RANGES} to the target user"):
        await world.read(b"a")


async def test_refused_credentials_end_the_reading(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> Any:
        raise NotAuthorized("the cluster refused the login")

    monkeypatch.setattr(FakeCluster, "_fetch", refuse)
    with pytest.raises(NotAuthorized, match="refused the login"):
        await world.read(b"a")


async def test_an_unreachable_target_is_an_error(world: World) -> None:
    world.target.away = True
    with pytest.raises(ClusterUnreachable):
        await world.read(b"a")


@pytest.mark.parametrize("away", [False, True], ids=["read", "unreachable"])
async def test_its_connection_is_closed_however_it_ends(world: World, away: bool) -> None:
    world.target.away = away
    try:
        await world.read(b"a")
    except ClusterUnreachable:
        assert away
    assert world.ended == 1


async def test_the_next_reading_goes_on_where_the_last_one_ended(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"), (in_slot(b"b", 0), b"2"), (in_slot(b"c", 0), b"3"))
    assert await world.read(b"a") == {b"a": (in_slot(b"a", 0), b"1")}
    # What other tasks wrote meanwhile, in any process.
    world.target.put(RANGES, (in_slot(b"b", 1), b"4"), (in_slot(b"a", 0), b"5"))
    assert await world.read(b"b", b"a") == {b"b": (in_slot(b"b", 1), b"4"), b"a": (in_slot(b"a", 0), b"5")}
    # Another task's partition, which nobody here has asked for before.
    assert await world.read(b"c") == {b"c": (in_slot(b"c", 0), b"3")}
    assert world.offsets_asked() == [0, 3, 5]


async def test_another_topic_of_that_name_is_read_from_its_beginning(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"), (in_slot(b"b", 0), b"2"))
    await world.read()
    del world.target.logs[RANGES, 0]
    world.target.topic(RANGES)
    world.target.ids[RANGES] = b"n" * 16
    world.target.put(RANGES, *[(in_slot(b"c", 0), b"3")] * 3)
    assert await world.read(b"a", b"c") == {b"c": (in_slot(b"c", 0), b"3")}
    assert (world.offsets_asked()[0], world.offsets_asked()[-1]) == (0, 0)


async def test_another_topic_of_that_name_that_is_empty_has_nothing_of_the_former(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    await world.read()
    del world.target.logs[RANGES, 0]
    world.target.topic(RANGES)
    world.target.ids[RANGES] = b"n" * 16
    assert await world.read(b"a") == {}


@pytest.mark.parametrize("again", [0, 1, 2, 5], ids=lambda count: f"then_{count}_others")
async def test_after_a_truncation_nothing_is_left_of_what_was_lost(world: World, again: int) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"), (in_slot(b"b", 0), b"2"), (in_slot(b"b", 1), b"3"))
    await world.read()
    log = world.target.logs[RANGES, 0]
    log.truncate(2)
    log.epoch += 1
    world.target.put(RANGES, *[(in_slot(b"c", 0), b"4")] * again)
    others = {b"c": (in_slot(b"c", 0), b"4")} if again else {}
    assert await world.read(b"a", b"b", b"c") == {
        b"a": (in_slot(b"a", 0), b"1"),
        b"b": (in_slot(b"b", 0), b"2"),
        **others,
    }


async def test_where_records_were_deleted_by_hand_the_topic_is_read_from_its_beginning(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    await world.read()
    world.target.put(RANGES, (in_slot(b"a", 1), b"2"), (in_slot(b"b", 0), b"3"))
    world.target.logs[RANGES, 0].start = 2
    assert await world.read(b"a", b"b") == {b"b": (in_slot(b"b", 0), b"3")}


async def test_without_the_newest_segment_the_one_before_is_looked_up_in_the_whole_topic(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"), (in_slot(b"a", 1), b"2"))
    await world.read()
    # As after a compaction, of a segment that somebody deleted.
    log = world.target.logs[RANGES, 0]
    world.target.put(RANGES, (in_slot(b"a", 1), None))
    del log.batches[1]
    assert await world.read(b"a") == {b"a": (in_slot(b"a", 0), b"1")}


async def test_without_topic_ids_each_reading_is_a_whole_one(world: World) -> None:
    del world.target.ids[RANGES]
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    for _ in range(2):
        assert await world.read(b"a") == {b"a": (in_slot(b"a", 0), b"1")}
    assert world.offsets_asked() == [0, 0]


async def test_after_a_reading_that_failed_the_topic_is_read_from_its_beginning(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    await world.read()
    world.target.logs[RANGES, 0].errors = [TOPIC_DENIED] * 1_000
    with pytest.raises(NotAuthorized):
        await world.read(b"a")
    world.target.logs[RANGES, 0].errors = []
    assert await world.read(b"a") == {b"a": (in_slot(b"a", 0), b"1")}
    assert world.offsets_asked()[-1] == 0


async def test_who_logs_in_as_somebody_else_gets_nothing_that_others_read(world: World) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    await world.read()
    await read_newest({"bootstrap.servers": "b", "sasl.jaas.config": "x"}, "reader", RANGES, (), world.lines.append)
    assert world.offsets_asked() == [0, 0]


async def test_tasks_that_start_together_share_their_readings(world: World) -> None:
    """Those that ask while it is read share the next reading, as records may have come in the meantime."""
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    first = asyncio.create_task(world.read(b"a"))
    while not world.made:
        await asyncio.sleep(0)
    others = [asyncio.create_task(world.read(b"a")) for _ in range(8)]
    await asyncio.sleep(0)
    world.target.put(RANGES, (in_slot(b"a", 1), b"2"))
    assert [await each for each in others] == [{b"a": (in_slot(b"a", 1), b"2")}] * 8
    await first
    assert len(world.made) == 2


async def test_what_nobody_asks_for_any_more_is_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.target.put(RANGES, (in_slot(b"a", 0), b"1"))
    await world.read()
    later = time.monotonic() + 2 * EPOCH_SECONDS + 1
    monkeypatch.setattr(offset_ranges_reader, "time", SimpleNamespace(monotonic=lambda: later))
    await read_newest({"bootstrap.servers": "c"}, "reader", RANGES, (), world.lines.append)
    assert len(offset_ranges_reader._topics) == 1
