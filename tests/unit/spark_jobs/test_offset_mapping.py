"""Offset syncs and runs of a source task on clusters in memory: what is written in which order, and what stops nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from mirror_connect.connectors.job_contract import TaskPartition, TaskSpec
from mirror_connect.connectors.offset_run_index import Kind, RunIndex
from mirror_connect.connectors.offset_runs import Segment
from mirror_connect.connectors.offset_syncs import OffsetSync
from mirror_connect.connectors.positions import parse_position_key, parse_position_value
from mirror_connect.kafka_io.wire import Produce
from mirror_connect.spark_jobs import (
    mirror_source,
    offset_mapping,
    offset_runs_reader,
    offset_runs_writer,
    offset_syncs_writer,
)
from mirror_connect.spark_jobs.offset_mapping import OffsetMapping
from mirror_connect.spark_jobs.offset_runs_writer import OffsetRuns
from mirror_connect.spark_jobs.partition_runs import MOST_EARLY, PartitionRuns
from mirror_connect.spark_jobs.record_batch import Outgoing
from tests.fakes.target_cluster import lost
from tests.fakes.whole_cluster import FakeBroker, FakeClusters
from tests.fakes.worker_link import FakeWorkerLink

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
SYNCS, SYNCS_THERE, RUNS, OFFSETS = (
    "mm2-offset-syncs.B.internal",
    "mm2-offset-syncs.A.internal",
    "mm2-offset-runs.A.internal",
    "connect-offsets",
)
DENIED, REFUSED = 29, 87
PACE_S = 0.02


class World:
    """A source with `orders`, a target with what the connector's part makes there."""

    def __init__(self) -> None:
        self.source, self.target = FakeBroker(), FakeBroker()
        for broker, topics in ((self.source, ("orders", SYNCS)), (self.target, ("A.orders", RUNS, SYNCS_THERE))):
            for topic in topics:
                broker.topic(topic)
        self.target.topic(OFFSETS, 5)
        self.source.ids["orders"], self.target.ids["A.orders"] = b"s" * 16, b"t" * 16
        self.link: FakeWorkerLink
        self.task: asyncio.Task[None]

    def records(self, count: int) -> None:
        self.source.put("orders", *[(b"k", b"v")] * count)

    def spec(self, **config: str) -> TaskSpec:
        source, target = {"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}
        return TaskSpec(
            run_id="run",
            connector="c",
            task=0,
            connector_class=CLASS,
            config={
                "name": "c",
                "connector.class": CLASS,
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
                "source.cluster.bootstrap.servers": "a",
                **{name.replace("__", "."): value for name, value in config.items()},
            },
            source={**source, "auto.offset.reset": "earliest", "fetch.max.wait.ms": "10"},
            target=target,
            source_alias="A",
            target_alias="B",
            assigned=(TaskPartition("orders", 0, "A.orders"),),
            assignment_version=1,
            transactional_id="connect-c-0",
            offsets_topic=OFFSETS,
            offsets_partitions=5,
            commit_interval_ms=60_000,
            target_consumer=target,
        )

    @contextlib.asynccontextmanager
    async def running(self, spec: TaskSpec) -> AsyncIterator[None]:
        link = self.link = FakeWorkerLink(spec, lambda *_: self.position)
        self.task = asyncio.create_task(mirror_source.run_source_task(spec, link))
        try:
            yield
        finally:
            if not self.task.done():
                link.abandon()
            await asyncio.wait_for(self.task, 10)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the task has returned")
                await asyncio.sleep(0.002)

    async def finish(self) -> None:
        self.link.finish()
        await asyncio.wait_for(self.task, 10)

    async def copied(self, count: int) -> None:
        """Copied and committed."""
        await self.until(lambda: self.link.counters.get("records", 0) >= count and self.position == self.end - 1)

    @property
    def end(self) -> int:
        return self.source.logs["orders", 0].end

    @property
    def position(self) -> int | None:
        found = [each for partition in range(5) for each in self.target.records(OFFSETS, partition)]
        assert all(parse_position_key(key) for key, _ in found)
        return parse_position_value(found[-1][1]) if found else None

    def syncs(self, *, there: bool = False) -> list[tuple[int, int]]:
        found = self.target.records(SYNCS_THERE) if there else self.source.records(SYNCS)
        return [(each.upstream, each.downstream) for each in (OffsetSync.decode(*pair) for pair in found)]

    @property
    def index(self) -> RunIndex:
        made = RunIndex()
        for record in segments(self.target):
            made.add(record)
        return made

    def topics_written(self) -> list[str]:
        return [batch.topic for request in self.target.producers.requests for batch in request.batches]

    def notices(self, text: str) -> list[str]:
        return [line for line in self.link.notices if text in line]


def segments(broker: FakeBroker) -> list[Segment]:
    return [Segment.decode(*record) for record in broker.records(RUNS)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    clusters = FakeClusters({"a": made.source, "b": made.target})
    for module in (mirror_source, offset_syncs_writer, offset_runs_reader):
        monkeypatch.setattr(module, "Cluster", clusters)
    monkeypatch.setattr(mirror_source, "COMMIT_S", PACE_S)
    monkeypatch.setattr(offset_syncs_writer, "PACE_S", PACE_S)
    monkeypatch.setattr(offset_syncs_writer, "BACKOFF_S", PACE_S)
    monkeypatch.setattr(offset_runs_writer, "RETRY_S", PACE_S)
    monkeypatch.setattr(offset_runs_writer, "QUIET_S", 0.0)
    monkeypatch.setattr(offset_mapping.OffsetMapping.before_commit, "__defaults__", (0.3,))
    return made


def on(topic: str, error: int) -> Callable[[Produce], int]:
    return lambda request: error if any(batch.topic == topic for batch in request.batches) else 0


# --- the order of things --------------------------------------------------------------------------------------------


async def test_runs_are_on_the_target_before_the_positions_that_belong_to_them(world: World) -> None:
    world.target.producers.delay = lambda: 0.005
    async with world.running(world.spec()):
        for _ in range(5):
            world.records(20)
            await world.copied(20)
            assert world.index.newest is not None
            assert world.index.newest.runs[-1].length >= (world.position or 0) + 1
    written = [topic for topic in world.topics_written() if topic in (RUNS, OFFSETS)]
    assert written == [RUNS, OFFSETS] * (len(written) // 2)


async def test_a_position_is_that_of_the_moment_before_its_runs_were_written(world: World) -> None:
    async with world.running(world.spec()):
        world.records(10)
        await world.copied(10)

        def more(request: Produce) -> int:
            if request.batches[0].topic == RUNS and world.end < 60:
                world.records(10)
            return 0

        world.target.producers.before = more
        world.records(10)
        for _ in range(200):
            await asyncio.sleep(0.001)
            known = world.index.newest
            assert known is not None
            assert known.runs[-1].length > (world.position or 0)
        await world.copied(60)


async def test_the_next_task_goes_on_in_the_run_that_the_former_one_left(world: World) -> None:
    for _ in range(3):
        async with world.running(world.spec()):
            world.records(10)
            await world.copied(10)
            await world.finish()
    newest = world.index.newest
    assert newest is not None
    assert (newest.number, [tuple(run) for run in newest.runs]) == (0, [(0, 0, 30, False, False, False)])


async def test_what_is_acknowledged_before_the_former_runs_are_known_is_recorded_too(world: World) -> None:
    world.records(10)
    async with world.running(world.spec()):
        await world.copied(10)
        await world.finish()
    log = world.target.logs.pop((RUNS, 0))
    world.records(10)
    async with world.running(world.spec()):
        await world.copied(10)
        world.target.logs[RUNS, 0] = log
        world.records(10)
        await world.until(lambda: world.index.translate(30) is not None and world.index.translate(30).offset == 30)  # type: ignore[union-attr]
    assert [world.index.translate(at).exact for at in (5, 15, 25)] == [True] * 3  # type: ignore[union-attr]


async def test_a_crash_leaves_copies_that_no_translation_forgets_until_all_is_mirrored_again(world: World) -> None:
    world.records(10)
    async with world.running(world.spec()):
        await world.copied(10)
        world.target.producers.before = on(RUNS, 7)
        world.records(10)
        await world.until(lambda: world.link.counters["records"] == 20)
    # 10 to 19 lie at 10 to 19, and nothing tells of it; they are copied again, to 20.
    world.target.producers.before = lambda _request: 0
    seen = []
    async with world.running(world.spec()):
        await world.until(lambda: world.position == 19)
        await world.until(lambda: bool(world.index.translate(15) and world.index.translate(15).exact))  # type: ignore[union-attr]
        seen = [world.index.translate(at).offset for at in (5, 12, 20)]  # type: ignore[union-attr]
    assert seen == [5, 22, 30]


async def test_a_partition_that_is_taken_away_is_recorded_before_that_is_told(world: World) -> None:
    spec = world.spec()
    async with world.running(spec):
        world.records(10)
        await world.until(lambda: world.link.counters.get("records", 0) == 10)
        world.link.assign(replace(spec, assigned=(), assignment_version=2))
        await world.until(lambda: world.link.assignment_version == 2)
        assert (world.position, world.index.translate(9).offset, world.syncs()[-1]) == (9, 9, (9, 9))  # type: ignore[union-attr]


async def test_a_source_topic_made_again_begins_a_new_incarnation(world: World) -> None:
    world.records(10)
    async with world.running(world.spec()):
        await world.copied(10)
        world.source.ids["orders"] = b"n" * 16
        world.source.logs["orders", 0].batches.clear()
        world.records(4)
        world.link.assign(replace(world.spec(), assigned=(), assignment_version=2))
        await world.until(lambda: world.link.assignment_version == 2)
        world.target.logs[OFFSETS, 0].batches.clear()
        for partition in range(5):
            world.target.logs[OFFSETS, partition].batches.clear()
        world.link.assign(replace(world.spec(), assignment_version=3))
        await world.until(lambda: world.index.belongs_to(b"n" * 16, b"t" * 16))
    assert world.index.translate(2).offset == 12  # type: ignore[union-attr]


# --- topics in trouble ----------------------------------------------------------------------------------------------


async def test_a_topic_of_runs_that_may_not_be_written_holds_nothing_up(world: World) -> None:
    world.target.producers.before = on(RUNS, DENIED)
    async with world.running(world.spec()):
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert world.notices("takes no offset runs") == [
            f"Topic {RUNS} on the target takes no offset runs at present: positions are committed without them"
        ]


async def test_runs_that_could_not_be_written_follow(world: World) -> None:
    world.target.producers.before = on(RUNS, 7)
    async with world.running(world.spec()):
        world.records(10)
        await world.copied(10)
        world.target.producers.before = lambda _request: 0
        await world.until(lambda: world.index.translate(9) is not None)
        await world.until(lambda: bool(world.notices("are written again")))
    assert world.index.translate(9).offset == 9  # type: ignore[union-attr]


async def test_after_a_topic_was_late_positions_wait_for_their_runs_again(world: World) -> None:
    world.target.producers.before = on(RUNS, 7)
    sent, unanswered = 0, []

    def watch(request: Produce) -> int:
        nonlocal sent
        topics = [batch.topic for batch in request.batches]
        sent += RUNS in topics
        if OFFSETS in topics:
            unanswered.append(sent - world.link.counters.get("runs", 0))
        return 0

    async with world.running(world.spec()):
        world.records(10)
        await world.copied(10)
        world.target.producers.delay = lambda: 0.03
        world.target.producers.before = watch
        for _ in range(50):
            world.records(10)
            await asyncio.sleep(0.02)
    assert (len(unanswered) > 10, set(unanswered[-5:])) == (True, {0})


async def test_a_topic_that_refuses_runs_ends_them_and_nothing_else(world: World) -> None:
    world.target.producers.before = on(RUNS, REFUSED)
    async with world.running(world.spec()):
        for _ in range(3):
            world.records(10)
            await world.copied(10)
        assert len(world.notices("Offset runs are not recorded until this task starts again")) == 1


async def test_missing_topics_are_told_once_each_and_hold_nothing_up(world: World) -> None:
    del world.source.logs[SYNCS, 0], world.target.logs[RUNS, 0]
    async with world.running(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: len(world.link.notices) >= 2)
        world.records(10)
        await world.copied(20)
        await asyncio.sleep(0.2)
    assert len(world.notices(f"Topic {RUNS} can't be read on the target: it doesn't exist")) == 1
    assert len(world.notices(f"can't be written to topic {SYNCS} on the source cluster A: it does not exist")) == 1


async def test_syncs_that_may_not_be_written_are_told_once_and_follow_when_they_may(world: World) -> None:
    world.source.producers.before = lambda _request: DENIED
    async with world.running(world.spec(offset__lag__max="0")):
        for _ in range(5):
            world.records(10)
            await world.copied(10)
        await world.until(lambda: bool(world.notices("not authorized: allow WRITE on it")))
        world.source.producers.before = lambda _request: 0
        await world.until(lambda: bool(world.syncs()) and world.syncs()[-1] == (49, 49))
        await world.until(lambda: bool(world.notices("Offset syncs are written again")))
    assert len(world.notices("Offset syncs can't be written")) == 1
    assert world.syncs() == sorted(world.syncs())


async def test_a_source_that_is_away_for_syncs_alone_stops_no_record(world: World) -> None:
    world.source.producers.before = lambda _request: (_ for _ in ()).throw(lost())  # type: ignore[return-value]
    async with world.running(world.spec()):
        world.records(10)
        await world.copied(10)
        await world.until(lambda: bool(world.notices("Offset syncs can't be written")))


# --- syncs ----------------------------------------------------------------------------------------------------------


@pytest.mark.kafka_test("MirrorSourceConfigTest.testProducerConfigsForOffsetSyncsTopic")
@pytest.mark.parametrize("there", [False, True], ids=["source", "target"])
async def test_syncs_go_where_the_config_says(world: World, there: bool) -> None:
    async with world.running(_located(world, there=there)):
        world.records(250)
        await world.copied(250)
        await world.finish()
    assert {(0, 0), (101, 101), (202, 202), (249, 249)} <= set(world.syncs(there=there))
    assert world.syncs(there=not there) == []


def _located(world: World, *, there: bool) -> TaskSpec:
    spec = world.spec()
    location = {"offset-syncs.topic.location": "target" if there else "source", "target.cluster.bootstrap.servers": "b"}
    return replace(spec, config={**spec.config, **location})


@pytest.mark.kafka_test("OffsetSyncWriterTest.testFirePendingOffsetSyncs")
@pytest.mark.kafka_test("MirrorSourceTaskTest.testSendSyncEvent")
async def test_one_request_is_under_way_at_a_time_and_the_newest_sync_waits(world: World) -> None:
    world.source.producers.delay = lambda: 0.1
    async with world.running(world.spec(offset__lag__max="0")):
        for _ in range(10):
            world.records(5)
            await world.copied(5)
        await world.until(lambda: bool(world.syncs()) and world.syncs()[-1] == (49, 49))
    assert world.source.producers.most_in_flight == 1


async def test_nothing_is_written_or_read_where_syncs_are_off(world: World) -> None:
    spec = world.spec()
    async with world.running(replace(spec, config={**spec.config, "emit.offset-syncs.enabled": "false"})):
        world.records(10)
        await world.copied(10)
        await world.finish()
    assert (world.syncs(), segments(world.target), world.link.notices) == ([], [], [])


# --- one partition --------------------------------------------------------------------------------------------------


class Parts:
    """An OffsetMapping whose topic is never read: what it would write is taken out."""

    def __init__(self, reading_from: int | None = None) -> None:
        self.ids = [b"s" * 16, b"t" * 16]
        self.runs = OffsetRuns(
            RUNS,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            lambda _topic: self.ids[0],
            lambda _topic: self.ids[1],
            notice=lambda _line: None,
            counters={},
        )
        self.partition = self.runs.add(TaskPartition("orders", 0, "A.orders"), reading_from)

    def index(self) -> RunIndex:
        made = RunIndex()
        assert self.partition.recorder is not None
        for key, value in self.partition.recorder.changed():
            made.add(Segment.decode(key, value))
        return made


@pytest.fixture
def parts() -> Parts:
    return Parts()


def outgoing(first: int, last: int, runs: tuple[tuple[int, int], ...] | None = None) -> Outgoing:
    count = last - first + 1 if runs is None else sum(count for _, count in runs)
    return Outgoing(b"", count, first, last, 0, 0, 0, upstream_offsets=runs)


@pytest.mark.kafka_test("MirrorSourceTaskTest.testCommitRecordWithNullMetadata")
async def test_a_batch_of_unknown_place_makes_no_sync_and_leaves_a_gap_of_unknown_content(
    world: World, parts: Parts
) -> None:
    syncs = offset_syncs_writer.OffsetSyncs(
        {"bootstrap.servers": "a"}, "id", SYNCS, "source cluster A", 0, lease=bool, notice=print, counters={}
    )
    parts.partition.known(None)
    mapping = OffsetMapping(syncs, parts.runs, print)
    placed = mapping.follow(TaskPartition("orders", 0, "A.orders"), None)
    runs = next(iter(parts.runs.behind()[1:]))
    runs.known(None)
    placed(outgoing(0, 9), 0)
    placed(outgoing(10, 19), -1)
    placed(outgoing(20, 29), 25)
    made = RunIndex()
    assert runs.recorder is not None
    for key, value in runs.recorder.changed():
        made.add(Segment.decode(key, value))
    found = made.translate(15)
    assert found is not None
    assert (found.offset, found.kind) == (10, Kind.FLOOR)
    assert [(sync.upstream, sync.downstream) for sync in syncs.queue.take()][-1] == (29, 34)


def test_gaps_inside_a_batch_are_known_to_hold_nothing(parts: Parts) -> None:
    parts.partition.known(None)
    parts.partition.acked_runs(((0, 2), (3, 1), (7, 3)), 0, linked=True)
    found = parts.index()
    assert [found.translate(at).offset for at in (0, 2, 3, 5, 8, 10)] == [0, 2, 2, 3, 4, 6]  # type: ignore[union-attr]


def test_too_much_of_it_before_former_runs_are_known_counts_as_somebody_elses(parts: Parts) -> None:
    for number in range(MOST_EARLY + 10):
        parts.partition.acked(2 * number, 1, number, linked=True)
    parts.partition.known(None)
    found = parts.index()
    first = 2 * MOST_EARLY
    assert found.translate(first).offset == MOST_EARLY  # type: ignore[union-attr]
    assert found.translate(first - 2) is None


def test_owed_copies_are_settled_when_the_source_as_it_was_is_passed(parts: Parts) -> None:
    former = Parts()
    former.partition.known(None)
    former.partition.acked(0, 10, 0, linked=True)
    newest = former.index().newest
    later = Parts(reading_from=10)
    later.partition.known(newest)
    later.partition.acked(10, 2, 30, linked=True)
    recorder = later.partition.recorder
    assert recorder is not None
    assert recorder.owes
    later.partition.passed(11, 20)
    assert (recorder.owes, later.partition.caught_up) == (True, False)
    later.partition.passed(19, 50)
    assert (recorder.owes, later.partition.caught_up, later.runs.behind()) == (False, True, [])


def test_another_target_topic_of_the_same_name_begins_a_new_incarnation(parts: Parts) -> None:
    parts.partition.known(None)
    parts.partition.acked(0, 10, 0, linked=True)
    parts.ids[1] = b"u" * 16
    parts.partition.acked(10, 5, 0, linked=True)
    found = parts.index()
    assert (found.belongs_to(b"s" * 16, b"u" * 16), found.translate(12).offset) == (True, 2)  # type: ignore[union-attr]


async def test_a_partition_given_away_leaves_nothing_to_write(parts: Parts) -> None:
    parts.partition.known(None)
    parts.partition.acked(0, 10, 0, linked=True)
    parts.runs.forget(TaskPartition("orders", 0, "A.orders"))
    # There is no producer: to write would raise.
    assert (await parts.runs.write(1.0), parts.runs.behind()) == (True, [])


def test_ends_of_partitions_are_asked_for_only_while_they_matter(parts: Parts) -> None:
    waiting: list[PartitionRuns] = parts.runs.behind()
    parts.partition.known(None)
    parts.partition.passed(-1, 0)
    assert (waiting, parts.runs.behind()) == ([parts.partition], [])
