"""The life of a group whose members share connectors and tasks: the product's Membership, in simulated time.

What stands for the rest of a worker is as simple as it can be: a run writes once a second while the lease lasts, a revoked
run ends after a while, and the config topic reaches each worker after a while. There is no fence: nothing but the group
keeps two workers from writing for the same task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from mirror_connect.app.group.config_sync import ConfigSync
from mirror_connect.app.group.membership import Membership
from mirror_connect.app.herder.interfaces import NO_GENERATION, OUTSIDE, Claims, GroupAssignment, WantedWork
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.connection import ConnectionLost
from tests.fakes.simulated import Process, World
from tests.fakes.simulated_group import Group, Steps
from tests.models.watch import BrokenPromiseError

SESSION_S = 10.0
HEARTBEAT_S = 3.0
WRITE_S = 1.0
# What was written before the lease ended arrives within its margin.
IN_TIME_S = 1.5
CALM_S = 90
SYNC_TIMEOUT_S = 10.0
UNSYNC_BACKOFF_S = 20.0

Item = str | TaskId


@dataclass(eq=False)
class Run:
    """One start of a connector or task on one worker. `ends_at`: when it will have ended, by the worker's clock."""

    item: Item
    worker: Member
    number: int
    ends_at: float | None = None


@dataclass
class Target:
    """Where runs write: once a later run of the same item has written, an earlier one must not any more."""

    newest: dict[Item, Run] = field(default_factory=dict)
    broken: str = ""

    def write(self, run: Run) -> None:
        newest = self.newest.get(run.item)
        if newest is not None and newest.number > run.number:
            self.broken = f"{run.item}: {run.worker.name} wrote in run {run.number} behind run {newest.number}"
        self.newest[run.item] = run


@dataclass
class Topic:
    """The config topic: how many tasks each connector should have, one record after the other."""

    records: list[tuple[str, int]] = field(default_factory=list)

    def wanted(self, offset: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, count in self.records[: offset + 1]:
            found[name] = count
            if count < 0:
                del found[name]
        return found


class Member:
    """A worker: GroupWork of its membership."""

    def __init__(self, process: Process, life: GroupLife, *, shares: bool, delay_s: float) -> None:
        self.process, self.name = process, process.name
        self._life = life
        self.offset = len(life.topic.records) - 1
        self.runs: dict[Item, Run] = {}
        self.places: list[GroupAssignment] = []
        # How long its runs take to end.
        self.slow_s = 0.2
        self.readiness = Readiness.READY
        self.leaving = False
        self.shares = shares
        # Until when it can't read the config topic, by the world's clock; and whether it has left the group for that.
        self.blind_until = 0.0
        self.lets_go = False
        self.membership = Membership(
            Steps(process, life.group),
            f"http://{process.name}",
            group_id="g",
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
            rebalance_timeout_ms=int(life.group.rebalance_s * 1000),
            rebalance_delay_ms=int(delay_s * 1000),
            on_change=self._changed,
            clock=process.time,
        )
        if shares:
            self.membership.share(self)
        self.sync = ConfigSync(
            self, self.membership, self, timeout_s=SYNC_TIMEOUT_S, backoff_s=UNSYNC_BACKOFF_S, clock=process.time
        )

    # GroupWork.

    def wanted(self) -> WantedWork:
        return WantedWork(self._life.topic.wanted(self.offset), self.offset)

    def claims(self) -> Claims:
        return Claims(
            frozenset(each for each in self.runs if isinstance(each, str)),
            frozenset(each for each in self.runs if isinstance(each, TaskId)),
            readiness=self.readiness,
        )

    def spark(self, readiness: Readiness) -> None:
        self.readiness = readiness
        self.membership.rejoin()

    # What keeps it in sync: ConfigTopic and Work of its ConfigSync.

    @property
    def is_blind(self) -> bool:
        return self._life.world.now < self.blind_until

    async def refresh(self, timeout: float) -> None:
        newest = len(self._life.topic.records) - 1
        await asyncio.sleep(timeout if self.is_blind else 0.02)
        if self.is_blind:
            raise ClusterUnreachable("the leader of its partition is away")
        if newest > self.offset:
            self.read(newest)

    async def let_go(self, patience_s: float) -> bool:
        self.lets_go = True
        now = self.process.time()
        for run in self.runs.values():
            run.ends_at = run.ends_at or now + self.slow_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self.runs:
                    await asyncio.sleep(0.1)
                    self.end_what_is_over()
        return not self.runs

    def take_again(self) -> None:
        self.lets_go = False
        self._run_what_is_assigned()

    # What a worker does.

    async def work(self) -> None:
        with contextlib.suppress(ClusterUnreachable):
            await self.membership.join(1e9)
        if self.shares:
            self.process.start(self.sync.keep())
        while True:
            await asyncio.sleep(WRITE_S)
            self.end_what_is_over()
            for run in list(self.runs.values()):
                # As a task looks at its lease: before the request is written.
                if self.membership.runs_for() > 0:
                    self.process.start(self._write(run))

    async def _write(self, run: Run) -> None:
        with contextlib.suppress(ConnectionLost):
            await self.process.call(lambda: self._life.target.write(run), 3.0)

    async def leave(self) -> None:
        """As a worker that ends: what it runs ends first."""
        self.leaving = True
        await asyncio.sleep(self.slow_s)
        self.runs.clear()
        await self.membership.leave()

    def read(self, offset: int) -> None:
        self.offset = max(self.offset, offset)
        self.end_what_is_over()
        self._run_what_is_assigned()
        self.membership.rejoin()

    def _changed(self, place: GroupAssignment) -> None:
        self.places.append(place)
        if place is OUTSIDE or not place.workers:
            # Retired: none of them writes any more.
            self.runs.clear()
            return
        self._run_what_is_assigned()

    def _run_what_is_assigned(self) -> None:
        place = self.membership.assignment
        if place is OUTSIDE or place.config_offset > self.offset or self.leaving or self.lets_go or not self.shares:
            return
        wanted = self._life.topic.wanted(self.offset)
        assigned: set[Item] = {*place.connectors, *place.tasks}
        now = self.process.time()
        for item in list(self.runs):
            there = item in wanted if isinstance(item, str) else item.task < wanted.get(item.connector, 0)
            if (item not in assigned or not there) and self.runs[item].ends_at is None:
                self.runs[item].ends_at = now + self.slow_s
                self.process.call_later(self.slow_s + 0.01, self.end_what_is_over)
        for item in sorted(assigned, key=str):
            there = item in wanted if isinstance(item, str) else item.task < wanted.get(item.connector, 0)
            if there and item not in self.runs:
                self._life.started += 1
                run = self.runs[item] = Run(item, self, self._life.started)
                self.process.start(self._write(run))

    def end_what_is_over(self) -> None:
        now = self.process.time()
        over = [item for item, run in self.runs.items() if run.ends_at is not None and run.ends_at <= now]
        for item in over:
            del self.runs[item]
        if over:
            # It may have been assigned again meanwhile.
            self._run_what_is_assigned()
            self.membership.rejoin()


class GroupLife:
    """Members of a group, and what happens to them. Raises BrokenPromiseError."""

    def __init__(self, net: int, *, delay_s: float = 0.0, rebalance_s: float = 60.0) -> None:
        self.world = World(net)
        self.group = Group(self.world, SESSION_S, rebalance_s)
        self.target = Target()
        self.topic = Topic()
        self.members: list[Member] = []
        self.started = 0
        self.quiet_at = 0.0
        self._delay_s = delay_s
        self._made = 0

    def close(self) -> None:
        self.world.close()

    def start(self, rate: float = 1.0, *, shares: bool = True) -> Member:
        self._made += 1
        process = Process(self.world, f"w{self._made}", offset=1000.0 * self._made, rate=rate)
        member = process.made(lambda: Member(process, self, shares=shares, delay_s=self._delay_s))
        self.members.append(member)
        process.start(member.work())
        return member

    def kill(self, member: Member) -> None:
        self.members.remove(member)
        # The group goes on without it when its session is over.
        self.quiet_at = max(self.quiet_at, self.world.now + SESSION_S + 2.0)
        member.process.kill()

    def leave(self, member: Member) -> None:
        if member.leaving:
            return
        self.quiet_at = max(self.quiet_at, self.world.now + member.slow_s + 4.0)
        task = member.process.start(member.leave())

        def look() -> None:
            if task.done() and member in self.members:
                self.kill(member)
            elif member in self.members:
                self.world.after(0.5, look)

        self.world.after(0.5, look)

    def wish(self, name: str, count: int) -> None:
        """A record in the config topic: each member reads it when it comes to that."""
        if count < 0 and name not in self.topic.wanted(len(self.topic.records)):
            return
        self.topic.records.append((name, count))
        offset = len(self.topic.records) - 1
        self.quiet_at = max(self.quiet_at, self.world.now + 3.0)
        for member in self.members:
            self.world.after(self.world.random.uniform(0.01, 1.5), self._reader(member, offset))

    def _reader(self, member: Member, offset: int) -> Callable[[], None]:
        def read() -> None:
            if member.process.alive and not member.is_blind:
                member.process.call_soon(member.read, offset)

        return read

    def blind(self, member: Member, seconds: float) -> None:
        """It reaches the group, and not the config topic."""
        member.blind_until = self.world.now + seconds
        # Then it may be out of the group, for a while.
        self.quiet_at = max(self.quiet_at, member.blind_until + 3 * SYNC_TIMEOUT_S + UNSYNC_BACKOFF_S)

        def see() -> None:
            if member.process.alive and not member.is_blind:
                member.process.call_soon(member.read, len(self.topic.records) - 1)

        self.world.after(seconds + 0.1, see)

    def pass_time(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.run(min(0.5, until - self.world.now))
            self.look()

    def look(self) -> None:
        if self.target.broken:
            raise BrokenPromiseError(self.target.broken)
        for member in self.members:
            if member.process.errors:
                raise BrokenPromiseError(f"{member.name}: {member.process.errors[0]}")

    def come_to_rest(self) -> None:
        """When the trouble is over, everything runs once, evenly spread, and nothing changes any more."""
        self.pass_time(max(0.0, self.quiet_at - self.world.now) + self._delay_s)
        for member in self.members:
            member.process.call_soon(member.spark, Readiness.READY)
        if any(each.membership.is_leader and not each.shares for each in self.members):
            # A leader of version 1 runs everything.
            return
        if not any(each.shares for each in self.members):
            return
        for _ in range(CALM_S):
            self.pass_time(1.0)
            if not self._unrest():
                break
        else:
            raise BrokenPromiseError(self._unrest())
        # Who has ended something tells the group so.
        self.pass_time(3.0)
        generation = self.group.generation
        self.pass_time(15.0)
        if self._unrest() or self.group.generation != generation:
            raise BrokenPromiseError(f"no rest: {self._unrest()}, generation {generation} and {self.group.generation}")

    def _unrest(self) -> str:
        leaders = [each for each in self.members if each.membership.is_leader]
        if len(leaders) != 1:
            return f"{[each.name for each in leaders]} lead"
        members = [each for each in self.members if each.shares]
        wanted = self.topic.wanted(len(self.topic.records))
        tasks = [TaskId(name, number) for name, count in wanted.items() for number in range(count)]
        for kind, items in ((str, list(wanted)), (TaskId, tasks)):
            runs = [[item for item in each.runs if isinstance(item, kind)] for each in members]
            if sorted(map(str, (item for each in runs for item in each))) != sorted(map(str, items)):
                return f"{runs} run of {items}"
            sizes = [len(each) for each in runs]
            if max(sizes) - min(sizes) > 1:
                return f"not balanced: {runs}"
        return ""


def outside(member: Member) -> int:
    """How often its place was not certain, after it had its first."""
    return sum(place is OUTSIDE for place in member.places if place.generation == NO_GENERATION)
