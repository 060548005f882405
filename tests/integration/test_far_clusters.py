"""Copying over 100 ms of round trip: what is far away is asked for much at once, and sent to before it has answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local import LocalCluster
from deploy.local.far_link import FETCH, PRODUCE, FarLink, far_cluster
from mirror_connect.kafka_io.producer.leader_state import FAR_WINDOW
from tests.brokers import FULL_BATCHES
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    batches,
    fresh_topic,
    produce,
    read,
    running,
    spec_for,
    stored_offsets,
)

pytestmark = pytest.mark.brokers

ROUND_TRIP_S = 0.1
THIN_BYTES_PER_S = 4_000_000
# Of the link's connections, each when so many requests are under way on one: most have a batch of each partition.
BREAKS = 3
FULL_REQUESTS = 4
DESCRIBE_PRODUCERS = 61
# Until the distance is known.
MEASURED_S = 6.0
PARTITIONS = 4
RECORDS = 24_000
VALUE_BYTES = 1_000
USUAL = {**FULL_BATCHES, "batch.size": 100_000}


def rows() -> list[dict[str, Any]]:
    """About 24 MB in batches of 100 KB."""
    return [
        {"value": bytes([n % 251]) * VALUE_BYTES, "key": b"%d" % n, "partition": n % PARTITIONS} for n in range(RECORDS)
    ]


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[LocalCluster, FarLink]]:
    with far_cluster("far", ROUND_TRIP_S) as made:
        made[0].create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        yield made


@pytest.fixture(scope="module")
def near() -> Iterator[LocalCluster]:
    with LocalCluster("near") as cluster:
        cluster.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        yield cluster


async def copied(
    source: LocalCluster, target: LocalCluster, link: FarLink, *, bytes_per_second: int = 0
) -> tuple[Counter[int], Counter[int], float]:
    """Copies `rows` and compares; (answers that were filled, most in flight, both by API key, seconds) of copying alone.

    The target has the source's batches. Empty answers count for nothing: how many there are depends on how long the target
    takes for what was fetched.
    """
    topic = fresh_topic("far")
    source.create_topic(topic, PARTITIONS)
    target.create_topic(f"A.{topic}", PARTITIONS)
    produce(source, topic, rows(), **USUAL)
    link.filled.clear()
    link.most_in_flight.clear()
    spec = spec_for(source, target, {topic: PARTITIONS})
    link.bytes_per_second = bytes_per_second
    started = time.monotonic()
    async with running(spec) as task:
        await task.copied(RECORDS)
        seen = link.filled.copy(), link.most_in_flight.copy(), time.monotonic() - started
        link.bytes_per_second = 0
        await task.finish()
    assert read(target, f"A.{topic}") == read(source, topic)
    for partition in range(PARTITIONS):
        assert len(batches(target, f"A.{topic}", partition)) == len(batches(source, topic, partition))
    each = RECORDS // PARTITIONS - 1
    assert stored_offsets(target, spec.connector) == {(topic, p): each for p in range(PARTITIONS)}
    assert task.link.log_lines == []
    return seen


async def test_a_far_target_is_sent_to_before_it_has_answered(
    far: tuple[LocalCluster, FarLink], near: LocalCluster
) -> None:
    target, link = far
    _, most_in_flight, _ = await copied(near, target, link)
    assert 3 <= most_in_flight[PRODUCE] <= FAR_WINDOW


async def test_what_was_in_flight_when_connections_broke_is_there_once_and_in_order(
    far: tuple[LocalCluster, FarLink], near: LocalCluster
) -> None:
    target, link = far
    topic = fresh_topic("far")
    near.create_topic(topic, PARTITIONS)
    target.create_topic(f"A.{topic}", PARTITIONS)
    first, others = rows()[:PARTITIONS], rows()[PARTITIONS:]
    produce(near, topic, first)
    link.requests.clear()
    link.most_in_flight.clear()
    async with running(spec_for(near, target, {topic: PARTITIONS})) as task:
        await task.copied(len(first))
        await asyncio.sleep(MEASURED_S)
        asked = link.requests[DESCRIBE_PRODUCERS]
        link.bytes_per_second = THIN_BYTES_PER_S
        copying = asyncio.gather(asyncio.to_thread(produce, near, topic, others, **USUAL), task.copied(RECORDS))
        broken = 0
        while not copying.done():
            await asyncio.wait({copying}, timeout=0.01)
            if broken < BREAKS and link.most_in_flight[PRODUCE] >= FULL_REQUESTS:
                link.break_connections()
                await asyncio.sleep(ROUND_TRIP_S)
                link.most_in_flight.clear()
                broken += 1
        await copying
        link.bytes_per_second = 0
        await task.finish()
    assert broken == BREAKS
    assert link.requests[DESCRIBE_PRODUCERS] > asked
    assert read(target, f"A.{topic}") == read(near, topic)


async def test_a_far_source_is_asked_for_much_at_once(far: tuple[LocalCluster, FarLink], near: LocalCluster) -> None:
    source, link = far
    filled, _, _ = await copied(source, near, link)
    # Kafka's own consumer asks for 1 MiB of a partition at once: that would be six round trips at least.
    assert 0 < filled[FETCH] <= 6


@pytest.mark.long
async def test_a_thin_link_is_not_passed_by_and_its_batches_stay_as_they_are(
    far: tuple[LocalCluster, FarLink], near: LocalCluster
) -> None:
    target, link = far
    *_, seconds = await copied(near, target, link, bytes_per_second=THIN_BYTES_PER_S)
    assert seconds >= RECORDS * VALUE_BYTES / THIN_BYTES_PER_S


async def test_records_that_come_one_by_one_do_not_wait_for_a_round_trip_each(
    far: tuple[LocalCluster, FarLink], near: LocalCluster
) -> None:
    target, link = far
    topic = fresh_topic("far")
    near.create_topic(topic)
    target.create_topic(f"A.{topic}")
    rows = [{"value": b"%d" % n} for n in range(3_000)]
    produce(near, topic, rows, **{"batch.num.messages": 1})
    link.requests.clear()
    async with running(spec_for(near, target, {topic: 1})) as task:
        await task.copied(len(rows))
        sent = link.requests[PRODUCE]
        await task.finish()
    assert [record.value for record in read(target, f"A.{topic}")] == [row["value"] for row in rows]
    assert sent < len(rows) / 100


def test_the_link_delays_and_keeps_the_order(far: tuple[LocalCluster, FarLink]) -> None:
    cluster, link = far
    topic = fresh_topic("far")
    cluster.create_topic(topic)
    link.requests.clear()
    produce(cluster, topic, [{"value": b"%d" % n} for n in range(1_000)])
    assert [int(record.value or b"") for record in read(cluster, topic)] == list(range(1_000))
    assert link.requests[PRODUCE] > 0
