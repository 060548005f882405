"""A source topic with LogAppendTime, whose remote topic has it, too: for some time, or all the time."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from deploy.local import LocalCluster
from mirror_connect.kafka_io.producer.target_partition import APPEND_TIME_MS
from tests.brokers import FULL_BATCHES
from tests.integration.mirror_rig import Running, batches, produce, read, running, spec_for
from tests.integration.source_task.copied_topics import BEGUN, lines, mirrored_topic, set_config

pytestmark = pytest.mark.brokers

TYPE = "message.timestamp.type"
LARGE = {**FULL_BATCHES, "compression.type": "lz4", "batch.size": 60_000}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_compressed_bytes_stay_and_the_times_are_those_of_the_targets_broker(
    source: LocalCluster, target: LocalCluster, codec: str
) -> None:
    topic = mirrored_topic(source, target, message_timestamp_type="LogAppendTime")
    set_config(target, f"A.{topic}", TYPE, "LogAppendTime")
    produce(source, topic, lines(20_000), **{**LARGE, "compression.type": codec})
    begun = time.time() * 1000
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(20_000)
        await task.finish()
        reencoded = task.link.counters["reencoded"]
    there, copied = read(source, topic), read(target, f"A.{topic}")
    assert [(r.key, r.value) for r in copied] == [(r.key, r.value) for r in there]
    assert {r.timestamp[0] for r in copied} == {TIMESTAMP_LOG_APPEND_TIME}
    assert min(r.timestamp[1] for r in copied) >= begun > max(r.timestamp[1] for r in there)
    # Only the answer for the first one shows what the target has.
    assert reencoded == 1
    kept = [data for _, count, data in batches(source, topic, 0)[1:] if count > 10]
    assert len(kept) > 5
    assert [data for _, count, data in batches(target, f"A.{topic}", 0)[1:] if count > 10] == kept


async def test_single_uncompressed_records_are_merged_although_both_sides_have_append_times(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target, message_timestamp_type="LogAppendTime")
    set_config(target, f"A.{topic}", TYPE, "LogAppendTime")
    produce(source, topic, lines(5_000), **{"batch.num.messages": 1})
    async with running(spec_for(source, target, {topic: 1})) as task:
        await task.copied(5_000)
        await task.finish()
        reencoded = task.link.counters["reencoded"]
    assert [(r.key, r.value) for r in read(target, f"A.{topic}")] == [(r.key, r.value) for r in read(source, topic)]
    assert reencoded < 500


async def test_the_config_of_the_target_may_change_while_records_are_copied(
    source: LocalCluster, target: LocalCluster
) -> None:
    topic = mirrored_topic(source, target, message_timestamp_type="LogAppendTime")
    remote = f"A.{topic}"
    async with running(spec_for(source, target, {topic: 1})) as task:
        # CreateTime is what it begins with.
        copied = await _more(task, source, topic, 0)
        set_config(target, remote, TYPE, "LogAppendTime")
        for _ in range(3):
            copied = await _more(task, source, topic, copied)
        reencoded = task.link.counters["reencoded"]
        copied = await _more(task, source, topic, copied)
        assert task.link.counters["reencoded"] == reencoded
        # In the middle of things: what is on its way has been decided on.
        set_config(target, remote, TYPE, "CreateTime")
        changed = copied
        for _ in range(3):
            copied = await _more(task, source, topic, copied)
        # With nothing on its way: what the last answer said counts no more.
        set_config(target, remote, TYPE, "LogAppendTime")
        copied = await _more(task, source, topic, copied)
        copied = await _more(task, source, topic, copied)
        set_config(target, remote, TYPE, "CreateTime")
        await asyncio.sleep(APPEND_TIME_MS / 1000 + 0.5)
        quiet = copied
        copied = await _more(task, source, topic, copied)
        await task.finish()
    there, here = read(source, topic), read(target, remote)
    assert [(r.key, r.value) for r in here] == [(r.key, r.value) for r in there]
    kinds = [r.timestamp[0] for r in here]
    assert {TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME} == set(kinds)
    # Records with a time that neither broker gave them have that of their producer, and were on their way at the change.
    others = [
        number
        for number, (one, other) in enumerate(zip(here, there, strict=True))
        if one.timestamp[0] == TIMESTAMP_CREATE_TIME and one.timestamp[1] != other.timestamp[1]
    ]
    assert all(here[number].timestamp[1] == BEGUN + int(here[number].key or b"") for number in others)
    assert not others or changed <= min(others) <= max(others) < changed + 5 * 2_000
    assert set(kinds[quiet:]) == {TIMESTAMP_CREATE_TIME}
    assert here[quiet:] == [r._replace(timestamp=(TIMESTAMP_CREATE_TIME, r.timestamp[1])) for r in there[quiet:]]


async def _more(task: Running, source: LocalCluster, topic: str, copied: int) -> int:
    """Two batches or more of usual size; returns how many records are copied then."""
    await asyncio.to_thread(produce, source, topic, lines(2_000), **LARGE)
    await task.copied(copied + 2_000)
    return copied + 2_000
