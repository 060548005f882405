from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from mirror_connect.app.group import leader_decisions
from mirror_connect.app.group.leader_decisions import LeaderDecisions
from mirror_connect.app.group.messages import (
    Assignment,
    GroupState,
    Metadata,
    assignment_from_bytes,
    metadata_to_bytes,
)
from mirror_connect.app.herder.interfaces import WantedWork
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

LEADER, OTHER = "leader", "other"


@dataclass
class Rig:
    """A leader whose copy of the config topic grows by a record at each look, up to `most`."""

    offset: int = 0
    most: int = 100
    now: float = 1000.0
    tick_s: float = 0.0
    connectors: Mapping[str, int] = field(default_factory=lambda: {"x": 2})
    other: str = "http://b:1"
    joins_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decisions = LeaderDecisions(self.wanted, self.joins_at.append, delay_s=0.0, clock=lambda: self.now)

    def wanted(self) -> WantedWork:
        self.now += self.tick_s
        self.offset = min(self.offset + 1, self.most)
        return WantedWork(self.connectors, self.offset)

    async def decide(self, read_elsewhere: int = 0) -> dict[str, Assignment]:
        members = {
            LEADER: metadata_to_bytes(Metadata("http://a:1", "a:1", offset=self.offset), self.now),
            OTHER: metadata_to_bytes(Metadata(self.other, "b:1", offset=read_elsewhere), self.now),
        }
        joined = JoinGroupResponse(0, 0, 7, "mirror-connect", LEADER, LEADER, members)
        answers = await self.decisions.assignments(joined, GroupState())
        return {name: assignment_from_bytes(value, self.now) for name, value in answers.items()}


def tasks(answers: Mapping[str, Assignment]) -> set[TaskId]:
    return {task for each in answers.values() for task in each.share.tasks}


async def test_it_decides_by_what_any_member_has_read() -> None:
    rig = Rig()
    answers = await rig.decide(read_elsewhere=3)
    assert {each.state.offset for each in answers.values()} == {3}
    assert tasks(answers) == {TaskId("x", 0), TaskId("x", 1)}
    assert rig.joins_at == []


async def test_who_cannot_read_up_gives_nothing_new_and_has_all_join_again() -> None:
    rig = Rig(most=2, tick_s=1.0)
    answers = await rig.decide(read_elsewhere=3)
    assert tasks(answers) == set()
    assert rig.joins_at == [pytest.approx(rig.now + leader_decisions.RETRY_SECONDS)]


async def test_a_leader_that_stays_behind_says_so_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(most=2, tick_s=5.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(12):
            await rig.decide(read_elsewhere=3)
    told = [each for each in caplog.messages if "read connect-configs to offset 3, this leader only to 2" in each]
    assert 2 <= len(told) < 12


async def test_who_has_read_nothing_decides_nothing() -> None:
    rig = Rig(offset=-2, most=-1)
    assert tasks(await rig.decide(read_elsewhere=-1)) == set()


async def test_many_tasks_are_decided_on_in_a_thread_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    few = await Rig(connectors={"x": 5}).decide()
    monkeypatch.setattr(leader_decisions, "MANY", 4)
    assert await Rig(connectors={"x": 5}).decide() == few


async def test_workers_that_have_one_address_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    await rig.decide()
    assert caplog.messages == []
    rig.other = "http://a:1"
    for _ in range(3):
        await rig.decide()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "http://a:1" in caplog.messages[0]


async def test_a_group_that_may_become_too_large_for_its_brokers_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    await rig.decide()
    small = [record for record in caplog.records if "message.max.bytes" in record.getMessage()]
    monkeypatch.setattr(leader_decisions, "LARGE_BYTES", 100)
    await rig.decide()
    await rig.decide()
    monkeypatch.setattr(leader_decisions, "LARGE_BYTES", 1 << 20)
    await rig.decide()
    monkeypatch.setattr(leader_decisions, "LARGE_BYTES", 100)
    await rig.decide()
    told = [record.getMessage() for record in caplog.records if "message.max.bytes" in record.getMessage()]
    assert (small, len(told)) == ([], 2)
    assert "with 2 workers" in told[0]
