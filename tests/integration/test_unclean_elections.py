"""Source logs that lose records to unclean leader elections, of three real brokers: what is told, copied and verified."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deploy.local import LocalCluster, LocalError
from deploy.local.cluster import start_all
from deploy.local.kafka_jars import KAFKA_VERSION, ensure
from deploy.local.kafka_releases import OLD_VERSIONS
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.verify.link import described_link
from mirror_connect.verify.run import NOT_COMPARED, Options, Report, Result, Watcher, verify
from tests.integration.mirror_rig import (
    OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    messages,
    positions_with_origins,
    produce,
    running,
    spec_for,
)
from tests.integration.unclean_source import (
    BROKERS,
    FOLLOWER,
    LEADER,
    OVER_S,
    Unclean,
    incidents,
    load,
)

pytestmark = [pytest.mark.brokers, pytest.mark.soak]
OLDEST, OLD = OLD_VERSIONS


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


# The next test has the same without load. test_leader_epochs.py has whatever leaders may do to a log.
@pytest.mark.long
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


# Of a shorter log the offset alone would tell.
@pytest.mark.parametrize(
    "regrown",
    [
        pytest.param(50, id="shorter_than_the_position", marks=pytest.mark.long),
        pytest.param(900, id="longer_than_the_position"),
    ],
)
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
    await asyncio.to_thread(produce, target, back.topic, rows, at_once=100)
    await asyncio.to_thread(produce, source, back.topic, rows[:400], at_once=100)
    spec = spec_for(source, target, {each.topic: 1 for each in topics})
    async with running(spec) as task:
        # What consumers see the follower has.
        await task.copied(1200)
        await longer.alone()
        for each in (longer, shorter):
            await each.put(300)
        await asyncio.to_thread(produce, source, back.topic, rows[400:], at_once=100, acks=1)
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
        "was truncated at offset 400 during the comparison, as by an unclean leader election. It ended at offset 700 "
        "before: run verify again"
    )
    for each in (longer, shorter):
        assert told[each.topic] == (0, 0, f"the source's log of {each.topic}-0 {lost}")
    assert told[back.topic] == (0, 0, f"the target's log of {back.topic}-0 {lost}")
    # An election that takes nothing is nothing to tell.
    assert told[whole.topic] == (400, 0, None)


# Three more brokers start for each release.
@pytest.mark.long
@pytest.mark.parametrize("clusters", [OLDEST, OLD], indirect=True)
async def test_an_unclean_election_among_brokers_of_an_older_release_is_told_with_a_task_and_without(
    clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    source, target = clusters
    # With ZooKeeper a controller that stands still keeps the leader from going on alone for half a minute.
    controller = source.admin().describe_cluster().result(180).controller.id
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
