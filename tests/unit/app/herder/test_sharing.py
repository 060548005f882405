"""Workers that share connectors and tasks: who runs what, whose status counts, and how work moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.errors import WorkerUnreachable
from mirror_connect.app.herder.interfaces import Claims, LostMember
from mirror_connect.app.storage.status import Status
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
from tests.fakes.sharing_workers import NOTHING, SharingWorkers

A0, A1 = TaskId("a", 0), TaskId("a", 1)


@pytest.fixture
async def group() -> AsyncIterator[SharingWorkers]:
    async with SharingWorkers().running() as group:
        yield group


async def created(group: SharingWorkers, tasks: int = 2) -> None:
    """Connector `a` runs on the second worker, which does not lead; task 0 on the first one, task 1 on the second."""
    await group.leader.herder.configs.create("a", source_config(tasks__max=str(tasks)), None)
    group.assign(NOTHING, (["a"], []))
    await eventually(lambda: group.leader.configs.snapshot().task_count("a") == tasks)
    group.assign(([], [A0]), (["a"], [TaskId("a", number) for number in range(1, tasks)]))
    await group.told(A0, "RUNNING", "w0:1")
    if tasks > 1:
        await group.told(A1, "RUNNING", "w1:1")


async def test_each_worker_runs_its_share_and_tells_of_it(group: SharingWorkers) -> None:
    await created(group)
    leader, other = group.workers
    assert (set(leader.supervisor.wanted), set(other.supervisor.wanted)) == ({A0}, {A1})
    assert (list(leader.connectors.running), list(other.connectors.running)) == ([], ["a"])
    assert group.told_by("a") == ("RUNNING", "w1:1")
    assert other.membership.work is not None
    assert other.membership.work.claims() == Claims(frozenset({"a"}), frozenset({A1}))


async def test_the_leader_asks_for_a_new_assignment_when_connectors_or_tasks_come_and_go(group: SharingWorkers) -> None:
    before = group.leader.membership.rejoins
    await group.leader.herder.configs.create("a", source_config(), None)
    await eventually(lambda: group.leader.membership.rejoins == before + 1)
    assert group.leader.membership.work is not None
    assert group.leader.membership.work.wanted().connectors == {"a": 0}
    group.assign(NOTHING, (["a"], []))
    await eventually(lambda: group.leader.membership.rejoins == before + 2)
    assert group.leader.membership.work.wanted().connectors == {"a": 1}
    await group.leader.herder.configs.put("a", source_config(topics="other"))
    await asyncio.sleep(0.05)
    assert group.leader.membership.rejoins == before + 2
    await group.leader.herder.configs.delete("a")
    await eventually(lambda: group.leader.membership.rejoins == before + 3)
    assert group.workers[1].membership.rejoins == 0


async def test_a_follower_asks_again_when_the_leader_did_not_answer(
    group: SharingWorkers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mirror_connect.app.herder.task_config_writes.RETRY_S", 0.01)
    group.to_leader.failures = [WorkerUnreachable("http://w0", "does not answer", sent=False)]
    await created(group, tasks=1)
    assert group.to_leader.asked == ["a", "a"]
    assert [line for line in caplog.messages if "cannot be written yet" in line] == [
        "The task configs of connector a cannot be written yet; trying again: IO Error trying to forward REST request: "
        "the worker at http://w0 does not answer"
    ]


async def test_task_configs_that_a_former_owner_asked_for_late_are_replaced(group: SharingWorkers) -> None:
    await created(group)
    wanted = group.leader.configs.snapshot().tasks("a")
    await group.leader.herder.task_configs.take("a", [{"late": "request"}])
    await eventually(lambda: group.leader.configs.snapshot().tasks("a") == wanted)


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


async def test_a_worker_that_lost_its_place_claims_nothing_and_writes_no_status(group: SharingWorkers) -> None:
    await created(group)
    other = group.workers[1]
    group.assign((["a"], [A0, A1]), None)
    assert other.supervisor.retired
    assert other.membership.work is not None
    assert other.membership.work.claims() == Claims()
    await group.told(A1, "RUNNING", "w0:1")
    await eventually(lambda: not other.connectors.running)
    await asyncio.sleep(0.05)
    assert (group.told_by("a"), group.told_by(A1)) == (("RUNNING", "w0:1"), ("RUNNING", "w0:1"))


async def test_what_a_lost_worker_ran_is_unassigned_until_somebody_has_it(group: SharingWorkers) -> None:
    await created(group)
    group.workers[1].supervisor.silent.add(A1)
    group.assign(([], [A0]), None, lost=[LostMember("w1:1", frozenset({A1}), {}, boot_clock())])
    await group.told(A1, "UNASSIGNED", "w0:1")
    await group.told("a", "UNASSIGNED", "w0:1")
    trace = group.leader.trace("a-1") or ""
    assert trace.startswith("Its worker w1:1 has left the group by 2")
    assert trace.endswith("Another worker takes it over.")
    # It is nobody's: whoever gets it has the word.
    group.assign((["a"], [A0, A1]), None)
    await group.told(A1, "RUNNING", "w0:1")


async def test_what_a_member_still_ends_is_left_to_it(group: SharingWorkers) -> None:
    await created(group)
    group.workers[1].supervisor.hold_ends()
    group.assign(([], [A0]), (["a"], []))
    await asyncio.sleep(0.05)
    assert group.told_by(A1) == ("RUNNING", "w1:1")


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


async def test_the_leader_removes_the_statuses_of_a_deleted_connector_and_what_comes_late(
    group: SharingWorkers,
) -> None:
    await created(group)
    await group.leader.herder.configs.delete("a")
    await eventually(lambda: group.leader.statuses.connectors() == frozenset())
    await eventually(lambda: not group.workers[1].connectors.running and not group.workers[1].supervisor.wanted)
    await asyncio.sleep(0.02)
    await group.workers[1].statuses.put_task(A1, Status("RUNNING", "w1:1", 2))
    await eventually(lambda: group.leader.states("a-1")[-1] == "gone")
    await eventually(lambda: group.leader.statuses.connectors() == frozenset())


async def test_pause_resume_and_stop_reach_tasks_of_all_workers(group: SharingWorkers) -> None:
    await created(group)
    await group.leader.herder.configs.pause("a")
    await group.told("a", "PAUSED", "w1:1")
    await group.told(A0, "PAUSED", "w0:1")
    await group.told(A1, "PAUSED", "w1:1")
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


async def test_another_leader_goes_on_with_what_runs(group: SharingWorkers) -> None:
    await created(group)
    group.leader = group.workers[1]
    group.assign(([], [A0]), (["a"], [A1]))
    await eventually(lambda: group.leader.herder.leadership.term is not None)
    await group.leader.herder.configs.put("a", source_config(tasks__max="1"))
    await eventually(lambda: group.leader.configs.snapshot().task_count("a") == 1)
    await eventually(lambda: group.leader.states("a-1")[-1] == "gone")
    await group.told(A0, "RUNNING", "w0:1")
    assert group.workers[0].connectors.log == []


async def test_the_end_of_a_worker_sets_only_what_it_ran_to_unassigned(group: SharingWorkers) -> None:
    await created(group)
    other = group.workers[1]
    await other.herder.stop_connectors()
    await other.herder.stop()
    await group.told("a", "UNASSIGNED", "w1:1")
    await group.told(A1, "UNASSIGNED", "w1:1")
    assert group.told_by(A0) == ("RUNNING", "w0:1")


async def test_a_leader_that_has_not_read_its_topics_does_not_say_that_nothing_is_wanted() -> None:
    worker = FakeWorker()
    worker.config_topic.add(b"connector-a", b'{"properties":{"name":"a"}}')
    assert worker.membership.work is not None
    assert worker.membership.work.wanted().offset == -1
    await worker.configs.start()
    assert worker.membership.work.wanted().offset == -1
    await worker.configs.stop()
