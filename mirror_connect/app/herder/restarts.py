"""Restarts of connectors and tasks, and the answers to their callers."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mirror_connect.app.errors import (
    NoStatus,
    RestartOfUnknownConnector,
    StartFailed,
    TaskNotFound,
    TaskWithoutOwner,
    UnknownTask,
)
from mirror_connect.app.herder.config_writes import logged
from mirror_connect.app.herder.connector_reads import ConnectorReads
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.herder.starts import START_WAIT_S
from mirror_connect.app.herder.status_book import StatusBook, Subject
from mirror_connect.app.herder.views import ConnectorStatus, StateInfo
from mirror_connect.app.storage.config_records import RestartRequest
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

SEEN_WAIT_S: Final = 2.0


class Restarts:
    """See the module. The leader restarts. `standalone`: the answers are those of Connect's standalone mode."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        book: StatusBook,
        leadership: Leadership,
        reconciler: Reconciler,
        reads: ConnectorReads,
        standalone: bool = False,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._book = book
        self._leadership = leadership
        self._reconciler = reconciler
        self._reads = reads
        self._standalone = standalone

    async def connector(self, name: str) -> None:
        """Restarts the connector instance alone; StartFailed if it fails again."""
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(name):
                raise RestartOfUnknownConnector(name)
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
        """Restarts one task; StartFailed if it fails again."""
        task = TaskId(name, number)
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(name):
                raise RestartOfUnknownConnector(name)
            gone = number >= snapshot.task_count(name)
            if self._standalone and gone:
                raise TaskNotFound(task)
            if number not in snapshot.task_configs.get(name, {}):
                raise UnknownTask(name, number)
            if gone:
                raise TaskWithoutOwner
            runs = self._reconciler.expect(task)
            log.info("Task %s: restarted", task)
            self._reconciler.restart_task(task)
        await _until_started(runs, f"Failed to start task: {task}")


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
