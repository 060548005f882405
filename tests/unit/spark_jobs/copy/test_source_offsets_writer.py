"""Source offsets on their way to connect-offsets: split batches, and commits that are withdrawn."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mirror_connect.connectors.problems import Problems
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import RECORDS_IN_SLICE, BatchProducer
from mirror_connect.kafka_io.records.batch_builder import BatchBuilder
from mirror_connect.spark_jobs.copy import source_offsets_writer
from mirror_connect.spark_jobs.copy.source_offsets_writer import (
    NEW_KEY,
    OFFSETS_IN_SLICE,
    LastOffset,
    SourceOffsetsWriter,
)
from tests.fakes.loop_turns import LoopTurns
from tests.fakes.producer_rig import Feed, until
from tests.fakes.simulated_time import run_simulated
from tests.fakes.target_cluster import FakeTarget


async def test_commits_go_on_after_a_batch_of_positions_was_split() -> None:
    target = FakeTarget()
    target.limit = 100_000
    producer = BatchProducer(target, ProducerSettings(retry_backoff_s=0.001), "g-c-0", lambda: True, Problems(print))  # type: ignore[arg-type]
    await producer.start()
    spec = SimpleNamespace(connector="c", source_alias="A", offsets_partitions=1, offsets_topic="connect-offsets")
    writer = SourceOffsetsWriter(producer, spec)  # type: ignore[arg-type]
    try:
        for number in range(8_000):
            writer.note(TaskPartition(f"some.topic.name.{number}", 0, "x"), LastOffset(5, b"1" * 16))
        assert await writer.flush(30)
        writer.note(TaskPartition("some.topic.name.1", 0, "x"), LastOffset(6, b"1" * 16))
        assert writer.commit()
        assert await writer.flush(30)
        assert target.log("connect-offsets", 0).end == 8_001
    finally:
        await writer.close()
        await producer.close()


async def test_a_commit_of_many_partitions_is_made_in_slices_and_has_what_was_noted_when_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, turns = FakeTarget(), LoopTurns()
    producer = BatchProducer(target, ProducerSettings(), "g-c-0", lambda: True, Problems(print))  # type: ignore[arg-type]
    await producer.start()
    spec = SimpleNamespace(connector="c", source_alias="A", offsets_partitions=25, offsets_topic="connect-offsets")
    writer = SourceOffsetsWriter(producer, spec)  # type: ignore[arg-type]
    for module, name in (
        (source_offsets_writer, "source_offset_key"),
        (source_offsets_writer, "source_offset_value"),
        (BatchBuilder, "add"),
    ):
        turns.count(monkeypatch, module, name)
    partitions = [TaskPartition(f"topic.{number}", 0, "x") for number in range(2_000)]
    turns.start()
    try:
        for offset in (5, 6):
            for partition in partitions:
                writer.note(partition, LastOffset(offset, b"1" * 16))
            assert writer.commit()
            await asyncio.sleep(0)
            for partition in partitions:
                writer.note(partition, LastOffset(offset + 1, b"1" * 16))
            assert await writer.flush(30)
        # Of a partition that has the same offset again, nothing is written.
        writer.note(partitions[0], LastOffset(7, b"1" * 16))
        assert await writer.flush(30)
    finally:
        await writer.close()
        await producer.close()
    assert sum(target.log("connect-offsets", number).end for number in range(25)) == 3 * 2_000
    assert turns.whole == {"source_offset_key": 2_000, "source_offset_value": 6_000, "add": 6_000}
    assert turns.most["source_offset_key"] <= OFFSETS_IN_SLICE // NEW_KEY
    assert turns.most["source_offset_value"] <= OFFSETS_IN_SLICE
    assert turns.most["add"] <= RECORDS_IN_SLICE


async def test_a_commit_that_is_withdrawn_between_two_slices_writes_nothing_and_is_repeated() -> None:
    target = FakeTarget()
    producer = BatchProducer(target, ProducerSettings(), "g-c-0", lambda: True, Problems(print))  # type: ignore[arg-type]
    await producer.start()
    spec = SimpleNamespace(connector="c", source_alias="A", offsets_partitions=1, offsets_topic="connect-offsets")
    writer = SourceOffsetsWriter(producer, spec)  # type: ignore[arg-type]
    partitions = [TaskPartition(f"topic.{number}", 0, "x") for number in range(1_000)]
    try:
        for partition in partitions:
            writer.note(partition, LastOffset(5, None))
        assert writer.commit()
        await asyncio.sleep(0)
        await writer.withdraw()
        writer.forget(partitions[0])
        writer.note(partitions[1], LastOffset(6, None))
        await asyncio.sleep(0.05)
        assert target.log("connect-offsets", 0).end == 0
        assert await writer.flush(30)
        assert target.log("connect-offsets", 0).end == 999
        written = b"".join(each.payload for each in target.log("connect-offsets", 0).batches)
        assert (written.count(b'{"offset":5}'), written.count(b'{"offset":6}')) == (998, 1)
    finally:
        await writer.close()
        await producer.close()


async def test_positions_that_are_withdrawn_do_not_arrive_and_are_committed_again() -> None:
    target = FakeTarget()
    leased = [True]
    producer = BatchProducer(
        target, ProducerSettings(retry_backoff_s=0.001), "g-c-0", lambda: leased[0], Problems(print)
    )  # type: ignore[arg-type]
    await producer.start()
    spec = SimpleNamespace(connector="c", source_alias="A", offsets_partitions=1, offsets_topic="connect-offsets")
    writer = SourceOffsetsWriter(producer, spec)  # type: ignore[arg-type]
    try:
        leaving, staying = TaskPartition("leaving", 0, "x"), TaskPartition("staying", 0, "x")
        leased[0] = False
        writer.note(leaving, LastOffset(5, None))
        writer.note(staying, LastOffset(7, None))
        assert not await writer.flush(0.05)
        await writer.withdraw()
        writer.forget(leaving)
        leased[0] = True
        await asyncio.sleep(0.2)
        assert target.log("connect-offsets", 0).end == 0
        assert await writer.flush(10)
        written = b"".join(each.payload for each in target.log("connect-offsets", 0).batches)
        assert b"staying" in written
        assert b"leaving" not in written
    finally:
        await writer.close()
        await producer.close()


class SlowWriter(SourceOffsetsWriter):
    """Each commit takes 0.2 s."""

    async def _write(self) -> None:
        await asyncio.sleep(0.2)


def test_a_flush_behind_a_commit_under_way_ends_in_its_time_by_the_clock_of_the_loop() -> None:
    spec = SimpleNamespace(connector="c", source_alias="A", offsets_partitions=1, offsets_topic="connect-offsets")

    async def flushed() -> tuple[bool, float]:
        writer = SlowWriter(SimpleNamespace(expect=lambda _: None), spec)  # type: ignore[arg-type]
        writer.note(TaskPartition("first", 0, "x"), LastOffset(5, None))
        assert writer.commit()
        writer.note(TaskPartition("second", 0, "x"), LastOffset(7, None))
        whole = await writer.flush(0.3)
        took = asyncio.get_running_loop().time()
        await writer.close()
        return whole, round(took, 3)

    assert run_simulated(flushed()) == (False, 0.3)


async def test_the_leaders_of_the_offsets_topic_are_looked_up_before_the_first_commit() -> None:
    target = FakeTarget()
    target.missing = {"A.orders": 5}
    producer = BatchProducer(target, ProducerSettings(), "g-c-0", lambda: True, Problems(print))  # type: ignore[arg-type]
    spec = SimpleNamespace(connector="c", source_alias="A", offsets_partitions=1, offsets_topic="connect-offsets")
    writer = SourceOffsetsWriter(producer, spec)  # type: ignore[arg-type]
    await producer.start()
    producer.partition("A.orders", 0, Feed())
    await until(lambda: target.refreshed == [{"A.orders", "connect-offsets"}])
    await writer.close()
    await producer.close()
