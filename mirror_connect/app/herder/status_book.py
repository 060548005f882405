"""Statuses on their way to the status topic: in order, through the table of moves, again if the cluster is away.

The topic is what others read; what this worker said last is remembered here, because its own words come back only
milliseconds later.
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
    """`worker_id` is host:port of the REST listener; `generation` tells the group's generation of the moment."""

    def __init__(self, store: StatusStore, worker_id: str, generation: Callable[[], int]) -> None:
        self._store = store
        self._worker_id = worker_id
        self._generation = generation
        # None: said to be no more, whatever the topic still has.
        self._said: dict[Subject, tuple[State, str | None] | None] = {}
        self._writes: asyncio.Queue[tuple[int, str, Callable[[], Awaitable[object]]]] = asyncio.Queue()
        # Which of this worker's times as the leader it is: what is left of an earlier one must not be written.
        self._term = 0
        self._writer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write, in the background."""
        self._writer = asyncio.create_task(self._write_for_ever())

    async def flush(self, patience_s: float) -> bool:
        """Waits until all that was said is written; False if that took too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._writes.join()
            return True
        return False

    async def seen(self, patience_s: float) -> None:
        """Waits until readers see what was said, or until that took too long."""
        with contextlib.suppress(TimeoutError, ClusterUnreachable, NotAuthorized):
            async with asyncio.timeout(patience_s):
                await self._writes.join()
                await self._store.refresh()

    async def stop(self) -> None:
        """Stops writing; what is not written yet is lost."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def state(self, subject: Subject) -> State | None:
        """The last state of a connector (by name) or task, as said here or else as the topic has it."""
        if subject in self._said:
            said = self._said[subject]
            return said[0] if said is not None else None
        stored = self._store.task(subject) if isinstance(subject, TaskId) else self._store.connector(subject)
        try:
            return State(stored.state) if stored is not None else None
        except ValueError:
            return None

    def shown(self, task: TaskId, stored: Status) -> Status:
        """A task's status for people, where the topic has `stored`.

        What this worker said of a task that waits may not have come back yet, or readers take it for older than another
        worker's RUNNING: generations begin anew when the group's coordinator has lost them.
        """
        said = self._said.get(task)
        if said is None or said[0] is not State.UNASSIGNED or stored.state != State.RUNNING:
            return stored
        return Status(said[0].value, self._worker_id, self._generation(), said[1], CONNECT_VERSION)

    def say(self, subject: Subject, state: State, trace: str | None = None) -> bool:
        """Moves a connector or task to a state; False (and nothing is written) if the table has no such move."""
        before = self.state(subject)
        if before is state:
            if self._said.get(subject) == (state, trace):
                return True
        else:
            try:
                move(before, state)
            except IllegalMove as illegal:
                log.debug("%s: %s", subject, illegal)
                return False
        self._said[subject] = (state, trace)
        # A task whose start failed has no version, in Connect too.
        version = None if isinstance(subject, TaskId) and state is State.FAILED else CONNECT_VERSION
        status = Status(state.value, self._worker_id, self._generation(), trace, version)
        self._put(subject, status)
        return True

    def forget_task(self, task: TaskId) -> None:
        """Says UNASSIGNED, then removes the status: the task is no more."""
        self.say(task, State.UNASSIGNED)
        self._said[task] = None
        self._later(f"status of task {task}", lambda: self._delete_task(task))

    def forget_connector(self, name: str) -> None:
        """Says UNASSIGNED of a deleted connector and its tasks, then removes them and their topics."""
        tasks = {TaskId(name, number) for number in self._store.tasks(name)}
        tasks |= {subject for subject in self._said if isinstance(subject, TaskId) and subject.connector == name}
        if self.state(name) is not None:
            self.say(name, State.UNASSIGNED)
        for task in sorted(tasks):
            if self.state(task) is not None:
                self.say(task, State.UNASSIGNED)
            self._said[task] = None
        self._said[name] = None
        self._later(f"status of {name}", lambda: self._delete_connector(name))

    def forget_all(self) -> None:
        """Another worker speaks from now on: the topic alone counts, and nothing more is written to it."""
        self._said.clear()
        self._term += 1

    def topic(self, connector: str, task: int, topic: str) -> None:
        """A task has written to a topic."""
        status = TopicStatus(topic, connector, task, int(time.time() * 1000))
        self._later(f"topic {topic} of {connector}", lambda: self._store.put_topic(status))

    def _put(self, subject: Subject, status: Status) -> None:
        if isinstance(subject, TaskId):
            self._later(f"status of task {subject}", lambda: self._store.put_task(subject, status))
        else:
            self._later(f"status of {subject}", lambda: self._store.put_connector(subject, status))

    async def _delete_task(self, task: TaskId) -> None:
        await self._store.delete_task(task)
        await self._forgotten(task)

    async def _delete_connector(self, name: str) -> None:
        # What was said before must have come back, or its keys would not be known and stay for ever.
        await self._store.refresh()
        tasks = [TaskId(name, number) for number in self._store.tasks(name)]
        await self._store.delete_connector(name)
        await self._forgotten(name, *tasks)

    async def _forgotten(self, *subjects: Subject) -> None:
        """From here on the topic says itself that they are no more."""
        await self._store.refresh()
        for subject in subjects:
            if subject in self._said and self._said[subject] is None:
                del self._said[subject]

    def _later(self, what: str, write: Callable[[], Awaitable[object]]) -> None:
        self._writes.put_nowait((self._term, what, write))

    async def _write_for_ever(self) -> None:
        while True:
            term, what, write = await self._writes.get()
            try:
                await self._until_written(term, what, write)
            except Exception:
                # A mistake with one status must not keep all later ones from the topic.
                log.exception("Status topic: the %s was not written", what)
            finally:
                self._writes.task_done()

    async def _until_written(self, term: int, what: str, write: Callable[[], Awaitable[object]]) -> None:
        told = False
        while term == self._term:
            try:
                await write()
                return
            except (ClusterUnreachable, NotAuthorized) as error:
                if not told:
                    log.warning("Status topic: the %s can't be written yet and is tried again: %s", what, error)
                told = True
                await asyncio.sleep(RETRY_S)
