"""A group's member gives its partitions away before it joins again, and writes nothing when it may have lost them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from mirror_connect.app.mirror_maker.group_member import MARGIN_S, GroupMember
from mirror_connect.connectors.partitions import CommittedOffsets, TopicPartition
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, MembershipLost, RebalanceNeeded
from mirror_connect.kafka_io.protocol.consumer_protocol import assigned_partitions, assignment, subscription
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

SESSION_S = 10.0
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """A group's coordinator: `others` are further members; what `beat` holds is raised by heartbeats."""

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.others: dict[str, bytes] = {}
        self.leads = True
        self.protocol = "range"
        self.beat: Exception | None = None
        self.join_fails: list[Exception] = []
        self.generation = 0
        self.assigned: dict[str, list[TopicPartition]] = {}
        self.offered: list[tuple[str, list[str]]] = []
        self.beats = 0
        # Called while a heartbeat is under way.
        self.answers: Callable[[], None] = lambda: None

    async def join(
        self, member_id: str, metadata: bytes, others: Mapping[str, bytes] | None = None
    ) -> JoinGroupResponse:
        if self.join_fails:
            raise self.join_fails.pop(0)
        self.generation += 1
        self.beat = None
        name = member_id or f"m{self.generation}"
        self.done.append(f"join as {member_id or 'new'}")
        self.offered.append((name, sorted(others or {})))
        members = {name: metadata, **self.others} if self.leads else {}
        return JoinGroupResponse(0, 0, self.generation, self.protocol, name if self.leads else "x", name, members)

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        self.assigned = {member: assigned_partitions(content) for member, content in assignments.items()}
        return assignments.get(joined.member_id, assignment([T1]))

    async def heartbeat(self, generation: int, member_id: str) -> None:
        self.beats += 1
        self.answers()
        if self.beat is not None:
            raise self.beat

    async def leave(self, member_id: str) -> None:
        self.done.append(f"leave as {member_id}")

    async def committed(self) -> dict[TopicPartition, int]:
        return {T0: 3}

    async def commit(self, generation: int, member_id: str, offsets: CommittedOffsets) -> dict[TopicPartition, int]:
        self.done.append(f"commit {generation} {member_id} {[each.offset for each in offsets.values()]}")
        return {}

    async def close(self) -> None:
        self.done.append("close")


class Work:
    """What is done with the partitions; it wants to rebalance when `changed` is set, and releases when `may_release` is."""

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.changed = asyncio.Event()
        self.may_release = asyncio.Event()
        self.may_release.set()

    async def topics(self) -> frozenset[str]:
        return frozenset({"t"})

    async def partition_counts(self, topics: frozenset[str]) -> Mapping[str, int]:
        return dict.fromkeys(sorted(topics), 2)

    async def work(self, partitions: Sequence[TopicPartition]) -> None:
        self.done.append(f"work {','.join(map(str, partitions))}")
        await self.changed.wait()
        self.changed.clear()

    async def release(self) -> None:
        await self.may_release.wait()
        self.done.append("release")

    def lost(self) -> None:
        self.done.append("lost")


class World:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.now = 100.0
        self.coordinator, self.work = Coordinator(self.done), Work(self.done)
        self.member = GroupMember(
            self.coordinator,
            self.work,
            group_id="g",
            assignors=["roundrobin", "range"],
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=1,
            clock=lambda: self.now,
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.001)

    async def beats_again(self) -> None:
        beats = self.coordinator.beats
        await self.until(lambda: self.coordinator.beats > beats + 1)


@contextlib.asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    member = asyncio.create_task(world.member.run())
    try:
        await world.until(lambda: world.coordinator.beats > 0)
        yield
    finally:
        member.cancel()
        await asyncio.gather(member, return_exceptions=True)


async def test_the_leader_shares_partitions_by_the_assignor_that_all_have() -> None:
    world = World()
    world.coordinator.others = {"m0": subscription(["t"])}
    async with running(world):
        pass
    assert world.coordinator.assigned == {"m0": [T0], "m1": [T1]}
    assert world.coordinator.offered == [("m1", ["range"])]
    assert world.done[:2] == ["join as new", "work t-1"]


async def test_who_does_not_lead_takes_what_it_gets() -> None:
    world = World()
    world.coordinator.leads = False
    async with running(world):
        pass
    assert world.done[:2] == ["join as new", "work t-1"]


async def test_partitions_are_given_away_before_the_member_joins_again() -> None:
    world = World()
    async with running(world):
        world.coordinator.beat = RebalanceNeeded()
        await world.until(lambda: world.coordinator.generation == 2)
    assert world.done[:4] == ["join as new", "work t-0,t-1", "release", "join as m1"]


async def test_a_slow_release_does_not_cost_the_membership() -> None:
    world = World()
    async with running(world):
        world.work.may_release.clear()
        world.work.changed.set()
        await world.beats_again()
        world.now += SESSION_S
        await world.beats_again()
        assert world.member.lease_remaining() == SESSION_S - MARGIN_S
        assert world.coordinator.generation == 1
        world.work.may_release.set()
        await world.until(lambda: world.coordinator.generation == 2)


async def test_who_was_removed_drops_its_partitions_and_joins_as_another_member() -> None:
    world = World()
    async with running(world):
        world.coordinator.beat = MembershipLost("g")
        await world.until(lambda: world.coordinator.generation == 2)
    assert world.done[2:4] == ["lost", "join as new"]


async def test_the_lease_ends_although_the_coordinator_is_silent() -> None:
    world = World()
    async with running(world):
        world.coordinator.beat = CoordinatorLost("away")
        await world.beats_again()
        assert world.member.lease_remaining() == SESSION_S - MARGIN_S
        world.now += SESSION_S - MARGIN_S
        assert world.member.lease_remaining() == 0
        world.coordinator.beat = None
        await world.until(lambda: world.member.lease_remaining() > 0)
    assert "lost" not in world.done


async def test_the_lease_counts_from_before_the_heartbeat_was_sent() -> None:
    world = World()
    left: list[float] = []

    def slow() -> None:
        left.append(world.member.lease_remaining())
        world.now += 1.0

    async with running(world):
        world.coordinator.answers = slow
        await world.until(lambda: len(left) > 2)
    assert left[1:3] == [SESSION_S - MARGIN_S - 1.0] * 2


async def test_a_coordinator_that_is_away_at_the_start_is_asked_again() -> None:
    world = World()
    world.coordinator.join_fails = [CoordinatorLost("away")]
    async with running(world):
        assert world.coordinator.generation == 1


async def test_it_commits_as_the_member_of_its_generation_and_leaves_by_name() -> None:
    world = World()
    async with running(world):
        assert await world.member.commit({T0: 7}) == {}
    await world.member.leave()
    assert world.done[-3:] == ["commit 1 m1 [7]", "leave as m1", "close"]
    assert world.member.lease_remaining() == 0
