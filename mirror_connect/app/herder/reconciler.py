"""Starts and stops connectors and tasks as the config topic asks, while this worker leads; writes their statuses.

Everything here runs at once on the event loop; only task configs are written under the herder's lock. Changes come only from
the config topic, this worker's own changes too: a change that is not written has no effect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.interfaces import ConnectorFactory, Resolver, Supervisor
from mirror_connect.app.herder.lifecycle import State, TargetState
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.herder.running_connectors import RunningConnectors
from mirror_connect.app.herder.status_book import StatusBook, Subject
from mirror_connect.app.herder.views import set_values
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.storage.config_records import RestartRequest
from mirror_connect.app.storage.config_view import (
    Change,
    ConfigSnapshot,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateChanged,
    TasksUpdated,
)
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.supervisor.interfaces import STARTING, WantedTask
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.verified_records import VerifiedRecords

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
# Why a connector or task is UNASSIGNED, for its trace, until there is a newer reason.
TAKEN_OVER: Final = "This worker is taking it over."
RECONFIGURED: Final = "It is being started with its changed config."
RESTARTED: Final = "It is being restarted."
GIVEN_UP: Final = "Its worker has stopped. Another worker of the group takes over, or the next one that starts."


class Reconciler:
    """Receives ConnectorEvents and TaskEvents. `turn` is the lock that writers of configs hold.

    `alone`: there is no group.
    """

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        book: StatusBook,
        supervisor: Supervisor,
        new_connector: ConnectorFactory,
        resolver: Resolver,
        notices: ConfigNotices,
        turn: asyncio.Lock,
        track_topics: bool = True,
        alone: bool = False,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._book = book
        self._supervisor = supervisor
        self._connectors = RunningConnectors(new_connector, resolver, self, notices)
        self._turn = turn
        self._track_topics = track_topics
        self._alone = alone
        self._metrics = metrics or WorkerMetrics()
        self._wanted: dict[TaskId, WantedTask] = {}
        # Tasks that may still write: wanted ones that have not failed, and others until they have ended.
        self._live: set[TaskId] = set()
        self._newest_tasks: dict[str, Sequence[Mapping[str, str]]] = {}
        self._waiting: dict[Subject, list[asyncio.Future[bool]]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._storing: dict[str, asyncio.Task[None]] = {}
        self._leading = False

    @property
    def leading(self) -> bool:
        """Whether this worker has taken everything over."""
        return self._leading

    def start(self) -> None:
        """Begins to listen; call it once, when the config topic has been read."""
        self._supervisor.listen(self)
        self._configs.add_listener(self._changed)

    def lead(self) -> None:
        """Takes over everything in the config topic. Call it when this worker leads and has read the topic to its end."""
        snapshot = self._configs.snapshot()
        self._leading = True
        count = len(snapshot.connectors)
        what = f"runs its {count} connector{'' if count == 1 else 's'}" if count else "has no connectors to run yet"
        if not self._alone:
            log.info("This worker leads its group and %s", what)
        for name in self._statuses.connectors() - set(snapshot.connectors):
            self._book.forget_connector(name)
        for name in snapshot.connectors:
            try:
                self._take_over(name, snapshot)
            except Exception as error:
                # Only this connector fails: the others run.
                log.exception("Connector %s can't be taken over", ConnectorName(name))
                self.connector_failed(name, f"{type(error).__name__}: {error}")
        self._want_all()

    async def retire(self) -> None:
        """Stops everything that runs here, because this worker no longer leads. Writes no statuses."""
        self._leading = False
        self._newest_tasks.clear()
        self._live.clear()
        self._wanted = {}
        self._supervisor.retire()
        self._book.forget_all()
        await self._connectors.stop_all()

    def secrets(self) -> frozenset[str]:
        """The secrets of the connectors that run in this worker."""
        return self._connectors.secrets()

    async def stop_connectors(self) -> None:
        """Shutdown, first half: stops connectors. Tasks may still be ending."""
        await self._connectors.stop_all()
        for task in list(self._background):
            task.cancel()

    def give_up_all(self) -> None:
        """Shutdown, second half: sets everything with a status to UNASSIGNED. Call it when no task of the group runs."""
        self._leading = False
        snapshot = self._configs.snapshot()
        for name in snapshot.connectors:
            known = {*range(snapshot.task_count(name)), *self._statuses.tasks(name)}
            subjects: list[Subject] = [name, *(TaskId(name, number) for number in sorted(known))]
            for subject in subjects:
                if self._book.state(subject) is not None:
                    self._book.put(subject, State.UNASSIGNED, GIVEN_UP)

    def expect(self, subject: Subject) -> asyncio.Future[bool]:
        """A future: true when the connector or task runs next, false when it fails."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, []).append(future)
        return future

    async def tasks_stored(self, name: str) -> None:
        """Waits until the task configs that a connector has asked for are written."""
        if (storing := self._storing.get(name)) is not None:
            await asyncio.wait({storing})

    def may_write(self, name: str) -> bool:
        """Whether a task of this connector may still write records and source offsets, wanted or not."""
        return any(task.connector == name for task in self._live)

    def restart_connector(self, name: str, *, announced: bool = False) -> None:
        """Starts a connector instance again, if its target state lets it run."""
        snapshot = self._configs.snapshot()
        self._book.put(name, State.UNASSIGNED, RESTARTED)
        if announced:
            self._book.put(name, State.RESTARTING)
        self._begin(name, snapshot)

    def restart_task(self, task: TaskId, *, announced: bool = False) -> None:
        """Starts a task again; a task of a paused connector stays paused."""
        self._book.put(task, State.UNASSIGNED, RESTARTED)
        if announced:
            self._book.put(task, State.RESTARTING)
        if task in self._wanted:
            self._live.add(task)
            self._supervisor.restart(task)
        else:
            self._book.put(task, State.PAUSED)
            self._answer(task, True)

    # --- the config topic -------------------------------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        if not self._leading:
            return
        match change:
            case ConnectorUpdated(name):
                self._connector_updated(name)
            case ConnectorRemoved(name):
                self._newest_tasks.pop(name, None)
                self._storing.pop(name, None)
                self._connectors.stop(name)
                self._book.forget_connector(name)
                self._want_all()
            case TargetStateChanged(name):
                self._target_changed(name)
            case TasksUpdated(name):
                if name in self._configs.snapshot().inconsistent:
                    self._begin(name, self._configs.snapshot())
                self._want_all()
            case RestartRequest():
                self._restart(change)

    def _connector_updated(self, name: str) -> None:
        if self._book.state(name) is not None:
            self._book.put(name, State.UNASSIGNED, RECONFIGURED)
        self._begin(name, self._configs.snapshot())

    def _target_changed(self, name: str) -> None:
        snapshot = self._configs.snapshot()
        if not snapshot.contains(name):
            # An initial state, which is written before the connector.
            return
        failed = self._book.state(name) is State.FAILED
        if not failed or snapshot.target_state(name) == TargetState.STOPPED:
            self._begin(name, snapshot)
        self._want_all()

    def _take_over(self, name: str, snapshot: ConfigSnapshot) -> None:
        tasks = set(self._statuses.tasks(name))
        for number in sorted(tasks):
            if number >= snapshot.task_count(name):
                self._book.forget_task(TaskId(name, number))
            else:
                self._book.put(TaskId(name, number), State.UNASSIGNED, TAKEN_OVER)
        if self._book.state(name) is not None:
            self._book.put(name, State.UNASSIGNED, TAKEN_OVER)
        self._begin(name, snapshot)
        if snapshot.target_state(name) == TargetState.PAUSED:
            for number in range(snapshot.task_count(name)):
                self._book.put(TaskId(name, number), State.PAUSED)

    def _begin(self, name: str, snapshot: ConfigSnapshot) -> None:
        """Brings a connector instance to its target state."""
        match snapshot.target_state(name):
            case TargetState.STARTED:
                self._connectors.start(name, set_values(snapshot.connectors[name]))
            case TargetState.PAUSED:
                self._connectors.stop(name)
                self._book.put(name, State.PAUSED)
                self._answer(name, True)
            case TargetState.STOPPED:
                self._connectors.stop(name)
                self._book.put(name, State.STOPPED)
                self._answer(name, True)

    def _restart(self, request: RestartRequest) -> None:
        snapshot = self._configs.snapshot()
        plan = RestartPlan.of(request, snapshot, self._book)
        for task in plan.tasks:
            self.restart_task(task, announced=True)
        if plan.connector:
            self.restart_connector(request.connector, announced=True)

    def _want_all(self) -> None:
        """Gives the supervisor all tasks that should run now, and settles those that should not run any more."""
        snapshot = self._configs.snapshot()
        wanted = {
            TaskId(name, number): WantedTask(set_values(config))
            for name in snapshot.connectors
            if snapshot.target_state(name) == TargetState.STARTED
            for number, config in enumerate(snapshot.tasks(name))
        }
        before, self._wanted = self._wanted, wanted
        for task, now in wanted.items():
            if self._book.state(task) is None:
                # REST shows it from now on, however long it takes until it runs.
                self._book.put(task, State.UNASSIGNED, STARTING)
            then = before.get(task)
            failed = self._book.state(task) is State.FAILED
            if then is not None and (now.identity != then.identity or (failed and now != then)):
                self._book.put(task, State.UNASSIGNED, RECONFIGURED)
                self._live.add(task)
            elif then is None and not failed:
                self._live.add(task)
            elif then is None:
                # It had failed, and was paused and resumed since: the supervisor tries it again.
                self._book.put(task, State.UNASSIGNED, STARTING)
                self._live.add(task)
        self._supervisor.want(wanted)
        gone = (before.keys() - wanted.keys()) | {
            TaskId(name, number)
            for name in snapshot.connectors
            for number in self._statuses.tasks(name)
            if number >= snapshot.task_count(name)
        }
        for task in sorted(gone - self._live):
            self._settle(task)

    def _settle(self, task: TaskId) -> None:
        """Writes the status of a task that no longer runs: paused, or deleted."""
        snapshot = self._configs.snapshot()
        if task.task >= snapshot.task_count(task.connector) or not snapshot.contains(task.connector):
            if self._book.state(task) is not None:
                self._book.forget_task(task)
        elif snapshot.target_state(task.connector) == TargetState.PAUSED:
            self._book.put(task, State.PAUSED)
        elif snapshot.target_state(task.connector) == TargetState.STOPPED:
            self._book.forget_task(task)
        else:
            self._book.put(task, State.UNASSIGNED)

    # --- ConnectorEvents --------------------------------------------------------------------------------------------

    def connector_started(self, name: str) -> None:
        """See ConnectorEvents."""
        if self._leading:
            if self._book.state(name) is not State.RUNNING:
                log.info("Connector %s is RUNNING", ConnectorName(name))
            self._book.put(name, State.RUNNING)
            self._answer(name, True)

    def connector_failed(self, name: str, trace: str) -> None:
        """See ConnectorEvents."""
        if self._leading:
            log.error("Connector %s is FAILED: %s", ConnectorName(name), (trace.splitlines() or [""])[0])
            self._book.put(name, State.FAILED, trace if trace.endswith("\n") else trace + "\n")
            self._answer(name, False)

    def connector_problem(self, name: str, line: str | None) -> None:
        """See ConnectorEvents. REST shows the line as the trace of the connector's present state."""
        if not self._leading:
            return
        state = self._book.state(name)
        if state is not State.FAILED:
            self._book.put(name, state or State.UNASSIGNED, line)

    def connector_problems(self, name: str, problems: Sequence[Problem], secrets: Collection[str]) -> None:
        """See ConnectorEvents."""
        self._metrics.connector_problems(name, problems, secrets)

    def connector_verified(self, name: str, verified: VerifiedRecords | None) -> None:
        """See ConnectorEvents."""
        self._metrics.connector_verified(name, verified)

    def task_configs_changed(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """See ConnectorEvents."""
        if self._leading:
            self._newest_tasks[name] = task_configs
            task = asyncio.create_task(self._store_tasks(name, task_configs))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
            self._storing[name] = task

    async def _store_tasks(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """Writes task configs if they differ from those in force; retries until they are written or outdated."""
        while True:
            async with self._turn:
                snapshot = self._configs.snapshot()
                outdated = self._newest_tasks.get(name) is not task_configs or name not in self._connectors.names()
                if not self._leading or outdated or snapshot.target_state(name) != TargetState.STARTED:
                    return
                if not tasks_changed(snapshot, name, task_configs):
                    return
                try:
                    if not self._configs.claimed:
                        await self._configs.claim()
                        continue  # another leader may have written meanwhile
                    await self._configs.put_task_configs(name, task_configs)
                    return
                except (ClusterUnreachable, NotAuthorized) as error:
                    log.warning(
                        "The task configs of connector %s cannot be written yet; trying again: %s",
                        ConnectorName(name),
                        error,
                    )
            await asyncio.sleep(RETRY_S)

    # --- TaskEvents -------------------------------------------------------------------------------------------------

    def task_state(self, task: TaskId, state: str, trace: str | None) -> None:
        """See TaskEvents."""
        if not self._leading or task not in self._wanted:
            return
        if state == State.UNASSIGNED and self._book.state(task) is State.RESTARTING:
            state = State.RESTARTING
        self._book.put(task, State(state), trace)
        if state == State.FAILED:
            self._live.discard(task)
            self._answer(task, False)
        elif state == State.RUNNING:
            self._live.add(task)
            self._answer(task, True)

    def task_ended(self, task: TaskId) -> None:
        """See TaskEvents."""
        self._live.discard(task)
        if self._leading and task not in self._wanted:
            self._settle(task)

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        """See TaskEvents."""
        if self._leading and self._track_topics and self._configs.snapshot().contains(task.connector):
            for topic in topics:
                self._book.topic(task.connector, task.task, topic)

    def _answer(self, subject: Subject, runs: bool) -> None:
        for future in self._waiting.pop(subject, []):
            if not future.done():
                future.set_result(runs)


def tasks_changed(snapshot: ConfigSnapshot, name: str, task_configs: Sequence[Mapping[str, str]]) -> bool:
    """Whether the task configs differ, or the connector config is another one than at their commit: Connect's rule."""
    if name in snapshot.inconsistent or snapshot.applied_configs.get(name) != snapshot.connectors.get(name):
        return True
    return [dict(config) for config in snapshot.tasks(name)] != [dict(config) for config in task_configs]
