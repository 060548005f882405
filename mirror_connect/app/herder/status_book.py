"""Writes statuses to the status topic: in order, by the table of moves, with retries while the cluster is unreachable.

Others read the topic. This worker's newest statuses are also kept here, because it reads them back milliseconds later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from mirror_connect.app.herder.lifecycle import IllegalMove, State, move
from mirror_connect.app.storage.status import CONNECT_VERSION, Status, StatusStore, TopicStatus
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
Subject = str | TaskId


class StatusBook:
    """`worker_id` is host:port of the REST listener; `generation` returns the group's present generation."""

    def __init__(self, store: StatusStore, worker_id: str, generation: Callable[[], int]) -> None:
        self._store = store
        self._worker_id = worker_id
        self._generation = generation
        # The newest status from here. None: deleted, even if the topic still has a status.
        self._newest: dict[Subject, tuple[State, str | None] | None] = {}
        self._never_ran: set[Subject] = set()
        self._writes: asyncio.Queue[tuple[int, str, Callable[[], Awaitable[object]]]] = asyncio.Queue()
        # Counts this worker's leaderships: unwritten statuses of an earlier one must not be written.
        self._term = 0
        self._writer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write, in the background."""
        self._writer = asyncio.create_task(self._write_for_ever())

    async def flush(self, patience_s: float) -> bool:
        """Waits until all statuses are written; False if that took too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._writes.join()
            return True
        return False

    async def seen(self, patience_s: float) -> None:
        """Waits until readers see all statuses, or until that took too long."""
        with contextlib.suppress(TimeoutError, ClusterUnreachable, NotAuthorized):
            async with asyncio.timeout(patience_s):
                await self._writes.join()
                await self._store.refresh()

    async def stop(self) -> None:
        """Stops writing; statuses that are not written yet are lost."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def state(self, subject: Subject) -> State | None:
        """The newest state of a connector (by name) or task: from here, else from the topic."""
        if subject in self._newest:
            newest = self._newest[subject]
            return newest[0] if newest is not None else None
        stored = self._store.task(subject) if isinstance(subject, TaskId) else self._store.connector(subject)
        try:
            return State(stored.state) if stored is not None else None
        except ValueError:
            return None

    def shown(self, task: TaskId, stored: Status) -> Status:
        """A task's status for people, where the topic has `stored`.

        If this worker's own status is UNASSIGNED, it wins over a stored RUNNING. Perhaps this worker has not read it back
        yet. Or its generation looks older: generations begin again when the group's coordinator has lost them.
        """
        newest = self._newest.get(task)
        if newest is None or newest[0] is not State.UNASSIGNED or stored.state != State.RUNNING:
            return stored
        return Status(newest[0].value, self._worker_id, self._generation(), newest[1], CONNECT_VERSION)

    def put(self, subject: Subject, state: State, trace: str | None = None) -> bool:
        """Moves a connector or task to a state; False, and no write, if the table has no such move."""
        before = self.state(subject)
        if before is state:
            if self._newest.get(subject) == (state, trace):
                return True
        else:
            try:
                move(before, state)
            except IllegalMove as illegal:
                log.debug("%s: %s", subject, illegal)
                return False
            self._never_ran.discard(subject)
            # As in Connect, the status of a task that failed before it ran has no version.
            if isinstance(subject, TaskId) and state is State.FAILED and before is not State.RUNNING:
                self._never_ran.add(subject)
        self._newest[subject] = (state, trace)
        version = None if subject in self._never_ran else CONNECT_VERSION
        status = Status(state.value, self._worker_id, self._generation(), trace, version)
        self._queue(subject, status)
        return True

    def forget_task(self, task: TaskId) -> None:
        """Writes UNASSIGNED, then removes the status: the task no longer exists."""
        self.put(task, State.UNASSIGNED)
        self._newest[task] = None
        self._later(f"status of task {task}", lambda: self._delete_task(task))

    def forget_connector(self, name: str) -> None:
        """Writes UNASSIGNED for a deleted connector and its tasks, then removes their statuses and topics."""
        tasks = {TaskId(name, number) for number in self._store.tasks(name)}
        tasks |= {subject for subject in self._newest if isinstance(subject, TaskId) and subject.connector == name}
        if self.state(name) is not None:
            self.put(name, State.UNASSIGNED)
        for task in sorted(tasks):
            if self.state(task) is not None:
                self.put(task, State.UNASSIGNED)
            self._newest[task] = None
        self._newest[name] = None
        self._later(f"status of {name}", lambda: self._delete_connector(name))

    def forget_all(self) -> None:
        """Writes nothing more: another worker writes from now on, and only the topic counts."""
        self._newest.clear()
        self._never_ran.clear()
        self._term += 1

    def topic(self, connector: str, task: int, topic: str) -> None:
        """A task has written to a topic."""
        status = TopicStatus(topic, connector, task, int(time.time() * 1000))
        self._later(f"topic {topic} of {connector}", lambda: self._store.put_topic(status))

    def _queue(self, subject: Subject, status: Status) -> None:
        if isinstance(subject, TaskId):
            self._later(f"status of task {subject}", lambda: self._store.put_task(subject, status))
        else:
            self._later(f"status of {subject}", lambda: self._store.put_connector(subject, status))

    async def _delete_task(self, task: TaskId) -> None:
        await self._store.delete_task(task)
        await self._forgotten(task)

    async def _delete_connector(self, name: str) -> None:
        # All earlier writes must have been read back, or this worker would not know their keys, which would stay for ever.
        await self._store.refresh()
        tasks = [TaskId(name, number) for number in self._store.tasks(name)]
        await self._store.delete_connector(name)
        await self._forgotten(name, *tasks)

    async def _forgotten(self, *subjects: Subject) -> None:
        """From now on the topic itself shows that they no longer exist."""
        await self._store.refresh()
        for subject in subjects:
            if subject in self._newest and self._newest[subject] is None:
                del self._newest[subject]

    def _later(self, what: str, write: Callable[[], Awaitable[object]]) -> None:
        self._writes.put_nowait((self._term, what, write))

    async def _write_for_ever(self) -> None:
        while True:
            term, what, write = await self._writes.get()
            try:
                await self._until_written(term, what, write)
            except Exception:
                # A bug with one status must not stop the writes of all later ones.
                log.exception("Status topic: the %s was not written", what)
            finally:
                self._writes.task_done()

    async def _until_written(self, term: int, what: str, write: Callable[[], Awaitable[object]]) -> None:
        logged = False
        while term == self._term:
            try:
                await write()
                return
            except (ClusterUnreachable, NotAuthorized) as error:
                if not logged:
                    log.warning("Status topic: the %s cannot be written yet; trying again: %s", what, error)
                logged = True
                await asyncio.sleep(RETRY_S)
