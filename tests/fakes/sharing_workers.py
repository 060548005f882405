"""Workers in memory that share connectors and tasks: the test assigns them, in the place of the group."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember, LostMember
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeMembership, FakeWorker, eventually, source_config

Share = tuple[Sequence[str], Sequence[TaskId]]
NOTHING: Share = ((), ())
A0, A1 = TaskId("a", 0), TaskId("a", 1)


class ToLeader:
    """What the other workers ask of the leader, without HTTP."""

    def __init__(self, group: SharingWorkers) -> None:
        self._group = group
        self.asked: list[str] = []
        self.failures: list[Exception] = []

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        self.asked.append(connector)
        if self.failures:
            raise self.failures.pop()
        await self._group.leader.herder.task_configs.take(connector, configs)


class SharingWorkers:
    """Workers `w0:1`, `w1:1` … on the same topics; the first one leads until the test says otherwise."""

    def __init__(self, count: int = 2) -> None:
        self.to_leader = ToLeader(self)
        self.workers: list[FakeWorker] = []
        self.generation = 0
        first: FakeWorker | None = None
        for number in range(count):
            worker = FakeWorker(
                first.config_topic if first else None,
                first.status_topic if first else None,
                membership=FakeMembership(is_leader=False, leader_url=None),
                worker_id=f"w{number}:1",
                leader=self.to_leader,
            )
            first = first or worker
            self.workers.append(worker)
        self.leader = self.workers[0]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SharingWorkers]:
        async with contextlib.AsyncExitStack() as stack:
            for worker in self.workers:
                await stack.enter_async_context(worker.running())
            self.assign(*([NOTHING] * len(self.workers)))
            await eventually(lambda: self.leader.herder.leadership.term is not None)
            yield self

    def assign(self, *shares: Share | None, lost: Sequence[LostMember] = (), config_offset: int | None = None) -> None:
        """A new generation: the share of each worker; None: it is no member. The config topic has been read to its end."""
        self.generation += 1
        members = {
            number: GroupMember(f"http://w{number}", f"w{number}:1", frozenset(share[0]), frozenset(share[1]))
            for number, share in enumerate(shares)
            if share is not None
        }
        read = len(self.leader.config_topic.records) - 1 if config_offset is None else config_offset
        whole = GroupAssignment(self.generation, workers=tuple(members.values()), lost=tuple(lost), config_offset=read)
        leader = self.workers.index(self.leader)
        for number, worker in enumerate(self.workers):
            membership = worker.membership
            membership.is_leader = number == leader and number in members
            membership.leader_url = f"http://w{leader}" if number in members else None
            membership.assigned = None
            if number in members:
                membership.generation = self.generation
                membership.assigned = replace(
                    whole,
                    leader=membership.is_leader,
                    leader_url=membership.leader_url,
                    connectors=members[number].connectors,
                    tasks=members[number].tasks,
                )
            worker.herder.membership_changed()

    def told_by(self, subject: str | TaskId) -> tuple[str, str] | None:
        """State and worker of the newest status that the leader has read."""
        statuses = self.leader.statuses
        status = statuses.task(subject) if isinstance(subject, TaskId) else statuses.connector(subject)
        return None if status is None else (status.state, status.worker_id)

    async def told(self, subject: str | TaskId, state: str, by: str) -> None:
        """Waits for this status."""
        await eventually(lambda: self.told_by(subject) == (state, by))


async def created(group: SharingWorkers, tasks: int = 2) -> None:
    """Connector `a` runs on the second worker, which does not lead; task 0 on the first one, task 1 on the second."""
    await group.leader.herder.configs.create("a", source_config(tasks__max=str(tasks)), None)
    group.assign(NOTHING, (["a"], []))
    await eventually(lambda: group.leader.configs.snapshot().task_count("a") == tasks)
    group.assign(([], [A0]), (["a"], [TaskId("a", number) for number in range(1, tasks)]))
    await group.told(A0, "RUNNING", "w0:1")
    if tasks > 1:
        await group.told(A1, "RUNNING", "w1:1")
