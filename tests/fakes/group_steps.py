"""The coordinator's side of one member, and a membership that has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mirror_connect.app.group.assignor import NOTHING
from mirror_connect.app.group.membership import Membership
from mirror_connect.app.group.messages import (
    Assignment,
    GroupState,
    Metadata,
    assignment_from_bytes,
    assignments_to_bytes,
    metadata_from_bytes,
    metadata_to_bytes,
)
from mirror_connect.app.group.messages import Worker as GroupWorker
from mirror_connect.app.herder.interfaces import Claims, GroupAssignment, WantedWork
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.group_membership import (
    HeldByOthers,
)
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

OTHER = "other-1"


OTHER_URL = "http://other:8083"


URL = "http://me:8083"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeGroup:
    """The coordinator's side of one member. `beats`: what the next heartbeats raise; None lets one pass."""

    leader: str = "me"
    consumed: list[str] | Exception = field(default_factory=list)
    generation: int = 0
    joins: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    join_failures: list[Exception] = field(default_factory=list)
    beat_failures: list[Exception] = field(default_factory=list)
    beats: int = 0
    one_at_a_time: bool = False
    held: bool = False
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answering.set()

    async def join(self, member_id: str, metadata: bytes) -> JoinGroupResponse:
        self.joins.append(member_id)
        if self.join_failures:
            raise self.join_failures.pop(0)
        if self.held:
            raise HeldByOthers("group.id g is in use: stop them")
        self.generation += 1
        me = member_id or f"me-{self.generation}"
        leads = self.leader == "me"
        members = {me: metadata, OTHER: json.dumps({"version": 1, "url": OTHER_URL}).encode()}
        return JoinGroupResponse(
            0, 0, self.generation, "mirror-connect", me if leads else OTHER, me, members if leads else {}
        )

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        if assignments:
            assert set(assignments) == set(joined.members)
            return assignments[joined.member_id]
        return json.dumps({"version": 1, "leader": OTHER, "leader_url": OTHER_URL}).encode()

    async def heartbeat(self, generation: int, member_id: str) -> None:
        await self.answering.wait()
        self.beats += 1
        if self.one_at_a_time:
            self.answering.clear()
        if self.beat_failures:
            raise self.beat_failures.pop(0)

    async def leave(self, member_id: str) -> None:
        if member_id:
            self.left.append(member_id)

    async def consumed_topics(self) -> list[str]:
        if isinstance(self.consumed, Exception):
            raise self.consumed
        return self.consumed

    async def close(self) -> None: ...


@dataclass
class Member:
    membership: Membership
    group: FakeGroup
    clock: Clock
    heard: list[GroupAssignment]

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def asked_again(group: FakeGroup, times: int = 1) -> None:
    """Until somebody has tried to join so often from now on."""
    asked = len(group.joins)
    await until(lambda: len(group.joins) >= asked + times)


@asynccontextmanager
async def member(leader: str = "me", session_ms: int = 10_000, interval_ms: int = 5) -> AsyncIterator[Member]:
    group, clock, heard = FakeGroup(leader), Clock(), list[GroupAssignment]()
    membership = Membership(
        group,
        URL,
        group_id="g",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=interval_ms,
        on_change=heard.append,
        clock=clock,
    )
    await membership.join()
    try:
        yield Member(membership, group, clock, heard)
    finally:
        await membership.leave()


@dataclass
class Work:
    """What the herder says to its membership."""

    connectors: dict[str, int] = field(default_factory=lambda: {"x": 2})
    offset: int = 5
    runs: frozenset[TaskId] = frozenset()
    confirmed: dict[str, int] = field(default_factory=dict)
    readiness: Readiness = Readiness.READY

    def wanted(self) -> WantedWork:
        return WantedWork(self.connectors, self.offset)

    def claims(self) -> Claims:
        return Claims(frozenset(), self.runs, self.confirmed, self.readiness)


class SharedGroup(FakeGroup):
    """The other member's metadata is `other`; as its leader it gives this one `share`."""

    def __init__(self, leader: str = "me") -> None:
        super().__init__(leader)
        self.other = Metadata("http://other:8083", "other:8083", offset=5)
        self.share = NOTHING
        self.version = 2
        self.told: list[Metadata] = []
        self.given: dict[str, Assignment] = {}
        self.until_joined = asyncio.Event()
        self.until_joined.set()
        self.beaten: list[int] = []

    async def join(self, member_id: str, metadata: bytes) -> JoinGroupResponse:
        joined = await super().join(member_id, metadata)
        self.told.append(metadata_from_bytes(metadata, 0.0))
        await self.until_joined.wait()
        members = {**joined.members, OTHER: metadata_to_bytes(self.other, 0.0)} if joined.members else {}
        return joined._replace(members=members)

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        if assignments:
            self.given = {name: assignment_from_bytes(each, 0.0) for name, each in assignments.items()}
            return assignments[joined.member_id]
        workers = (GroupWorker(joined.member_id, URL, URL, self.share), GroupWorker(OTHER, OTHER_URL, "", NOTHING))
        state = GroupState(joined.generation, 5, workers)
        given = Assignment(OTHER, OTHER_URL, self.version, self.share, state)
        return assignments_to_bytes({"": given}, 0.0)[""]

    async def heartbeat(self, generation: int, member_id: str) -> None:
        self.beaten.append(generation)
        await super().heartbeat(generation, member_id)


@asynccontextmanager
async def sharing(
    leader: str = "me", work: Work | None = None
) -> AsyncIterator[tuple[Membership, SharedGroup, Work, Clock]]:
    group, work, clock = SharedGroup(leader), work or Work(), Clock()
    membership = Membership(
        group, URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5, worker_id="me:8083", clock=clock
    )
    membership.share(work)
    await membership.join()
    try:
        yield membership, group, work, clock
    finally:
        group.until_joined.set()
        await membership.leave()


X0, X1 = TaskId("x", 0), TaskId("x", 1)
