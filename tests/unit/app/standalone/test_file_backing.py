"""What a worker that is alone stands on: it leads from the beginning, and its tasks' lease is short."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.standalone.file_backing import LEASE_S, FileBacking, SoleMembership
from mirror_connect.app.worker_connectors.offset_stores import Reported
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors.task_protocol import TaskId


@pytest.mark.parametrize("killed", [False, True])
def test_tasks_write_only_when_those_of_a_killed_worker_can_not_any_more(killed: bool) -> None:
    now = [100.0]
    membership = SoleMembership("http://here:1/", after_a_kill=killed, clock=lambda: now[0])
    assert (membership.is_leader, membership.generation, membership.silence) == (True, 0, None)
    assert membership.leads_for() == (0.0 if killed else LEASE_S)
    now[0] += LEASE_S
    assert membership.leads_for() == LEASE_S


async def test_tasks_report_whatever_their_target_is_and_the_end_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    backing = FileBacking(str(path), 60_000, "http://here:1/", after_a_kill=False)
    await backing.offsets.start()
    for own in (True, False):
        store = await backing.stores.of(Target(own, {}, {}))
        assert (store.store, store.topic) == (backing.offsets, "")
    assert backing.transactional_id(TaskId("c", 0)) == ""
    backing.stores.reported([Reported(b'["c",{}]', b'{"offset":0}')])
    await backing.leave(0.0)
    assert path.exists()
    await backing.offsets.stop()
    await backing.close(1.0)
