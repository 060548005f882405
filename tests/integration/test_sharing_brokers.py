"""Three workers of a real broker's group share connectors and tasks, whose copying is made up."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

import pytest

from deploy.local import LocalCluster
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.app.errors import NotLeader
from mirror_connect.app.group_backing import GroupBacking
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeConnectors, FakeResolver, FakeSupervisor, source_config
from tests.waiting import state_reached

pytestmark = pytest.mark.brokers

SESSION_MS = 6_000
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONNECTORS = [f"c{number}" for number in range(5)]
TASKS = {TaskId(name, number) for name in CONNECTORS for number in range(4)}


class Sharer:
    """A worker without REST and Spark: its connectors and tasks run at once and copy nothing."""

    def __init__(self, group: Sharers, name: str) -> None:
        config = worker_config({**group.properties, **group.own.get(name, {})}, warnings=False)
        self.backing = GroupBacking(config, f"http://{name}:1", f"{name}:1")
        self.configs, self.statuses = ConfigStore(self.backing.configs), StatusStore(self.backing.statuses)
        self.connectors, self.supervisor = FakeConnectors(), FakeSupervisor()
        self.herder = Herder(
            configs=self.configs,
            statuses=self.statuses,
            membership=self.backing.membership,
            supervisor=self.supervisor,
            new_connector=self.connectors,
            resolver=FakeResolver(),
            worker_id=f"{name}:1",
            offsets_of=self._offsets_of,
            leader=group,
            rules=ConfigRules(exactly_once=self.backing.exactly_once),
            fence_tasks=self._fence,
        )
        self.backing.listen(self.herder.membership_changed)
        self._live = contextlib.AsyncExitStack()

    async def start(self) -> None:
        async with asyncio.TaskGroup() as together:
            together.create_task(self.backing.join())
            together.create_task(self._answer())
        self.herder.membership_changed()

    async def _answer(self) -> None:
        await self.configs.start()
        await self.statuses.start()
        self.herder.start("cluster")

    async def end(self) -> None:
        await self.herder.stop_connectors()
        self.supervisor.want({})
        await self.herder.stop(2.0)
        await self.backing.leave(1.0)
        await self.close()

    async def close(self) -> None:
        await self.configs.stop()
        await self.statuses.stop()
        await self.backing.close(1.0)

    def cut_off(self) -> None:
        """From now on it hears nothing of its group, and its group nothing of it."""
        keeper = self.backing.membership._keeper
        assert keeper is not None
        keeper.cancel()

    async def _fence(self, connector: str, resolved: Mapping[str, str], tasks: Collection[int]) -> None:
        """Nobody has left a transaction."""

    async def _offsets_of(self, resolved: Mapping[str, str]) -> OffsetStore:
        del resolved
        return self.backing.offsets


class Sharers:
    """The workers of a group. It is also their way to the leader."""

    def __init__(self, cluster: LocalCluster) -> None:
        name = f"group-{uuid.uuid4().hex[:8]}"
        self.properties = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": name,
            **{f"{what}.storage.topic": f"{name}-{what}" for what in ("config", "offset", "status")},
            **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "session.timeout.ms": str(SESSION_MS),
            "key.converter": BYTES,
            "value.converter": BYTES,
            "listeners": "http://127.0.0.1:1",
        }
        # Properties of single workers, by name.
        self.own: dict[str, dict[str, str]] = {}
        self.workers: dict[str, Sharer] = {}
        # What two workers ran at the same time.
        self.twice: set[TaskId | str] = set()

    async def start(self, *names: str) -> None:
        for name in names:
            self.workers[name] = Sharer(self, name)
        await asyncio.gather(*(self.workers[name].start() for name in names))

    @property
    def leader(self) -> Sharer:
        for each in self.workers.values():
            if each.herder.leadership.term is not None:
                return each
        raise NotLeader

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        await self.leader.herder.task_configs.take(connector, configs)

    def spread(self) -> dict[str, tuple[int, int]]:
        """Of each worker, how many connectors and tasks it runs."""
        return {
            name: (len(each.connectors.running), len(each.supervisor.wanted)) for name, each in self.workers.items()
        }

    def is_all_told(self, names: Sequence[str], tasks: set[TaskId]) -> bool:
        """Whether everything is RUNNING, each at the worker of these that says so, as all of them have read."""
        for reader in names:
            statuses = self.workers[reader].statuses
            for task in tasks:
                status = statuses.task(task)
                if status is None or status.state != "RUNNING" or status.worker_id.removesuffix(":1") not in names:
                    return False
                if task not in self.workers[status.worker_id.removesuffix(":1")].supervisor.wanted:
                    return False
        return True

    async def watch(self) -> None:
        while True:
            ran: set[TaskId | str] = set()
            for worker in self.workers.values():
                now: set[TaskId | str] = {*worker.supervisor.wanted, *worker.connectors.running}
                self.twice |= ran & now
                ran |= now
            await asyncio.sleep(0.002)


@pytest.fixture
async def group(one_broker: LocalCluster) -> AsyncIterator[Sharers]:
    sharers = Sharers(one_broker)
    watching = asyncio.create_task(sharers.watch())
    try:
        yield sharers
    finally:
        watching.cancel()
        await asyncio.gather(*(worker.end() for worker in sharers.workers.values()))


async def until(holds: Callable[[], bool], what: str, group: Sharers) -> float:
    began = time.monotonic()
    try:
        await state_reached(holds, what)
    except Exception:
        print(group.spread())
        raise
    return time.monotonic() - began


async def test_work_is_shared_moves_and_is_taken_over_and_never_runs_twice(
    group: Sharers, capsys: pytest.CaptureFixture[str]
) -> None:
    await group.start("a")
    await until(lambda: group.workers["a"].herder.leadership.term is not None, "a worker leads", group)
    began = time.monotonic()
    await group.leader.herder.configs.create("c0", source_config(tasks__max="4"), None)
    first = {task for task in TASKS if task.connector == "c0"}
    await until(lambda: group.is_all_told(["a"], first), "the first connector's tasks run", group)
    alone_s = time.monotonic() - began

    for name in CONNECTORS[1:]:
        await group.leader.herder.configs.create(name, source_config(tasks__max="4"), None)
    await until(lambda: group.is_all_told(["a"], TASKS), "all tasks run at the only worker", group)

    await group.start("b", "c")
    fair = lambda names, connectors, tasks: (  # noqa: E731
        sorted(group.spread()[name][0] for name in names) == connectors
        and sorted(group.spread()[name][1] for name in names) == tasks
        and group.is_all_told(names, TASKS)
    )
    joined_s = await until(lambda: fair(["a", "b", "c"], [1, 2, 2], [6, 7, 7]), "three workers share", group)

    leaver = group.workers.pop("a")
    assert leaver.herder.leadership.term is not None
    began = time.monotonic()
    await leaver.end()
    await until(lambda: fair(["b", "c"], [2, 3], [10, 10]), "two workers share what the leader ran", group)
    left_s = time.monotonic() - began

    lost = "b" if group.workers["b"].backing.membership.is_leader else "c"
    rest = "c" if lost == "b" else "b"
    group.workers[lost].cut_off()
    lost_s = await until(lambda: group.is_all_told([rest], TASKS), "one worker runs all", group)
    assert group.workers[lost].supervisor.retired
    with capsys.disabled():
        print(
            f" [alone {alone_s:.2f} s, two joined {joined_s:.2f} s, leader left {left_s:.2f} s, cut off {lost_s:.2f} s "
            f"with a session of {SESSION_MS / 1000:g} s]",
            end="",
        )
    assert group.twice == set()


async def test_a_worker_that_only_prepares_exactly_once_is_named_and_runs_its_share(
    group: Sharers, caplog: pytest.LogCaptureFixture
) -> None:
    group.own = {
        name: {"exactly.once.source.support": said} for name, said in {"a": "enabled", "b": "preparing"}.items()
    }
    await group.start("a", "b")
    await until(
        lambda: any(each.herder.leadership.term is not None for each in group.workers.values()), "one leads", group
    )
    await group.leader.herder.configs.create("c0", source_config(tasks__max="4"), None)
    first = {task for task in TASKS if task.connector == "c0"}
    await until(lambda: group.is_all_told(["a", "b"], first), "both run tasks", group)
    lines = {each.getMessage() for each in caplog.records if "exactly.once" in each.getMessage()}
    assert lines == {
        "exactly.once.source.support is preparing on the worker http://b:1 and enabled on another one: tasks that run there "
        "copy at least once, and may repeat records. Set it to enabled on every worker"
    }
    # A round is led by either of them.
    fencing = group.leader.herder.fencing
    assert fencing is not None
    await fencing.lead_round("c0", group.leader.backing.membership.generation)


async def test_a_worker_whose_session_is_over_says_since_when_and_runs_its_share_again(group: Sharers) -> None:
    await group.start("a")
    a = group.workers["a"]
    await until(lambda: a.herder.leadership.term is not None, "a worker leads", group)
    await a.herder.configs.create("c0", source_config(tasks__max="4"), None)
    first = {task for task in TASKS if task.connector == "c0"}
    await until(lambda: group.is_all_told(["a"], first), "its tasks run", group)
    a.cut_off()
    await until(lambda: a.supervisor.retired, "its lease is over", group)
    await until(lambda: a.backing.membership.silence is not None, "its session is over", group)
    health = await a.herder.health()
    assert (health.status, a.supervisor.wanted) == ("unhealthy", {})
    assert health.message.startswith("This worker has had no contact with its own cluster since ")
    await group.start("b")
    await until(lambda: group.is_all_told(["b"], first), "another one runs its tasks", group)
    a.supervisor.retired = False
    membership = a.backing.membership
    membership._keeper = asyncio.create_task(membership._keep())
    await until(lambda: group.is_all_told(["a", "b"], first) and len(a.supervisor.wanted) == 2, "both share", group)
    assert group.twice == set()
