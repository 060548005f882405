"""The heartbeat and the checkpoint task on clusters in memory: what is written when, and what keeps it back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.task_protocol import RUNNING, TaskSpec
from mirror_connect.connectors.translation import position_translation
from mirror_connect.connectors.translation.offset_runs import Run, Segment, Standing
from mirror_connect.connectors.translation.offset_sync_store import OffsetSyncStore
from mirror_connect.kafka_io.client import outage
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.tasks import connecting, mirror_checkpoint, mirror_heartbeat, writing_task
from tests.fakes.whole_cluster import FakeBroker, FakeClusters
from tests.fakes.worker_link import FakeWorkerLink

MIRROR = "org.apache.kafka.connect.mirror.Mirror"
CHECKPOINTS, SYNCS, OFFSETS = "A.checkpoints.internal", "mm2-offset-syncs.B.internal", "connect-offsets"
RUNS = "mm2-offset-runs.A.internal"
PACE_S = 0.02
DENIED, NO_LEADER, REFUSED = 29, 6, 87


class World:
    """A source with `orders`, a target with what connectors make there; group `g` has committed 150 of it."""

    def __init__(self) -> None:
        self.source, self.target = FakeBroker(), FakeBroker()
        for broker, topics in (
            (self.source, ("orders", SYNCS)),
            (self.target, ("A.orders", "heartbeats", CHECKPOINTS)),
        ):
            for topic in topics:
                broker.topic(topic)
        self.target.topic(OFFSETS, 5)
        self.commits("g", 150)
        self.link: FakeWorkerLink

    def spec(self, kind: str, *groups: str, **config: str) -> TaskSpec:
        given = {name.replace("__", "."): value for name, value in config.items()}
        source, target = {"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}
        return TaskSpec(
            run_id="run",
            connector="c",
            task=0,
            connector_class=f"{MIRROR}{kind}Connector",
            config={
                "name": "c",
                "connector.class": f"{MIRROR}{kind}Connector",
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
                **given,
            },
            source=source,
            target=target,
            source_alias="A",
            target_alias="B",
            assigned=(),
            assignment_version=1,
            transactional_id="connect-c-0",
            offsets_topic=OFFSETS,
            offsets_partitions=5,
            commit_interval_ms=60_000,
            assigned_groups=groups,
            source_admin=source,
            target_admin=target,
            target_consumer=target,
        )

    def commits(self, group: str, offset: int, note: str = "") -> None:
        self.source.groups.setdefault(group, {})["orders", 0] = (offset, note)

    def syncs(self, *pairs: tuple[int, int]) -> None:
        written = [OffsetSync("orders", 0, *pair) for pair in pairs]
        self.source.put(SYNCS, *((each.key(), each.value()) for each in written))

    def checkpointed(self, *pairs: tuple[int, int], group: str = "g") -> None:
        written = [Checkpoint(group, "A.orders", 0, *pair) for pair in pairs]
        self.target.put(CHECKPOINTS, *((each.key(), each.value()) for each in written))

    @property
    def checkpoints(self) -> list[tuple[str, int, int]]:
        found = [Checkpoint.decode(*each) for each in self.target.records(CHECKPOINTS)]
        return [(each.group, each.upstream, each.downstream) for each in found]

    @property
    def beats(self) -> list[Heartbeat]:
        return [Heartbeat.decode(*each) for each in self.target.records("heartbeats")]

    @property
    def places(self) -> list[bytes]:
        return [key for partition in range(5) for key, _ in self.target.records(OFFSETS, partition)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    clusters = FakeClusters({"a": made.source, "b": made.target})
    for module in (writing_task, mirror_checkpoint):
        monkeypatch.setattr(module, "Cluster", clusters)
    # The least that a config can ask for is a second.
    monkeypatch.setattr(mirror_checkpoint, "emission_interval_s", lambda _: PACE_S)
    monkeypatch.setattr(mirror_heartbeat, "beat_interval_s", lambda _: PACE_S)
    monkeypatch.setattr(mirror_checkpoint, "RETRY_S", PACE_S)
    # It outlives an epoch, and here a test: all their runs have the same id.
    monkeypatch.setattr(mirror_checkpoint, "_told", {})
    is_asked = mirror_checkpoint.sync_interval_s
    monkeypatch.setattr(mirror_checkpoint, "sync_interval_s", lambda settings: is_asked(settings) and PACE_S)
    return made


class Running:
    def __init__(self, world: World, task: asyncio.Future[None], link: FakeWorkerLink) -> None:
        self.world, self.task, self.link = world, task, link

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the task has returned")
                await asyncio.sleep(0.002)

    async def rounds(self) -> None:
        """Long enough for several rounds where a machine is idle: for what must not happen in them."""
        await asyncio.sleep(8 * PACE_S)

    async def finish(self) -> None:
        self.link.finish()
        await asyncio.wait_for(self.task, 60)


@contextlib.asynccontextmanager
async def running(world: World, spec: TaskSpec, *, lease: bool = True) -> AsyncIterator[Running]:
    link = FakeWorkerLink(spec)
    link.lease = lease
    run = (
        mirror_heartbeat.run_heartbeat_task
        if "Heartbeat" in spec.connector_class
        else mirror_checkpoint.run_checkpoint_task
    )
    task = asyncio.ensure_future(run(spec, link))
    try:
        yield Running(world, task, link)
    finally:
        if not task.done():
            link.abandon()
            await asyncio.wait({task}, timeout=60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- heartbeats ---------------------------------------------------------------------------------------------------------


async def test_a_heartbeat_follows_the_other(world: World) -> None:
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: len(world.beats) >= 3)
        assert (task.link.state, task.link.topics) == (RUNNING, {"heartbeats"})


async def test_while_nothing_can_be_written_one_heartbeat_waits_and_no_queue_of_them(world: World) -> None:
    async with running(world, world.spec("Heartbeat"), lease=False) as task:
        await task.rounds()
        assert world.beats == []
        task.link.lease = True
        await task.until(lambda: world.beats)
        # The one that waited, and the one that was due meanwhile.
        assert len(world.beats) <= 2


async def test_told_to_finish_it_leaves_its_place(world: World) -> None:
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: world.beats)
        await task.finish()
    assert world.places == [b'["c",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]']


async def test_told_to_abandon_it_writes_nothing_more(world: World) -> None:
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: world.beats)
        task.link.abandon()
        await asyncio.wait_for(task.task, 60)
    assert world.places == []


async def test_a_topic_that_refuses_heartbeats_fails_the_task(world: World) -> None:
    world.target.producers.before = lambda _: REFUSED
    async with running(world, world.spec("Heartbeat")) as task:
        with pytest.raises(PartitionRefusedError, match="heartbeats-0"):
            await asyncio.wait_for(task.task, 60)


async def test_a_target_that_is_away_at_the_start_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECT_WAIT_S", 0.001)
    world.target.away = True
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: task.link.notices)
        assert (task.link.state, "target cluster B can't be reached" in task.link.notices[0]) == (RUNNING, True)
        world.target.away = False
        await task.until(lambda: world.beats)


async def test_a_target_that_goes_away_is_a_line_of_the_status_until_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "SHOWN_AFTER_S", 0.0)
    async with running(world, world.spec("Heartbeat")) as task:
        await task.until(lambda: world.beats)
        world.target.away = True
        await task.until(lambda: task.link.standing)
        (line,) = task.link.standing
        world.target.away = False
        count = len(world.beats)
        await task.until(lambda: len(world.beats) > count and not task.link.standing)
    assert line.startswith("The target cluster B (bootstrap.servers b) can't be reached since ")


# --- checkpoints --------------------------------------------------------------------------------------------------------


async def test_the_news_of_a_round_are_written_once(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.rounds()
        await task.finish()
    assert (world.checkpoints, [json.loads(place)[1] for place in world.places]) == (
        [("g", 150, 201)],
        [{"partition": 0, "topic": "A.orders", "group": "g"}],
    )


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointStoreInitialized")
async def test_nothing_is_told_before_the_syncs_have_been_read(world: World) -> None:
    world.syncs((100, 200))
    log = world.source.logs[SYNCS, 0]
    log.errors = [NO_LEADER] * 1_000_000
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.rounds()
        assert world.checkpoints == []
        log.errors.clear()
        await task.until(lambda: world.checkpoints)


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints")
async def test_after_a_restart_a_coarser_translation_takes_nobody_back(world: World) -> None:
    world.checkpointed((240, 230))
    world.commits("g", 250)
    world.syncs((200, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.rounds()
        world.syncs((375, 375))
        world.commits("g", 400)
        await task.until(lambda: len(world.checkpoints) > 1)
    assert world.checkpoints == [("g", 240, 230), ("g", 400, 376)]


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds")
async def test_a_group_that_went_back_at_the_source_is_followed(world: World) -> None:
    world.syncs((0, 0), (100, 100))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        world.commits("g", 50)
        await task.until(lambda: len(world.checkpoints) > 1)
    assert world.checkpoints == [("g", 150, 101), ("g", 50, 1)]


async def test_a_group_that_cannot_be_read_is_named_once_and_the_others_are_translated(world: World) -> None:
    world.syncs((100, 200))
    world.commits("h", 100)
    world.source.denied.add("g")
    async with running(world, world.spec("Checkpoint", "g", "h")) as task:
        await task.until(lambda: world.checkpoints and task.link.notices)
        await task.rounds()
        assert (world.checkpoints, task.link.notices) == (
            [("h", 100, 200)],
            [
                "Group g can't be read at the source: not authorized to see the positions of group g: grant DESCRIBE on "
                "group g to the source user; the others are translated"
            ],
        )


async def test_a_source_that_goes_away_is_named_once_and_waited_for(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        world.source.away = True
        await task.until(lambda: any("has to wait" in line for line in task.link.notices))
        await task.rounds()
        world.commits("g", 100)
        world.source.away = False
        await task.until(lambda: len(world.checkpoints) > 1)
        assert len([line for line in task.link.notices if "has to wait" in line]) == 1


async def test_a_source_that_goes_away_is_a_line_of_the_status_until_it_is_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "SHOWN_AFTER_S", 0.0)
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        world.source.away = True
        await task.until(lambda: task.link.standing)
        (line,) = task.link.standing
        world.source.away = False
        await task.until(lambda: not task.link.standing)
    assert line.startswith("Translating positions has to wait since ")
    assert ": no broker answers at fake:1; " in line


@pytest.mark.kafka_test("CheckpointStoreTest.testReadCheckpointsTopicError")
async def test_where_earlier_checkpoints_cannot_be_read_only_new_syncs_count(world: World) -> None:
    world.syncs((0, 0), (1000, 1000))
    world.commits("h", 1000)
    world.target.logs[CHECKPOINTS, 0].errors = [DENIED] * 1_000_000
    async with running(world, world.spec("Checkpoint", "g", "h")) as task:
        await task.until(lambda: world.checkpoints)
        assert world.checkpoints == [("h", 1000, 1000)]
        assert any(
            "grant READ on topic A.checkpoints.internal to the target user" in line for line in task.link.notices
        )
        await task.until(lambda: len(task.link.standing) == 1)
        assert "grant READ on topic A.checkpoints.internal to the target user" in task.link.standing[0]


async def test_offset_syncs_that_do_not_exist_yet_are_named_once_and_read_when_they_do(world: World) -> None:
    log = world.source.logs.pop((SYNCS, 0))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: task.link.notices)
        await task.rounds()
        assert [
            line for line in task.link.notices if "doesn't exist on the source cluster" in line
        ] == task.link.notices
        assert len(task.link.notices) == 1
        world.source.logs[SYNCS, 0] = log
        world.syncs((100, 200))
        await task.until(lambda: world.checkpoints)


@pytest.mark.parametrize(("topic", "hidden"), [("parcels", False), ("orders", True)])
async def test_without_offset_syncs_the_status_says_so_unless_there_are_runs_of_a_topic_with_groups(
    world: World, monkeypatch: pytest.MonkeyPatch, topic: str, hidden: bool
) -> None:
    monkeypatch.setattr(outage, "SHOWN_AFTER_S", 0.0)
    del world.source.logs[SYNCS, 0]
    world.target.topic(RUNS)
    segment = Segment(topic, 0, 0, 0, b"x" * 16, b"y" * 16, Standing(), (Run(0, 0, 5),))
    world.target.put(RUNS, (segment.key(), segment.value()))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        if hidden:
            await task.until(lambda: task.link.notices)
            await task.rounds()
            assert task.link.standing == ()
            (notice,) = task.link.notices
            assert notice.endswith("positions are translated by runs alone, what no run covers is not")
        else:
            await task.until(lambda: task.link.standing)
            (line,) = task.link.standing
            assert f"topic {SYNCS} doesn't exist on the source cluster: nothing can be translated before a " in line


async def test_records_that_cannot_be_read_are_passed_over_and_named_once(world: World) -> None:
    world.source.put(SYNCS, (b"?", b"?"), (b"?", None))
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        assert len(task.link.notices) == 1


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(OffsetSync("orders", 0, 120, 2**63 - 1), id="offset"),
        # Longer than any topic's name, and one that five `.*` match in very many ways.
        pytest.param(OffsetSync("-prod--v1--eu-" * 2300, 0, 1, 1), id="name"),
    ],
)
async def test_a_sync_that_nothing_can_be_is_passed_over(world: World, hostile: OffsetSync) -> None:
    world.syncs((100, 200))
    world.source.put(SYNCS, (hostile.key(), hostile.value()))
    spec = world.spec("Checkpoint", "g", topics=".*-prod-.*-v[0-9]+-.*-eu-.*-live|orders")
    async with running(world, spec) as task:
        await task.until(lambda: world.checkpoints)
        assert (world.checkpoints, len(task.link.notices)) == ([("g", 150, 201)], 1)


SLOW = "(a|aa)+x"


@pytest.mark.parametrize("where", ["of_syncs", "of_runs"])
async def test_a_made_up_name_holds_nothing_up_whatever_the_expressions_are(world: World, where: str) -> None:
    world.syncs((100, 200))
    name = "a" * 200
    if where == "of_syncs":
        hostile = OffsetSync(name, 0, 5, 7)
        world.source.put(SYNCS, (hostile.key(), hostile.value()))
    else:
        world.target.topic(RUNS)
        segment = Segment(name, 0, 0, 0, b"x" * 16, b"y" * 16, Standing(), (Run(0, 0, 5),))
        world.target.put(RUNS, (segment.key(), segment.value()))
    async with running(world, world.spec("Checkpoint", "g", topics=f"orders,{SLOW}")) as task:
        await task.until(lambda: world.checkpoints)
        assert world.checkpoints == [("g", 150, 201)]


async def test_a_topic_that_an_expression_is_slow_for_is_judged_beside_the_loop(world: World) -> None:
    world.source.groups["g"] = {("orders", 0): (150, ""), ("a" * 200, 0): (1, "")}
    world.syncs((100, 200))
    loop, longest, last = asyncio.get_running_loop(), 0.0, asyncio.get_running_loop().time()
    async with running(world, world.spec("Checkpoint", "g", topics=f"orders,{SLOW}")) as task:
        while not task.task.done():
            await asyncio.sleep(0.01)
            now = loop.time()
            longest, last = max(longest, now - last), now
        with pytest.raises(ConfigError, match="takes more than 1 s"):
            task.task.result()
    assert longest < 0.7


async def test_more_made_up_partitions_than_there_can_be_are_told_of_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_translation, "MOST_PARTITIONS", 10)
    made_up = [OffsetSync(f"t{number}", 0, 5, 7) for number in range(30)]
    world.source.put(SYNCS, *((each.key(), each.value()) for each in made_up))
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.rounds()
        told = [line for line in task.link.notices if "more than 10 partitions" in line]
    assert (world.checkpoints, len(told)) == ([("g", 150, 201)], 1)


@pytest.mark.parametrize("error", [ValueError, OverflowError, struct.error])
async def test_a_sync_that_the_translator_stumbles_over_is_passed_over(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    insert = OffsetSyncStore.insert

    def stumbles(store: OffsetSyncStore, sync: OffsetSync) -> None:
        if sync.upstream == 120:
            raise error("too much")
        insert(store, sync)

    monkeypatch.setattr(OffsetSyncStore, "insert", stumbles)
    world.syncs((100, 200), (120, 220), (140, 240))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        assert world.checkpoints == [("g", 150, 241)]
        assert [line for line in task.link.notices if line.endswith("the first at 1: too much")]


async def test_nothing_is_written_without_a_lease(world: World) -> None:
    world.syncs((100, 200))
    synced = world.spec("Checkpoint", "g", sync__group__offsets__enabled="true")
    async with running(world, synced, lease=False) as task:
        await task.rounds()
        assert (world.checkpoints, world.target.groups) == ([], {})


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffset")
async def test_groups_are_moved_on_after_the_first_round(world: World) -> None:
    world.syncs((100, 200))
    synced = world.spec("Checkpoint", "g", sync__group__offsets__enabled="true")
    async with running(world, synced) as task:
        await task.until(lambda: world.target.groups)
    assert world.target.groups == {"g": {("A.orders", 0): (201, "")}}


async def test_groups_are_moved_on_although_the_source_is_gone(world: World) -> None:
    world.checkpointed((240, 230))
    world.source.away = True
    synced = world.spec("Checkpoint", "g", sync__group__offsets__enabled="true")
    async with running(world, synced) as task:
        await task.until(lambda: world.target.groups)
    assert world.target.groups == {"g": {("A.orders", 0): (230, "")}}


async def test_groups_are_left_alone_unless_that_is_asked_for(world: World) -> None:
    world.syncs((100, 200))
    async with running(world, world.spec("Checkpoint", "g")) as task:
        await task.until(lambda: world.checkpoints)
        await task.rounds()
    assert world.target.groups == {}


@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testConsumerConfigsForOffsetSyncsTopic")
async def test_syncs_are_read_from_the_target_if_that_is_their_place(world: World) -> None:
    topic = "mm2-offset-syncs.A.internal"
    world.target.topic(topic)
    sync = OffsetSync("orders", 0, 100, 200)
    world.target.put(topic, (sync.key(), sync.value()))
    placed = {"offset-syncs.topic.location": "target"}
    async with running(world, world.spec("Checkpoint", "g", **placed)) as task:
        await task.until(lambda: world.checkpoints)
    assert world.checkpoints == [("g", 150, 201)]
