"""What the leader of the group decides besides configs: what should run, and the statuses of what nobody runs.

Who runs what is the group's matter (interfaces.py: GroupWork). The leader tells it what the config topic asks for. Each
worker writes the statuses of what it runs. The leader writes those of what is deleted, and of what a lost worker has left.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

from mirror_connect.app.herder.interfaces import GroupAssignment, LostMember, Membership, WantedWork
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.status_book import StatusBook, Subject
from mirror_connect.app.storage.config_view import Change, ConnectorRemoved, ConnectorUpdated, TasksUpdated
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import Status, StatusStore
from mirror_connect.connectors.clock import boot_clock, utc
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

# Nothing is known of the config topic yet.
UNREAD: Final = WantedWork({}, -1)
GIVEN_UP: Final = "Its worker has stopped. Another worker of the group takes over, or the next one that starts."


class Leader:
    """See the module. It follows the config topic on every worker, and acts while this one leads."""

    def __init__(self, configs: ConfigStore, statuses: StatusStore, book: StatusBook, membership: Membership) -> None:
        self._configs = configs
        self._statuses = statuses
        self._book = book
        self._membership = membership
        self._leading = False
        self._listening = False
        # What the group was told last.
        self._told: Mapping[str, int] = {}

    @property
    def leading(self) -> bool:
        """Whether this worker has taken the lead over: it knows all that the leader before it wrote."""
        return self._leading

    def start(self) -> None:
        """Begins to listen; call it once, when the topics have been read, and before others listen to configs."""
        self._listening = True
        self._configs.add_listener(self._changed)
        self._statuses.add_listener(self._read)

    def begin(self) -> None:
        """This worker leads, and has read what former leaders wrote."""
        self._leading = True
        self._forget_deleted()
        if self._wanted() != self._told:
            self._membership.rejoin()

    def end(self) -> None:
        """Another worker may lead now."""
        self._leading = False

    def wanted(self) -> WantedWork:
        """See GroupWork."""
        if not self._listening:
            return UNREAD
        self._told = self._wanted()
        return WantedWork(self._told, self._configs.snapshot().offset)

    def assigned(self, assignment: GroupAssignment) -> None:
        """The group has a new assignment: what nobody has must not look as if it ran."""
        if not (self._leading and assignment.leader):
            return
        self._forget_deleted()
        members = {worker.worker_id for worker in assignment.workers}
        if not members:
            return  # this worker is alone, and has everything
        given: set[Subject] = set()
        for worker in assignment.workers:
            given |= worker.connectors | worker.tasks
        lost = {each.worker_id: each for each in assignment.lost}
        for subject, status in self._all_statuses():
            vacant = subject not in given and status.state not in (State.UNASSIGNED, State.FAILED)
            if vacant and status.worker_id not in members:
                self._book.put_vacant(subject, _why_vacant(status.worker_id, lost.get(status.worker_id)))

    def give_up(self) -> None:
        """Shutdown of the last worker: sets everything with a status to UNASSIGNED, as nobody runs it."""
        snapshot = self._configs.snapshot()
        for name in snapshot.connectors:
            known = {*range(snapshot.task_count(name)), *self._statuses.tasks(name)}
            subjects: list[Subject] = [name, *(TaskId(name, number) for number in sorted(known))]
            for subject in subjects:
                if self._book.state(subject) is not None:
                    self._book.put(subject, State.UNASSIGNED, GIVEN_UP)

    def _wanted(self) -> dict[str, int]:
        snapshot = self._configs.snapshot()
        return {name: snapshot.task_count(name) for name in snapshot.connectors}

    def _changed(self, change: Change) -> None:
        if not self._leading:
            return
        if isinstance(change, ConnectorRemoved):
            self._book.forget_connector(change.connector)
        if isinstance(change, ConnectorRemoved | ConnectorUpdated | TasksUpdated):
            snapshot, name = self._configs.snapshot(), change.connector
            wanted = snapshot.task_count(name) if snapshot.contains(name) else None
            if wanted != self._told.get(name):
                self._membership.rejoin()

    def _read(self, subject: Subject, status: Status | None) -> None:
        """A worker may write a status late, when its connector is deleted already."""
        name = subject.connector if isinstance(subject, TaskId) else subject
        if not self._leading or status is None or self._configs.snapshot().contains(name):
            return
        if not self._book.forgets(name):
            self._book.forget_connector(name)

    def _forget_deleted(self) -> None:
        """Removes statuses of connectors and tasks that are no more, whoever had them."""
        snapshot = self._configs.snapshot()
        for name in self._statuses.connectors() - set(snapshot.connectors):
            if not self._book.forgets(name):
                self._book.forget_connector(name)
        for name in snapshot.connectors:
            for number in self._statuses.tasks(name):
                task = TaskId(name, number)
                if number >= snapshot.task_count(name) and self._book.state(task) is not None and not self._runs(task):
                    self._book.forget_task(task)

    def _runs(self, task: TaskId) -> bool:
        assignment = self._membership.assignment
        return any(task in worker.tasks for worker in assignment.workers)

    def _all_statuses(self) -> list[tuple[Subject, Status]]:
        found: list[tuple[Subject, Status]] = []
        for name in self._configs.snapshot().connectors:
            if (status := self._statuses.connector(name)) is not None:
                found.append((name, status))
            found.extend((TaskId(name, number), status) for number, status in self._statuses.tasks(name).items())
        return found


def _why_vacant(worker_id: str, lost: LostMember | None) -> str:
    if lost is None:
        return f"Its worker {worker_id} is no longer in the group. Another worker takes it over."
    when = utc(time.time() - (boot_clock() - lost.lost_at))
    return (
        f"Its worker {worker_id} has left the group by {when}: it stopped, or sent no heartbeat within its "
        "session.timeout.ms. Another worker takes it over."
    )
