"""The newest segments that earlier tasks have left: what is read of their topic, and what ends the reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.records.binary import INT32
from mirror_connect.spark_jobs.mapping import offset_ranges_reader
from mirror_connect.spark_jobs.mapping.offset_ranges_reader import read_newest
from tests.fakes.mapped_task import RANGES
from tests.fakes.whole_cluster import FakeBroker, FakeCluster

TOPIC_DENIED = 29


class World:
    """A target with the topic of ranges. `ended`: how often a connection was closed."""

    def __init__(self) -> None:
        self.target = FakeBroker()
        self.target.topic(RANGES)
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

    async def read(self, *wanted: bytes) -> Mapping[bytes, tuple[bytes, bytes]] | None:
        properties = {"bootstrap.servers": "b", "fetch.max.wait.ms": "60000"}
        return await read_newest(properties, "reader", RANGES, wanted, self.lines.append)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(offset_ranges_reader, "Cluster", made.cluster)
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
