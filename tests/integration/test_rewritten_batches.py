"""Batches that real brokers re-dated and compacted: what is made of them must be what librdkafka reads of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchPartition
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import BatchView, as_is, needs_rewrite, split_fetch, stamp, verify
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from tests.fakes.encoded_batches import decode
from tests.integration.mirror_rig import fresh_topic, produce, read
from tests.waiting import PATIENCE_S, WaitTimedOut

pytestmark = pytest.mark.brokers
DAY = 86_400_000
# Compacted at once; tombstones and markers stay for a day, with the horizon in their batches.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DAY),
}
Read = list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]]


@pytest.fixture(scope="module")
def source() -> Iterator[LocalCluster]:
    quick_cleaner = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0"}
    with LocalCluster("rewritten", properties=quick_cleaner) as cluster:
        yield cluster


async def fetched(source: LocalCluster, topic: str, *, committed: bool = False) -> tuple[list[BatchView], Read]:
    """Every batch of partition 0, and the records that would be sent to the target."""
    views: list[BatchView] = []
    sent: Read = []
    cluster = Cluster(source.client_properties(), client_id="rewritten")
    try:
        await cluster.connect()
        await cluster.refresh([topic])
        offset = 0
        while True:
            answer = await cluster.send(
                1, Fetch([FetchPartition(topic, 0, offset, 1 << 20)], 50, 1, 1 << 20, read_committed=committed)
            )
            (part,) = answer.partitions
            assert part.error == 0
            aborted = AbortedFilter(part.aborted)
            found = list(split_fetch(part.records))
            if not found:
                return views, sent
            for view in found:
                verify(view)
                views.append(view)
                # Shown every batch, in order: the markers end the transactions.
                if aborted.drops(view):
                    continue
                batch = next(rewrite(view, offset), None) if needs_rewrite(view, offset) else as_is(view)
                if batch is not None:
                    records = decode(stamp(batch, 1, 0, 0))
                    sent += [(r.key, r.value, r.timestamp, r.headers) for r in records]
            offset = found[-1].last_offset + 1
    finally:
        await cluster.close()


def by_librdkafka(source: LocalCluster, topic: str, isolation: str = "read_uncommitted") -> Read:
    records = read(source, topic, isolation=isolation)
    return [(r.key, r.value, r.timestamp[1], r.headers) for r in records]


async def compacted_until(
    source: LocalCluster, topic: str, done: Callable[[list[BatchView]], bool], *, committed: bool = False
) -> tuple[list[BatchView], Read, Read]:
    """Rolls segments until the cleaner has done what is waited for: what is fetched then, and what librdkafka reads."""
    isolation = "read_committed" if committed else "read_uncommitted"
    until = time.monotonic() + PATIENCE_S
    for number in itertools.count():
        # The active segment is never compacted, and rolls when something comes after segment.ms.
        produce(source, topic, [{"key": b"tick %d" % number, "value": b"tick"}])
        await asyncio.sleep(0.3)
        views, sent = await fetched(source, topic, committed=committed)
        read_by_it = by_librdkafka(source, topic, isolation)
        # Neither was read before and the other behind another round of the cleaner.
        if done(views) and (await fetched(source, topic, committed=committed))[1] == sent:
            return views, sent, read_by_it
        if time.monotonic() > until:
            raise WaitTimedOut(f"not within {PATIENCE_S:g} s: the cleaner has done it")
    raise AssertionError


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_the_brokers_times_become_the_records_times(source: LocalCluster, codec: str) -> None:
    topic = fresh_topic()
    source.create_topic(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    lines = [{"key": b"%d" % n, "value": b"line %d" % n * n, "timestamp": 1_000 + n} for n in range(300)]
    produce(source, topic, lines, **{"compression.type": codec, "batch.num.messages": 50})
    views, sent = await fetched(source, topic)
    assert all(view.log_append_time for view in views)
    assert sent == by_librdkafka(source, topic)


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_records_behind_a_delete_horizon_keep_their_times(source: LocalCluster, codec: str) -> None:
    topic = fresh_topic()
    source.create_topic(topic, 1, COMPACTED)
    begun = int(time.time() * 1000) - 60_000
    for value in (b"first", b"second"):
        lines = [
            {
                "key": b"%d" % (n % 40),
                "value": None if n % 3 == 0 else value,
                "timestamp": begun + n,
                "headers": [("n", b"%d" % n)],
            }
            for n in range(200)
        ]
        produce(source, topic, lines, **{"compression.type": codec, "batch.num.messages": 20})
    views, sent, theirs = await compacted_until(
        source, topic, lambda views: any(view.has_delete_horizon and view.count > 0 for view in views)
    )
    horizon = next(view for view in views if view.has_delete_horizon and view.count > 0)
    assert horizon.base_timestamp > begun + DAY // 2
    assert (None in {value for _, value, _, _ in sent}, sent) == (True, theirs)


async def test_a_compacted_log_with_an_aborted_transaction_gives_what_readers_of_committed_records_see(
    source: LocalCluster,
) -> None:
    topic = fresh_topic()
    source.create_topic(topic, 1, COMPACTED)
    producer = Producer({**source.librdkafka(), "transactional.id": topic})
    producer.init_transactions(60)
    for value, commit in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(topic, key=b"%s %d" % (value, number), value=value)
        producer.flush(60)
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    _, sent, theirs = await compacted_until(
        source, topic, lambda views: any(v.is_control and v.has_delete_horizon for v in views), committed=True
    )
    assert [value for _, value, _, _ in sent].count(b"committed") == 20
    assert sent == theirs
