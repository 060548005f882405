"""What a member says to its group of what it runs, and what the group gives it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mirror_connect.app.group.assignor import NOTHING, Share
from mirror_connect.app.herder.interfaces import OUTSIDE, GroupAssignment, SteppedOut
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.group_membership import (
    MembershipLost,
    RebalanceNeeded,
)
from tests.fakes.group_steps import (
    OTHER,
    OTHER_URL,
    X0,
    X1,
    Work,
    sharing,
    until,
)


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


async def test_a_leader_that_leaves_gives_the_others_time_to_ask_for_what_it_has_assigned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with sharing() as (membership, group, _, _):
        monkeypatch.setattr("mirror_connect.app.group.membership._SYNCED_SECONDS", 60.0)
        leaving = asyncio.create_task(membership.leave(90.0))
        await until(lambda: bool(group.told) and group.told[-1].leaving and group.generation == 2)
        await asyncio.sleep(0.05)
        assert group.left == []
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)


@pytest.mark.parametrize("leader", ["me", OTHER])
async def test_a_member_that_steps_out_says_why_and_joins_as_a_new_one_when_it_comes_back(leader: str) -> None:
    async with sharing(leader) as (membership, group, work, _):
        await membership.step_out("it is blind", silently=False)
        assert (group.told[-1].leaving, len(group.left)) == (True, 1)
        assert (membership.assignment, membership.runs_for(), membership.leads_for()) == (OUTSIDE, 0.0, 0.0)
        assert isinstance(membership.silence, SteppedOut)
        assert "it is blind" in str(membership.silence)
        # Nothing brings it back before it wants to.
        joins, beats = len(group.joins), len(group.beaten)
        membership.rejoin()
        await asyncio.sleep(0.05)
        assert (len(group.joins), len(group.beaten)) == (joins, beats)
        work.runs = frozenset()
        membership.come_back()
        await until(lambda: membership.runs_for() > 0)
        assert (group.joins[joins], group.told[joins].leaving, membership.silence) == ("", False, None)


async def test_a_member_that_steps_out_silently_sends_nothing() -> None:
    async with sharing(OTHER) as (membership, group, *_):
        joins = len(group.joins)
        await membership.step_out("it is blind", silently=True)
        beats = len(group.beaten)
        await asyncio.sleep(0.05)
        assert (group.left, len(group.joins), len(group.beaten)) == ([], joins, beats)
        assert membership.runs_for() == 0.0


async def test_a_member_asks_what_others_have_read_and_joins_again_for_it() -> None:
    async with sharing(OTHER) as (membership, group, _, clock):
        assert membership.read_elsewhere == 5
        # Without news it does not join.
        membership.rejoin()
        clock.now += 1.0
        await asyncio.sleep(0.1)
        assert len(group.joins) == 1
        membership.ask()
        clock.now += 1.0
        await until(lambda: membership.generation == 2)
        assert len(group.joins) == 2


async def test_a_leader_hears_from_the_others_what_it_has_not_read() -> None:
    async with sharing() as (membership, group, work, clock):
        group.other = replace(group.other, offset=7)
        membership.ask()
        clock.now += 1.0
        await until(lambda: membership.read_elsewhere == 7)
        # It decides on nothing new before it has read that.
        assert work.offset == 5
        clock.now += 3.0
        await until(lambda: membership.generation == 2)
        assert membership.assignment.config_offset == 5
