"""Members that share connectors and tasks on a real broker: how long a hand-over takes, and what a stopped member costs."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from deploy.local import LocalCluster
from mirror_connect.app.group.membership import PROTOCOL, PROTOCOL_TYPE, Membership
from mirror_connect.app.herder.interfaces import OUTSIDE, Claims, GroupAssignment, WantedWork
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.group_membership import GroupClient, GroupSettings
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse
from tests.waiting import PATIENCE_S, WaitTimedOut, state_reached

pytestmark = pytest.mark.brokers

SESSION_MS = 6_000
REBALANCE_MS = 60_000
WANTED = {"orders": 4, "users": 5}


class Stoppable(GroupClient):
    """A member that says nothing more while it is stopped, as after SIGSTOP."""

    def __init__(self, settings: Mapping[str, str], group: GroupSettings) -> None:
        super().__init__(settings, "test", group)
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def join(
        self, member_id: str, metadata: bytes, others: Mapping[str, bytes] | None = None
    ) -> JoinGroupResponse:
        await self.goes_on.wait()
        return await super().join(member_id, metadata, others)

    async def heartbeat(self, generation: int, member_id: str) -> None:
        await self.goes_on.wait()
        await super().heartbeat(generation, member_id)


class Worker:
    """Runs what it is assigned; what it is not any more ends at once."""

    def __init__(self, cluster: LocalCluster, group: str, name: str, *, delay_ms: int = 0) -> None:
        settings = GroupSettings(group, PROTOCOL_TYPE, PROTOCOL, SESSION_MS, REBALANCE_MS)
        self.client = Stoppable({"bootstrap.servers": cluster.bootstrap_servers}, settings)
        self.wishes = dict(WANTED)
        self.runs: frozenset[str | TaskId] = frozenset()
        self.places: list[GroupAssignment] = []
        self.readiness = Readiness.READY
        self.membership = Membership(
            self.client,
            f"http://{name}:1",
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=3_000,
            rebalance_timeout_ms=REBALANCE_MS,
            rebalance_delay_ms=delay_ms,
            worker_id=f"{name}:1",
            on_change=self._changed,
        )
        self.membership.share(self)

    def wanted(self) -> WantedWork:
        return WantedWork(self.wishes, 1)

    def claims(self) -> Claims:
        return Claims(
            frozenset(each for each in self.runs if isinstance(each, str)),
            frozenset(each for each in self.runs if isinstance(each, TaskId)),
            readiness=self.readiness,
        )

    def _changed(self, place: GroupAssignment) -> None:
        self.places.append(place)
        before, self.runs = self.runs, frozenset({*place.connectors, *place.tasks})
        if before - self.runs:
            self.membership.rejoin()


@asynccontextmanager
async def workers(cluster: LocalCluster, count: int, *, delay_ms: int = 0) -> AsyncIterator[list[Worker]]:
    group = f"group-{uuid.uuid4().hex[:8]}"
    made = [Worker(cluster, group, name, delay_ms=delay_ms) for name in "abcdefg"[:count]]
    async with AsyncExitStack() as stack:
        for each in made:
            stack.push_async_callback(each.membership.leave)
        await made[0].membership.join()
        await asyncio.gather(*(each.membership.join() for each in made[1:]))
        yield made


def shared(among: list[Worker], items: int = 2 + 9) -> bool:
    """Everything runs once, and nobody has more than its share plus one."""
    runs = [item for each in among for item in each.runs]
    tasks = [len(each.claims().tasks) for each in among]
    return len(runs) == len(set(runs)) == items and max(tasks) - min(tasks) <= 1


async def until_shared(among: list[Worker], seconds: float = PATIENCE_S) -> float:
    """Seconds until then."""
    begun = time.monotonic()
    await state_reached(lambda: shared(among), "every connector and task running once, evenly spread", seconds)
    return time.monotonic() - begun


async def test_a_worker_that_comes_or_goes_gets_or_gives_its_share_before_any_session_is_over(
    one_broker: LocalCluster,
) -> None:
    async with workers(one_broker, 2) as two:
        await until_shared(two)
        first = {each: each.runs for each in two}
        group = two[0].membership._group_id
        third = Worker(one_broker, group, "z")
        try:
            begun = time.monotonic()
            await third.membership.join()
            await until_shared([*two, third])
            came = time.monotonic() - begun
            # What stayed has run all the time.
            assert all(each.runs < first[each] for each in two)
            assert {member.worker_id for member in two[0].membership.assignment.workers} == {"a:1", "b:1", "z:1"}
        finally:
            begun = time.monotonic()
            await third.membership.leave()
        third.runs = frozenset()
        await until_shared(two)
        went = time.monotonic() - begun
        print(
            f"measured: a worker that came had its share after {came:.2f} s; one that left, the others after {went:.2f} s"
        )
        assert came < SESSION_MS / 1000
        assert went < SESSION_MS / 1000


@pytest.mark.parametrize("who", ["leader", "member"])
async def test_whoever_ends_cleanly_is_nobody_to_wait_for_and_the_others_have_its_share_at_once(
    one_broker: LocalCluster, who: str
) -> None:
    async with workers(one_broker, 3) as three:
        await until_shared(three)
        ends = next(each for each in three if each.membership.is_leader == (who == "leader"))
        others = [each for each in three if each is not ends]
        # As Worker.leave: what ran here has ended by then.
        ends.runs = frozenset()
        begun = time.monotonic()
        await ends.membership.leave()
        left = time.monotonic() - begun
        took = left + await until_shared(others)
        print(f"measured: a {who} has left after {left:.2f} s, and the others have its share after {took:.2f} s")
        # Until the broker has heard of the end, too.
        last = ends.membership.generation
        await state_reached(
            lambda: all(each.membership.generation > last for each in others), "the group going on without it"
        )
        assert shared(others)
        assert [place.lost for each in others for place in each.places if place.lost] == []
        assert took < SESSION_MS / 1000


async def test_a_worker_that_comes_gets_tasks_when_its_spark_is_there(one_broker: LocalCluster) -> None:
    async with workers(one_broker, 2) as two:
        await until_shared(two)
        first = {each: each.claims().tasks for each in two}
        third = Worker(one_broker, two[0].membership._group_id, "z")
        third.readiness = Readiness.STARTING
        try:
            await third.membership.join()
            await state_reached(
                lambda: all(len(each.membership.assignment.workers) == 3 for each in two), "three members"
            )
            await state_reached(
                lambda: not two[0].membership._heartbeats.moving and two[0].membership.steady, "nothing moves"
            )
            assert {each: each.claims().tasks for each in two} == first
            third.readiness = Readiness.READY
            third.membership.rejoin()
            await until_shared([*two, third])
            given = [place.tasks for place in third.places]
            assert given[0] == frozenset()
        finally:
            await third.membership.leave()


async def test_a_stopped_member_does_not_cost_the_others_their_lease(one_broker: LocalCluster) -> None:
    async with workers(one_broker, 3) as three:
        await until_shared(three)
        stopped = next(each for each in three if not each.membership.is_leader)
        others = [each for each in three if each is not stopped]
        seen = {each: len(each.places) for each in others}
        stopped.client.goes_on.clear()
        leader = next(each for each in others if each.membership.is_leader)
        # All have to join again, and the stopped one does not: the group waits until its session is over.
        leader.wishes = {**WANTED, "more": 1}
        leader.membership.rejoin()
        come = Worker(one_broker, leader.membership._group_id, "z")
        joining = asyncio.create_task(come.membership.join())
        begun = time.monotonic()
        least = float("inf")
        while not shared([*others, come], 2 + 9 + 2):
            if time.monotonic() - begun > PATIENCE_S:
                raise WaitTimedOut(f"not within {PATIENCE_S:g} s: the others share without the stopped one")
            least = min(least, *(each.membership.runs_for() for each in others))
            await asyncio.sleep(0.05)
        took = time.monotonic() - begun
        print(
            f"measured: without the stopped member after {took:.2f} s; the shortest lease meanwhile was {least:.2f} s"
        )
        assert least > 1.0
        assert all(OUTSIDE not in each.places[seen[each] :] for each in others)
        await joining
        stopped.client.goes_on.set()
        await state_reached(lambda: shared([*three, come], 2 + 9 + 2), "the stopped one with a share again", 30)
        await come.membership.leave()


async def test_a_lost_worker_gets_its_own_again_within_the_delay(one_broker: LocalCluster) -> None:
    async with workers(one_broker, 2, delay_ms=60_000) as two:
        await until_shared(two)
        leader, other = two if two[0].membership.is_leader else two[::-1]
        had = other.runs
        await other.membership.leave()
        await state_reached(lambda: leader.membership.assignment.delayed_until is not None, "the group waiting", 10)
        assert leader.runs.isdisjoint(had)
        back = Worker(one_broker, leader.membership._group_id, other.membership._worker_id.removesuffix(":1"))
        try:
            await back.membership.join()
            await state_reached(lambda: back.runs == had, "the worker that is back with what it had", 10)
        finally:
            await back.membership.leave()
