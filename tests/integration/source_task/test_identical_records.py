"""The source task between two real clusters: records, batches and transactions arrive identical."""

from __future__ import annotations

import asyncio

import pytest

from deploy.local import LocalCluster
from tests.brokers import FULL_BATCHES, committed
from tests.integration.mirror_rig import (
    batches,
    produce,
    read,
    running,
    spec_for,
)
from tests.integration.source_task.copied_topics import (
    DELETE_HORIZON,
    ODD,
    lines,
    mirrored_topic,
    no_longer_compacted,
    transactions,
)

pytestmark = pytest.mark.brokers


@pytest.mark.kafka_test("MirrorSourceTaskTest.testSerde")
@pytest.mark.kafka_test("MirrorSourceTaskTest.testPoll")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_of_every_codec_arrive_identical(source: LocalCluster, target: LocalCluster, codec: str) -> None:
    topic = mirrored_topic(source, target, partitions=3)
    produce(source, topic, lines(20_000, 3) + [{**odd, "partition": 1} for odd in ODD], **{"compression.type": codec})
    async with running(spec_for(source, target, {topic: 3})) as task:
        await task.copied(20_000 + len(ODD))
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_batches_of_usual_size_keep_their_compressed_bytes(
    source: LocalCluster, target: LocalCluster, codec: str
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, lines(20_000), **{**FULL_BATCHES, "compression.type": codec, "batch.size": 100_000})
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(20_000)
        await task.finish()
    usual = [batch for batch in batches(source, topic, 0) if batch[1] > 10]
    assert [batch for batch in batches(target, f"A.{topic}", 0) if batch[1] > 10] == usual


async def test_single_record_batches_arrive_in_order_and_merged(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, lines(5_000), **{"batch.num.messages": 1})
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(5_000)
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)
    assert len(batches(target, f"A.{topic}", 0)) < 2_500


async def test_a_compacted_topic_with_gaps_arrives_without_its_gaps(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target, cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="0.01")
    rounds = [[{**line, "key": b"%d" % (number % 50)} for number, line in enumerate(lines(500))] for _ in range(3)]
    for each in rounds:
        produce(source, topic, each, **{"batch.num.messages": 20})
        await asyncio.sleep(0.7)
    async with asyncio.timeout(180):
        while len(read(source, topic)) >= 1_000:
            produce(source, topic, [{"key": b"tick", "value": b"tick"}])
            await asyncio.sleep(0.5)
    present = await no_longer_compacted(source, topic)
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(len(present))
        await task.finish()
    assert read(target, f"A.{topic}") == present


async def test_tombstones_behind_a_delete_horizon_arrive_with_the_times_they_had(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target, cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="0.01")
    keyed = [{**line, "key": b"%d" % (number % 50)} for number, line in enumerate(lines(500))]
    tombstones = [{**line, "value": None} for line in keyed[10:20]]
    produce(source, topic, keyed + tombstones, **{**FULL_BATCHES, "compression.type": "lz4"})
    async with asyncio.timeout(180):
        # The cleaner writes the horizon over the base timestamp, and every later time counts from it.
        while not any(attributes & DELETE_HORIZON for attributes, _, _ in batches(source, topic, 0)):
            await asyncio.sleep(0.7)
            produce(source, topic, [{"key": b"tick", "value": b"tick"}])
    present = await no_longer_compacted(source, topic)
    assert sum(record.value is None for record in present) == 10
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(len(present))
        await task.finish()
    assert read(target, f"A.{topic}") == present
    assert not any(attributes & DELETE_HORIZON for attributes, _, _ in batches(target, f"A.{topic}", 0))


@pytest.mark.parametrize("settings", [{}, {**FULL_BATCHES, "compression.type": "gzip"}], ids=["at_once", "in_a_thread"])
async def test_log_append_times_of_the_source_stay_the_records_times(
    settings: dict[str, object], source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target, message_timestamp_type="LogAppendTime")
    produce(source, topic, lines(6_000), **settings)
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(6_000)
        await task.finish()
    assert [(r.key, r.value) for r in read(target, f"A.{topic}")] == [(r.key, r.value) for r in read(source, topic)]
    assert [r.timestamp[1] for r in read(target, f"A.{topic}")] == [r.timestamp[1] for r in read(source, topic)]


@pytest.mark.parametrize(("isolation", "expected"), [("read_committed", 600), ("read_uncommitted", 900)])
async def test_transactions_are_copied_by_isolation_level(
    source: LocalCluster, target: LocalCluster, isolation: str, expected: int
) -> None:
    topic = mirrored_topic(source, target)
    transactions(source, topic)
    async with running(spec_for(source, target, {topic: 1}, consumer={"isolation.level": isolation})) as task:
        await task.copied(expected)
        await asyncio.sleep(0.5)
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic, isolation=isolation)


@pytest.mark.kafka_test("MirrorSourceTaskTest.testSeekBehaviorDuringStart")
async def test_a_start_in_the_middle_of_a_batch_copies_only_what_is_wanted(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, lines(1_000), **FULL_BATCHES)
    spec = spec_for(source, target, {topic: 1})
    async with running(spec) as task:
        task.link._stored = lambda _topic, _partition: 499
        await task.copied(500)
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)[500:]


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplicateFromLatest")
async def test_from_the_latest_on_only_what_comes_later_is_copied(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, lines(100))
    spec = spec_for(source, target, {topic: 1}, consumer={"auto.offset.reset": "latest"})
    async with running(spec) as task:
        later = 0
        # The task has looked where the end is when something that came later is copied.
        async with asyncio.timeout(360):
            while not task.link.counters.get("records"):
                await asyncio.to_thread(produce, source, topic, [{"value": b"later %d" % later, "partition": 0}])
                later += 1
            there = await asyncio.to_thread(read, source, topic)
            while (copied := await asyncio.to_thread(read, target, f"A.{topic}"))[-1:] != there[-1:]:
                await asyncio.sleep(0.05)
        await task.finish()
    assert (len(copied) <= later, copied) == (True, there[-len(copied) :])


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplicationWithEmptyPartition")
async def test_beside_an_empty_partition_all_is_copied_and_a_java_group_that_reads_it_stands_at_its_beginning(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target, 3)
    group, count = f"readers-of-{topic}", 200
    produce(source, topic, lines(count, 2))
    async with running(spec_for(source, target, {topic: 3})) as task:
        await task.copied(count)
        await task.finish()
    assert [record.partition for record in read(target, f"A.{topic}")] == [0] * 100 + [1] * 100
    assert read(target, f"A.{topic}") == read(source, topic)
    # Java's consumer commits a position of every partition that it was given, read from or not.
    reading = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}", "--topic", f"A.{topic}"]
    reading += ["--group", group, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000"]
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    said = await asyncio.to_thread(target.run_tool, tool, reading)
    assert len(said.splitlines()) == count
    assert await asyncio.to_thread(committed, target, group, f"A.{topic}", range(3)) == {0: 100, 1: 100, 2: 0}
