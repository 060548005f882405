"""Task configs of connectors that run on another worker than the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from mirror_connect.app.errors import BadRequest, WorkerUnreachable
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.storage import config_records as records
from tests.fakes.connect_worker import eventually, source_config
from tests.fakes.sharing_workers import NOTHING, SharingWorkers, created


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


async def test_nothing_is_told_of_a_connector_that_is_paused_meanwhile(
    group: SharingWorkers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic, asked = group.leader.config_topic, []

    async def put_task_configs(connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        asked.append(connector)
        topic.add(*records.target_state_entry(connector, TargetState.PAUSED))
        raise BadRequest("Connector a is paused or stopped")

    monkeypatch.setattr(group.to_leader, "put_task_configs", put_task_configs)
    await group.leader.herder.configs.create("a", source_config(), None)
    group.assign(NOTHING, (["a"], []))
    await group.told("a", "PAUSED", "w1:1")
    await asyncio.sleep(0.05)
    assert asked == ["a"]
    assert not [line for line in caplog.messages if "cannot be written yet" in line]


async def test_task_configs_that_a_former_owner_asked_for_late_are_replaced(group: SharingWorkers) -> None:
    await created(group)
    wanted = group.leader.configs.snapshot().tasks("a")
    await group.leader.herder.task_configs.take("a", [{"late": "request"}])
    await eventually(lambda: group.leader.configs.snapshot().tasks("a") == wanted)
