import pytest

from mirror_connect.connectors.partitions import CommittedOffset, CommittedOffsets, TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint, CheckpointMemory
from mirror_connect.kafka_io.admin.consumer_groups import GroupKind, ListedGroup, Read
from mirror_connect.spark_jobs.tasks.group_sync import GroupSync

ORDERS, OTHER = TopicPartition("A.orders", 0), TopicPartition("A.other", 0)
IDLE, ACTIVE = ListedGroup(GroupKind.CONSUMER, active=False), ListedGroup(GroupKind.CONSUMER, active=True)


class Groups:
    """The groups of a target: committed offsets by group. `codes`: what a write to a partition answers, if not success."""

    def __init__(self, **groups: ListedGroup) -> None:
        self.groups = groups
        self.committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.unreadable: dict[str, str] = {}
        self.codes: dict[TopicPartition, int] = {}
        self.silent = False
        self.read_of: list[list[str]] = []

    async def listed(self) -> dict[str, ListedGroup]:
        return self.groups

    async def read(self, groups: list[str]) -> Read:
        self.read_of.append(groups)
        found = {group: self.committed.get(group, {}) for group in groups if group not in self.unreadable}
        return Read(dict(found), {group: why for group, why in self.unreadable.items() if group in groups})

    async def write(self, group: str, offsets: CommittedOffsets) -> dict[TopicPartition, int] | str:
        if self.silent:
            return "nobody answers"
        codes = {partition: self.codes.get(partition, 0) for partition in offsets}
        written = {partition: each for partition, each in offsets.items() if codes[partition] == 0}
        self.committed.setdefault(group, {}).update(written)
        return codes


class World:
    def __init__(self, **groups: ListedGroup) -> None:
        self.groups = Groups(**groups)
        self.lease = True
        self.notices: list[str] = []
        self.memory = CheckpointMemory({"g", "h"})
        self.sync = GroupSync(self.groups, lambda: self.lease, self.notices.append)

    def told(self, group: str, downstream: int, topic: str = "A.orders") -> None:
        assert self.memory.take([Checkpoint(group, topic, 0, downstream, downstream, "note")])


@pytest.mark.kafka_test("MirrorCheckpointTaskTest.testSyncOffset")
@pytest.mark.parametrize("listed", [{}, {"g": IDLE}, {"g": ListedGroup(GroupKind.CONSUMER, active=None)}], ids=str)
async def test_a_group_without_members_is_moved_on(listed: dict[str, ListedGroup]) -> None:
    world = World(**listed)
    world.told("g", 60)
    assert (await world.sync.run(world.memory), world.groups.committed) == (
        1,
        {"g": {ORDERS: CommittedOffset(60, "note")}},
    )


async def test_a_group_that_is_ahead_stays_where_it_is() -> None:
    world = World(g=IDLE)
    world.told("g", 60)
    world.groups.committed["g"] = {ORDERS: CommittedOffset(61, "")}
    assert (await world.sync.run(world.memory), world.groups.committed["g"]) == (0, {ORDERS: CommittedOffset(61, "")})


async def test_a_group_that_nobody_lists_is_not_taken_back_either() -> None:
    world = World()
    world.told("g", 60)
    world.groups.committed["g"] = {ORDERS: CommittedOffset(61, "")}
    assert await world.sync.run(world.memory) == 0


async def test_an_active_group_is_left_alone_and_named_once() -> None:
    world = World(g=ACTIVE, h=IDLE)
    for group in ("g", "h"):
        world.told(group, 60)
    for _ in range(3):
        await world.sync.run(world.memory)
    assert (list(world.groups.committed), world.groups.read_of[0], len(world.notices)) == (["h"], ["h"], 1)


async def test_an_active_group_is_named_again_after_it_was_idle() -> None:
    world = World(g=ACTIVE)
    world.told("g", 60)
    for state in (ACTIVE, IDLE, ACTIVE):
        world.groups.groups["g"] = state
        await world.sync.run(world.memory)
    assert len(world.notices) == 2


async def test_a_group_that_got_a_member_meanwhile_counts_as_active() -> None:
    world = World(g=IDLE)
    world.told("g", 60)
    world.groups.codes[ORDERS] = 25
    for state in (IDLE, ACTIVE):
        world.groups.groups["g"] = state
        await world.sync.run(world.memory)
    assert world.notices == ["Group g: active on the target, left alone until idle"]


async def test_a_partition_that_is_refused_is_named_once_and_the_others_move() -> None:
    world = World(g=IDLE)
    world.told("g", 60)
    world.told("g", 7, topic="A.other")
    world.groups.codes[ORDERS] = 3
    for _ in range(2):
        await world.sync.run(world.memory)
    assert (world.groups.committed["g"], world.notices) == (
        {OTHER: CommittedOffset(7, "note")},
        ["Group g: not moved on the target in A.orders-0: UNKNOWN_TOPIC_OR_PARTITION"],
    )


async def test_a_right_that_is_missing_is_named_and_a_line_of_the_status_while_it_is() -> None:
    world = World(g=IDLE, h=ACTIVE)
    for group in ("g", "h"):
        world.told(group, 60)
    world.groups.codes[ORDERS] = 29
    await world.sync.run(world.memory)
    assert [problem.line for problem in world.sync.stuck] == [
        "Group g: not moved on the target in A.orders-0: not authorized to read there: grant READ on topic A.orders to "
        "the target user"
    ]
    world.groups.codes.clear()
    await world.sync.run(world.memory)
    assert world.sync.stuck == []


async def test_a_group_that_cannot_be_read_keeps_no_other_back() -> None:
    world = World(g=IDLE, h=IDLE)
    for group in ("g", "h"):
        world.told(group, 60)
    world.groups.unreadable["g"] = "denied"
    await world.sync.run(world.memory)
    assert (list(world.groups.committed), world.notices) == (["h"], ["Group g: can't be read on the target: denied"])


async def test_nothing_is_moved_without_a_lease() -> None:
    world = World(g=IDLE)
    world.told("g", 60)
    world.lease = False
    assert (await world.sync.run(world.memory), world.groups.committed, world.notices) == (0, {}, [])


@pytest.mark.parametrize(
    ("listed", "what"),
    [
        (ListedGroup(GroupKind.OTHER, False, "connect"), "protocol type connect"),
        (ListedGroup(GroupKind.SHARE, False), "share group"),
        (ListedGroup(GroupKind.STREAMS, False), "streams group"),
    ],
)
async def test_a_group_of_another_kind_is_left_alone_and_told_with_its_kind(listed: ListedGroup, what: str) -> None:
    world = World(g=listed)
    world.told("g", 60)
    await world.sync.run(world.memory)
    line = f"Group g: not a consumer group on the target ({what}): left alone"
    assert (world.groups.committed, world.notices) == ({}, [line])


async def test_a_coordinator_that_is_away_is_named_once() -> None:
    world = World(g=IDLE)
    world.told("g", 60)
    world.groups.silent = True
    for _ in range(2):
        await world.sync.run(world.memory)
    assert world.notices == ["Group g: not moved on the target: nobody answers"]
