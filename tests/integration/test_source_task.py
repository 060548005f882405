"""The source task between two real clusters; what arrived is read back by librdkafka and from the brokers' own files."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from deploy.local import LocalCluster, start_all
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, PartitionRefusedError
from mirror_connect.spark_jobs.tasks import mirror_source
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    Record,
    batches,
    fresh_topic,
    produce,
    read,
    running,
    spec_for,
    stored_positions,
)
from tests.paths import ROOT
from tests.waiting import state_reached

pytestmark = pytest.mark.brokers
# Recent times: retention deletes older records, and a broker that restarts forgets a producer whose last *record* is older
# than producer.id.expiration.ms, so it can't tell a repetition then.
BEGUN = int(time.time() * 1000) - 600_000
DELETE_HORIZON = 0x40
SET = AlterConfigOpType.SET
QUICK_CLEANER = {"log.cleaner.backoff.ms": "200", "log.cleaner.min.compaction.lag.ms": "0"}


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    source, target = LocalCluster("source", properties=QUICK_CLEANER), LocalCluster("target")
    start_all(source, target)
    target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, {"cleanup.policy": "compact"})
    yield source, target
    source.close()
    target.close()


@pytest.fixture
def source(clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    return clusters[0]


@pytest.fixture
def target(clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    return clusters[1]


def mirrored_topic(source: LocalCluster, target: LocalCluster, partitions: int = 1, **config: str) -> str:
    """A topic on both sides; the configuration is the source's."""
    topic = fresh_topic()
    source.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in config.items()})
    target.create_topic(f"A.{topic}", partitions)
    return topic


def lines(count: int, partitions: int = 1) -> list[dict[str, object]]:
    """Records of real text: lines of the standard library's sources, over and over."""
    text = Path(json.__file__).read_bytes().splitlines() + Path(subprocess.__file__).read_bytes().splitlines()
    return [
        {
            "key": b"%d" % number,
            "value": text[number % len(text)],
            "partition": number % partitions,
            "timestamp": BEGUN + number,
        }
        for number in range(count)
    ]


def set_config(cluster: LocalCluster, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=SET))
    for altered in cluster.admin().incremental_alter_configs([resource]).values():
        altered.result(60)


ODD: list[dict[str, object]] = [
    {"key": None, "value": b"no key"},
    {"key": b"tombstone", "value": None},
    {"key": b"", "value": b""},
    {"key": b"headers", "value": b"x", "headers": [("a", b"1"), ("a", b"2"), ("none", None), ("umläut", b"")]},
    {"key": b"big", "value": bytes(range(256)) * 3_600},
    {"key": None, "value": None},
]


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
    produce(source, topic, lines(20_000), **{"compression.type": codec, "linger.ms": 500, "batch.size": 100_000})
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


async def no_longer_compacted(source: LocalCluster, topic: str) -> list[Record]:
    """What is left of a topic that the cleaner has seen for the last time."""
    set_config(source, topic, "min.compaction.lag.ms", str(2**63 - 1))
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def kept() -> bool:
        told = source.admin().describe_configs([resource])[resource].result(60)
        return told["min.compaction.lag.ms"].value == str(2**63 - 1)

    await state_reached(kept, f"{topic} is compacted no longer", in_thread=True)
    # A round that has begun goes on to its end.
    before, present = None, await asyncio.to_thread(read, source, topic)
    async with asyncio.timeout(60):
        while before != present:
            await asyncio.sleep(1)
            before, present = present, await asyncio.to_thread(read, source, topic)
    return present


async def test_a_compacted_topic_with_gaps_arrives_without_its_gaps(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target, cleanup_policy="compact", segment_ms="500", min_cleanable_dirty_ratio="0.01")
    rounds = [[{**line, "key": b"%d" % (number % 50)} for number, line in enumerate(lines(500))] for _ in range(3)]
    for each in rounds:
        produce(source, topic, each, **{"batch.num.messages": 20})
        await asyncio.sleep(0.7)
    async with asyncio.timeout(60):
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
    produce(source, topic, keyed + tombstones, **{"linger.ms": 300, "compression.type": "lz4"})
    async with asyncio.timeout(60):
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


async def test_log_append_times_of_the_source_stay_the_records_times(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target, message_timestamp_type="LogAppendTime")
    produce(source, topic, lines(2_000))
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(2_000)
        await task.finish()
    assert [r.timestamp[1] for r in read(target, f"A.{topic}")] == [r.timestamp[1] for r in read(source, topic)]


def transactions(source: LocalCluster, topic: str) -> None:
    """Committed, aborted, committed: 300 records each, in one partition."""
    producer = Producer({**source.librdkafka(), "transactional.id": f"tx-{topic}"})
    producer.init_transactions()
    for name, commit in ((b"first", True), (b"aborted", False), (b"second", True)):
        producer.begin_transaction()
        for number in range(300):
            producer.produce(topic, key=name, value=b"%d" % number)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()


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
    produce(source, topic, lines(1_000), **{"linger.ms": 300})
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
        async with asyncio.timeout(120):
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
    (future,) = target.admin().list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    assert {each.partition: each.offset for each in future.result(60).topic_partitions} == {0: 100, 1: 100, 2: 0}


async def test_the_position_at_the_end_is_that_of_the_last_record(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target, partitions=2)
    produce(source, topic, lines(1_000, 2))
    spec = spec_for(source, target, {topic: 2})
    async with running(spec) as task:
        await task.copied(1_000)
        await task.finish()
    assert stored_positions(target, spec.connector) == {(topic, 0): 499, (topic, 1): 499}


async def test_the_next_run_goes_on_where_the_last_one_ended(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1})
    for _ in range(3):
        produce(source, topic, lines(700))
        async with running(spec, target) as task:
            await task.copied(700)
            await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.soak
async def test_partitions_join_and_leave_a_running_task(source: LocalCluster, target: LocalCluster) -> None:
    first, second = mirrored_topic(source, target, 2), mirrored_topic(source, target, 2)
    produce(source, first, lines(1_000, 2))
    produce(source, second, lines(1_000, 2))
    async with running(spec_for(source, target, {first: 2}), target) as task:
        await task.copied(1_000)
        task.assign({first: 1, second: 2})
        await task.copied(2_000)
        await task.until(lambda: task.link.assignment_version == 2)
        produce(source, first, lines(1_000, 2))
        await task.copied(2_500)
        task.assign({first: 2, second: 2})
        await task.copied(3_000)
        await task.finish()
    assert [read(target, f"A.{t}") for t in (first, second)] == [read(source, t) for t in (first, second)]


@pytest.mark.soak
async def test_a_target_broker_killed_under_load_costs_and_doubles_no_record(
    source: LocalCluster, dice: Random
) -> None:
    with LocalCluster("restarted") as target:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        topic = fresh_topic()
        source.create_topic(topic, 4)
        target.create_topic(f"A.{topic}", 4)
        produce(source, topic, lines(100_000, 4), **{"batch.num.messages": 50})
        async with running(spec_for(source, target, {topic: 4})) as task:
            await task.copied(dice.randrange(1_000, 40_000))
            await asyncio.to_thread(target.kill)
            await asyncio.to_thread(target.start)
            await task.copied(100_000)
            await task.finish()
        assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.soak
async def test_a_leader_that_dies_under_load_costs_and_doubles_no_record(source: LocalCluster, dice: Random) -> None:
    # unclean.leader.election stays off and two replicas must be in sync, so what was acknowledged survives.
    with LocalCluster("three", brokers=3, properties={"min.insync.replicas": "2"}, heap="256m") as target:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, replication=3)
        topic = fresh_topic()
        source.create_topic(topic, 4)
        target.create_topic(f"A.{topic}", 4, replication=3)
        produce(source, topic, lines(100_000, 4), **{"batch.num.messages": 50})
        async with running(spec_for(source, target, {topic: 4})) as task:
            await task.copied(dice.randrange(1_000, 40_000))
            await asyncio.to_thread(target.brokers[2].kill)
            await task.copied(100_000)
            await task.finish()
        assert read(target, f"A.{topic}") == read(source, topic)


@pytest.mark.soak
async def test_a_task_killed_under_load_loses_nothing_and_repeats_little(
    source: LocalCluster, target: LocalCluster, tmp_path: Path
) -> None:
    topic = mirrored_topic(source, target, 2)
    spec = spec_for(source, target, {topic: 2})
    produce(source, topic, lines(150_000, 2), **{"batch.num.messages": 20})
    positions = tmp_path / "positions.json"
    positions.write_text("[]")
    process = subprocess.Popen(  # noqa: ASYNC220 - only started here
        [sys.executable, "-m", "tests.fakes.task_process", str(positions)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(spec.to_json()) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if json.loads(line).get("commits", 0) >= 1:
                break
        process.kill()
    killed_at = stored_positions(target, spec.connector)
    async with running(spec, target) as task:
        # A commit that was on its way may still have come: how much is left is not known here.
        async with asyncio.timeout(180):
            while await asyncio.to_thread(stored_positions, target, spec.connector) != dict.fromkeys(
                ((topic, 0), (topic, 1)), 74_999
            ):
                task.check_running()
                await asyncio.sleep(0.2)
        await task.finish()
    got, wanted = read(target, f"A.{topic}"), read(source, topic)
    assert killed_at != {}
    assert without_repetitions(got) == wanted


def without_repetitions(records: list[Record]) -> list[Record]:
    """First occurrences only, in their order; keys are unique in the source."""
    first: dict[tuple[int, bytes | None], Record] = {}
    for record in records:
        first.setdefault((record.partition, record.key), record)
    return list(first.values())


@pytest.mark.soak
async def test_without_a_lease_nothing_is_written(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    async with running(spec_for(source, target, {topic: 1})) as task:
        produce(source, topic, lines(100))
        await task.copied(100)
        task.link.lease = False
        produce(source, topic, lines(100))
        await asyncio.sleep(1)
        assert len(read(target, f"A.{topic}")) == 100
        task.link.lease = True
        await task.copied(200)
        await task.finish()


@pytest.mark.soak
async def test_a_second_run_with_the_same_transactional_id_fences_the_first(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    spec = spec_for(source, target, {topic: 1})
    async with running(spec) as first:
        produce(source, topic, lines(100))
        await first.copied(100)
        async with running(spec, target) as second:
            # Until its first batch is written the first may go on: with positions read, the second copies for itself.
            await second.until(lambda: second.link.state == RUNNING)
            produce(source, topic, lines(100))
            await second.copied(100)
            produce(source, topic, lines(1))
            with pytest.raises(FencedError, match=spec.transactional_id):
                await first.copied(10_000)


async def test_records_of_somebody_else_on_the_target_are_told_once(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    async with running(spec_for(source, target, {topic: 1})) as task:
        for round_ in range(1, 4):
            produce(source, topic, lines(100))
            await task.copied(100 * round_)
            produce(target, f"A.{topic}", lines(5))
        await task.finish()
        told = [line for line in task.link.notices if "Somebody else" in line]
    assert [line.partition(": ")[2].partition(" did")[0] for line in told] == [
        "5 records of partition 0 from offset 100 on"
    ]


async def test_a_batch_above_the_targets_limit_is_split(source: LocalCluster, target: LocalCluster) -> None:
    topic = fresh_topic()
    source.create_topic(topic)
    target.create_topic(f"A.{topic}", 1, {"max.message.bytes": "20000"})
    produce(source, topic, lines(5_000), **{"linger.ms": 300, "batch.size": 200_000})
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(5_000)
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)


async def test_a_record_above_the_targets_limit_stops_its_partition_alone_until_the_limit_is_raised(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic, other = fresh_topic(), mirrored_topic(source, target)
    source.create_topic(topic)
    target.create_topic(f"A.{topic}", 1, {"max.message.bytes": "20000"})
    produce(source, topic, [*lines(5), {"value": bytes(50_000)}, *lines(5)], **{"batch.num.messages": 1})
    async with running(spec_for(source, target, {topic: 1, other: 1})) as task:
        await task.until(lambda: bool(task.link.standing))
        (line,) = task.link.standing
        assert f"{topic}-0 stands still at offset 5: " in line
        assert f"raise max.message.bytes of topic A.{topic} on the target" in line
        produce(source, other, lines(100))
        await task.copied(105)
        set_config(target, f"A.{topic}", "max.message.bytes", "1000000")
        await task.copied(111, 150)
        await task.until(lambda: task.link.standing == ())
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)


async def test_topics_that_the_target_has_not_yet_give_back_their_room_and_are_copied_when_it_has_them(
    source: LocalCluster, target: LocalCluster, dice: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is read of a partition before its first acknowledgement, 256 KiB, would be six megabytes of these.
    monkeypatch.setattr(mirror_source, "FETCH_BUFFER", 4 << 20)
    late = {fresh_topic("late"): 12 for _ in range(2)}
    others = {mirrored_topic(source, target, 2): 2 for _ in range(3)}
    batch = {"batch.size": 50_000, "linger.ms": 50}
    for topic, partitions in late.items():
        source.create_topic(topic, partitions)
        produce(source, topic, large_records(20 * partitions, partitions, dice), **batch)
    async with running(spec_for(source, target, late | others)) as task:
        # By now as much was read of each as is read without an acknowledgement.
        await task.until(lambda: bool(task.link.standing))
        for topic, partitions in others.items():
            produce(source, topic, large_records(50 * partitions, partitions, dice), **batch)
        await task.copied(300, 20)
        assert task.link.counters["records"] == 300
        assert "late" in task.link.standing[0]
        for topic, partitions in late.items():
            await asyncio.to_thread(target.create_topic, f"A.{topic}", partitions)
        await task.copied(300 + 480)
        await task.until(lambda: task.link.standing == ())
        await task.finish()
    for topic in late | others:
        assert read(target, f"A.{topic}") == read(source, topic)


def large_records(count: int, partitions: int, dice: Random) -> list[dict[str, object]]:
    """Of 20 kB that no codec makes smaller, dealt to the partitions in turn."""
    return [
        {
            "key": b"%d" % number,
            "value": dice.randbytes(20_000),
            "partition": number % partitions,
            "timestamp": BEGUN + number,
        }
        for number in range(count)
    ]


async def test_a_task_of_which_every_partition_is_refused_fails_after_a_commit(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = fresh_topic()
    source.create_topic(topic)
    target.create_topic(f"A.{topic}", 1, {"max.message.bytes": "20000"})
    spec = spec_for(source, target, {topic: 1})
    async with running(spec) as task:
        produce(source, topic, lines(10))
        await task.copied(10)
        produce(source, topic, [{"value": bytes(50_000)}])
        with pytest.raises(PartitionRefusedError, match=r"offset 10: .* max.message.bytes of topic A\."):
            await task.copied(11)
    assert stored_positions(target, spec.connector)[topic, 0] == 9


async def test_a_topic_made_again_is_copied_from_its_beginning_although_only_what_is_latest_is_asked_for(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target)
    produce(source, topic, lines(60))
    spec = spec_for(source, target, {topic: 1})
    async with running(spec) as task:
        await task.copied(60)
        await task.finish()
    async with running(replace(spec, source={**spec.source, "auto.offset.reset": "latest"}), target) as task:
        produce(source, topic, lines(10))
        await task.copied(10)
        await asyncio.to_thread(source.delete_topic, topic)
        await asyncio.to_thread(source.create_topic, topic)
        produce(source, topic, lines(20))
        await task.copied(30)
        await task.finish()
    assert read(target, f"A.{topic}")[70:] == read(source, topic)
    assert stored_positions(target, spec.connector)[topic, 0] == 19


async def test_a_target_that_is_down_at_the_start_is_waited_for(source: LocalCluster) -> None:
    with LocalCluster("late") as target:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        topic = mirrored_topic(source, target)
        produce(source, topic, lines(100))
        await asyncio.to_thread(target.stop)
        async with running(spec_for(source, target, {topic: 1})) as task:
            await task.until(lambda: bool(task.link.notices))
            await asyncio.to_thread(target.start)
            await task.copied(100)
            await task.finish()


async def test_a_task_waiting_for_its_target_finishes_when_told(source: LocalCluster, target: LocalCluster) -> None:
    topic = fresh_topic()
    source.create_topic(topic)
    spec = spec_for(source, target, {topic: 1}, producer={"bootstrap.servers": "127.0.0.1:1"})
    async with running(spec) as task:
        await task.until(lambda: bool(task.link.notices))
        # Not only when its target answers, or a request to it is given up.
        await asyncio.wait_for(task.finish(), 20)


async def test_a_wrong_password_fails_the_task_with_one_line(source: LocalCluster, target: LocalCluster) -> None:
    with LocalCluster("guarded", listeners=["SASL_PLAINTEXT"], users={"alice": "right"}) as guarded:
        properties = {
            name: value.replace("right", "wrong") for name, value in guarded.client_properties("alice").items()
        }
        spec = spec_for(source, target, {fresh_topic(): 1}, producer=properties)
        async with running(spec) as task:
            with pytest.raises(NotAuthorized, match=r"^[^\n]*alice[^\n]*$"):
                await task.copied(1)
