"""Offset syncs and ranges as a source task writes them between real clusters, against what truly lies where."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.translation.offset_range_index import RangeIndex
from mirror_connect.connectors.translation.offset_ranges import Segment
from mirror_connect.spark_jobs.mapping.offset_ranges_writer import OffsetRangesWriter
from tests.brokers import FULL_BATCHES, started
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    fresh_topic,
    messages,
    produce,
    running,
    spec_for,
    stored_offsets,
)

pytestmark = pytest.mark.brokers
RANGES = "mm2-offset-runs.A.internal"
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    with started(LocalCluster("source"), LocalCluster("target")) as (source, target):
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, COMPACTED)
        source.create_topic("mm2-offset-syncs.B.internal", 1, COMPACTED)
        target.create_topic("mm2-offset-syncs.A.internal", 1, COMPACTED)
        target.create_topic(RANGES, 1, COMPACTED)
        yield source, target


def mirrored_topic(source: LocalCluster, target: LocalCluster) -> str:
    topic = fresh_topic()
    source.create_topic(topic, 1)
    target.create_topic(f"A.{topic}", 1)
    return topic


def numbered(count: int, first: int = 0) -> list[Mapping[str, Any]]:
    return [{"value": b"%d" % number} for number in range(first, first + count)]


def transactions(source: LocalCluster, topic: str, count: int, size: int, *, abort_each: int = 5) -> None:
    producer = Producer({**source.librdkafka(), "transactional.id": fresh_topic("txn")})
    producer.init_transactions(60)
    for number in range(count):
        producer.begin_transaction()
        for _ in range(size):
            producer.produce(topic, b"%d" % number)
        if number % abort_each == abort_each - 1:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def transaction(source: LocalCluster, topic: str, values: list[bytes], settings: Mapping[str, Any]) -> None:
    producer = Producer({**source.librdkafka(), **settings})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.commit_transaction(60)


def syncs(cluster: LocalCluster, name: str, topic: str) -> list[tuple[int, int]]:
    found = [OffsetSync.decode(m.key(), m.value()) for m in messages(cluster, name)]
    return [(sync.upstream, sync.downstream) for sync in found if sync.topic == topic]


def index(target: LocalCluster, topic: str) -> RangeIndex:
    made = RangeIndex()
    for message in messages(target, RANGES):
        segment = Segment.decode(message.key(), message.value())
        if segment.topic == topic:
            made.add(segment)
    return made


def places(source: LocalCluster, target: LocalCluster, topic: str) -> dict[int, int]:
    """Upstream offset → downstream offset of the last copy, by the order of records read committed."""
    upstream = [m.offset() for m in messages(source, topic, isolation="read_committed")]
    downstream = [m.offset() for m in messages(target, f"A.{topic}")]
    assert len(upstream) == len(downstream)
    return dict(zip(upstream, downstream, strict=True))


@pytest.mark.kafka_test("OffsetSyncWriterTest.testMaybeQueueOffsetSyncs")
@pytest.mark.kafka_test("OffsetSyncWriterTest.testPromoteDelayedOffsetSyncs")
@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testOffsetSyncsTopicsOnTarget")
@pytest.mark.parametrize(("location", "name"), [("source", "B"), ("target", "A")])
async def test_a_sync_for_each_hundred_records_and_for_the_last_one(
    source: LocalCluster, target: LocalCluster, location: str, name: str
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, numbered(350), **{"batch.num.messages": 1})
    async with running(spec_for(source, target, {topic: 1}, config={"offset-syncs.topic.location": location})) as task:
        await task.copied(350)
        await task.finish()
    found = syncs(source if location == "source" else target, f"mm2-offset-syncs.{name}.internal", topic)
    # As a real MirrorMaker 2 does it; a commit in between may have added one.
    assert {(0, 0), (101, 101), (202, 202), (303, 303), (349, 349)} <= set(found)
    assert (found[-1], all(up == down for up, down in found), found == sorted(found)) == ((349, 349), True, True)
    assert task.link.counters["syncs"] == len(found)


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithFrequentOffsetSyncs")
async def test_without_a_lag_there_is_a_sync_for_each_batch_of_one_record(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    async with running(spec_for(source, target, {topic: 1}, config={"offset.lag.max": "0"})) as task:
        for count in range(1, 6):
            # One after the other: of what is acknowledged together only the newest ones may be synced.
            await asyncio.to_thread(produce, source, topic, numbered(1, count - 1))
            await task.until(lambda count=count: task.link.counters.get("syncs", 0) >= count)  # type: ignore[misc]
        await task.finish()
    assert set(syncs(source, "mm2-offset-syncs.B.internal", topic)) == {(offset, offset) for offset in range(5)}


@pytest.mark.kafka_test(
    "MirrorConnectorsIntegrationBaseTest.testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic"
)
async def test_nothing_is_written_where_syncs_are_off(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, numbered(50))
    async with running(spec_for(source, target, {topic: 1}, config={"emit.offset-syncs.enabled": "false"})) as task:
        await task.copied(50)
        await task.finish()
    assert (syncs(source, "mm2-offset-syncs.B.internal", topic), index(target, topic).newest) == ([], None)


@pytest.mark.kafka_test("MirrorConnectorsIntegrationTransactionsTest.testReplication")
async def test_every_position_of_a_transactional_source_translates_to_the_very_record(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    transactions(source, topic, 40, 3)
    settings = {"isolation.level": "read_committed"}
    async with running(spec_for(source, target, {topic: 1}, consumer=settings, config={})) as task:
        await task.copied(96)
        await task.until(lambda: task.link.counters.get("commits", 0) > 0)
        await task.finish()
    where = places(source, target, topic)
    found = index(target, topic)
    wanted = {at: min((d for u, d in where.items() if u >= at), default=96) for at in range(max(where) + 2)}
    translated = {at: found.translate(at) for at in wanted}
    assert {at: each and (each.offset, each.exact) for at, each in translated.items()} == {
        at: (offset, True) for at, offset in wanted.items()
    }


@pytest.mark.parametrize(
    ("producing", "source_config"),
    [
        pytest.param({"batch.num.messages": 1}, {}, id="alone"),
        pytest.param({**FULL_BATCHES, "compression.type": "lz4"}, {}, id="in_a_batch"),
        pytest.param(FULL_BATCHES, {"message.timestamp.type": "LogAppendTime"}, id="in_a_batch_re_encoded"),
        pytest.param({**FULL_BATCHES, "transactional.id": "oversize"}, {}, id="in_a_transaction"),
    ],
)
async def test_records_too_large_are_skipped_if_asked_for_and_every_position_translates_to_the_very_record(
    source: LocalCluster, target: LocalCluster, producing: dict[str, Any], source_config: dict[str, str]
) -> None:
    topic, large = fresh_topic(), [10, 11, 30]
    source.create_topic(topic, 1, source_config)
    target.create_topic(f"A.{topic}", 1, {"max.message.bytes": "2000"})
    values = [random.Random(number).randbytes(3_000 if number in large else 10) for number in range(40)]
    if "transactional.id" in producing:
        transaction(source, topic, values, producing)
    else:
        produce(source, topic, [{"value": value} for value in values], **producing)
    settings = {"isolation.level": "read_committed"}
    config = {"on.oversize.record": "skip"}
    async with running(spec_for(source, target, {topic: 1}, consumer=settings, config=config)) as task:
        await task.until(lambda: task.link.counters.get("skipped", 0) == 3)
        await task.copied(37)
        await task.until(lambda: task.link.counters.get("commits", 0) > 0)
        await task.finish()
        told = [line for line in task.link.log_lines if "is skipped" in line]
    assert [line.partition(" is skipped: ")[0] for line in told] == [
        f"{topic}-0: the record at offset {number}" for number in large
    ]
    assert all("(max.message.bytes=2000)" in line for line in told)
    assert [m.value() for m in messages(target, f"A.{topic}")] == [v for n, v in enumerate(values) if n not in large]
    found = index(target, topic)
    kept = [number for number in range(40) if number not in large]
    wanted = {at: sum(number < at for number in kept) for at in range(40)}
    translated = {at: found.translate(at) for at in wanted}
    assert {at: each and (each.offset, each.exact) for at, each in translated.items()} == {
        at: (offset, True) for at, offset in wanted.items()
    }


async def test_the_next_task_goes_on_where_the_ranges_ended(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1}, config={})
    for first in (0, 100, 200):
        produce(source, topic, numbered(100, first))
        async with running(spec, target) as task:
            await task.copied(100)
            await task.until(lambda: task.link.counters.get("commits", 0) > 0)
            await task.finish()
    found = index(target, topic)
    assert (found.newest is not None and found.newest.number, found.newest and len(found.newest.ranges)) == (0, 1)
    assert [found.translate(at).offset for at in (0, 150, 300)] == [0, 150, 300]  # type: ignore[union-attr]


@pytest.mark.long
@pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])
async def test_in_front_of_the_first_kept_record_every_position_is_exact_after_restarts(
    source: LocalCluster, target: LocalCluster, exactly_once: bool
) -> None:
    topic = mirrored_topic(source, target)
    filtered = {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "tombstone",
        "predicates": "tombstone",
        "predicates.tombstone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    spec = replace(spec_for(source, target, {topic: 1}, config=filtered), exactly_once=exactly_once)
    for life in range(2):
        produce(source, topic, [{"key": b"k"}] * 20)
        async with running(spec, target) as task:
            end = 20 * life + 19
            # No order to finish: what a kill would leave.
            async with asyncio.timeout(180):
                while (await asyncio.to_thread(stored_offsets, target, spec.connector)).get((topic, 0)) != end:
                    task.check_running()
        assert [index(target, topic).translate(at).offset for at in (0, 7, end)] == [0, 0, 0]  # type: ignore[union-attr]
    produce(source, topic, numbered(10))
    async with running(spec, target) as task:
        await task.copied(10)
        await task.finish()
    found = index(target, topic)
    translated = {at: found.translate(at) for at in range(50)}
    assert {at: each and (each.offset, each.exact) for at, each in translated.items()} == {
        at: (max(0, at - 40), True) for at in range(50)
    }


@pytest.mark.soak
async def test_after_kills_no_position_skips_a_record_and_in_the_end_none_repeats_one(
    source: LocalCluster, target: LocalCluster, dice: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A commit waits for its ranges, however slow this machine is: without them positions would repeat records, as they may.
    write = OffsetRangesWriter.write
    monkeypatch.setattr(OffsetRangesWriter, "write", lambda ranges, _, **last: write(ranges, 60.0, **last))
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1}, config={})
    total = 0
    for _ in range(4):
        produce(source, topic, numbered(300, total), **{"batch.num.messages": 1})
        total += 300
        async with running(spec, target) as task:
            # Killed somewhere: ranges may be written and positions not, or neither.
            await task.copied(20)
            await asyncio.sleep(dice.uniform(0.2, 0.7))
        judge(target, topic, total)
    async with running(spec, target) as task:
        produce(source, topic, numbered(5, total))
        # How many records are left to copy is what the kills have decided.
        last = b"%d" % (total + 4)
        async with asyncio.timeout(360):
            while await asyncio.to_thread(newest, target, topic) != last:
                await asyncio.sleep(0.1)
        await task.finish()
    found = judge(target, topic, total)
    assert [at for at in range(total + 6) if not found.translate(at).exact] == []  # type: ignore[union-attr]


def newest(target: LocalCluster, topic: str) -> bytes | None:
    """The value of the last record of the copy."""
    return [message.value() for message in messages(target, f"A.{topic}")][-1]


def judge(target: LocalCluster, topic: str, total: int) -> RangeIndex:
    copies = [(int(m.value()), m.offset()) for m in messages(target, f"A.{topic}")]
    last = dict(copies)
    found = index(target, topic)
    for at in range(0, total, 7):
        translated = found.translate(at)
        if translated is not None:
            skipped = [number for number, offset in last.items() if number >= at and offset < translated.offset]
            assert (at, translated, skipped) == (at, translated, [])
    return found


async def test_without_the_topics_copying_goes_on_and_says_so_once(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, numbered(100))
    policy = {"replication.policy.separator": "-", "offset-syncs.topic.location": "target"}
    spec = spec_for(source, target, {topic: 1}, config=policy)
    async with running(spec, target) as task:
        await task.copied(100)
        await task.until(lambda: len(task.link.log_lines) >= 2)
        await task.until(lambda: task.link.counters.get("commits", 0) >= 1)
        await asyncio.sleep(2.0)
        await task.finish()
    assert sorted(line.split(" can't be")[0] for line in task.link.log_lines) == [
        "Offset syncs",
        "Topic mm2-offset-runs-A-internal",
    ]
