"""What the leader decides: what should run, and the statuses of what nobody runs."""

from __future__ import annotations

import asyncio

from mirror_connect.app.herder.interfaces import LostMember
from mirror_connect.app.storage.status import Status
from mirror_connect.connectors.clock import boot_clock
from tests.fakes.connect_worker import FakeWorker, eventually, source_config
from tests.fakes.sharing_workers import A0, A1, NOTHING, SharingWorkers, created


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


async def test_a_leader_that_has_not_read_its_topics_does_not_say_that_nothing_is_wanted() -> None:
    worker = FakeWorker()
    worker.config_topic.add(b"connector-a", b'{"properties":{"name":"a"}}')
    assert worker.membership.work is not None
    assert worker.membership.work.wanted().offset == -1
    await worker.configs.start()
    assert worker.membership.work.wanted().offset == -1
    await worker.configs.stop()
