"""Partitions that move between tasks of different workers: whom a task waits for, and what this worker tells the others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.app.storage.partition_owners import PartitionOwners, first_owners
from mirror_connect.app.supervisor.other_workers import LANDING_S, OtherWorker
from mirror_connect.app.supervisor.task_requests import UNFENCED_ADVICE
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.supervised import A, B, World, wanted

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
# At 20 the partition t-1 moves from task 0 to task 1.
BEFORE = {"c": first_owners(10, ["t-0,t-1", "t-2"])}
AFTER = {"c": BEFORE["c"].following(20, ["t-0", "t-2,t-1"])}


def member(confirmed: int) -> OtherWorker:
    return OtherWorker("other:8083", {"c": confirmed})


def lost(confirmed: int, seconds: float = 0.0) -> OtherWorker:
    return OtherWorker("other:8083", {"c": confirmed}, seconds)


def taker(world: World, owners: Mapping[str, PartitionOwners] = AFTER) -> frozenset[TopicPartition]:
    """What task 1, which runs here, has of `t-2,t-1`."""
    world.supervisor.want({B: wanted("t-2", "t-1")}, owners)
    return world.run(B).assigned


@pytest.mark.parametrize(
    ("other", "assigned"),
    [
        pytest.param(OtherWorker("other:8083", {"d": 1}), {T1, T2}, id="who_holds_nothing_of_the_connector"),
        pytest.param(member(20), {T1, T2}, id="who_has_confirmed"),
        pytest.param(member(10), {T2}, id="who_has_not_confirmed_that_commit"),
        pytest.param(member(-1), set(), id="who_has_confirmed_nothing"),
        pytest.param(lost(20), {T1, T2}, id="who_was_lost_and_had_confirmed"),
        pytest.param(lost(10), {T2}, id="who_was_lost_and_had_not"),
        pytest.param(lost(10, LANDING_S), {T1, T2}, id="who_was_lost_long_ago"),
    ],
)
async def test_a_partition_that_moved_waits_for(
    world: World, other: OtherWorker, assigned: set[TopicPartition]
) -> None:
    world.supervisor.group_changed([other], {}, 10)
    assert taker(world) == assigned


async def test_it_gets_the_partition_when_the_other_worker_has_confirmed(world: World) -> None:
    world.supervisor.group_changed([member(10)], {}, 10)
    before = taker(world)
    world.supervisor.group_changed([member(20)], {}, 10)
    assert (before, world.run(B).assigned) == ({T2}, {T1, T2})


async def test_nothing_moves_while_others_may_have_begun_what_this_worker_does_not_know_of(world: World) -> None:
    world.supervisor.share(lambda: None, lambda: world.steady)
    world.supervisor.group_changed([], {}, 10)
    world.steady = False
    before = taker(world)
    await world.running(B)
    waiting = world.events.trace(B)
    world.steady = True
    world.supervisor.group_changed([], {}, 20)
    assert (before, world.run(B).assigned) == ({T2}, {T1, T2})
    assert waiting == "Waits for 1 partition: the workers of the group are being assigned their tasks anew"


@pytest.mark.parametrize("other", [member(30), lost(30)])
async def test_what_others_have_confirmed_counts_when_this_worker_has_read_so_far(
    world: World, other: OtherWorker
) -> None:
    """At 30 the partition may have moved back, and the other worker then holds it rightly."""
    world.supervisor.group_changed([other], {}, 10)
    world.supervisor.want({B: wanted("t-2", "t-1")}, AFTER, 29)
    before = world.run(B).assigned
    await world.running(B)
    assert (world.events.trace(B), world.supervisor.holds_elsewhere("c")) == (
        "Waits for 2 partitions: this worker has not read the config topic as far as worker other:8083 yet",
        "this worker has not read the config topic as far as worker other:8083 yet",
    )
    world.supervisor.want({B: wanted("t-2", "t-1")}, AFTER, 30)
    assert (before, world.run(B).assigned, world.supervisor.holds_elsewhere("c")) == (set(), {T1, T2}, "")


async def test_it_gets_the_partition_when_what_a_lost_worker_has_sent_cannot_land_any_more(world: World) -> None:
    world.supervisor.group_changed([lost(10, 10.0)], {}, 10)
    before = taker(world)
    world.later(LANDING_S - 10.5)
    early = world.run(B).assigned
    world.later(1.0)
    assert (before, early, world.run(B).assigned) == ({T2}, {T2}, {T1, T2})


async def test_without_a_group_nobody_is_waited_for(world: World) -> None:
    world.supervisor.want({B: wanted("t-2", "t-1")})
    assert world.run(B).assigned == {T1, T2}


async def test_the_trace_says_for_whom_it_waits_and_then_nothing_any_more(world: World) -> None:
    world.supervisor.group_changed([member(10)], {}, 10)
    taker(world)
    process = await world.running(B)
    waiting = world.events.trace(B)
    world.supervisor.group_changed([member(20)], {}, 10)
    await process.say("RUNNING")
    assert (waiting, world.events.trace(B)) == (
        "Waits for 1 partition: worker other:8083 has not given them up yet",
        None,
    )


async def test_the_trace_says_until_when_a_lost_worker_is_waited_for(world: World) -> None:
    world.supervisor.group_changed([lost(10)], {}, 10)
    taker(world)
    await world.running(B)
    line = "Waits for 1 partition: worker other:8083 was lost, and what it has sent may still be written until "
    assert (world.events.trace(B) or "").startswith(line)


async def test_a_task_without_a_fence_begins_when_what_its_lost_worker_has_sent_cannot_land_any_more(
    world: World,
) -> None:
    world.supervisor.group_changed([lost(20)], {}, 10)
    taker(world)
    process = await world.running(B)
    with pytest.raises(ClusterUnreachable):
        await process.source_offsets(fenceable=False)
    await process.say("RUNNING")
    waiting = world.events.trace(B) or ""
    assert waiting.endswith(UNFENCED_ADVICE)
    world.later(LANDING_S)
    assert await process.source_offsets(fenceable=False)


@pytest.mark.parametrize(("fenceable", "begun"), [(True, False), (False, True)])
async def test_a_task_with_a_fence_or_one_that_ran_here_before_begins_at_once(
    world: World, fenceable: bool, begun: bool
) -> None:
    taker(world)
    process = await world.running(B)
    if begun:
        await process.source_offsets(fenceable=False)
    world.supervisor.group_changed([lost(20)], {}, 10)
    assert await process.source_offsets(fenceable=fenceable)


# What this worker tells.


class Told:
    """How often the group should have heard of claims."""

    def __init__(self, world: World) -> None:
        self.times = 0
        world.supervisor.share(self._hear, lambda: world.steady)

    def _hear(self) -> None:
        self.times += 1


async def test_a_commit_is_confirmed_when_the_task_has_given_up_what_it_took_away(world: World) -> None:
    told = Told(world)
    world.supervisor.group_changed([member(10)], {"c": 10}, 10)
    world.supervisor.want({A: wanted("t-0", "t-1")}, BEFORE)
    process = await world.running(A)
    at_first, silent = world.supervisor.confirmed(), told.times
    world.supervisor.want({A: wanted("t-0")}, AFTER)
    giving_up = world.supervisor.confirmed()
    await process.say("RUNNING")
    assert (at_first, giving_up, world.supervisor.confirmed()) == ({"c": 10}, {"c": 10}, {"c": 20})
    assert (silent, told.times) == (0, 1)
    world.supervisor.group_changed([member(10)], {"c": 20}, 10)
    assert told.times == 1


async def test_what_others_take_for_confirmed_too_little_is_told_again(world: World) -> None:
    told = Told(world)
    world.supervisor.want({A: wanted("t-0")}, AFTER)
    world.supervisor.group_changed([member(20)], {"c": 10}, 10)
    assert told.times == 1


async def test_a_worker_that_is_alone_tells_nobody(world: World) -> None:
    told = Told(world)
    world.supervisor.want({A: wanted("t-0")}, AFTER)
    world.supervisor.group_changed([lost(10)], {"c": 10}, 10)
    assert told.times == 0


async def test_nothing_is_confirmed_while_what_an_ended_run_has_sent_may_land(world: World) -> None:
    told = Told(world)
    world.supervisor.group_changed([member(10)], {"c": 10}, 10)
    world.supervisor.want({A: wanted("t-0", "t-1")}, BEFORE)
    process = await world.running(A)
    world.supervisor.want({}, BEFORE)
    await process.say("FINISHED", settled=False)
    # With a fence another worker may go on with the task at once.
    assert (world.supervisor.claimed_tasks(), world.supervisor.confirmed(), told.times) == (frozenset(), {"c": 10}, 1)
    world.supervisor.want({}, AFTER)
    landing = world.supervisor.confirmed()
    world.later(LANDING_S)
    assert (landing, world.supervisor.confirmed(), told.times) == ({"c": 10}, {}, 2)


async def test_a_task_without_a_fence_stays_claimed_until_nothing_of_it_can_land_any_more(world: World) -> None:
    told = Told(world)
    world.supervisor.want({A: wanted("t-0")}, BEFORE)
    process = await world.running(A)
    await process.source_offsets(fenceable=False)
    world.supervisor.want({}, BEFORE)
    await process.say("FINISHED", settled=False)
    claimed, times = world.supervisor.claimed_tasks(), told.times
    world.later(LANDING_S)
    assert (claimed, times, world.supervisor.claimed_tasks(), told.times) == ({A}, 0, frozenset(), 1)


@pytest.mark.parametrize(("fenceable", "claimed"), [(True, frozenset()), (False, {A})])
async def test_what_is_retired_is_claimed_only_if_nothing_refuses_what_it_has_sent(
    world: World, fenceable: bool, claimed: set[TaskId]
) -> None:
    """The lease may be over for a moment, and the group does not hear of it."""
    world.supervisor.want({A: wanted("t-0", "t-1")}, BEFORE)
    process = await world.running(A)
    await process.source_offsets(fenceable=fenceable)
    world.supervisor.retire()
    world.supervisor.want({}, AFTER)
    ending = (world.supervisor.claimed_tasks(), world.supervisor.confirmed())
    await process.say("FINISHED", settled=False)
    ended = (world.supervisor.claimed_tasks(), world.supervisor.confirmed())
    world.later(LANDING_S)
    assert (ending, ended) == ((claimed, {"c": 10}),) * 2
    assert (world.supervisor.claimed_tasks(), world.supervisor.confirmed()) == (frozenset(), {})


async def test_a_task_is_claimed_until_it_has_ended(world: World) -> None:
    told = Told(world)
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-2")}, BEFORE)
    process = await world.running(A)
    world.supervisor.want({B: wanted("t-2")}, BEFORE)
    ending = world.supervisor.claimed_tasks()
    await process.say("FINISHED")
    assert (ending, world.supervisor.claimed_tasks(), told.times) == ({A, B}, {B}, 1)


async def test_who_may_still_write_is_known_when_no_task_is_to_run_any_more(world: World) -> None:
    stopped = {"c": AFTER["c"].following(30, [])}
    world.supervisor.want({}, stopped)
    world.supervisor.group_changed([member(20)], {}, 10)
    waits = world.supervisor.holds_elsewhere("c")
    world.supervisor.want({}, {})
    unknown = world.supervisor.holds_elsewhere("c")
    world.supervisor.group_changed([OtherWorker("other:8083", {})], {}, 10)
    assert unknown == waits
    assert (waits, world.supervisor.holds_elsewhere("c"), world.supervisor.holds_elsewhere("d")) == (
        "worker other:8083 has not given them up yet",
        "",
        "",
    )
    assert TaskId("c", 0) not in world.supervisor.claimed_tasks()
