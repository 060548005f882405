"""Topics that are deleted and made again between real clusters, and records that are gone before they were copied."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicCollection

from deploy.local import LocalCluster
from mirror_connect.connectors import partitions
from mirror_connect.connectors.records.topic_ids import parse_topic_id
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.translation.offset_translation import OffsetTranslator
from mirror_connect.kafka_io.consumer.fetcher import Fetcher
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from tests.brokers import delete_before
from tests.integration.mirror_rig import fresh_topic, messages, positions_with_ids, produce, running, spec_for

pytestmark = pytest.mark.brokers
OFFSETS = "recreated-topics-offsets"
SYNCS, RANGES = "mm2-offset-syncs.B.internal", "mm2-offset-runs.A.internal"
COMPACTED = {"cleanup.policy": "compact"}
WITH_SYNCS: Mapping[str, str] = {}
WITHOUT = {"emit.offset-syncs.enabled": "false"}


@pytest.fixture(scope="module")
def clusters(source_cluster: LocalCluster, target_cluster: LocalCluster) -> tuple[LocalCluster, LocalCluster]:
    """The session's, with the internal topics that a worker and a connector would have made."""
    for cluster, topics in ((source_cluster, {SYNCS: 1}), (target_cluster, {OFFSETS: 5, RANGES: 1})):
        there = cluster.admin().list_topics(timeout=60).topics
        for topic, count in topics.items():
            if topic not in there:
                cluster.create_topic(topic, count, COMPACTED)
    return source_cluster, target_cluster


class Link:
    """A topic on both sides, and the specs of the tasks that copy it, one after the other."""

    def __init__(self, clusters: tuple[LocalCluster, LocalCluster], partitions: int = 1) -> None:
        self.source, self.target = clusters
        self.topic, self.connector = fresh_topic("again"), fresh_topic("mirror")
        self.partitions = partitions
        self.source.create_topic(self.topic, partitions)
        self.target.create_topic(f"A.{self.topic}", partitions)

    def spec(self, config: Mapping[str, str] = WITHOUT, **consumer: str) -> TaskSpec:
        made = spec_for(
            self.source,
            self.target,
            {self.topic: self.partitions},
            connector=self.connector,
            config=config,
            consumer={name.replace("_", "."): value for name, value in consumer.items()},
        )
        return replace(made, offsets_topic=OFFSETS, offsets_partitions=5)

    async def put(self, first: int, count: int, **settings: Any) -> None:
        records = [{"value": b"%d" % number} for number in range(first, first + count)]
        await asyncio.to_thread(produce, self.source, self.topic, records, **settings)

    async def make_again(self, cluster: LocalCluster | None = None) -> None:
        cluster, topic = (self.source, self.topic) if cluster is None else (cluster, f"A.{self.topic}")
        await asyncio.to_thread(cluster.delete_topic, topic)
        await asyncio.to_thread(cluster.create_topic, topic, self.partitions)

    @property
    def there(self) -> list[int]:
        return [int(message.value() or b"") for message in messages(self.target, f"A.{self.topic}")]

    @property
    def position(self) -> tuple[int, str | None]:
        return positions_with_ids(self.target, self.connector, OFFSETS)[self.topic, 0]

    def topic_id(self, cluster: LocalCluster | None = None) -> str:
        """As the cluster itself tells it, by another client than ours."""
        cluster, topic = (self.source, self.topic) if cluster is None else (cluster, f"A.{self.topic}")
        found = cluster.admin().describe_topics(TopicCollection([topic]))[topic].result(180).topic_id
        halves = [found.get_most_significant_bits(), found.get_least_significant_bits()]
        whole = b"".join(half.to_bytes(8, "big", signed=True) for half in halves)
        assert uuid.UUID(bytes=whole).int != 0
        return base64.urlsafe_b64encode(whole).decode().rstrip("=")


async def test_a_topic_made_again_and_filled_beyond_the_old_position_is_copied_whole(
    clusters: tuple[LocalCluster, LocalCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Link(clusters)
    # No fetch meanwhile, so that no error tells of the deletion; and no metadata, which are looked at every five minutes.
    held_back, open_again, fetch = asyncio.Event(), asyncio.Event(), Fetcher._fetch

    async def held(self: Fetcher, *wanted: Any, **more: Any) -> None:
        held_back.set()
        await open_again.wait()
        await fetch(self, *wanted, **more)

    await link.put(0, 100)
    async with running(link.spec(fetch_max_wait_ms="50")) as task:
        await task.copied(100)
        monkeypatch.setattr(Fetcher, "_fetch", held)
        await held_back.wait()
        await link.make_again()
        await link.put(100, 400)
        open_again.set()
        await task.copied(500)
        await task.finish()
    assert link.there == list(range(500))
    assert link.position == (399, link.topic_id())
    (line,) = [line for line in task.link.log_lines if "was deleted and created again" in line]
    assert f"and is {link.topic_id()}" in line


@pytest.mark.parametrize("config", [WITH_SYNCS, WITHOUT], ids=["with_syncs", "without"])
async def test_a_topic_made_again_while_no_task_ran_is_copied_whole(
    clusters: tuple[LocalCluster, LocalCluster], config: Mapping[str, str]
) -> None:
    link = Link(clusters)
    await link.put(0, 100)
    async with running(link.spec(config), link.target) as task:
        await task.copied(100)
        await task.finish()
    assert link.position == (99, link.topic_id())
    await link.make_again()
    await link.put(100, 400)
    async with running(link.spec(config), link.target) as task:
        await task.copied(400)
        await task.finish()
    assert (link.there, link.position) == (list(range(500)), (399, link.topic_id()))


async def test_told_to_stop_the_status_names_both_topics_and_what_to_do(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    link = Link(clusters)
    stop = {**WITHOUT, "on.topic.recreated": "stop"}
    await link.put(0, 100)
    former = link.topic_id()
    async with running(link.spec(stop)) as task:
        await task.copied(100)
        await link.make_again()
        await link.put(100, 400)
        # One partition is all that the task has.
        with pytest.raises(PartitionRefusedError) as failed:
            await task.until(lambda: False)
    assert f"(its id was {former} and is {link.topic_id()}): partition 0 is stalled" in str(failed.value)
    assert "set on.topic.recreated=copy" in str(failed.value)
    assert (len(link.there), link.position) == (100, (99, former))


async def test_a_topic_that_is_gone_is_named_in_the_status_until_it_is_there_again(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    link = Link(clusters)
    await link.put(0, 100)
    async with running(link.spec()) as task:
        await task.copied(100)
        await asyncio.to_thread(link.source.delete_topic, link.topic)
        line = f"source partition {link.topic}-0 does not exist on the source cluster; it is read as soon as it does"
        await task.until(lambda: task.link.problem_lines == (line,))
        await asyncio.to_thread(link.source.create_topic, link.topic)
        await link.put(100, 50)
        await task.copied(150)
        await task.until(lambda: task.link.problem_lines == ())
        await task.finish()
    assert link.there == list(range(150))


async def test_groups_of_a_topic_made_again_are_never_led_among_the_former_ones_records(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    link = Link(clusters)
    await link.put(0, 300)
    async with running(link.spec(WITH_SYNCS), link.target) as task:
        await task.copied(300)
        await recorded(link, {at: at for at in range(301)})
        await task.finish()
    await link.make_again()
    # Nothing of the new topic is copied yet.
    assert {at: found for at, found in translated(link, range(301)).items() if found < 300} == {}
    await link.put(300, 200)
    async with running(link.spec(WITH_SYNCS), link.target) as task:
        await task.copied(200)
        await recorded(link, {at: 300 + at for at in range(201)})
        await task.finish()


async def recorded(link: Link, places: Mapping[int, int]) -> None:
    """Waits until positions are translated so: they are as soon as the task has recorded all that it copied."""
    async with asyncio.timeout(180):
        while (found := await asyncio.to_thread(translated, link, range(len(places)))) != places:
            assert all(offset <= places[at] for at, offset in found.items())
            await asyncio.sleep(0.1)


def translated(link: Link, offsets: range) -> dict[int, int]:
    """Where a group at each of these source offsets is sent to, as a checkpoint task would find it now."""
    translator = OffsetTranslator(DefaultReplicationPolicy(), ("A", "B"), lambda topic: topic == link.topic)
    for message in messages(link.source, SYNCS):
        translator.add_sync(message.key(), message.value())
    for message in messages(link.target, RANGES):
        translator.add_ranges(message.key(), message.value())
    translator.syncs_read_to_end()
    ids = parse_topic_id(link.topic_id()), parse_topic_id(link.topic_id(link.target))
    return {
        at: checkpoint.downstream
        for at in offsets
        for checkpoint in translator.checkpoints(
            "g",
            {partitions.TopicPartition(link.topic, 0): partitions.CommittedOffset(at)},
            lambda _: ids[0],
            lambda _: ids[1],
        )
    }


async def test_a_remote_topic_made_again_under_load_gets_all_that_was_not_acknowledged_before_in_order(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    link = Link(clusters)
    await link.put(0, 30_000, **{"batch.num.messages": 10})
    async with running(link.spec()) as task:
        await task.copied(1_000)
        await link.make_again(link.target)
        await task.copied(30_000)
        await task.finish()
    # At least once: of what is there twice the last copy counts.
    there = [*reversed(dict.fromkeys(reversed(link.there)))]
    assert there == list(range(30_000 - len(there), 30_000))
    assert link.position == (29_999, link.topic_id())


async def test_records_gone_before_they_were_copied_are_a_line_with_their_number_and_no_trouble_that_lasts(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    link = Link(clusters)
    await link.put(0, 100)
    async with running(link.spec(), link.target) as task:
        await task.copied(100)
        await task.finish()
    await link.put(100, 100)
    await asyncio.to_thread(delete_before, link.source, link.topic, 150)
    async with running(link.spec(), link.target) as task:
        await task.copied(50)
        await task.finish()
    assert link.there == [*range(100), *range(150, 200)]
    assert task.link.event_lines == [
        f"source partition {link.topic}-0: offsets 100 to 149 are gone from the source (retention or deleted records): "
        "50 offsets skipped, reading continues at 150"
    ]
    assert task.link.problem_lines == ()


async def test_without_a_reset_records_that_are_gone_stop_their_partition_in_front_of_the_gap(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    link = Link(clusters)
    await link.put(0, 100)
    async with running(link.spec(), link.target) as task:
        await task.copied(100)
        await task.finish()
    await link.put(100, 100)
    await asyncio.to_thread(delete_before, link.source, link.topic, 150)
    async with running(link.spec(auto_offset_reset="none"), link.target) as task:
        with pytest.raises(PartitionRefusedError) as failed:
            await task.until(lambda: False)
    assert str(failed.value) == (
        f"source partition {link.topic}-0 has no offset 100 any more, or not yet, and source.consumer.auto.offset.reset is "
        "none; earliest continues after the offsets that are gone\n"
        "All partitions of this task are blocked. Fix the causes above, then restart the task."
    )
    assert (link.there, link.position) == (list(range(100)), (99, link.topic_id()))
