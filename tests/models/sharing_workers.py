"""Workers that share the tasks of a connector, as processes in simulated time.

Each has the product's Membership, Supervisor and view of the config topic. What stands in for its herder runs what is
assigned to it and in the topic, in the product's order (app/herder/assignments.py): revoke at once, read as far as the
leader had read, begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mirror_connect.app.herder.interfaces import Claims, GroupAssignment, WantedWork
from mirror_connect.app.herder.other_workers import group_news
from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage.config_records import Entry
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.storage.partition_owners import NO_COMMIT
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, assigned_partitions_text
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.connection import ConnectionLost
from tests.fakes.simulated import Later, Process, World
from tests.models.fence_broker import REQUEST_S
from tests.models.fence_workers import CONNECTOR, Machines
from tests.models.landing_tasks import ConnectorWorker

# For so long the config topic's broker waits for records.
FETCH_S: Final = 1.0
# A driver whose worker was killed ends, and its tasks with it.
ORPHAN_S: Final = 1.0
LAST_WORDS_S: Final = 3.0


class ConfigTopic:
    """Committed records of the config topic. The world writes as the leader would."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.records: list[Entry] = [records.connector_entry(CONNECTOR, {"connector.class": "X"})]
        self._fetches: list[Later[int]] = []

    def more_than(self, read: int) -> int | Later[int]:
        """How many records there are: at once if these are more, else when there are, or in some time, as a broker does."""
        if len(self.records) > read:
            return len(self.records)
        fetch = Later[int]()
        self._fetches.append(fetch)
        self._world.after(FETCH_S, lambda: self._answer(fetch))
        return fetch

    def _answer(self, fetch: Later[int]) -> None:
        if fetch in self._fetches:
            self._fetches.remove(fetch)
            fetch.answer(len(self.records))

    def put_tasks(self, kind: str, assigned: dict[TaskId, list[TopicPartition]]) -> None:
        """Task configs, and their commit."""
        for task, partitions in assigned.items():
            config = {
                "connector.class": kind,
                "a.password": "${file:/secrets:password}",
                ASSIGNED_PARTITIONS: assigned_partitions_text(partitions),
            }
            self.records.append(records.task_entry(CONNECTOR, task.task, config))
        self.records.append(records.commit_entry(CONNECTOR, len(assigned)))
        self._written()

    def put_target_state(self, state: str) -> None:
        """The connector is paused or resumed."""
        self.records.append(records.target_state_entry(CONNECTOR, state))
        self._written()

    def _written(self) -> None:
        for fetch in list(self._fetches):
            self._answer(fetch)


class SharingMachines(Machines):
    """`topic`: of the group. `taken_on`: see LandingMachines."""

    def __init__(self, *args: Any, topic: ConfigTopic) -> None:
        super().__init__(*args)
        self.topic = topic
        self.taken_on = 0


class SharingWorker(ConnectorWorker):
    """A member of a group whose members share the tasks."""

    machines: SharingMachines

    def __init__(self, machines: SharingMachines, process: Process) -> None:
        super().__init__(machines, process)
        self.url = f"http://{process.name}"
        self._view = ConfigView()
        self._read = 0
        # It reads nothing of the config topic before that, by its own clock.
        self.reads_from = 0.0
        self._assigned: frozenset[TaskId] = frozenset()
        self._newest: GroupAssignment | None = None
        self._due = asyncio.Event()
        self._leaves = False
        self._wanted_then: Mapping[str, int] | None = None
        self.membership.share(self)
        self.supervisor.share(self.membership.rejoin, lambda: self.membership.steady)

    def _lease(self) -> float:
        return self.membership.runs_for()

    # GroupWork.

    def wanted(self) -> WantedWork:
        snapshot = self._view.snapshot()
        return WantedWork({CONNECTOR: snapshot.task_count(CONNECTOR)}, snapshot.offset)

    def claims(self) -> Claims:
        return Claims(
            frozenset(),
            self._assigned | self.supervisor.claimed_tasks(),
            self.supervisor.confirmed(),
            begins_by=self.begins_by(),
        )

    def begins_by(self) -> dict[str, int]:
        """See Claims."""
        owners = self._view.snapshot().owners.get(CONNECTOR)
        return {CONNECTOR: NO_COMMIT if owners is None else owners.commit} if self._assigned else {}

    # What is assigned.

    def _changed(self, assignment: GroupAssignment) -> None:
        if self.membership.runs_for() <= 0:
            self._newest = None
            self._assigned = frozenset()
            self.supervisor.retire()
            return
        news = group_news(assignment, self.url, self.process.time())
        self.supervisor.group_changed(news.others, news.believed, assignment.config_offset)
        if self._leaves:
            # As the product's: what it is assigned until the others hear of its end is not begun.
            return
        self._newest = assignment
        self._assigned &= assignment.tasks
        self._want()
        self._due.set()

    def _want(self) -> None:
        snapshot = self._view.snapshot()
        runs = snapshot.target_state(CONNECTOR) == records.STARTED
        wanted = {
            TaskId(CONNECTOR, number): WantedTask({name: value or "" for name, value in config.items()})
            for number, config in enumerate(snapshot.tasks(CONNECTOR) if runs else ())
        }
        self.supervisor.want(
            {task: wanted[task] for task in sorted(self._assigned & wanted.keys())}, snapshot.owners, snapshot.offset
        )

    async def work(self) -> None:
        following = asyncio.create_task(self._follow()), asyncio.create_task(self._run_what_is_assigned())
        await self._until_read(len(self.machines.topic.records) - 1)
        await super().work()
        await asyncio.gather(*following)

    async def _follow(self) -> None:
        """The config topic."""
        while True:
            try:
                end = await self.process.call(lambda: self.machines.topic.more_than(self._read), FETCH_S + REQUEST_S)
            except ConnectionLost:
                await asyncio.sleep(FETCH_S)
                continue
            while (left := self.reads_from - self.process.time()) > 0:
                await asyncio.sleep(left)
            found = self.machines.topic.records[self._read : end]
            for entry in found:
                self._view.apply(*entry, self._read)
                self._read += 1
            if found:
                self._want()
                self._due.set()

    async def _run_what_is_assigned(self) -> None:
        while True:
            self._due.clear()
            newest = self._newest
            has_read = newest is not None and self._view.snapshot().offset >= newest.config_offset
            if newest is not None and has_read and self._assigned != newest.tasks:
                self._assigned = newest.tasks
                self._want()
            wanted, before = self.wanted().connectors, self._wanted_then
            self._wanted_then = wanted
            if self.membership.is_leader and before is not None and wanted != before:
                self.membership.rejoin()
            await self._due.wait()

    async def _until_read(self, offset: int) -> None:
        while self._view.snapshot().offset < offset:
            await asyncio.sleep(0.1)

    # Its end.

    def kill(self) -> None:
        """Its process is killed, and gone a moment later. Its tasks end after that."""
        self.process.world.after(0.0, self._killed)

    def _killed(self) -> None:
        world = self.process.world
        self.process.kill()
        for task in self.tasks.values():
            if task.process.alive:
                world.after(world.random.uniform(0.0, ORPHAN_S), task.die)

    async def leave(self) -> None:
        """It is asked to end."""
        self._leaves = True
        self._newest, self._assigned = None, frozenset()
        self.supervisor.want({})
        for _ in range(int(LAST_WORDS_S / 0.1)):
            if not list(self.supervisor.runs):
                break
            await asyncio.sleep(0.1)
        await self.membership.leave()
        self.kill()
