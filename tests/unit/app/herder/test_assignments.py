"""Workers that share connectors and tasks: who runs what, whose status counts, and how work moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.app.herder import assignments
from mirror_connect.app.herder.interfaces import Claims
from mirror_connect.app.storage.status import Status
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import eventually, source_config
from tests.fakes.sharing_workers import A0, A1, NOTHING, SharingWorkers, created


async def test_each_worker_runs_its_share_and_tells_of_it(group: SharingWorkers) -> None:
    await created(group)
    leader, other = group.workers
    assert (set(leader.supervisor.wanted), set(other.supervisor.wanted)) == ({A0}, {A1})
    assert (list(leader.connectors.running), list(other.connectors.running)) == ([], ["a"])
    assert group.told_by("a") == ("RUNNING", "w1:1")
    assert other.membership.work is not None
    by = {"a": group.leader.configs.snapshot().owners["a"].commit}
    assert other.membership.work.claims() == Claims(frozenset({"a"}), frozenset({A1}), begins_by=by)


async def test_a_task_moves_when_it_has_ended_at_its_former_worker(group: SharingWorkers) -> None:
    await created(group)
    leader = group.leader
    events = leader.supervisor.hold_ends()
    asked = leader.membership.rejoins
    group.assign(NOTHING, (["a"], [A1]))
    await eventually(lambda: not leader.supervisor.wanted)
    assert leader.membership.work is not None
    assert leader.membership.work.claims().tasks == {A0}
    await asyncio.sleep(0.05)
    assert (leader.membership.rejoins, group.told_by(A0)) == (asked, ("RUNNING", "w0:1"))
    events.task_ended(A0)
    await group.told(A0, "UNASSIGNED", "w0:1")
    assert leader.trace("a-0") == "It moves to another worker of the group."
    await eventually(lambda: leader.membership.rejoins == asked + 1)
    assert leader.membership.work.claims().tasks == frozenset()
    group.assign(NOTHING, (["a"], [A0, A1]))
    await group.told(A0, "RUNNING", "w1:1")
    assert leader.states("a-0") == ["UNASSIGNED", "RUNNING", "UNASSIGNED", "UNASSIGNED", "RUNNING"]


async def test_what_ends_after_its_worker_has_stopped_begins_nothing(group: SharingWorkers) -> None:
    await created(group)
    events = group.leader.supervisor.hold_ends()
    group.assign(NOTHING, (["a"], [A1]))
    await eventually(lambda: not group.leader.supervisor.wanted)
    await group.leader.herder.stop_connectors()
    await group.leader.herder.stop()
    before = asyncio.all_tasks()
    events.task_ended(A0)
    assert asyncio.all_tasks() == before


async def test_a_connector_moves_and_its_tasks_stay_as_they_are(group: SharingWorkers) -> None:
    await created(group)
    leader, other = group.workers
    written = len(group.leader.written())
    group.assign(([], [A0]), ([], [A1]))
    await eventually(lambda: other.membership.rejoins == 1)
    group.assign((["a"], [A0]), ([], [A1]))
    await group.told("a", "RUNNING", "w0:1")
    await asyncio.sleep(0.05)
    assert (list(leader.connectors.running), list(other.connectors.running)) == (["a"], [])
    assert len(group.leader.written()) == written
    assert (leader.states("a-0"), leader.states("a-1")) == (["UNASSIGNED", "RUNNING"],) * 2


async def test_what_comes_back_before_it_has_ended_goes_on_here(group: SharingWorkers) -> None:
    await created(group)
    leader = group.leader
    events = leader.supervisor.hold_ends()
    group.assign(NOTHING, (["a"], [A1]))
    await eventually(lambda: not leader.supervisor.wanted)
    group.assign(([], [A0]), (["a"], [A1]))
    await eventually(lambda: A0 in leader.supervisor.wanted)
    events.task_state(A0, "RUNNING", None)
    await group.told(A0, "RUNNING", "w0:1")
    assert leader.membership.work is not None
    assert leader.membership.work.claims().tasks == {A0}


async def test_a_worker_reads_the_config_topic_as_far_as_the_leader_did_before_it_acts(group: SharingWorkers) -> None:
    await created(group, tasks=1)
    other = group.workers[1]
    group.leader.config_topic.failure = ClusterUnreachable("gone")
    group.assign(NOTHING, ([], [A0]), config_offset=len(group.leader.config_topic.records) + 5)
    # What it has to give up it gives up at once.
    await eventually(lambda: not other.connectors.running)
    await asyncio.sleep(0.05)
    assert A0 not in other.supervisor.wanted
    group.leader.config_topic.failure = None
    await group.told(A0, "RUNNING", "w1:1")


async def test_how_far_a_worker_has_read_is_told_even_if_nothing_of_its_own_changes(group: SharingWorkers) -> None:
    """Its tasks wait for partitions until it has read as far as the others."""
    await created(group)
    await group.leader.herder.configs.create("b", source_config(), None)
    end = len(group.leader.config_topic.records) - 1
    group.assign(([], [A0]), (["a"], [A1]))
    await eventually(lambda: [each.supervisor.read for each in group.workers] == [end, end])


@pytest.mark.parametrize("fails", ["put", "want"])
async def test_an_assignment_that_failed_is_tried_again(
    group: SharingWorkers, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(assignments, "RETRY_S", 0.01)
    await created(group)
    leader, other = group.workers
    failures = [RuntimeError("a bug")]
    part: Any = leader.herder._book if fails == "put" else leader.supervisor
    works = getattr(part, fails)

    def fail_once(*given: Any) -> None:
        if failures:
            raise failures.pop()
        works(*given)

    group.assign(([], [A0]), ([], []))
    await eventually(lambda: not other.connectors.running and not other.supervisor.wanted)
    monkeypatch.setattr(part, fails, fail_once)
    group.assign((["a"], [A0, A1]), NOTHING)
    await group.told("a", "RUNNING", "w0:1")
    await group.told(A1, "RUNNING", "w0:1")
    assert not failures


async def test_a_worker_that_lost_its_place_claims_nothing_and_writes_no_status(group: SharingWorkers) -> None:
    await created(group)
    other = group.workers[1]
    group.assign((["a"], [A0, A1]), None)
    assert other.supervisor.retired
    assert other.membership.work is not None
    assert other.membership.work.claims() == Claims()
    await group.told("a", "RUNNING", "w0:1")
    await group.told(A1, "RUNNING", "w0:1")
    await eventually(lambda: not other.connectors.running)
    await asyncio.sleep(0.05)
    assert (group.told_by("a"), group.told_by(A1)) == (("RUNNING", "w0:1"), ("RUNNING", "w0:1"))


@pytest.mark.parametrize("late", [Status("RUNNING", "w1:1", 99), Status("UNASSIGNED", "w1:1", 1), None])
async def test_a_late_status_of_a_former_owner_is_replaced(
    group: SharingWorkers, monkeypatch: pytest.MonkeyPatch, late: Status | None
) -> None:
    monkeypatch.setattr("mirror_connect.app.herder.status_book.RETRY_S", 0.01)
    await created(group)
    if late is None:
        await group.leader.statuses.delete_task(A0)
    else:
        await group.leader.statuses.put_task(A0, late)
    count = len(group.leader.states("a-0"))
    await eventually(lambda: len(group.leader.states("a-0")) > count)
    await group.told(A0, "RUNNING", "w0:1")


async def test_pause_resume_and_stop_reach_tasks_of_all_workers(group: SharingWorkers) -> None:
    await created(group)
    await group.leader.herder.configs.pause("a")
    await group.told("a", "PAUSED", "w1:1")
    await group.told(A0, "PAUSED", "w0:1")
    await group.told(A1, "PAUSED", "w1:1")
    # They may begin again at any moment, by the commit that each worker knows.
    for worker in group.workers:
        assert worker.membership.work is not None
        assert worker.membership.work.claims().begins_by == {"a": worker.configs.snapshot().owners["a"].commit}
    await group.leader.herder.configs.resume("a")
    await group.told(A0, "RUNNING", "w0:1")
    await group.told(A1, "RUNNING", "w1:1")
    await group.leader.herder.configs.stop("a")
    await group.told("a", "STOPPED", "w1:1")
    await eventually(lambda: not group.leader.statuses.tasks("a"))


async def test_a_restart_request_is_done_by_each_worker_for_what_it_runs(group: SharingWorkers) -> None:
    await created(group)
    await group.leader.herder.restarts.connector_and_tasks("a", include_tasks=True, only_failed=False)
    await eventually(lambda: [each.supervisor.restarted for each in group.workers] == [[A0], [A1]])
    await eventually(lambda: group.workers[1].connectors.log.count("start a") == 2)
    await group.told("a", "RUNNING", "w1:1")
    assert "start a" not in group.leader.connectors.log


async def test_the_end_of_a_worker_sets_only_what_it_ran_to_unassigned(group: SharingWorkers) -> None:
    await created(group)
    other = group.workers[1]
    await other.herder.stop_connectors()
    await other.herder.stop()
    await group.told("a", "UNASSIGNED", "w1:1")
    await group.told(A1, "UNASSIGNED", "w1:1")
    assert group.told_by(A0) == ("RUNNING", "w0:1")


async def test_partitions_are_not_read_again_whatever_changes(group: SharingWorkers) -> None:
    await created(group)
    first, second = group.workers[0].supervisor.wanted[A0], group.workers[1].supervisor.wanted[A1]
    owners = group.leader.configs.snapshot().owners["a"]
    assert first.partitions is owners.given[0]
    assert second.partitions == owners.given[1]


async def test_a_worker_that_lets_go_ends_all_and_begins_nothing_until_it_may(group: SharingWorkers) -> None:
    await created(group)
    other = group.workers[1]
    events = other.supervisor.hold_ends()
    assert not await other.herder.assignments.let_go(0.05)
    assert (other.supervisor.wanted, other.connectors.running) == ({}, {})
    events.task_ended(A1)
    assert await other.herder.assignments.let_go(60.0)
    await group.told(A1, "UNASSIGNED", "w1:1")
    # The group assigns something, because it does not know yet.
    group.assign(([], [A0]), (["a"], [A1]))
    await asyncio.sleep(0.05)
    assert (other.supervisor.wanted, other.connectors.running) == ({}, {})
    other.herder.assignments.take_again()
    await group.told(A1, "RUNNING", "w1:1")
    await group.told("a", "RUNNING", "w1:1")
