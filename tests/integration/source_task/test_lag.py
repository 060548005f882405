"""The lag that a task tells, against the truth: the source's records, and when the target's broker appended each of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.task_measures import COPIED, SOURCE, TARGET, PartitionMeasures
from tests.brokers import hold_back, started
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    Running,
    fresh_topic,
    read,
    running,
    spec_for,
)

pytestmark = pytest.mark.brokers

HELD_S = 9.0
HEARD_LATE_MS = 500
EVERY_S = 0.02
RECORD_BYTES = 1_000
# A third of what is produced.
QUOTA = int(RECORD_BYTES / EVERY_S / 3)
CLIENTS = {"consumer_byte_rate": "A->B|held-0|replication-consumer", "producer_byte_rate": "connector-producer-held-0"}


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    # A quota is by default an average of ten seconds: ten seconds' worth comes at once.
    quick = {"quota.window.num": "3"}
    with started(LocalCluster("source", properties=quick), LocalCluster("target", properties=quick)) as both:
        source, target = both
        target.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, {"cleanup.policy": "compact"})
        yield source, target


def topics(source: LocalCluster, target: LocalCluster) -> str:
    """A topic whose copy shows when each record was appended."""
    topic = fresh_topic()
    source.create_topic(topic, 1)
    target.create_topic(f"A.{topic}", 1, {"message.timestamp.type": "LogAppendTime"})
    return topic


async def produce_steadily(cluster: LocalCluster, topic: str, seconds: float, dice: Random) -> None:
    producer = Producer({**cluster.librdkafka(), "linger.ms": 0})
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        producer.produce(
            topic, key=b"%d" % number, value=dice.randbytes(RECORD_BYTES), timestamp=int(time.time() * 1000)
        )
        producer.poll(0)
        number += 1
        await asyncio.sleep(EVERY_S)
    assert await asyncio.to_thread(producer.flush, 60) == 0


def true_lag_s(created: Sequence[int], appended: Sequence[int], at_ms: int) -> float:
    missing = [mark for mark, arrived in zip(created, appended, strict=True) if mark <= at_ms < arrived]
    return (at_ms - missing[0]) / 1000 if missing else 0.0


class Told:
    """What a task has told of one partition: each row with the time of its report."""

    def __init__(self, task: Running) -> None:
        self._task = task

    @property
    def rows(self) -> list[tuple[int, PartitionMeasures]]:
        return [(report.at_ms, row) for report in self._task.link.measures for row in report.partitions]

    @property
    def last(self) -> PartitionMeasures:
        return self.rows[-1][1]

    async def until_lag(self, lag: int | None, seconds: float = 180.0) -> None:
        async with asyncio.timeout(seconds):
            while not self.rows or self.last.lag != lag:
                self._task.check_running()
                await asyncio.sleep(0.05)

    def lag_s_at(self, at_ms: int) -> float | None:
        """What a reader of the reports shows at that time: None is unknown."""
        before = [row for told_ms, row in self.rows if told_ms <= at_ms]
        if not before or before[-1].lag is None:
            return None
        oldest = before[-1].oldest_ms
        return 0.0 if before[-1].lag == 0 else None if oldest is None else max(0, at_ms - oldest) / 1000


@pytest.mark.parametrize("quota", ["producer_byte_rate", pytest.param("consumer_byte_rate", marks=pytest.mark.long)])
async def test_lag_in_seconds_is_true_within_one_where_a_quota_holds_the_link_back(
    source: LocalCluster, target: LocalCluster, quota: str, dice: Random
) -> None:
    topic = topics(source, target)
    held_back = target if quota == "producer_byte_rate" else source
    async with running(spec_for(source, target, {topic: 1}, connector="held")) as task:
        told = Told(task)
        await told.until_lag(0)
        await asyncio.to_thread(hold_back, held_back, CLIENTS[quota], quota, QUOTA)
        await produce_steadily(source, topic, HELD_S, dice)
        ended_ms = int(time.time() * 1000)
        await asyncio.to_thread(hold_back, held_back, CLIENTS[quota], quota, None)
        await told.until_lag(0)
        assert told.last.oldest_ms is None
        await task.finish()
    there, here = read(source, topic), read(target, f"A.{topic}")
    assert [record.key for record in here] == [record.key for record in there]
    created = [record.timestamp[1] for record in there]
    appended = [record.timestamp[1] for record in here]
    truths, wrong = [], []
    # When it is told: between two reports, half a second apart, the target may get a batch of several seconds.
    for at_ms in (report.at_ms for report in task.link.measures if created[0] <= report.at_ms <= ended_ms):
        # A task knows of a batch when it gets to the answer, which a machine with too much work lets wait.
        near = [true_lag_s(created, appended, at_ms - earlier_ms) for earlier_ms in (0, HEARD_LATE_MS)]
        truths.append(near[0])
        said = told.lag_s_at(at_ms)
        if said is None or not min(near) - 1.0 <= said <= max(near) + 1.0:
            wrong.append((at_ms - created[0], near, said))
    assert max(truths) > 3, "the quota did not hold the link back"
    assert wrong == []
    last = task.link.measures[-1]
    assert told.last.records == len(there)
    assert sum(last.latency_counts) == len(there)
    assert last.batches[COPIED][0] > 0
    throttled = {row.side for row in last.requests if row.throttled_ms > 0}
    assert throttled == {TARGET if quota == "producer_byte_rate" else SOURCE}


async def test_a_dead_source_makes_the_lag_unknown_and_never_0(source: LocalCluster, target: LocalCluster) -> None:
    topic = topics(source, target)
    async with running(spec_for(source, target, {topic: 1})) as task:
        told = Told(task)
        await told.until_lag(0)
        # At rest nothing changes, so nothing is told again.
        await asyncio.sleep(2)
        assert told.last.lag == 0
        assert len(told.rows) <= 2
        await asyncio.to_thread(source.kill)
        killed = time.monotonic()
        await told.until_lag(None)
        # Ten seconds after its last answer.
        assert time.monotonic() - killed > 9
        await asyncio.sleep(2)
        assert told.last.lag is None
        await asyncio.to_thread(source.start)
        await told.until_lag(0)
        await task.finish()
