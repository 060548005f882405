from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from mirror_connect.app.group.assignor import NOTHING, Share
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
from mirror_connect.app.herder.interfaces import OUTSIDE, Claims, GroupAssignment, WantedWork
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.errors import ClusterUnreachable, GroupRefusedError, NotAuthorized
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    HeldByOthers,
    MembershipLost,
    RebalanceNeeded,
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


async def test_leader_tells_its_own_url_and_a_standby_learns_the_leaders() -> None:
    async with member() as leader:
        assert leader.heard == [GroupAssignment(1, True, URL)]
        assert leader.membership.is_leader
    async with member(leader=OTHER) as standby:
        assert standby.heard == [GroupAssignment(1, False, OTHER_URL)]
        assert not standby.membership.is_leader


async def test_lease_is_two_seconds_shorter_than_the_session_and_ends_by_itself() -> None:
    async with member(interval_ms=60_000) as it:
        assert it.membership.lease_remaining() == 8.0
        it.clock.now += 7.9
        assert it.membership.is_leader
        it.clock.now += 0.1
        assert it.membership.lease_remaining() == 0.0
        assert (it.membership.is_leader, it.membership.leader_url) == (False, None)


async def test_who_stands_by_has_a_certain_place_and_may_not_write() -> None:
    async with member(OTHER) as it:
        assert (it.membership.lease_remaining(), it.membership.leads_for()) == (8.0, 0.0)


async def test_a_leader_may_write_for_as_long_as_its_place_is_certain() -> None:
    async with member(interval_ms=60_000) as it:
        assert it.membership.leads_for() == 8.0
        it.clock.now += 8
        assert it.membership.leads_for() == 0.0


async def test_lease_counts_from_before_the_heartbeat_was_sent() -> None:
    async with member() as it:
        it.group.one_at_a_time = True
        it.group.answering.clear()
        await asyncio.sleep(0.02)
        it.clock.now += 3
        it.group.answering.set()
        beats = it.group.beats
        await it.until(lambda: it.group.beats > beats)
        assert it.membership.lease_remaining() == 5.0


async def test_heartbeats_renew_the_lease_without_news() -> None:
    async with member() as it:
        it.clock.now += 5
        await it.until(lambda: it.membership.lease_remaining() == 8.0)
        assert len(it.heard) == 1


async def test_lost_coordinator_costs_the_lease_only_when_it_stays_away() -> None:
    async with member(session_ms=2_020) as it:
        it.group.answering.clear()
        it.clock.now += 1
        await it.until(lambda: it.heard[-1] == OUTSIDE)
        it.group.answering.set()
        await it.until(lambda: it.heard[-1] == GroupAssignment(1, True, URL))
        assert it.group.joins == [""]


async def test_a_worker_without_word_from_its_group_says_why_when_its_lease_is_over() -> None:
    async with member() as it:
        assert it.membership.silence is None
        it.group.beat_failures = [CoordinatorLost("broker a:9092: Connection refused")] * 1_000
        await it.until(lambda: len(it.group.beat_failures) < 1_000)
        assert it.membership.silence is None
        it.clock.now += 8
        silence = it.membership.silence
        assert silence is not None
        assert (silence.why, abs(silence.since - time.time()) < 600) == ("broker a:9092: Connection refused", True)
        it.group.beat_failures = []
        await it.until(lambda: it.membership.silence is None)


async def test_a_worker_whose_heartbeats_are_not_answered_says_so() -> None:
    async with member() as it:
        it.group.answering.clear()
        await asyncio.sleep(0.02)
        it.clock.now += 10.1
        silence = it.membership.silence
        assert silence is not None
        assert silence.why == "its heartbeats get no answer"
        it.group.answering.set()


async def test_moved_coordinator_is_asked_again_at_once() -> None:
    async with member() as it:
        it.group.beat_failures = [CoordinatorLost("moved"), CoordinatorLost("moved")]
        await it.until(lambda: not it.group.beat_failures)
        it.clock.now += 5
        await it.until(lambda: it.membership.lease_remaining() == 8.0)
        assert len(it.heard) == 1


async def test_leader_that_rejoins_in_a_rebalance_stays_leader_all_the_time() -> None:
    async with member() as it:
        it.group.beat_failures = [RebalanceNeeded()]
        await it.until(lambda: it.membership.generation == 2)
        assert it.group.joins == ["", "me-1"]
        assert it.heard == [GroupAssignment(1, True, URL), GroupAssignment(2, True, URL)]


async def test_rebalances_are_counted_also_those_that_need_a_second_join() -> None:
    async with member() as it:
        first = it.membership.rebalances()
        assert first is not None
        assert (first.completed, first.rebalancing) == (1, False)
        it.group.join_failures = [RebalanceNeeded("again")]
        it.group.beat_failures = [RebalanceNeeded("others join")]
        await it.until(lambda: it.membership.generation == 2)
        second = it.membership.rebalances()
        assert second is not None
        assert (second.completed, second.rebalancing) == (2, False)


async def test_member_the_group_has_forgotten_gives_up_its_place_and_joins_as_a_new_one() -> None:
    async with member() as it:
        it.group.beat_failures = [MembershipLost()]
        await it.until(lambda: it.membership.generation == 2)
        assert it.group.joins == ["", ""]
        assert it.heard == [GroupAssignment(1, True, URL), OUTSIDE, GroupAssignment(2, True, URL)]


async def test_an_error_that_nobody_foresaw_ends_the_place_and_not_the_membership(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirror_connect.app.group.membership._REFUSED_RETRY_SECONDS", 0.05)
    async with member() as it:
        it.group.beat_failures = [KeyError("an answer like no other")]
        await it.until(lambda: it.membership.generation == 2)
        assert it.heard == [GroupAssignment(1, True, URL), OUTSIDE, GroupAssignment(2, True, URL)]


async def test_leader_that_is_told_of_another_leader_stops_before_it_syncs() -> None:
    async with member() as it:
        it.group.leader = OTHER
        it.group.beat_failures = [RebalanceNeeded()]
        await it.until(lambda: it.membership.generation == 2)
        assert [assignment.leader for assignment in it.heard] == [True, False, False]
        assert it.membership.leader_url == OTHER_URL


async def test_stopped_process_has_no_lease_when_it_goes_on() -> None:
    async with member() as it:
        it.group.beat_failures = [MembershipLost()]
        it.clock.now += 60
        assert it.membership.lease_remaining() == 0.0
        await it.until(lambda: it.membership.generation == 2)
        assert it.membership.is_leader


async def test_leaving_ends_the_lease_before_the_broker_is_told() -> None:
    async with member() as it:
        await it.membership.leave()
        assert it.heard[-1] == OUTSIDE
        assert it.group.left == ["me-1"]
        assert it.membership.lease_remaining() == 0.0


@pytest.mark.parametrize("error", [GroupRefusedError("group.id g is in use"), NotAuthorized("no")])
async def test_refused_join_is_told_to_the_caller(error: Exception) -> None:
    group = FakeGroup(join_failures=[error])
    membership = Membership(group, URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5)
    with pytest.raises(type(error), match=str(error)):
        await membership.join()
    await membership.leave()
    assert group.left == []


@asynccontextmanager
async def joining_beside_others(session_ms: int) -> AsyncIterator[tuple[FakeGroup, Clock, asyncio.Task[None]]]:
    """A worker that has come to a group of others, and waits."""
    group, clock = FakeGroup(), Clock()
    group.held = True
    membership = Membership(
        group, URL, group_id="g", session_timeout_ms=session_ms, heartbeat_interval_ms=5, clock=clock
    )
    joining = asyncio.create_task(membership.join(timeout=1.0))
    await until(lambda: len(group.joins) > 1)
    try:
        yield group, clock, joining
    finally:
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        await membership.leave()


async def test_a_dead_member_of_another_kind_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 30.0
        await asked_again(group)
        group.held = False
        async with asyncio.timeout(60):
            await joining
    assert [line for line in caplog.messages if "(33 s)" in line and "waits until" in line] == caplog.messages[:1]


async def test_a_member_of_another_kind_that_stays_for_longer_than_a_session_refuses_us() -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 33.1
        async with asyncio.timeout(60):
            with pytest.raises(HeldByOthers, match=r"is in use: stop them \(this worker waited 33 s"):
                await joining
        assert group.generation == 0


async def test_a_coordinator_that_is_lost_while_others_are_waited_for_is_tried_again() -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 20.0
        await asked_again(group)
        group.join_failures = [CoordinatorLost("moved")]
        await until(lambda: not group.join_failures)
        group.held = False
        async with asyncio.timeout(60):
            await joining
        assert group.generation == 1


async def test_another_coordinator_gives_a_dead_member_its_session_anew() -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 20.0
        await asked_again(group)
        group.join_failures = [CoordinatorLost("moved")]
        await until(lambda: not group.join_failures)
        await asked_again(group)
        clock.now += 20.0
        await asked_again(group, 2)
        group.held = False
        async with asyncio.timeout(60):
            await joining
        assert group.generation == 1


@pytest.mark.parametrize(
    ("topics", "shown"),
    [
        pytest.param(["a", "b"], ["group.id=g is also a consumer group with committed offsets in a, b. "], id="few"),
        pytest.param(["a", "b", "c", "d"], ["committed offsets in a, b, c, …. The broker refuses"], id="many"),
        pytest.param([], [], id="no_consumer_group"),
        pytest.param(NotAuthorized("no"), [], id="not_to_be_known"),
    ],
)
async def test_the_name_of_a_consumer_group_is_taken_with_a_warning(
    caplog: pytest.LogCaptureFixture, topics: list[str] | Exception, shown: list[str]
) -> None:
    membership = Membership(
        FakeGroup(consumed=topics), URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5
    )
    await membership.join()
    await membership.leave()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [part in line for part, line in zip(shown, lines, strict=True)] == [True] * len(shown)


async def test_join_without_any_coordinator_gives_up_in_time() -> None:
    group = FakeGroup(join_failures=[CoordinatorLost("no broker answers")] * 9)
    membership = Membership(group, URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5)
    with pytest.raises(ClusterUnreachable, match="no broker answers"):
        await membership.join(timeout=0.5)
    await membership.leave()


async def test_refusal_later_on_ends_the_place_and_is_kept_for_showing() -> None:
    async with member() as it:
        it.group.join_failures = [GroupRefusedError("group.id g is in use")]
        it.group.beat_failures = [MembershipLost()]
        await it.until(lambda: it.membership.refusal is not None)
        assert it.membership.assignment == OUTSIDE


# --- sharing ----------------------------------------------------------------------------------------------------------


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


async def test_a_leader_shares_with_the_other_member() -> None:
    async with sharing() as (membership, group, _, _):
        place = membership.assignment
        assert (len(place.tasks), place.leader, place.config_offset) == (1, True, 5)
        assert place.tasks | group.given[OTHER].share.tasks == {X0, X1}
        assert {each.worker_id for each in place.workers} == {"me:8083", "other:8083"}
        assert membership.runs_for() == membership.leads_for() == 8.0


async def test_a_member_runs_for_as_long_as_its_place_is_certain_and_never_leads() -> None:
    async with sharing(OTHER) as (membership, *_):
        assert (membership.runs_for(), membership.leads_for()) == (8.0, 0.0)


async def test_a_member_claims_what_it_may_start_and_what_it_has_not_ended() -> None:
    async with sharing(OTHER) as (membership, group, work, clock):
        group.share = Share(tasks=frozenset({X0}))
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 2)
        group.share = Share(tasks=frozenset({X1}))
        # It runs one that it never had, too: that was before the group lost it, and is another one's by now.
        work.runs = frozenset({X0, TaskId("y", 7)})
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 3)
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 4)
        assert [each.claims.tasks for each in group.told] == [frozenset(), frozenset(), {X0}, {X0, X1}]
        work.runs = frozenset({X1})
        membership.rejoin()
        clock.now += 1.0
        await until(lambda: membership.generation == 5)
        assert group.told[-1].claims.tasks == {X1}


async def test_a_member_that_was_put_out_claims_nothing_when_it_is_back() -> None:
    work = Work(runs=frozenset({X0}))
    async with sharing(OTHER, work) as (membership, group, _, _):
        group.share = Share(tasks=frozenset({X0}))
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 2)
        group.beat_failures = [MembershipLost()]
        await until(lambda: membership.generation == 3)
        assert group.told[-1].claims == NOTHING


async def test_a_member_that_has_nothing_new_does_not_join_again() -> None:
    async with sharing(OTHER) as (membership, group, work, clock):
        membership.rejoin()
        clock.now += 1.0
        await asyncio.sleep(0.05)
        assert membership.generation == 1
        work.confirmed = {"x": 5}
        membership.rejoin()
        clock.now += 1.0
        await until(lambda: membership.generation == 2)
        assert group.told[-1].confirmed == {"x": 5}


async def test_a_claim_that_was_taken_away_and_does_not_run_is_given_up_at_once() -> None:
    async with sharing(OTHER) as (membership, group, _, clock):
        group.share = Share(tasks=frozenset({X0}))
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 2)
        group.share = NOTHING
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 3)
        clock.now += 1.0
        await until(lambda: membership.generation == 4)
        assert [each.claims.tasks for each in group.told[-2:]] == [{X0}, frozenset()]


async def test_a_member_that_waits_for_the_others_keeps_its_lease_and_is_not_steady() -> None:
    async with sharing() as (membership, group, _, clock):
        assert membership.steady
        group.until_joined.clear()
        group.beat_failures = [RebalanceNeeded()] * 1_000_000
        await until(lambda: len(group.told) == 2)
        for _ in range(10):
            clock.now += 5.0
            beats = len(group.beaten)
            await until(lambda beats=beats: len(group.beaten) > beats + 1)
            assert membership.runs_for() == 8.0
        assert not membership.steady
        # Then the group may go on without it.
        clock.now += 7.0
        beats = len(group.beaten)
        await until(lambda: len(group.beaten) > beats + 1)
        assert membership.runs_for() == pytest.approx(1.0)
        group.beat_failures = []
        group.until_joined.set()
        await until(lambda: membership.steady)
        assert membership.generation == 2


async def test_a_lost_coordinator_ends_the_wait_for_an_answer() -> None:
    async with sharing() as (membership, group, _, _):
        group.until_joined.clear()
        group.beat_failures = [RebalanceNeeded(), CoordinatorLost("gone")]
        await until(lambda: len(group.told) == 3)
        group.until_joined.set()
        await until(lambda: membership.generation == 3)


async def test_a_leader_that_has_read_less_than_a_member_starts_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror_connect.app.group.leader_decisions.CATCH_UP_SECONDS", -1.0)
    async with sharing() as (membership, group, work, clock):
        had = membership.assignment.tasks
        work.connectors = {"x": 2, "y": 1}
        group.other = replace(group.other, offset=9, claims=group.given[OTHER].share)
        membership.rejoin()
        clock.now += 1.0
        await until(lambda: membership.generation >= 2)
        assert (membership.assignment.tasks, membership.assignment.config_offset) == (had, 5)
        work.offset = 9
        clock.now += 1.0
        await until(lambda: membership.assignment.config_offset == 9)
        assert TaskId("y", 0) in membership.assignment.tasks | group.given[OTHER].share.tasks


async def test_beside_a_leader_of_version_1_a_member_runs_nothing_and_what_it_ran_is_void() -> None:
    async with sharing(OTHER) as (membership, group, _, _):
        group.share = Share(tasks=frozenset({X0}))
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 2)
        heard = list[GroupAssignment]()
        membership._on_change = heard.append
        group.version = 1
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 3)
        assert heard == [OUTSIDE, GroupAssignment(3, False, OTHER_URL)]
        assert membership.runs_for() == 0.0


async def test_a_member_tells_when_its_spark_is_there_and_once() -> None:
    async with sharing(OTHER, Work(readiness=Readiness.STARTING)) as (membership, group, work, clock):
        assert group.told[-1].readiness is Readiness.STARTING
        work.readiness = Readiness.READY
        membership.rejoin()
        membership.rejoin()
        clock.now += 1.0
        await until(lambda: membership.generation == 2)
        assert group.told[-1].readiness is Readiness.READY
        membership.rejoin()
        clock.now += 1.0
        await asyncio.sleep(0.05)
        assert membership.generation == 2


async def test_a_leader_whose_spark_comes_while_the_others_join_joins_again() -> None:
    async with sharing(work=Work(readiness=Readiness.STARTING)) as (membership, group, work, clock):
        group.until_joined.clear()
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: len(group.told) == 2)
        work.readiness = Readiness.READY
        membership.rejoin()
        group.until_joined.set()
        await until(lambda: membership.generation == 2)
        clock.now += 1.0
        await until(lambda: membership.generation == 3)
        assert [each.readiness.name for each in group.told] == ["STARTING", "STARTING", "READY"]


@pytest.mark.parametrize("leader", ["me", OTHER])
async def test_a_member_whose_tasks_have_ended_says_so_and_then_leaves(leader: str) -> None:
    async with sharing(leader) as (membership, group, work, _):
        work.runs = frozenset({X0})
        group.share = Share(tasks=frozenset({X0}))
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 2)
        work.runs = frozenset()
        await membership.leave()
        assert (group.told[-1].leaving, group.told[-1].claims) == (True, NOTHING)
        assert len(group.left) == 1
        if leader == "me":
            assert {name: each.share.tasks for name, each in group.given.items() if name == OTHER} == {OTHER: {X0, X1}}
            assert group.given[OTHER].state.lost == ()


@pytest.mark.parametrize(
    "work",
    [Work(runs=frozenset({X0})), Work(confirmed={"x": 5})],
    ids=["a task has not ended", "its requests may still land"],
)
async def test_a_member_with_something_left_leaves_without_a_word(work: Work) -> None:
    async with sharing(OTHER, work) as (membership, group, _, _):
        group.share = Share(tasks=frozenset({X0}))
        group.beat_failures = [RebalanceNeeded()]
        await until(lambda: membership.generation == 2)
        joins = len(group.told)
        await membership.leave()
        assert len(group.told) == joins
        assert len(group.left) == 1


async def test_who_leaves_does_not_wait_for_a_member_that_does_not_join() -> None:
    async with sharing(OTHER) as (membership, group, _, _):
        group.until_joined.clear()
        await membership.leave(0.1)
        assert group.told[-1].leaving
        assert len(group.left) == 1
