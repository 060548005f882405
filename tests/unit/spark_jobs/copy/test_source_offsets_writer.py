"""Source offsets on their way to connect-offsets: split batches, and commits that are withdrawn."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from mirror_connect.connectors.problems import Problems
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset, SourceOffsetsWriter
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

    async def _write(self, _: object) -> None:
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
