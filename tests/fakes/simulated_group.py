"""The broker's side of a worker group, and of a topic that its leader writes to, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from mirror_connect.app.group.membership import PROTOCOL
from mirror_connect.connectors.errors import ClusterUnreachable, OutcomeUnknown
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    GenerationOver,
    MembershipLost,
    RebalanceNeeded,
)
from mirror_connect.kafka_io.producer.leader_writer import Entry
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse
from tests.fakes.simulated import Later, Process, World

T = TypeVar("T")
QUICK_S = 3.0


@dataclass
class _Member:
    metadata: bytes
    heard: float
    joining: Later[JoinGroupResponse] | None = None
    syncing: Later[bytes] | None = None
    synced: bool = False
    assignment: bytes = b""


class Group:
    """The coordinator, as GroupCoordinator.scala and ClassicGroup.java have it.

    A member that was not heard for `session_s` is out, unless it waits for the others. A join waits for all members, for
    `rebalance_s` at most. Who leads stays the leader for as long as it joins again.
    """

    def __init__(self, world: World, session_s: float, rebalance_s: float = 60.0) -> None:
        self.world = world
        self.session_s = session_s
        self.rebalance_s = rebalance_s
        self.generation = 0
        self.leader = ""
        self.members: dict[str, _Member] = {}
        self._state: Literal["empty", "preparing", "completing", "stable"] = "empty"
        self._rounds = 0
        self._named = 0

    def join(self, member_id: str, metadata: bytes) -> Later[JoinGroupResponse]:
        if member_id and member_id not in self.members:
            raise MembershipLost
        answer = Later[JoinGroupResponse]()
        if not member_id:
            self._named += 1
            member_id = f"member-{self._named}"
            self.members[member_id] = _Member(metadata, self.world.now, answer)
            self._rebalance()
            return answer
        member = self.members[member_id]
        same = member.metadata == metadata
        if same and (self._state == "completing" or (self._state == "stable" and member_id != self.leader)):
            answer.answer(self._joined(member_id))
            return answer
        member.metadata, member.joining = metadata, answer
        self._rebalance()
        return answer

    def sync(self, generation: int, member_id: str, assignments: Mapping[str, bytes]) -> Later[bytes]:
        self._check(generation, member_id)
        if self._state == "preparing":
            raise RebalanceNeeded
        member = self.members[member_id]
        member.synced = True
        answer = member.syncing = Later[bytes]()
        if self._state == "completing" and member_id == self.leader:
            self._state = "stable"
            for name, each in self.members.items():
                each.assignment = assignments.get(name, b"")
        if self._state == "stable":
            for name, each in self.members.items():
                if each.syncing is not None:
                    each.syncing.answer(each.assignment)
                    each.syncing = None
                    self._heard(name)
        return answer

    def heartbeat(self, generation: int, member_id: str) -> None:
        self._check(generation, member_id)
        self._heard(member_id)
        if self._state == "preparing":
            raise RebalanceNeeded

    def leave(self, member_id: str) -> None:
        if member_id in self.members:
            self._remove(member_id)

    def _check(self, generation: int, member_id: str) -> None:
        if member_id not in self.members:
            raise MembershipLost
        if generation != self.generation:
            raise GenerationOver

    def _heard(self, member_id: str) -> None:
        member = self.members[member_id]
        member.heard = self.world.now

        def look() -> None:
            # Who waits for the others is not expected to be heard; its session begins anew with the answer.
            waits = member.joining is not None or member.syncing is not None
            silent = self.world.now - member.heard > self.session_s - 0.001
            if self.members.get(member_id) is member and not waits and silent:
                self._remove(member_id)

        self.world.after(self.session_s, look)

    def _remove(self, member_id: str) -> None:
        del self.members[member_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), "")
        if self._state == "preparing":
            self._complete_if_all_are_there()
        elif self.members:
            self._rebalance()
        else:
            self._state = "empty"

    def _rebalance(self) -> None:
        if self._state != "preparing":
            self._state = "preparing"
            self._rounds += 1
            number = self._rounds
            for each in self.members.values():
                if each.syncing is not None:
                    each.syncing.answer(None, RebalanceNeeded())
                    each.syncing = None
            self.world.after(self.rebalance_s, lambda: self._complete_without_some(number))
        self._complete_if_all_are_there()

    def _complete_if_all_are_there(self) -> None:
        if all(each.joining is not None for each in self.members.values()):
            self._complete()

    def _complete_without_some(self, number: int) -> None:
        if self._state == "preparing" and number == self._rounds:
            self.members = {name: each for name, each in self.members.items() if each.joining is not None}
            self._complete()

    def _complete(self) -> None:
        self.generation += 1
        if not self.members:
            self._state, self.leader = "empty", ""
            return
        self._state = "completing"
        if self.leader not in self.members:
            self.leader = self.world.random.choice(sorted(self.members))
        generation = self.generation
        for name, each in self.members.items():
            assert each.joining is not None
            each.joining.answer(self._joined(name))
            each.joining, each.synced = None, False
            self._heard(name)
        self.world.after(self.rebalance_s, lambda: self._remove_who_has_not_synced(generation))

    def _remove_who_has_not_synced(self, generation: int) -> None:
        if generation == self.generation and self._state in {"completing", "stable"}:
            missing = [name for name, each in self.members.items() if not each.synced]
            for name in missing:
                self.members.pop(name)
            if missing and self.leader not in self.members:
                self.leader = next(iter(self.members), "")
            if missing and self.members:
                self._rebalance()
            elif missing:
                self._state = "empty"

    def _joined(self, member_id: str) -> JoinGroupResponse:
        everybody = {name: each.metadata for name, each in self.members.items()}
        leads = self.leader == member_id
        return JoinGroupResponse(0, 0, self.generation, PROTOCOL, self.leader, member_id, everybody if leads else {})


class Steps:
    """membership.GroupSteps of one process."""

    def __init__(self, process: Process, group: Group) -> None:
        self._process = process
        self._group = group

    async def join(self, member_id: str, metadata: bytes) -> JoinGroupResponse:
        return await self._ask(lambda: self._group.join(member_id, metadata), self._group.rebalance_s + 5.0)

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        return await self._ask(
            lambda: self._group.sync(joined.generation, joined.member_id, assignments), self._group.rebalance_s + 5.0
        )

    async def heartbeat(self, generation: int, member_id: str) -> None:
        await self._ask(lambda: self._group.heartbeat(generation, member_id))

    async def leave(self, member_id: str) -> None:
        await self._ask(lambda: self._group.leave(member_id))

    async def consumed_topics(self) -> list[str]:
        return []

    async def close(self) -> None: ...

    async def _ask(self, serve: Callable[[], T | Later[T]], seconds: float = QUICK_S) -> T:
        try:
            return await self._process.call(serve, seconds)
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
