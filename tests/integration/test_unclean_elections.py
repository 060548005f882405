"""Source logs that lose records to unclean leader elections, of three real brokers: what is told, copied and verified."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from deploy.local import LocalCluster, LocalError
from deploy.local.cluster import start_all
from deploy.local.kafka_jars import KAFKA_VERSION, ensure
from deploy.local.kafka_releases import OLD_VERSIONS
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.verify.link import described_link
from mirror_connect.verify.run import NOT_COMPARED, Options, Report, Result, Watcher, verify
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    Running,
    fresh_topic,
    messages,
    positions_with_origins,
    produce,
    running,
    spec_for,
)
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400), pytest.mark.soak]
BROKERS = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "zookeeper.session.timeout.ms": "2000",
}
# Two of the three keep the data; the third is there for the quorum.
LEADER, FOLLOWER = 2, 3
OVER_S = 120.0


@pytest.fixture(scope="module")
def kept() -> Iterator[LocalCluster]:
    """The target."""
    with contextlib.closing(LocalCluster("kept")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def clusters(request: pytest.FixtureRequest, kept: LocalCluster) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """The source is of this release or of another one, as parametrized; only one of them runs at a time."""
    version = getattr(request, "param", KAFKA_VERSION)
    try:
        ensure(version, tries=1)
    except LocalError as error:
        pytest.skip(str(error))
    source = LocalCluster("unclean", 3, properties=BROKERS, heap="256m", version=version)
    with contextlib.closing(source):
        start_all(source, *([] if kept.brokers[0].alive else [kept]))
        if OFFSETS_TOPIC not in kept.admin().list_topics(timeout=60).topics:
            kept.create_topic(OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        yield source, kept


class Unclean:
    """A topic of one partition, and what becomes of it. Each value is there once, a number that tells who was leading."""

    def __init__(
        self, clusters: tuple[LocalCluster, LocalCluster], leader: int = LEADER, follower: int = FOLLOWER
    ) -> None:
        self.source, self.target = clusters
        self.leader, self.follower = leader, follower
        self.topic = fresh_topic("unclean")
        self.key = TopicPartition(self.topic, 0)
        new = NewTopic(self.topic, 1, replica_assignment=[[leader, follower]])
        wait_for_state(lambda: self._made(new), "the topic is made")
        self.target.create_topic(f"A.{self.topic}")
        self.connector = fresh_topic("mirror")
        self.numbers = itertools.count()

    def _made(self, new: NewTopic) -> bool:
        try:
            self.source.admin().create_topics([new])[self.topic].result(60)
        except KafkaException as problem:
            code = problem.args[0].code()
            # librdkafka's handle of a bootstrap address goes when the broker's own is known, with what waits there.
            if code not in (KafkaError._DESTROY_BROKER, KafkaError.TOPIC_ALREADY_EXISTS):
                raise
            return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    def spec(self, **consumer: str) -> TaskSpec:
        settings = {name.replace("_", "."): value for name, value in consumer.items()}
        made = spec_for(self.source, self.target, {self.topic: 1}, connector=self.connector, consumer=settings)
        return replace(made, commit_interval_ms=500)

    async def put(self, count: int) -> None:
        rows = [{"value": b"%d" % next(self.numbers), "partition": 0} for _ in range(count)]
        # One request at a time: a batch that a leader refuses because it doesn't know yet that it leads keeps its place.
        settings = {"acks": 1, "batch.num.messages": 20, "max.in.flight": 1}
        await asyncio.to_thread(produce, self.source, self.topic, rows, **settings)

    async def end(self) -> int:
        """Where the log ends; asked until somebody leads."""
        asked = {self.key: OffsetSpec.latest()}
        async with asyncio.timeout(OVER_S):
            while True:
                with contextlib.suppress(Exception):
                    found = self.source.admin().list_offsets(asked, request_timeout=5)[self.key]
                    return (await asyncio.to_thread(found.result, 5)).offset
                await asyncio.sleep(0.2)

    async def until(self, *, leader: int, in_sync: Sequence[int]) -> None:
        async with asyncio.timeout(OVER_S):
            while True:
                # A broker that is killed takes requests along that were sent to it.
                with contextlib.suppress(KafkaException):
                    listed = await asyncio.to_thread(self.source.admin().list_topics, self.topic, timeout=20)
                    partition = listed.topics[self.topic].partitions.get(0)
                    if partition and (partition.leader, sorted(partition.isrs)) == (leader, sorted(in_sync)):
                        return
                await asyncio.sleep(0.2)

    async def alone(self) -> None:
        """The leader goes on without its follower."""
        await self.until(leader=self.leader, in_sync=(self.leader, self.follower))
        await asyncio.to_thread(self.source.brokers[self.follower - 1].kill)
        await self.until(leader=self.leader, in_sync=(self.leader,))

    async def elect_the_follower(self) -> int:
        """The leader dies and the follower leads: where its log ends."""
        await asyncio.to_thread(self.source.brokers[self.leader - 1].kill)
        await asyncio.to_thread(self.source.brokers[self.follower - 1].launch)
        await self.until(leader=self.follower, in_sync=(self.follower,))
        return await self.end()

    async def all_up(self) -> None:
        await asyncio.to_thread(self.source.start)

    def values(self, cluster: LocalCluster) -> list[int]:
        topic = self.topic if cluster is self.source else f"A.{self.topic}"
        return [int(message.value() or b"") for message in messages(cluster, topic)]

    def told(self, at: int, before: int) -> str:
        return (
            f"source partition {self.topic}-0: its log was truncated at offset {at}, as by an unclean leader election: "
            f"offsets {at} to {before - 1}, which had been read, are gone from the source ({before - at} offsets); "
            f"reading on at {at}"
        )

    def verify(self) -> tuple[int, dict[str, Any]]:
        """Exit code, and the only partition of the JSON."""
        files = [
            *("--source", str(self.source.write_client_properties())),
            *("--target", str(self.target.write_client_properties())),
        ]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mirror_connect.cli", "verify", *files, "--topics", self.topic),
                *("--source-alias", "A", "--json"),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr
        (partition,) = json.loads(done.stdout)["partitions"]
        return done.returncode, partition


@contextlib.asynccontextmanager
async def load(unclean: Unclean) -> AsyncIterator[None]:
    """Somebody writes all the time, whoever leads, and doesn't care what becomes of it."""
    producer = Producer({**unclean.source.librdkafka(), "acks": 1, "linger.ms": 2, "message.timeout.ms": 5000})

    async def write() -> None:
        while True:
            with contextlib.suppress(BufferError):
                producer.produce(unclean.topic, b"%d" % next(unclean.numbers), partition=0)
            producer.poll(0)
            await asyncio.sleep(0.002)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await asyncio.to_thread(producer.flush, 30)


def incidents(task: Running) -> list[str]:
    return [line for line in task.link.incidents if "truncated" in line]


async def test_an_unclean_election_under_load_is_told_to_the_offset_and_all_that_follows_is_copied(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    unclean = Unclean(clusters)
    target, remote = unclean.target, f"A.{unclean.topic}"
    async with running(unclean.spec(), target) as task:
        async with load(unclean):
            await task.copied(300)
            await unclean.alone()
            await task.copied(task.link.counters["records"] + 500)
            await asyncio.to_thread(unclean.source.brokers[LEADER - 1].suspend)
            # What it has acknowledged to consumers has been copied; nothing more comes.
            copied = -1
            while copied != (copied := task.link.counters["records"]):
                await asyncio.sleep(2)
            before = [int(message.value() or b"") for message in messages(target, remote)]
            await unclean.elect_the_follower()
            # The new log grows past the former position, which tells nothing by itself.
            await task.copied(copied + 2 * copied, OVER_S)
        await unclean.all_up()
        await unclean.until(leader=FOLLOWER, in_sync=(LEADER, FOLLOWER))
        now = unclean.values(unclean.source)
        at = next(n for n, (one, other) in enumerate(zip(before, now, strict=False)) if one != other)
        await task.copied(len(before) + len(now) - at)
        await task.finish()
    # Offsets are those of the values, as the log has nothing else.
    assert len(now) > len(before) > at + 400
    assert incidents(task) == [unclean.told(at, len(before))]
    assert unclean.values(target) == [*before, *now[at:]]
    offset, _, epoch = positions_with_origins(target, unclean.connector)[unclean.topic, 0]
    assert (offset, epoch > 0) == (len(now) - 1, True)
    code, found = unclean.verify()
    assert (code, found["equal"], found["repeated"]) == (1, len(now), 0)
    assert found["listed"] == [
        {
            "kind": "foreign",
            "records": len(before) - at,
            "source_offsets": None,
            "target_offsets": [at, len(before) - 1],
            "detail": "the producer that copied the record before wrote it: the source has lost it",
        }
    ]


@pytest.mark.parametrize("regrown", [50, 900], ids=["shorter_than_the_position", "longer_than_the_position"])
async def test_an_unclean_election_while_no_task_runs_is_found_by_the_epoch_of_the_position(
    clusters: tuple[LocalCluster, LocalCluster], regrown: int
) -> None:
    unclean = Unclean(clusters)
    await unclean.put(400)
    async with running(unclean.spec(), unclean.target) as task:
        await task.copied(400)
        await unclean.alone()
        await unclean.put(300)
        await task.copied(700)
        await task.finish()
    stored = positions_with_origins(unclean.target, unclean.connector)[unclean.topic, 0]
    assert (stored[0], stored[2] >= 0) == (699, True)
    assert await unclean.elect_the_follower() == 400
    await unclean.put(regrown)
    async with running(unclean.spec(auto_offset_reset="latest"), unclean.target) as task:
        await task.copied(regrown, OVER_S)
        await unclean.all_up()
        await task.finish()
    assert incidents(task) == [unclean.told(400, 700)]
    assert unclean.values(unclean.target) == list(range(700 + regrown))
    assert positions_with_origins(unclean.target, unclean.connector)[unclean.topic, 0][0] == 399 + regrown


class WhenCompared(Watcher):
    """Has something happen when so many partitions are compared, before anything is said of them."""

    def __init__(self, partitions: int, happens: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.left = partitions
        self._happens = happens

    def done(self, result: Result) -> None:
        self.left -= 1
        if self.left == 0:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, self._happens()).result()


async def compared(
    watcher: Watcher, source: LocalCluster, target: LocalCluster, topics: Sequence[Unclean], **settings: str
) -> Report:
    link = described_link(
        source=source.client_properties(),
        target=target.client_properties(),
        settings={"topics": ",".join(each.topic for each in topics), "source.cluster.alias": "A", **settings},
    )
    async with asyncio.timeout(OVER_S):
        return await verify(link, Options(), watcher)


# The election under load above asks verify, too; this one does so in the middle of a comparison.
@pytest.mark.long
async def test_verify_calls_nothing_equal_that_an_unclean_election_took_meanwhile(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = clusters
    longer, shorter, whole = topics = [Unclean(clusters) for _ in range(3)]
    for each in topics:
        await each.put(400)
    # Of another link, whose target loses the records. Copies have the timestamps of what they are copies of.
    back, began = Unclean(clusters), int(time.time() * 1000)
    rows = [{"value": b"%d" % number, "partition": 0, "timestamp": began + number} for number in range(700)]
    target.create_topic(back.topic)
    await asyncio.to_thread(produce, target, back.topic, rows)
    await asyncio.to_thread(produce, source, back.topic, rows[:400], **{"acks": "all", "max.in.flight": 1})
    spec = spec_for(source, target, {each.topic: 1 for each in topics})
    async with running(spec) as task:
        # What consumers see the follower has.
        await task.copied(1200)
        await longer.alone()
        for each in (longer, shorter):
            await each.put(300)
        await asyncio.to_thread(produce, source, back.topic, rows[400:], **{"acks": 1, "max.in.flight": 1})
        await task.copied(1800)
        await task.finish()

    async def election() -> None:
        for each in (*topics, back):
            if each is longer:
                assert await each.elect_the_follower() == 400
                # Only epochs tell the log from the one that was read.
                await each.put(500)
            else:
                await each.until(leader=FOLLOWER, in_sync=(FOLLOWER,))

    reports: list[Report] = []

    async def forth() -> None:
        reports.append(await compared(WhenCompared(len(topics), election), source, target, topics))

    identity = {"replication.policy.class": IDENTITY_POLICY}
    reports.append(await compared(WhenCompared(1, forth), target, source, [back], **identity))
    await longer.all_up()
    assert [report.outcome for report in reports] == [NOT_COMPARED, NOT_COMPARED]
    told = {
        each.job.topic: (each.findings.equal, each.findings.faults(), each.findings.error)
        for report in reports
        for each in report.results
    }
    lost = (
        "was truncated at offset 400 meanwhile, as by an unclean leader election, it had 700 when the comparison began"
    )
    for each in (longer, shorter):
        assert told[each.topic] == (0, 0, f"the source's log of {each.topic}-0 {lost}: run it again")
    assert told[back.topic] == (0, 0, f"the target's log of {back.topic}-0 {lost}: run it again")
    # An election that takes nothing is nothing to tell.
    assert told[whole.topic] == (400, 0, None)


@pytest.mark.parametrize("clusters", OLD_VERSIONS, indirect=True)
async def test_an_unclean_election_among_brokers_of_an_older_release_is_told_with_a_task_and_without(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = clusters
    # With ZooKeeper a controller that stands still keeps the leader from going on alone for half a minute.
    controller = source.admin().describe_cluster().result(60).controller.id
    leader, follower, _ = sorted((1, 2, 3), key=lambda node: node == controller)
    seen, unseen = (Unclean(clusters, leader, follower) for _ in range(2))
    async with running(seen.spec(), target) as task:
        async with running(unseen.spec(), target) as stopped:
            for each in (seen, unseen):
                await each.until(leader=leader, in_sync=(leader, follower))
                await each.put(400)
            await task.copied(400)
            await stopped.copied(400)
            await asyncio.to_thread(source.brokers[follower - 1].suspend)
            for each in (seen, unseen):
                await each.put(300)
            await stopped.copied(700)
            await stopped.finish()
        await task.copied(700)
        await asyncio.to_thread(source.brokers[leader - 1].kill)
        await asyncio.to_thread(source.brokers[follower - 1].resume)
        ends = []
        for each in (seen, unseen):
            await each.until(leader=follower, in_sync=(follower,))
            ends.append(await each.end())
            # Past the former position, which tells nothing by itself.
            await each.put(900)
        await task.copied(1600, OVER_S)
        await task.finish()
    async with running(unseen.spec(), target) as restarted:
        await restarted.copied(900, OVER_S)
        await restarted.finish()
    for each, one, at in zip((seen, unseen), (task, restarted), ends, strict=True):
        # What the leader had sent when its follower was suspended may have come yet.
        assert 400 <= at < 700
        assert incidents(one) == [each.told(at, 700)]
        assert each.values(target) == list(range(1600))
        offset, _, epoch = positions_with_origins(target, each.connector)[each.topic, 0]
        assert (offset, epoch > 0) == (at + 899, True)
