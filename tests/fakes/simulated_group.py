"""The broker's side of a worker group, and of a topic that its leader writes to, in simulated time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mirror_connect.app.herder.membership import PROTOCOL
from mirror_connect.connectors.errors import ClusterUnreachable, OutcomeUnknown
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, MembershipLost, RebalanceNeeded
from mirror_connect.kafka_io.producer.leader_writer import Entry
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse
from tests.fakes.simulated import Process, World

T = TypeVar("T")
QUICK_S = 3.0


@dataclass
class _Member:
    metadata: bytes
    heard: float
    generation: int


class Group:
    """The coordinator: a member that was not heard for `session_s` is out; who leads stays it for as long as it is in."""

    def __init__(self, world: World, session_s: float) -> None:
        self.world = world
        self.session_s = session_s
        self.generation = 0
        self.leader = ""
        self.members: dict[str, _Member] = {}
        self.assignment = b""
        self._named = 0

    def join(self, member_id: str, metadata: bytes) -> JoinGroupResponse:
        self._expire()
        if member_id not in self.members:
            self._named += 1
            member_id = f"member-{self._named}"
        known = self.members.get(member_id)
        if known is None or known.generation == self.generation:
            # Else it follows into a generation that another one has begun.
            self.generation += 1
        self.members[member_id] = _Member(metadata, self.world.now, self.generation)
        if self.leader not in self.members:
            self.leader = member_id
        everybody = {name: each.metadata for name, each in self.members.items()}
        leads = self.leader == member_id
        if leads:
            self.assignment = b""
        return JoinGroupResponse(0, 0, self.generation, PROTOCOL, self.leader, member_id, everybody if leads else {})

    def sync(self, generation: int, member_id: str, assignments: Mapping[str, bytes]) -> bytes:
        self._check(generation, member_id)
        url = json.loads(self.members[self.leader].metadata)["url"]
        return json.dumps({"version": 1, "leader": self.leader, "leader_url": url}).encode()

    def heartbeat(self, generation: int, member_id: str) -> None:
        self._check(generation, member_id)
        self.members[member_id].heard = self.world.now
        if generation != self.generation:
            raise RebalanceNeeded

    def _check(self, generation: int, member_id: str) -> None:
        self._expire()
        if member_id not in self.members or self.members[member_id].generation != generation:
            raise MembershipLost

    def _expire(self) -> None:
        gone = [name for name, each in self.members.items() if self.world.now - each.heard > self.session_s]
        for name in gone:
            del self.members[name]
        if gone:
            self.generation += 1
        if self.leader not in self.members and self.members:
            # The next one that joins leads: those that are there have to join again.
            self.leader = ""


class Steps:
    """membership.GroupSteps of one process."""

    def __init__(self, process: Process, group: Group) -> None:
        self._process = process
        self._group = group

    async def join(self, member_id: str, metadata: bytes) -> JoinGroupResponse:
        return await self._ask(lambda: self._group.join(member_id, metadata))

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        return await self._ask(lambda: self._group.sync(joined.generation, joined.member_id, assignments))

    async def heartbeat(self, generation: int, member_id: str) -> None:
        await self._ask(lambda: self._group.heartbeat(generation, member_id))

    async def leave(self, member_id: str) -> None: ...

    async def consumed_topics(self) -> list[str]:
        return []

    async def close(self) -> None: ...

    async def _ask(self, serve: Callable[[], T]) -> T:
        try:
            return await self._process.call(serve, QUICK_S)
        except ConnectionLost as lost:
            raise CoordinatorLost(str(lost)) from None


@dataclass(frozen=True)
class Written:
    """`generation`: the group's when its writer asked for it."""

    writer: str
    generation: int
    key: bytes
    value: bytes | None


@dataclass
class ConfigTopic:
    """What is committed, and the epoch of the leader's transactional id."""

    records: list[Written] = field(default_factory=list)
    epoch: int = 0


class SimulatedTransactions:
    """leader_writer.Transactions: a producer whose requests travel through the simulated network."""

    def __init__(self, process: Process, topic: ConfigTopic, generation: Callable[[], int]) -> None:
        self._process = process
        self._topic = topic
        self._generation = generation
        self._epoch = -1

    async def claim(self, seconds: float) -> None:
        def serve() -> int:
            self._topic.epoch += 1
            return self._topic.epoch

        try:
            self._epoch = await self._process.call(serve, seconds)
        except ConnectionLost as lost:
            raise ClusterUnreachable(str(lost)) from None

    async def write(self, topic: str, entries: Sequence[Entry], seconds: float) -> None:
        generation, epoch = self._generation(), self._epoch

        def serve() -> None:
            if epoch != self._topic.epoch:
                raise ClusterUnreachable("fenced")
            self._topic.records += [Written(self._process.name, generation, *entry) for entry in entries]

        try:
            await self._process.call(serve, seconds)
        except ConnectionLost as lost:
            raise OutcomeUnknown(str(lost)) from None

    def close(self) -> None: ...


class SimulatedPlain:
    """leader_writer.PlainWriter as librdkafka is: it tries again until its message time-out; nothing fences it."""

    def __init__(self, process: Process, topic: ConfigTopic, generation: Callable[[], int], timeout_s: float) -> None:
        self._process = process
        self._topic = topic
        self._generation = generation
        self._timeout_s = timeout_s

    async def write(self, topic: str, entries: Sequence[Entry]) -> None:
        generation, until = self._generation(), self._process.time() + self._timeout_s
        arrived = False

        def serve() -> None:
            nonlocal arrived
            if arrived:  # an idempotent producer: the broker knows repetitions
                return
            arrived = True
            self._topic.records += [Written(self._process.name, generation, *entry) for entry in entries]

        while (left := until - self._process.time()) > 0:
            try:
                await self._process.call(serve, min(left, QUICK_S))
                return
            except ConnectionLost:
                continue
        raise OutcomeUnknown("message timed out")
