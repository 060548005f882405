from __future__ import annotations

import time

import pytest

from mirror_connect.app.herder.interfaces import OUTSIDE, GroupAssignment
from mirror_connect.connectors.errors import GroupRefusedError
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    MembershipLost,
    RebalanceNeeded,
)
from tests.fakes.group_steps import (
    OTHER,
    OTHER_URL,
    URL,
    member,
)


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


async def test_refusal_later_on_ends_the_place_and_is_kept_for_showing() -> None:
    async with member() as it:
        it.group.join_failures = [GroupRefusedError("group.id g is in use")]
        it.group.beat_failures = [MembershipLost()]
        await it.until(lambda: it.membership.refusal is not None)
        assert it.membership.assignment == OUTSIDE
