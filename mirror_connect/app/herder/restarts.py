"""Restarts of connectors and tasks, and the answers to their callers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mirror_connect.app.errors import (
    NoStatus,
    NotAssigned,
    RestartOfUnknownConnector,
    StartFailed,
    TaskNotFound,
    TaskWithoutOwner,
    UnknownTask,
)
from mirror_connect.app.herder.config_writes import logged
from mirror_connect.app.herder.connector_reads import ConnectorReads
from mirror_connect.app.herder.interfaces import Membership
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.herder.starts import START_WAIT_S
from mirror_connect.app.herder.status_book import StatusBook, Subject
from mirror_connect.app.herder.views import ConnectorStatus, StateInfo
from mirror_connect.app.storage.config_records import RestartRequest
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

SEEN_WAIT_S: Final = 2.0
# A connector or task that is new, or moves between workers, has no owner for a moment.
ASSIGNED_WAIT_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.05


class Restarts:
    """See the module. `standalone`: the answers are those of Connect's standalone mode.

    Whoever runs a single connector or task restarts it; `worker_id` is this worker. A request with parameters is a record of
    the leader, which each worker carries out for what it runs.
    """

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        book: StatusBook,
        leadership: Leadership,
        reconciler: Reconciler,
        reads: ConnectorReads,
        membership: Membership,
        worker_id: str,
        standalone: bool = False,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._book = book
        self._leadership = leadership
        self._reconciler = reconciler
        self._reads = reads
        self._membership = membership
        self._worker_id = worker_id
        self._standalone = standalone

    async def connector(self, name: str) -> None:
        """Restarts the connector instance alone; StartFailed if it fails again. NotLeader, NotAssigned."""
        await self._until_here(name, lambda snapshot: _check_connector(name, snapshot))
        runs = self._reconciler.expect(name)
        log.info("Connector %s: restarted, without its tasks", ConnectorName(name))
        self._reconciler.restart_connector(name)
        await _until_started(runs, f"Failed to start connector: {name}")

    async def connector_and_tasks(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restarts the instance and its tasks, or only the failed ones; the answer names what is restarted."""
        request = RestartRequest(name, include_tasks, only_failed)
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(name):
                raise RestartOfUnknownConnector(name)
            if self._statuses.connector(name) is None:
                raise NoStatus(name)
            plan = RestartPlan.of(request, snapshot, self._book)
            now = await self._reads.status(name)
            with logged(name, _restart_words(plan, only_failed=only_failed)):
                await self._configs.put_restart_request(request)
        # A caller that reads RESTARTING here and then requests the status must not read the old FAILED.
        await self._book.seen(SEEN_WAIT_S)
        restarting: set[Subject] = {*plan.tasks, *([name] if plan.connector else [])}
        tasks = {
            number: _restarting(state) if TaskId(name, number) in restarting else state
            for number, state in now.tasks.items()
        }
        connector = _restarting(now.connector) if name in restarting else now.connector
        return ConnectorStatus(name, connector, tasks, now.type)

    async def task(self, name: str, number: int) -> None:
        """Restarts one task; StartFailed if it fails again. NotLeader, NotAssigned."""
        task = TaskId(name, number)
        await self._until_here(task, lambda snapshot: self._check_task(task, snapshot))
        runs = self._reconciler.expect(task)
        log.info("Task %s: restarted", task)
        self._reconciler.restart_task(task)
        await _until_started(runs, f"Failed to start task: {task}")

    async def _until_here(self, subject: Subject, check: Callable[[ConfigSnapshot], None]) -> None:
        """Returns if this worker runs it. `check` raises if there is no such thing.

        A worker that does not run it asks the leader, and the leader whoever runs it, as in Connect.
        """
        await self._leadership.until_ready()
        until = asyncio.get_running_loop().time() + ASSIGNED_WAIT_S
        while not self._reconciler.has(subject):
            async with self._leadership.writing() as snapshot:
                check(snapshot)
            owner = self._owner(subject)
            if owner is not None or asyncio.get_running_loop().time() > until:
                raise NotAssigned(owner)
            # The group is about to assign it, or it is this worker's in a moment.
            await asyncio.sleep(_LOOK_EVERY_S)
        check(self._configs.snapshot())

    def _owner(self, subject: Subject) -> str | None:
        """The URL of the other worker that runs it."""
        for each in self._membership.assignment.workers:
            runs = subject in each.tasks if isinstance(subject, TaskId) else subject in each.connectors
            if runs and each.worker_id != self._worker_id:
                return each.url
        return None

    def _check_task(self, task: TaskId, snapshot: ConfigSnapshot) -> None:
        _check_connector(task.connector, snapshot)
        gone = task.task >= snapshot.task_count(task.connector)
        if self._standalone and gone:
            raise TaskNotFound(task)
        if task.task not in snapshot.task_configs.get(task.connector, {}):
            raise UnknownTask(task.connector, task.task)
        if gone:
            raise TaskWithoutOwner


def _check_connector(name: str, snapshot: ConfigSnapshot) -> None:
    if not snapshot.contains(name):
        raise RestartOfUnknownConnector(name)


async def _until_started(runs: asyncio.Future[bool], failure: str) -> None:
    try:
        async with asyncio.timeout(START_WAIT_S):
            if await runs:
                return
    except TimeoutError:
        # The start is still in progress, for example because a cluster does not answer; the status shows it.
        return
    raise StartFailed(failure)


def _restart_words(plan: RestartPlan, *, only_failed: bool) -> str:
    subjects = [*(["the connector"] if plan.connector else []), *(f"task {task}" for task in plan.tasks)]
    if not subjects:
        return "nothing to restart, as nothing has failed"
    return f"restarted {'what has failed: ' if only_failed else ''}{', '.join(subjects)}"


def _restarting(state: StateInfo) -> StateInfo:
    """RESTARTING, with the trace of FAILED as in Connect's answer; our other traces are about states that are over."""
    trace = state.trace if state.state == State.FAILED else None
    return StateInfo(State.RESTARTING, state.worker_id, state.version, trace)
