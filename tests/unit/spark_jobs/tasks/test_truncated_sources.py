"""A source task whose source is truncated and grows again: what it copies, commits and reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import pytest

from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition
from mirror_connect.connectors.records.source_offsets import parse_source_offset_headers, parse_source_offset_value
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_translation import OffsetTranslator
from mirror_connect.kafka_io.producer import sender
from mirror_connect.spark_jobs.copy import stalled_partitions
from mirror_connect.spark_jobs.copy.stalled_partitions import StalledPartitions
from tests.fakes.source_task import OFFSETS, SourceTaskWorld
from tests.fakes.whole_cluster import headers_of

RANGES, SYNCS = "mm2-offset-runs.A.internal", "mm2-offset-syncs.B.internal"
WITH_SYNCS, WITHOUT = {"emit.offset-syncs.enabled": "true"}, {"emit.offset-syncs.enabled": "false"}
ID = b"1" * 16
NOT_ENOUGH_REPLICAS, REFUSED = 19, 87


class World(SourceTaskWorld):
    """`orders`, copied to `A.orders`; its records hold their names."""

    def __init__(self) -> None:
        super().__init__()
        self.source.topic("orders")
        self.source.topic(SYNCS)
        for topic in ("A.orders", RANGES):
            self.target.topic(topic)
        self.source.ids["orders"], self.target.ids["A.orders"] = ID, b"t" * 16

    def put(self, names: str) -> None:
        self.source.put("orders", *((b"k", name.encode()) for name in names))

    def truncate(self, end: int, names: str) -> None:
        """Another leader, whose log ends there and then has these."""
        self.source.logs["orders", 0].truncate(end)
        self.put(names)

    @property
    def there(self) -> str:
        return "".join(value.decode() for _, value in self.target.records("A.orders"))

    @property
    def position(self) -> tuple[int | None, str | None, int]:
        """What a worker finds in connect-offsets: offset, topic id, leader epoch."""
        found = self.target.whole_records(OFFSETS)
        if not found:
            return None, None, -1
        _, value, headers = found[-1]
        topic_id, epoch = parse_source_offset_headers(headers_of(headers))
        return parse_source_offset_value(value), None if topic_id is None else topic_id_text(topic_id), epoch

    def copying(self, config: Mapping[str, str] = WITHOUT) -> AbstractAsyncContextManager[None]:
        return self.running(self.spec_of([TaskPartition("orders", 0, "A.orders")], config), lambda *_: self.position)

    async def committed(self, offset: int, epoch: int) -> None:
        await self.until(lambda: self.position == (offset, topic_id_text(ID), epoch))

    def translated(self, offsets: range) -> dict[int, int]:
        """Where a group at each of these source offsets is sent to."""
        translator = OffsetTranslator(DefaultReplicationPolicy(), ("A", "B"), lambda topic: topic == "orders")
        for record in self.source.records(SYNCS):
            translator.add_sync(*record)
        for record in self.target.records(RANGES):
            translator.add_ranges(*record)
        translator.syncs_read_to_end()
        ids = self.source.ids["orders"], self.target.ids["A.orders"]
        return {
            at: found.downstream
            for at in offsets
            for found in translator.checkpoints(
                "g", {TopicPartition("orders", 0): CommittedOffset(at)}, lambda _: ids[0], lambda _: ids[1]
            )
        }


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    made.patch(monkeypatch)
    return made


@pytest.mark.parametrize("config", [WITH_SYNCS, WITHOUT], ids=["with_syncs", "without"])
@pytest.mark.parametrize("regrown", ["x", "xyzuvw"], ids=["shorter_than_before", "longer_than_before"])
async def test_a_running_task_copies_what_follows_a_truncation_behind_what_it_had(
    world: World, config: Mapping[str, str], regrown: str
) -> None:
    world.put("abcde")
    async with world.copying(config):
        await world.committed(4, 0)
        world.truncate(2, regrown)
        await world.committed(1 + len(regrown), 1)
        await world.finish()
    assert world.there == "abcde" + regrown
    (line,) = world.link.event_lines
    assert "source partition orders-0 was truncated at offset 2 (unclean leader election?)" in line
    assert "offsets 2 to 4, which had been read, are gone from the source (3 offsets); reading continues at 2" in line


@pytest.mark.parametrize("regrown", ["", "x", "xyzuvw"], ids=["no_more", "shorter_than_before", "longer_than_before"])
async def test_a_truncation_while_no_task_ran_is_found_by_the_epoch_of_the_position(world: World, regrown: str) -> None:
    world.put("abcde")
    async with world.copying():
        await world.committed(4, 0)
        await world.finish()
    world.truncate(2, regrown)
    async with world.copying():
        await world.until(lambda: bool(world.link.event_lines))
        world.put("!")
        await world.committed(2 + len(regrown), 1)
        await world.finish()
    assert world.there == f"abcde{regrown}!"
    assert len(world.link.event_lines) == 1
    async with world.copying():
        world.put("?")
        await world.committed(3 + len(regrown), 1)
        await world.finish()
    assert (world.there[-2:], world.link.event_lines) == ("!?", [])


async def test_the_position_that_goes_back_has_its_epoch_too_for_the_next_truncation(world: World) -> None:
    world.put("abcde")
    async with world.copying():
        await world.committed(4, 0)
        await world.finish()
    world.truncate(2, "xyzuvw")
    world.target.producers.delay = lambda: 0.1
    async with world.copying():
        # Before anything of what follows is acknowledged.
        await world.committed(1, 0)
    world.target.producers.delay = lambda: 0.0
    world.truncate(1, "XYZUVWXYZ")
    async with world.copying():
        await world.committed(9, 2)
        await world.finish()
    assert world.there.endswith("XYZUVWXYZ")
    assert "truncated at offset 1" in world.link.event_lines[0]


async def test_a_kill_before_the_position_has_gone_back_repeats_what_follows_the_truncation_and_loses_nothing(
    world: World,
) -> None:
    world.put("abcde")
    async with world.copying():
        await world.committed(4, 0)
        world.target.producers.before = lambda request: (
            NOT_ENOUGH_REPLICAS if any(batch.topic == OFFSETS for batch in request.batches) else 0
        )
        world.truncate(2, "xyzuvw")
        await world.until(lambda: world.there == "abcdexyzuvw")
    world.target.producers.before = lambda _request: 0
    assert world.position[0] == 4
    async with world.copying():
        await world.committed(7, 1)
        await world.finish()
    assert world.there == "abcdexyzuvw" + "xyzuvw"


async def test_what_was_taken_before_a_truncation_and_is_acknowledged_late_moves_no_position_of_what_follows(
    world: World,
) -> None:
    world.put("abc")
    async with world.copying():
        await world.committed(2, 0)
        world.target.producers.delay = lambda: 0.3
        world.put("de")
        await world.until(
            lambda: any(
                b"e" in bytes(part)
                for r in world.target.producers.requests
                for b in r.batches
                if b.topic == "A.orders"
                for part in b.batch
            )
        )
        world.truncate(2, "xyzuvw")
        await world.until(lambda: bool(world.link.event_lines))
        world.target.producers.delay = lambda: 0.0
        await world.committed(7, 1)
        await world.finish()
    assert world.there == "abcdexyzuvw"


async def test_what_a_partition_stood_in_front_of_is_forgotten_with_the_log_that_had_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalled_partitions, "RETRY_S", 0.3)
    monkeypatch.setattr(stalled_partitions, "RETRY_MAX_S", 0.3)
    world.target.producers.before = lambda request: (
        REFUSED if any(b"unwanted" in bytes(part) for batch in request.batches for part in batch.batch) else 0
    )
    for topic in ("orders", "A.orders"):
        (world.source if topic == "orders" else world.target).topic(topic, 2)
    world.put("abc")
    spec = world.spec_of([TaskPartition("orders", number, "A.orders") for number in range(2)], WITHOUT)
    async with world.running(spec):
        await world.committed(2, 0)
        world.source.put("orders", (b"k", b"unwanted"))
        await world.until(lambda: bool(world.link.problem_lines))
        # Longer than where it stands, so that only the epoch in front of it tells.
        world.truncate(2, "xyzuvw")
        await world.committed(7, 1)
        await world.until(lambda: world.link.problem_lines == ())
        await world.finish()
    assert world.there == "abcxyzuvw"
    assert [line.partition("truncated at offset 2 (")[1] != "" for line in world.link.event_lines] == [True]
    assert "offsets 2 to 2, which" in world.link.event_lines[0]


async def test_a_position_of_an_earlier_release_is_one_of_any_log_and_gets_its_epoch_with_the_next_record(
    world: World,
) -> None:
    world.put("abcde")
    spec = world.spec_of([TaskPartition("orders", 0, "A.orders")], WITHOUT)
    async with world.running(spec, lambda *_: (2, topic_id_text(ID))):
        await world.committed(4, 0)
        await world.finish()
    assert (world.there, world.link.event_lines) == ("de", [])


async def test_groups_are_sent_to_what_follows_the_truncation_as_soon_as_that_is_all_there_is(world: World) -> None:
    world.put("abcde")
    async with world.copying(WITH_SYNCS):
        await world.committed(4, 0)
        await world.until(lambda: world.translated(range(6)) == {at: at for at in range(6)})
        world.truncate(2, "xy")
        await world.committed(3, 1)
        await world.until(lambda: world.translated(range(4, 5)) != {4: 4} or world.translated(range(2, 3)) != {2: 2})
        found = world.translated(range(6))
        # x and y lie at 5 and 6; what the source has at 4 and 5 will lie behind them.
        assert [found[at] <= lies for at, lies in enumerate((0, 1, 5, 6, 7, 8))] == [True] * 6
        world.put("zuvw")
        await world.committed(7, 1)
        await world.until(lambda: world.translated(range(9)) == {0: 0, 1: 1, **{at: 3 + at for at in range(2, 9)}})
        await world.finish()


@pytest.mark.parametrize("happens", ["truncated", "made_again", "gone_by_retention"])
async def test_what_has_happened_to_a_partition_that_gave_back_its_room_is_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    given_back = asyncio.Event()
    give_back = StalledPartitions.give_back

    def when_told(self: StalledPartitions) -> None:
        # What has happened is noticed before the target counts as stalled.
        if world.link.event_lines:
            give_back(self)
            given_back.set()

    monkeypatch.setattr(StalledPartitions, "give_back", when_told)
    monkeypatch.setattr(sender, "STALLED_S", 0.0)
    world.put("abc")
    async with world.copying():
        await world.committed(2, 0)
        world.target.producers.before = lambda request: (
            NOT_ENOUGH_REPLICAS if any(batch.topic == "A.orders" for batch in request.batches) else 0
        )
        tried = len(world.target.producers.requests)
        world.put("de")
        await world.until(lambda: len(world.target.producers.requests) > tried + 1)
        log = world.source.logs["orders", 0]
        match happens:
            case "truncated":
                world.truncate(2, "xyzuvw")
            case "made_again":
                world.source.ids["orders"] = b"2" * 16
                log.truncate(0)
                world.put("xyzuvw")
            case _:
                log.batches[:] = []
                log.start = 9
                world.put("xyzuvw")
        await world.until(given_back.is_set)
        world.target.producers.before = lambda _request: 0
        await world.until(lambda: world.there.endswith("xyzuvw"))
    assert len(world.link.event_lines) == 1, world.link.event_lines
