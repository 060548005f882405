"""What a source task does with what a cluster refuses, or while it is unreachable."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.tasks import source_parts
from tests.brokers import FULL_BATCHES
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    fresh_topic,
    produce,
    read,
    running,
    spec_for,
    stored_offsets,
)
from tests.integration.source_task.copied_topics import (
    large_records,
    lines,
    mirrored_topic,
    set_config,
)

pytestmark = pytest.mark.brokers


async def test_records_of_somebody_else_on_the_target_are_told_once(source: LocalCluster, target: LocalCluster) -> None:
    topic = mirrored_topic(source, target)
    async with running(spec_for(source, target, {topic: 1})) as task:
        for round_ in range(1, 4):
            produce(source, topic, lines(100))
            await task.copied(100 * round_)
            produce(target, f"A.{topic}", lines(5))
        await task.finish()
        told = [line for line in task.link.log_lines if "Somebody else" in line]
    assert [line.partition(": ")[2].partition(" did")[0] for line in told] == [
        "5 records of partition 0 from offset 100 on"
    ]


async def test_a_batch_above_the_targets_limit_is_split(source: LocalCluster, target: LocalCluster) -> None:
    topic = fresh_topic()
    source.create_topic(topic)
    target.create_topic(f"A.{topic}", 1, {"max.message.bytes": "20000"})
    produce(source, topic, lines(5_000), **{**FULL_BATCHES, "batch.size": 200_000})
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
        await task.until(lambda: bool(task.link.problem_lines))
        (line,) = task.link.problem_lines
        assert f"{topic}-0 is stalled at offset 5: " in line
        assert f"raise max.message.bytes of topic A.{topic} on the target" in line
        produce(source, other, lines(100))
        await task.copied(105)
        set_config(target, f"A.{topic}", "max.message.bytes", "1000000")
        await task.copied(111)
        await task.until(lambda: task.link.problem_lines == ())
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)


async def test_topics_that_the_target_has_not_yet_give_back_their_room_and_are_copied_when_it_has_them(
    source: LocalCluster, target: LocalCluster, dice: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is read of a partition before its first acknowledgement, 256 KiB, would be six megabytes of these.
    monkeypatch.setattr(source_parts, "FETCH_BUFFER", 4 << 20)
    late = {fresh_topic("late"): 12 for _ in range(2)}
    others = {mirrored_topic(source, target, 2): 2 for _ in range(3)}
    batch = {**FULL_BATCHES, "batch.size": 50_000}
    for topic, partitions in late.items():
        source.create_topic(topic, partitions)
        produce(source, topic, large_records(20 * partitions, partitions, dice), **batch)
    async with running(spec_for(source, target, late | others)) as task:
        # By now as much was read of each as is read without an acknowledgement.
        await task.until(lambda: bool(task.link.problem_lines))
        for topic, partitions in others.items():
            produce(source, topic, large_records(50 * partitions, partitions, dice), **batch)
        await task.copied(300)
        assert task.link.counters["records"] == 300
        assert "late" in task.link.problem_lines[0]
        for topic, partitions in late.items():
            await asyncio.to_thread(target.create_topic, f"A.{topic}", partitions)
        await task.copied(300 + 480)
        await task.until(lambda: task.link.problem_lines == ())
        await task.finish()
    for topic in late | others:
        assert read(target, f"A.{topic}") == read(source, topic)


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
    assert stored_offsets(target, spec.connector)[topic, 0] == 9


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
    assert stored_offsets(target, spec.connector)[topic, 0] == 19


@pytest.mark.long
async def test_a_target_that_is_down_at_the_start_is_waited_for(source: LocalCluster) -> None:
    with LocalCluster("late") as target:
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        topic = mirrored_topic(source, target)
        produce(source, topic, lines(100))
        await asyncio.to_thread(target.stop)
        async with running(spec_for(source, target, {topic: 1})) as task:
            await task.until(lambda: bool(task.link.log_lines))
            await asyncio.to_thread(target.start)
            await task.copied(100)
            await task.finish()


async def test_a_task_waiting_for_its_target_finishes_when_told(source: LocalCluster, target: LocalCluster) -> None:
    topic = fresh_topic()
    source.create_topic(topic)
    spec = spec_for(source, target, {topic: 1}, producer={"bootstrap.servers": "127.0.0.1:1"})
    async with running(spec) as task:
        await task.until(lambda: bool(task.link.log_lines))
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
