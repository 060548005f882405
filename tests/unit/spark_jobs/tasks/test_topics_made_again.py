"""A source task whose topic is deleted and created again, on clusters in memory: what it reads and commits."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

from mirror_connect.connectors.records.source_offsets import parse_source_offset_headers, parse_source_offset_value
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import DEDICATED, TaskPartition
from mirror_connect.connectors.translation.offset_ranges import Segment
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.copy import stalled_partitions
from tests.fakes.source_cluster import Log
from tests.fakes.source_task import OFFSETS, SourceTaskWorld
from tests.fakes.whole_cluster import headers_of

RANGES = "mm2-offset-runs.A.internal"
FIRST, SECOND = b"1" * 16, b"2" * 16
WITH_SYNCS, WITHOUT = {"emit.offset-syncs.enabled": "true"}, {"emit.offset-syncs.enabled": "false"}
NOT_ENOUGH_REPLICAS, REFUSED = 19, 87


class World(SourceTaskWorld):
    """`orders`, copied to `A.orders`; its records hold their numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.source.topic("orders")
        self.source.topic("mm2-offset-syncs.B.internal")
        for topic in ("A.orders", RANGES):
            self.target.topic(topic)
        self.source.ids["orders"], self.target.ids["A.orders"] = FIRST, b"t" * 16

    def put(self, *names: str) -> None:
        self.source.put("orders", *((b"k", name.encode()) for name in names))

    def make_again(self, *names: str) -> None:
        self.source.logs["orders", 0] = Log()
        self.source.ids["orders"] = SECOND
        self.put(*names)

    @property
    def there(self) -> list[str]:
        return [value.decode() for _, value in self.target.records("A.orders")]

    @property
    def position(self) -> tuple[int | None, str | None]:
        """What a worker finds in connect-offsets: offset and topic id."""
        found = self.target.whole_records(OFFSETS)
        if not found:
            return None, None
        _, value, encoded = found[-1]
        topic_id, _ = parse_source_offset_headers(headers_of(encoded))
        return parse_source_offset_value(value), None if topic_id is None else topic_id_text(topic_id)

    def copying(
        self, stored: tuple[int, None] | None = None, *, partitions: int = 1, **config: str
    ) -> AbstractAsyncContextManager[None]:
        assigned = [TaskPartition("orders", partition, "A.orders") for partition in range(partitions)]
        return self.running(self.spec_of(assigned, config), lambda *_: stored or self.position)

    async def committed(self, offset: int, topic_id: bytes) -> None:
        await self.until(lambda: self.position == (offset, topic_id_text(topic_id)))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    made.patch(monkeypatch)
    monkeypatch.setattr(stalled_partitions, "RETRY_S", 0.01)
    monkeypatch.setattr(stalled_partitions, "RETRY_MAX_S", 0.02)
    return made


@pytest.mark.parametrize("config", [WITH_SYNCS, WITHOUT], ids=["with_syncs", "without"])
async def test_a_topic_made_again_while_no_task_ran_is_copied_from_its_beginning(
    world: World, config: dict[str, str]
) -> None:
    world.put("a", "b", "c")
    async with world.copying(**config):
        await world.committed(2, FIRST)
        await world.finish()
    # Longer than the former one: its position could be read from, and would pass over what is in front of it.
    world.make_again("d", "e", "f", "g", "h")
    async with world.copying(**config):
        await world.committed(4, SECOND)
        await world.finish()
    assert world.there == list("abcdefgh")
    assert len(world.notices("was deleted and created again")) == 1
    assert world.link.event_lines == world.notices("was deleted and created again")


@pytest.mark.parametrize("config", [WITH_SYNCS, WITHOUT], ids=["with_syncs", "without"])
async def test_the_same_topic_is_read_on_from_its_position_after_a_restart(
    world: World, config: dict[str, str]
) -> None:
    for names in ("abc", "de"):
        world.put(*names)
        async with world.copying(**config):
            await world.committed(world.source.logs["orders", 0].end - 1, FIRST)
            await world.finish()
    assert (world.there, world.notices("created again")) == (list("abcde"), [])


async def test_a_topic_made_again_under_a_running_task_is_copied_whole_behind_the_former_one(world: World) -> None:
    world.put("a", "b", "c")
    async with world.copying(**WITHOUT):
        await world.committed(2, FIRST)
        world.make_again("d", "e", "f", "g", "h")
        await world.committed(4, SECOND)
    assert world.there == list("abcdefgh")


async def test_a_kill_between_the_new_topics_ranges_and_its_position_skips_nothing(world: World) -> None:
    world.put("a", "b", "c")
    async with world.copying(**WITH_SYNCS):
        await world.committed(2, FIRST)
        world.target.producers.before = lambda request: (
            NOT_ENOUGH_REPLICAS if any(batch.topic == OFFSETS for batch in request.batches) else 0
        )
        segments = len(world.target.records(RANGES))
        world.make_again("d", "e")
        await world.until(lambda: world.there == list("abcde") and len(world.target.records(RANGES)) > segments)
    world.target.producers.before = lambda _request: 0
    # The position is still the former topic's, although the ranges are the new one's.
    assert world.position == (2, topic_id_text(FIRST))
    world.put("f", "g", "h")
    async with world.copying(**WITH_SYNCS):
        await world.committed(4, SECOND)
    assert world.there == list("abcde") + list("defgh")


async def test_records_of_the_former_topic_that_arrive_late_are_recorded_as_its_own(world: World) -> None:
    # Were it answered before the new topic is noticed, that would only make the test easier.
    world.target.producers.delay = lambda: 0.3
    world.put("a", "b", "c")
    async with world.copying(**WITH_SYNCS):
        await world.until(
            lambda: any(b.topic == "A.orders" for r in world.target.producers.requests for b in r.batches)
        )
        world.make_again("d", "e")
        await world.until(lambda: bool(world.notices("was deleted and created again")))
        world.target.producers.delay = lambda: 0.0
        await world.committed(1, SECOND)
    segments = [Segment.decode(*record) for record in world.target.records(RANGES)]
    kept = {each.number: each for each in segments}
    assert [
        (each.source_id, each.since, [offset_range[:3] for offset_range in each.ranges]) for each in kept.values()
    ] == [
        (FIRST, 0, [(0, 0, 3)]),
        (SECOND, 1, [(0, 3, 2)]),
    ]


async def test_a_position_without_a_topic_id_is_taken_for_one_of_the_present_topic_and_marked_once(
    world: World,
) -> None:
    world.put("a", "b", "c")
    async with world.copying((1, None), **WITHOUT):
        await world.committed(2, FIRST)
        await world.finish()
    async with world.copying((2, None), **WITHOUT):
        await world.until(lambda: len(world.target.records(OFFSETS)) == 2)
        await world.finish()
    assert (world.position, len(world.target.records(OFFSETS))) == ((2, topic_id_text(FIRST)), 2)
    assert world.there == ["c"]


async def test_told_to_stop_at_a_topic_made_again_the_task_fails_with_what_to_do_and_keeps_its_position(
    world: World,
) -> None:
    stop = {"on.topic.recreated": "stop"}
    world.put("a", "b", "c")
    async with world.copying(**WITHOUT, **stop):
        await world.committed(2, FIRST)
        world.make_again("d", "e", "f", "g", "h")
        with pytest.raises(PartitionRefusedError) as failed:
            await world.until(lambda: False)
    assert str(failed.value) == (
        f"source topic orders was deleted and created again (its id was {topic_id_text(FIRST)} and is "
        f"{topic_id_text(SECOND)}): partition 0 is stalled; to copy the new one from its beginning, set "
        "on.topic.recreated=copy. To continue elsewhere in it, stop the connector and set its source offsets by REST\n"
        "All partitions of this task are blocked. Fix the causes above, then restart the task."
    )
    assert (world.position, world.there) == ((2, topic_id_text(FIRST)), list("abc"))
    async with world.copying(**WITHOUT):
        await world.committed(4, SECOND)
    assert world.there == list("abcdefgh")


async def test_in_dedicated_mode_which_has_no_rest_a_stop_names_other_ways(world: World) -> None:
    world.put("a")
    assigned = [TaskPartition("orders", 0, "A.orders")]
    spec = replace(world.spec_of(assigned, {**WITHOUT, "on.topic.recreated": "stop"}), program=DEDICATED)
    async with world.running(spec, lambda *_: world.position):
        await world.committed(0, FIRST)
        world.make_again("d", "e")
        with pytest.raises(PartitionRefusedError) as failed:
            await world.until(lambda: False)
    first, last = str(failed.value).splitlines()
    assert first.endswith(
        "end the process and set the flow's source offsets by a worker with its group (docs/dedicated.md)"
    )
    assert last == "All partitions of this task are blocked. Fix the causes above, then restart the process."


async def test_an_offset_that_a_user_has_set_is_obeyed_in_a_topic_made_again(world: World) -> None:
    world.put("a", "b", "c")
    async with world.copying(**WITHOUT):
        await world.committed(2, FIRST)
    world.make_again("d", "e", "f", "g", "h")
    async with world.copying((1, None), **WITHOUT, **{"on.topic.recreated": "stop"}):
        await world.committed(4, SECOND)
    assert world.there == list("abcfgh")


async def test_what_a_partition_stood_in_front_of_is_forgotten_with_its_topic(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is looked at again when the other one has long brought the news.
    monkeypatch.setattr(stalled_partitions, "RETRY_S", 0.3)
    monkeypatch.setattr(stalled_partitions, "RETRY_MAX_S", 0.3)
    world.put("a", "b", "c")
    world.target.producers.before = lambda request: (
        REFUSED if any(b"unwanted" in bytes(part) for batch in request.batches for part in batch.batch) else 0
    )
    for broker, topic in ((world.source, "orders"), (world.target, "A.orders")):
        broker.topic(topic, 2)
    async with world.copying(partitions=2, **WITHOUT):
        await world.committed(2, FIRST)
        world.put("unwanted")
        await world.until(lambda: bool(world.link.problem_lines))
        assert world.link.problem_lines[0].startswith("orders-0 is stalled at offset 3")
        world.source.logs["orders", 1] = Log()
        world.make_again("d", "e", "f", "g", "h")
        await world.until(lambda: bool(world.notices("partition 1 is read from the beginning")))
        await world.until(lambda: world.there[-1] == "h" and world.link.problem_lines == ())
        await world.committed(4, SECOND)
    assert world.there == list("abcdefgh")


async def test_a_remote_topic_made_again_is_told_once_and_gets_what_comes_next(world: World) -> None:
    world.put("a", "b", "c")
    async with world.copying(**WITHOUT):
        await world.committed(2, FIRST)
        world.target.logs["A.orders", 0].batches.clear()
        world.target.producers.log("A.orders", 0).batches.clear()
        for number, name in enumerate("de"):
            world.put(name)
            await world.committed(3 + number, FIRST)
    assert world.there == list("de")
    lost = world.notices("Topic A.orders on the target was deleted and created again, or has lost records")
    assert (len(lost), world.link.event_lines) == (1, lost)
