"""Who runs what in a group, in simulated time: any schedule of joins, ends, kills, pauses, cut networks and changed configs.

The members are the product's Membership. What is a model is the coordinator, the network, time and what a worker runs. A
failure prints the schedule, made smaller; MODEL_SEED chooses the schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from unittest import mock

import pytest
from hypothesis import strategies as st

from mirror_connect.app.group import assignor, own_claims
from mirror_connect.app.group.assignor import NOTHING
from mirror_connect.app.supervisor.readiness import Readiness
from tests.models.group_life import IN_TIME_S, SESSION_S, GroupLife, Member, outside
from tests.models.search import SEED, search
from tests.models.watch import BrokenPromiseError
from tests.models.worker_schedules import FAULTS_SEED, SCHEDULES, in_simulated_time

KINDS = (
    "start",
    "start",
    "start old",
    "kill",
    "leave",
    "pause",
    "pause",
    "cut",
    "late",
    "wish",
    "wish",
    "slow",
    "spark",
    "blind",
)
LEADER = 5
SOME = st.sampled_from((LEADER, LEADER, 0, 1, 2, 3))


@dataclass(frozen=True)
class Incident:
    """`wait` seconds after the one before, `kind` happens to `whom`, for `seconds`. `number` says how."""

    wait: float
    kind: str
    whom: int
    seconds: float
    number: int


INCIDENTS = st.lists(
    st.builds(
        Incident,
        st.sampled_from((0.0, 0.05, 0.3, 1.0, 3.0, 8.0, 15.0)),
        st.sampled_from(KINDS),
        SOME,
        st.sampled_from((0.5, 3.0, 7.0, 9.0, 12.0, 40.0)),
        st.integers(-1, 4),
    ),
    min_size=1,
    max_size=10,
)
RATES = st.tuples(*[st.sampled_from((1.0, 0.98, 1.02))] * 3)


def live(
    incidents: list[Incident], rates: tuple[float, ...], net: int, *, delay_s: float = 0.0, rebalance_s: float = 60.0
) -> None:
    life = GroupLife(net, delay_s=delay_s, rebalance_s=rebalance_s)
    try:
        life.wish("a", 3)
        life.wish("b", 2)
        for rate in rates:
            life.start(rate)
        life.pass_time(4.0)
        for each in incidents:
            life.pass_time(each.wait)
            happen(life, each)
            life.look()
        life.come_to_rest()
    finally:
        life.close()


def happen(life: GroupLife, each: Incident) -> None:
    leaders = [member for member in life.members if member.membership.is_leader]
    member: Member | None = None
    if life.members:
        member = leaders[0] if each.whom == LEADER and leaders else life.members[each.whom % len(life.members)]
    # Whom the group has missed for as long as that, it may lose later.
    until = life.world.now + each.seconds + SESSION_S + 2.0
    match each.kind:
        case "start" if len(life.members) < 6:
            life.start()
        case "start old" if len(life.members) < 6:
            life.start(shares=False)
        case "kill" if member is not None:
            life.kill(member)
        case "leave" if member is not None:
            life.leave(member)
        case "pause" if member is not None:
            member.process.suspend(each.seconds)
            life.quiet_at = max(life.quiet_at, until)
        case "cut" if member is not None:
            member.process.cut(each.seconds)
            life.quiet_at = max(life.quiet_at, until)
        case "late" if member is not None:
            # What a member writes arrives in time; what it says to its group may take longer than any session.
            member.process.late(1.0, min(each.seconds, IN_TIME_S))
        case "wish":
            life.wish("abc"[each.whom % 3], each.number)
        case "slow" if member is not None:
            member.slow_s = each.seconds
        case "blind" if member is not None:
            life.blind(member, each.seconds)
        case "spark" if member is not None:
            member.process.call_soon(member.spark, tuple(Readiness)[each.number % len(Readiness)])


SCHEDULES_OF_MEMBERS = st.tuples(
    INCIDENTS, RATES, st.integers(0, 1000), st.sampled_from((0.0, 0.0, 5.0, 30.0)), st.sampled_from((60.0, 20.0))
)


def go_through(schedule: tuple[list[Incident], tuple[float, ...], int, float, float]) -> None:
    """`schedule`: incidents, rates of clocks, the seed of delays, the delay of a rebalance, and its time-out."""
    incidents, rates, net, delay_s, rebalance_s = schedule
    live(incidents, rates, net, delay_s=delay_s, rebalance_s=rebalance_s)


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    with in_simulated_time():
        yield


@pytest.mark.timeout(1800)
def test_nothing_is_written_by_a_former_owner_and_everything_runs_once_in_the_end() -> None:
    search(go_through, SCHEDULES_OF_MEMBERS, SCHEDULES // 3, SEED, smaller=True)


# Faults put back: the model must find them.


def claims_are_not_respected() -> AbstractContextManager[object]:
    """What should move is given to its new owner at once."""
    plain = assignor.assign

    def assign(claims, wanted, **more):  # type: ignore[no-untyped-def]
        return plain(dict.fromkeys(claims, NOTHING), wanted, **more)

    return mock.patch("mirror_connect.app.group.decisions.assign", assign)


def only_what_runs_is_claimed() -> AbstractContextManager[object]:
    """A member claims nothing that it has been assigned and has not begun."""

    def now(self, _):  # type: ignore[no-untyped-def]
        claims = self._work.claims()
        return own_claims.Said(assignor.Share(claims.connectors, claims.tasks), claims.confirmed, claims.readiness)

    return mock.patch.object(own_claims.OwnClaims, "now", now)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault",
    [claims_are_not_respected, pytest.param(only_what_runs_is_claimed, marks=pytest.mark.long)],
)
def test_the_model_finds(fault: Callable[[], AbstractContextManager[object]]) -> None:
    with fault(), pytest.raises(BrokenPromiseError):
        search(go_through, SCHEDULES_OF_MEMBERS, 600, FAULTS_SEED, smaller=False)


# One story each.


def three(net: int = 1, **more: float) -> GroupLife:
    life = GroupLife(net, **more)
    life.wish("a", 3)
    life.wish("b", 3)
    for _ in range(3):
        life.start()
    life.pass_time(5.0)
    return life


def test_a_hand_over_takes_less_than_two_seconds() -> None:
    life = three()
    try:
        life.come_to_rest()
        begun = life.world.now
        new = life.start()
        while not new.runs:
            life.pass_time(0.1)
        assert life.world.now - begun < 2.0
        life.come_to_rest()
    finally:
        life.close()


@pytest.mark.parametrize("net", range(4))
def test_a_stopped_member_does_not_cost_the_others_their_lease(net: int) -> None:
    life = three(net)
    try:
        life.come_to_rest()
        stopped, *others = life.members
        before = [outside(each) for each in others]
        stopped.process.suspend(40.0)
        # All have to join again, and the stopped one does not.
        life.start()
        life.pass_time(9.0)
        assert all(each.membership.runs_for() > 0 for each in others)
        life.pass_time(40.0)
        assert [outside(each) for each in others] == before
        life.come_to_rest()
    finally:
        life.close()


def test_after_a_kill_the_others_run_it_within_the_session_and_two_seconds() -> None:
    life = three()
    try:
        life.come_to_rest()
        leader = next(each for each in life.members if each.membership.is_leader)
        lost = set(leader.runs)
        begun = life.world.now
        life.kill(leader)
        while not lost <= {item for each in life.members for item in each.runs}:
            life.pass_time(0.1)
        assert life.world.now - begun < 12.0
    finally:
        life.close()


@pytest.mark.parametrize("whom", ["the leader", "another one"])
def test_what_a_member_runs_that_cannot_read_the_config_topic_goes_on_elsewhere_in_half_a_minute(whom: str) -> None:
    life = three()
    try:
        life.come_to_rest()
        blind = next(each for each in life.members if each.membership.is_leader == (whom == "the leader"))
        others = [each for each in life.members if each is not blind]
        life.blind(blind, 400.0)
        # Nothing moves for that, so only the group can tell that there is something to read.
        life.topic.records.append(("a", 3))
        for each in others:
            each.process.call_soon(each.read, len(life.topic.records) - 1)
        begun = life.world.now
        items = {*blind.runs, *(item for each in others for item in each.runs)}
        while blind.runs or {item for each in others for item in each.runs} != items:
            life.pass_time(0.5)
            assert life.world.now - begun < 45.0
        # It stays out for as long as it can't read.
        life.pass_time(200.0)
        assert (blind.membership.runs_for(), blind.runs, {item for each in others for item in each.runs}) == (
            0,
            {},
            items,
        )
        life.come_to_rest()
        assert blind.runs
    finally:
        life.close()


def test_nobody_leaves_where_nobody_can_read_the_config_topic() -> None:
    life = three()
    try:
        life.come_to_rest()
        ran = [set(each.runs) for each in life.members]
        for each in life.members:
            life.blind(each, 200.0)
        life.pass_time(190.0)
        assert [set(each.runs) for each in life.members] == ran
        assert [outside(each) for each in life.members] == [0, 0, 0]
    finally:
        life.close()


def test_a_new_leader_of_old_workers_shares_when_the_last_old_one_has_gone() -> None:
    life = GroupLife(3)
    try:
        life.wish("a", 3)
        old = [life.start(shares=False) for _ in range(2)]
        life.pass_time(3.0)
        for each in old:
            life.start()
            life.pass_time(5.0)
            life.leave(each)
            life.pass_time(5.0)
        life.come_to_rest()
        assert {len(each.runs) for each in life.members} == {2}
    finally:
        life.close()
