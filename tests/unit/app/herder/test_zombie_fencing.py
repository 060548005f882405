"""Former tasks of connectors that copy exactly once: who fences which of them, when, and what is noted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mirror_connect.app.errors import BadRequest, ConnectError, ConnectorNotFound, Forbidden, NotLeader
from mirror_connect.app.herder.interfaces import OUTSIDE, GroupAssignment, GroupMember
from mirror_connect.app.herder.zombie_fencing import Round, ZombieFencing, due_round
from mirror_connect.app.storage.config_view import ConfigSnapshot, ConfigView
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeMembership, FakeResolver, eventually, source_config
from tests.fakes.topic_log import FakeTopic, FakeTopicLog


def snapshot(*records: tuple[str, str]) -> ConfigSnapshot:
    view = ConfigView()
    view.apply(b"connector-c", b'{"properties":{}}')
    for key, value in records:
        view.apply(key.encode(), value.encode())
    return view.snapshot()


def tasks(count: int) -> list[tuple[str, str]]:
    """The records of so many tasks and their commit."""
    configs = [(f"task-c-{number}", '{"properties":{}}') for number in range(count)]
    return [*configs, ("commit-c", f'{{"tasks":{count}}}')]


def noted(count: int) -> tuple[str, str]:
    return "tasks-fencing-c", f'{{"task-count":{count}}}'


@pytest.mark.parametrize(
    ("records", "held", "lost", "expected"),
    [
        pytest.param(tasks(2), {0, 1}, (), Round((), 2), id="the_first_tasks_have_no_former_ones"),
        pytest.param([*tasks(2), noted(2)], {0, 1}, (), Round(), id="they_are_noted"),
        pytest.param([*tasks(3), noted(3), *tasks(2)], {0, 1}, (), Round((2,), 2), id="one_task_less"),
        pytest.param([*tasks(3), noted(3), *tasks(2)], {0, 1, 2}, (), Round((), 3), id="which_is_still_ending"),
        pytest.param([*tasks(1), noted(1), *tasks(3)], {0}, (), Round((), 3), id="more_tasks"),
        pytest.param([*tasks(3), noted(3), *tasks(3)], set(), (), Round((0, 1, 2), 3), id="nobody_runs_them"),
        pytest.param([*tasks(2), noted(2)], {0, 1}, (1,), Round((1,)), id="a_worker_was_lost"),
        pytest.param([*tasks(2), noted(2), *tasks(0)], set(), (), Round((0, 1), 0), id="stopped"),
    ],
)
def test_what_is_due(
    records: list[tuple[str, str]], held: Collection[int], lost: Collection[int], expected: Round
) -> None:
    assert due_round(snapshot(*records), "c", held, lost) == expected


def test_nothing_of_a_connector_that_has_ended_is_spared() -> None:
    """For a change of its source offsets: its worker may not have told the group yet that it has ended."""
    assert due_round(snapshot(*tasks(2), noted(2), *tasks(0)), "c", {0, 1}, (), ended=True) == Round((0, 1), 0)


@dataclass
class Rig:
    """A worker's fencing over real configs in memory. `others`: the members' tasks of connector c, by worker id."""

    enabled: bool = True
    leads_rounds: bool = True
    membership: FakeMembership = field(default_factory=FakeMembership)
    fenced: list[tuple[int, ...]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    asked: list[tuple[str, str, str, Any]] = field(default_factory=list)
    answer: tuple[int, bytes] | Exception = (204, b"")
    has_client: bool = True
    during: asyncio.Event | None = None

    def __post_init__(self) -> None:
        self.topic = FakeTopic()
        self.configs = ConfigStore(FakeTopicLog(self.topic))

    @contextlib.asynccontextmanager
    async def running(self, count: int = 2) -> AsyncIterator[ZombieFencing]:
        await self.configs.start()
        await self.configs.put_connector("c", source_config())
        await self.configs.put_task_configs("c", [{"n": str(number)} for number in range(count)])
        leadership: Any = self
        client: Any = self if self.has_client else None
        fencing = ZombieFencing(
            self.configs,
            self.membership,
            leadership,
            FakeResolver(),
            self.fence,
            client=client,
            enabled=self.enabled,
            leads_rounds=self.leads_rounds,
        )
        try:
            yield fencing
        finally:
            await fencing.stop()
            await self.configs.stop()

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[ConfigSnapshot]:
        if not self.membership.is_leader:
            raise NotLeader
        yield self.configs.snapshot()

    async def fence(self, connector: str, resolved: Mapping[str, str], numbers: Collection[int]) -> None:
        assert (connector, resolved["topics"]) == ("c", "orders")
        if self.during is not None:
            await self.during.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.fenced.append(tuple(numbers))

    async def signed(
        self, method: str, url: str, path: str, body: bytes, *, patience_s: float, limit: int
    ) -> tuple[int, bytes]:
        self.asked.append((method, url, path, json.loads(body)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def group(self, *, fence: Collection[int] = (), **members: Collection[int]) -> GroupAssignment:
        """The next assignment. The first member is this worker. `fence`: what its leader has to fence."""
        self.membership.generation += 1
        workers = tuple(GroupMember(f"http://{name}/", name, tasks=ids(numbers)) for name, numbers in members.items())
        self.membership.assigned = GroupAssignment(
            self.membership.generation,
            self.membership.is_leader,
            self.membership.leader_url,
            tasks=workers[0].tasks,
            workers=workers,
            fence=ids(fence) if self.membership.is_leader else frozenset(),
        )
        return self.membership.assigned

    def counts(self) -> list[str]:
        return [(value or b"").decode() for key, value in self.topic.entries() if key == b"tasks-fencing-c"]


def ids(numbers: Collection[int]) -> frozenset[TaskId]:
    return frozenset(TaskId("c", number) for number in numbers)


async def test_a_worker_that_starts_fences_what_it_ran_before_and_notes_the_count_once() -> None:
    rig = Rig()
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0, 1), one=(0, 1)))
        await asyncio.gather(fencing.fence("c"), fencing.fence("c"))
        await fencing.fence("c")
        assert (rig.fenced, rig.counts()) == ([(0, 1)], ['{"task-count":2}'])


async def test_the_tasks_of_a_lost_worker_are_fenced_at_once_and_no_others() -> None:
    rig = Rig()
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0, 1), one=(0,), two=(1,)))
        await fencing.fence("c")
        fencing.group_changed(rig.group(fence=(1,), one=(0, 1)))
        await eventually(lambda: rig.fenced == [(0, 1), (1,)])
        # The tasks have been started again meanwhile.
        fencing.group_changed(rig.group(one=(0, 1)))
        await fencing.fence("c")
        assert rig.fenced == [(0, 1), (1,)]


async def test_a_place_that_is_certain_again_in_the_same_generation_fences_nothing_again() -> None:
    rig = Rig()
    async with rig.running() as fencing:
        assignment = rig.group(fence=(0, 1), one=(0,), two=(1,))
        for each in (assignment, OUTSIDE, assignment):
            fencing.group_changed(each)
            await fencing.fence("c")
        assert rig.fenced == [(0, 1)]


async def test_what_another_leader_has_to_fence_is_not_fenced_here_when_this_worker_leads_later() -> None:
    rig = Rig()
    async with rig.running() as fencing:
        rig.during = asyncio.Event()
        fencing.group_changed(rig.group(fence=(0, 1), one=(0,), two=(1,)))
        rig.membership.is_leader = False
        fencing.group_changed(rig.group(one=(0,), two=(1,)))
        rig.during.set()
        rig.membership.is_leader = True
        fencing.group_changed(rig.group(one=(0,), two=(1,)))
        fenced = len(rig.fenced)
        await fencing.fence("c")
        assert len(rig.fenced) == fenced


async def test_a_cluster_that_is_away_is_asked_again_until_the_tasks_are_fenced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mirror_connect.app.herder.zombie_fencing.RETRY_S", 0.01)
    rig = Rig(failures=[ClusterUnreachable("away"), ClusterUnreachable("away")])
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0, 1), one=(0, 1)))
        await eventually(lambda: rig.fenced == [(0, 1)])
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "Connector c: its former tasks are not fenced yet: away"
    ]


async def test_a_worker_without_exactly_once_leads_rounds_when_others_ask_and_not_by_itself() -> None:
    rig = Rig(enabled=False)
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0,), one=(0,), two=(1,)))
        await asyncio.sleep(0.01)
        assert rig.fenced == []
        await fencing.lead_round("c", rig.membership.generation)
        assert rig.fenced == [(0,)]


async def test_new_task_configs_during_a_round_begin_another_one() -> None:
    rig = Rig(during=asyncio.Event())
    async with rig.running(3) as fencing:
        fencing.group_changed(rig.group(fence=(0, 1, 2), one=(0, 1, 2)))
        asking = asyncio.create_task(fencing.fence("c"))
        await asyncio.sleep(0.01)
        await rig.configs.put_task_configs("c", [{"n": "0"}])
        rig.group(one=(0,))
        assert rig.during is not None
        rig.during.set()
        await asking
        assert (rig.fenced[0], rig.counts()) == ((0, 1, 2), ['{"task-count":1}'])


async def test_a_change_of_offsets_fences_every_task_there_was() -> None:
    rig = Rig()
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0, 1), one=(0, 1)))
        await fencing.fence("c")
        await rig.configs.put_target_state("c", "STOPPED")
        await rig.configs.put_task_configs("c", [])
        await fencing.lead_round("c", 0, ended=True)
        await fencing.lead_round("c", 0, ended=True)
        assert (rig.fenced, rig.counts()) == ([(0, 1), (0, 1)], ['{"task-count":2}', '{"task-count":0}'])


@pytest.mark.parametrize("count", [0, 2])
async def test_a_change_of_offsets_fences_no_task_that_was_resumed_meanwhile(count: int) -> None:
    """The change is refused then."""
    rig = Rig()
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0, 1), one=(0, 1)))
        await fencing.fence("c")
        if not count:
            await rig.configs.put_task_configs("c", [])
        await rig.configs.put_target_state("c", "STARTED" if not count else "STOPPED")
        await fencing.lead_round("c", 0, ended=True)
        assert rig.fenced == [(0, 1)]


async def test_a_missing_right_is_not_asked_for_again() -> None:
    rig = Rig(enabled=False, failures=[NotAuthorized("grant WRITE"), NotAuthorized("grant WRITE")])
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0,), one=(0,)))
        with pytest.raises(NotAuthorized, match="grant WRITE"):
            await fencing.fence("c")
        with pytest.raises(Forbidden, match="grant WRITE"):
            await fencing.lead_round("c", 0)


async def test_a_worker_that_does_not_lead_asks_the_leader() -> None:
    rig = Rig(membership=FakeMembership(is_leader=False, leader_url="http://two/"))
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(one=(0,), two=(1,)))
        await fencing.fence("c")
        assert rig.asked == [("PUT", "http://two/", "/connectors/c/fence", {"generation": 2})]
        assert (rig.fenced, rig.counts()) == ([], [])


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        pytest.param((403, b'{"message":"grant WRITE"}'), NotAuthorized, "grant WRITE", id="a_right_is_missing"),
        pytest.param((409, b'{"message":"not the leader"}'), ClusterUnreachable, "not the leader", id="moved"),
        pytest.param((502, b"<html>"), ClusterUnreachable, "answered 502", id="a_proxy"),
        pytest.param(ConnectError("two is away"), ClusterUnreachable, "is away", id="away"),
    ],
)
async def test_what_the_leader_answers_is_told(
    answer: tuple[int, bytes] | Exception, error: type[Exception], text: str
) -> None:
    rig = Rig(membership=FakeMembership(is_leader=False, leader_url="http://two/"), answer=answer)
    async with rig.running() as fencing:
        with pytest.raises(error, match=text):
            await fencing.fence("c")


async def test_a_worker_that_can_ask_nobody_says_what_to_set() -> None:
    rig = Rig(membership=FakeMembership(is_leader=False, leader_url="http://two/"), has_client=False)
    async with rig.running() as fencing:
        with pytest.raises(ConfigError, match=r"dedicated\.mode\.enable\.internal\.rest"):
            await fencing.fence("c")


async def test_the_leader_waits_for_the_assignment_of_the_worker_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    async with rig.running() as fencing:
        fencing.group_changed(rig.group(fence=(0,), one=(0,), two=(1,)))
        asked = asyncio.create_task(fencing.lead_round("c", rig.membership.generation + 1))
        await asyncio.sleep(0.05)
        assert not asked.done()
        fencing.group_changed(rig.group(fence=(1,), one=(0, 1)))
        await asked
        assert (0, 1) in {tuple(sorted(sum(rig.fenced, ())))}
        monkeypatch.setattr("mirror_connect.app.herder.zombie_fencing.GENERATION_S", 0.01)
        with pytest.raises(NotLeader):
            await fencing.lead_round("c", rig.membership.generation + 1)


async def test_a_leader_with_exactly_once_disabled_refuses_and_says_what_to_do() -> None:
    rig = Rig(enabled=False, leads_rounds=False)
    async with rig.running() as fencing:
        with pytest.raises(BadRequest, match="set it to preparing on every worker"):
            await fencing.lead_round("c", 1)


async def test_a_connector_that_is_gone_is_not_found() -> None:
    rig = Rig()
    async with rig.running() as fencing:
        with pytest.raises(ConnectorNotFound):
            await fencing.lead_round("gone", 1)


async def test_workers_of_different_settings_are_named_once_until_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def of(two: str) -> GroupAssignment:
        workers = (GroupMember("http://one/", "one", exactly_once="enabled"), GroupMember("http://two/", "two"))
        return GroupAssignment(1, workers=(workers[0], replace(workers[1], exactly_once=two)))

    rig = Rig()
    async with rig.running() as fencing:
        for two in ("preparing", "preparing", "enabled", "", "disabled"):
            fencing.group_changed(of(two))
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.partition(" and enabled")[0] for text in found] == [
        "exactly.once.source.support is preparing on the worker http://two/",
        "exactly.once.source.support is disabled on the worker http://two/",
    ]
