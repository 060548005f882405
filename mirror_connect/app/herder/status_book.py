"""Writes statuses to the status topic: in order, by the table of moves, with retries while the cluster is unreachable.

Each worker writes the statuses of what it runs, and the leader those of what nobody runs. Others read the topic.

This worker's newest statuses are also kept here, because it reads them back milliseconds later. If a late record of another
worker replaces one of them, it is written again.
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
# What a worker may still write of something that another one runs by now. As in Connect, it must not hide a newer status: it
# waits until it would have heard that another one has it.
_YIELDING: Final = frozenset({State.UNASSIGNED, State.FAILED})


class StatusBook:
    """`worker_id` is host:port of the REST listener; `generation` returns the group's present generation."""

    def __init__(self, store: StatusStore, worker_id: str, generation: Callable[[], int]) -> None:
        self._store = store
        self._worker_id = worker_id
        self._generation = generation
        # The newest status from here. None: deleted, even if the topic still has a status.
        self._newest: dict[Subject, tuple[State, str | None] | None] = {}
        self._never_ran: set[Subject] = set()
        self._writes: asyncio.Queue[tuple[Callable[[], bool], str, Callable[[], Awaitable[object]]]] = asyncio.Queue()
        # Counts how often this worker has lost its place: what it had not written by then must not be written.
        self._term = 0
        # For the same reason, since when it has the status of a subject.
        self._since: dict[Subject, object] = {}
        # Statuses that are written whatever generation the topic has.
        self._insisting: set[Subject] = set()
        # Statuses of this worker that a record of another one has replaced.
        self._replaced: set[Subject] = set()
        self._writer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write, in the background; call it when the topic has been read."""
        self._store.add_listener(self._read)
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
        stored = self._stored(subject)
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
        self._queue(subject, state, trace)
        return True

    def put_vacant(self, subject: Subject, why: str) -> None:
        """As the leader: sets what nobody runs to UNASSIGNED, unless its owner tells something newer by then."""
        before = self._stored(subject)
        status = Status(State.UNASSIGNED.value, self._worker_id, self._generation(), why)

        async def write() -> None:
            if self._stored(subject) == before and subject not in self._newest:
                await self._put(subject, status)

        self._later(_what(subject), write)

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

    def let_go(self, subject: Subject) -> None:
        """Another worker may write this status from now on. What is not written yet is dropped.

        Not of what is deleted, until the topic shows it.
        """
        if self._newest.get(subject) is not None:
            del self._newest[subject]
            self._never_ran.discard(subject)
            self._since.pop(subject, None)

    def forgets(self, subject: Subject) -> bool:
        """Whether its status is being removed."""
        return subject in self._newest and self._newest[subject] is None

    def forget_all(self) -> None:
        """Writes nothing more: other workers write from now on, and only the topic counts."""
        self._newest.clear()
        self._never_ran.clear()
        self._since.clear()
        self._insisting.clear()
        self._term += 1

    def topic(self, connector: str, task: int, topic: str) -> None:
        """A task has written to a topic."""
        status = TopicStatus(topic, connector, task, int(time.time() * 1000))
        self._later(f"topic {topic} of {connector}", lambda: self._store.put_topic(status))

    def _queue(self, subject: Subject, state: State, trace: str | None) -> None:
        version = None if subject in self._never_ran else CONNECT_VERSION
        status = Status(state.value, self._worker_id, self._generation(), trace, version)
        since = self._since.setdefault(subject, object())

        async def write() -> None:
            if self._since.get(subject) is not since:
                return
            if state in _YIELDING and subject not in self._insisting and self._is_anothers(subject):
                asyncio.get_running_loop().call_later(RETRY_S, self._insist, subject, since)
            else:
                self._insisting.discard(subject)
                await self._put(subject, status)

        self._later(_what(subject), write)

    def _insist(self, subject: Subject, since: object) -> None:
        """Nobody has taken it from this worker meanwhile, so a generation that looks newer is of a group that was lost."""
        newest = self._newest.get(subject)
        if self._since.get(subject) is since and newest is not None:
            self._insisting.add(subject)
            self._queue(subject, *newest)

    def _is_anothers(self, subject: Subject) -> bool:
        stored = self._stored(subject)
        if stored is None or stored.worker_id == self._worker_id:
            return False
        return stored.generation > self._generation()

    def _stored(self, subject: Subject) -> Status | None:
        return self._store.task(subject) if isinstance(subject, TaskId) else self._store.connector(subject)

    async def _put(self, subject: Subject, status: Status) -> None:
        if isinstance(subject, TaskId):
            await self._store.put_task(subject, status)
        else:
            await self._store.put_connector(subject, status)

    def _read(self, subject: Subject, status: Status | None) -> None:
        """A record of the topic. What this worker runs has no status but its own: a former owner may write late."""
        if status is not None and status.worker_id == self._worker_id:
            self._replaced.discard(subject)
        elif self._newest.get(subject) is not None and subject not in self._replaced:
            self._replaced.add(subject)
            # Not at once: a newer one may be on its way, and two groups on one topic must not write without end.
            asyncio.get_running_loop().call_later(RETRY_S, self._replace, subject)

    def _replace(self, subject: Subject) -> None:
        newest = self._newest.get(subject)
        if subject in self._replaced and newest is not None:
            self._queue(subject, *newest)
        self._replaced.discard(subject)

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
        term = self._term
        self._writes.put_nowait((lambda: term == self._term, what, write))

    async def _write_for_ever(self) -> None:
        while True:
            counts, what, write = await self._writes.get()
            try:
                await self._until_written(counts, what, write)
            except Exception:
                # A bug with one status must not stop the writes of all later ones.
                log.exception("Status topic: the %s was not written", what)
            finally:
                self._writes.task_done()

    async def _until_written(
        self, counts: Callable[[], bool], what: str, write: Callable[[], Awaitable[object]]
    ) -> None:
        logged = False
        while counts():
            try:
                await write()
                return
            except (ClusterUnreachable, NotAuthorized) as error:
                if not logged:
                    log.warning("Status topic: the %s cannot be written yet; trying again: %s", what, error)
                logged = True
                await asyncio.sleep(RETRY_S)


def _what(subject: Subject) -> str:
    return f"status of {'task ' if isinstance(subject, TaskId) else ''}{subject}"
