"""Makes what runs equal to what the config topic asks for, while this worker leads; tells the status topic what is.

Everything here happens on the event loop and at once, except that task configs are written in the herder's turn. Changes
come from the config topic only, this worker's own too: what is not written is not done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.interfaces import PartFactory, Resolver, Supervisor
from mirror_connect.app.herder.lifecycle import State, TargetState
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.herder.running_parts import RunningParts
from mirror_connect.app.herder.status_book import StatusBook, Subject
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
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
# Why something is UNASSIGNED, for its trace, until the next that is known of it.
TAKEN_OVER: Final = "It is being taken over by this worker."
RECONFIGURED: Final = "It is being started with its changed config."
RESTARTED: Final = "It is being restarted."
GIVEN_UP: Final = "Its worker has stopped; another worker of its group takes it over, or the next one that is started."


class Reconciler:
    """PartHost of the connector parts and TaskEvents of the supervisor. `turn` is held by whoever writes configs."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        book: StatusBook,
        supervisor: Supervisor,
        make_part: PartFactory,
        resolver: Resolver,
        notices: ConfigNotices,
        turn: asyncio.Lock,
        track_topics: bool = True,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._book = book
        self._supervisor = supervisor
        self._parts = RunningParts(make_part, resolver, self, notices)
        self._turn = turn
        self._track_topics = track_topics
        self._wanted: dict[TaskId, WantedTask] = {}
        # Tasks that may still write: wanted, and neither failed nor told to be over.
        self._live: set[TaskId] = set()
        self._newest_tasks: dict[str, Sequence[Mapping[str, str]]] = {}
        self._waiting: dict[Subject, list[asyncio.Future[bool]]] = {}
        self._background: set[asyncio.Task[None]] = set()
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
        """Takes over everything in the config topic, which has been read to its end after leadership was gained."""
        snapshot = self._configs.snapshot()
        self._leading = True
        count = len(snapshot.connectors)
        what = f"runs its {count} connector{'' if count == 1 else 's'}" if count else "has no connectors to run yet"
        log.info("This worker leads its group and %s", what)
        for name in self._statuses.connectors() - set(snapshot.connectors):
            self._book.forget_connector(name)
        for name in snapshot.connectors:
            try:
                self._take_over(name, snapshot)
            except Exception as error:
                # One that can't be taken over is its own trouble alone: the others run.
                log.exception("Connector %s can't be taken over", name)
                self.failed(name, f"{type(error).__name__}: {error}")
        self._want_all()

    async def retire(self) -> None:
        """Stops what runs here, because another worker leads from now on or none at all. Says nothing of it."""
        self._leading = False
        self._newest_tasks.clear()
        self._live.clear()
        self._wanted = {}
        self._supervisor.retire()
        self._book.forget_all()
        await self._parts.stop_all()

    def secrets(self) -> frozenset[str]:
        """The secrets of the connectors that run in this worker."""
        return self._parts.secrets()

    async def end_parts(self) -> None:
        """Shutdown, first half: connectors are stopped, tasks may still be ending."""
        await self._parts.stop_all()
        for task in list(self._background):
            task.cancel()

    def give_up_all(self) -> None:
        """Shutdown, second half, when no task of the group runs any more: everything that has a status is UNASSIGNED."""
        self._leading = False
        snapshot = self._configs.snapshot()
        for name in snapshot.connectors:
            known = {*range(snapshot.task_count(name)), *self._statuses.tasks(name)}
            subjects: list[Subject] = [name, *(TaskId(name, number) for number in sorted(known))]
            for subject in subjects:
                if self._book.state(subject) is not None:
                    self._book.say(subject, State.UNASSIGNED, GIVEN_UP)

    def expect(self, subject: Subject) -> asyncio.Future[bool]:
        """Becomes true when the connector or task runs next, false when it fails."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, []).append(future)
        return future

    def may_write(self, name: str) -> bool:
        """Whether a task of this connector may still write records and positions, asked for or not any more."""
        return any(task.connector == name for task in self._live)

    def restart_connector(self, name: str, *, announced: bool = False) -> None:
        """Starts a connector instance anew, as far as its target state lets it run."""
        snapshot = self._configs.snapshot()
        self._book.say(name, State.UNASSIGNED, RESTARTED)
        if announced:
            self._book.say(name, State.RESTARTING)
        self._begin(name, snapshot)

    def restart_task(self, task: TaskId, *, announced: bool = False) -> None:
        """Starts a task anew; one of a paused connector stays paused."""
        self._book.say(task, State.UNASSIGNED, RESTARTED)
        if announced:
            self._book.say(task, State.RESTARTING)
        if task in self._wanted:
            self._live.add(task)
            self._supervisor.restart(task)
        else:
            self._book.say(task, State.PAUSED)
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
                self._parts.stop(name)
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
            self._book.say(name, State.UNASSIGNED, RECONFIGURED)
        self._begin(name, self._configs.snapshot())

    def _target_changed(self, name: str) -> None:
        snapshot = self._configs.snapshot()
        if not snapshot.contains(name):
            # An initial state, which is written in front of the connector.
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
                self._book.say(TaskId(name, number), State.UNASSIGNED, TAKEN_OVER)
        if self._book.state(name) is not None:
            self._book.say(name, State.UNASSIGNED, TAKEN_OVER)
        self._begin(name, snapshot)
        if snapshot.target_state(name) == TargetState.PAUSED:
            for number in range(snapshot.task_count(name)):
                self._book.say(TaskId(name, number), State.PAUSED)

    def _begin(self, name: str, snapshot: ConfigSnapshot) -> None:
        """Brings a connector instance to its target state."""
        match snapshot.target_state(name):
            case TargetState.STARTED:
                self._parts.start(name, _texts(snapshot.connectors[name]))
            case TargetState.PAUSED:
                self._parts.stop(name)
                self._book.say(name, State.PAUSED)
                self._answer(name, True)
            case TargetState.STOPPED:
                self._parts.stop(name)
                self._book.say(name, State.STOPPED)
                self._answer(name, True)

    def _restart(self, request: RestartRequest) -> None:
        snapshot = self._configs.snapshot()
        plan = RestartPlan.of(request, snapshot, self._book)
        for task in plan.tasks:
            self.restart_task(task, announced=True)
        if plan.connector:
            self.restart_connector(request.connector, announced=True)

    def _want_all(self) -> None:
        """Tells the supervisor all tasks that should run now, and settles those that no longer should."""
        snapshot = self._configs.snapshot()
        wanted = {
            TaskId(name, number): WantedTask(_texts(config))
            for name in snapshot.connectors
            if snapshot.target_state(name) == TargetState.STARTED
            for number, config in enumerate(snapshot.tasks(name))
        }
        before, self._wanted = self._wanted, wanted
        for task, now in wanted.items():
            if self._book.state(task) is None:
                # Seen from now on, however long it takes until it runs.
                self._book.say(task, State.UNASSIGNED, STARTING)
            then = before.get(task)
            failed = self._book.state(task) is State.FAILED
            if then is not None and (now.identity != then.identity or (failed and now != then)):
                self._book.say(task, State.UNASSIGNED, RECONFIGURED)
                self._live.add(task)
            elif then is None and not failed:
                self._live.add(task)
            elif then is None:
                # Failed, paused, resumed: the supervisor tries it again.
                self._book.say(task, State.UNASSIGNED, STARTING)
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
        """A task runs no more: paused, or no longer there."""
        snapshot = self._configs.snapshot()
        if task.task >= snapshot.task_count(task.connector) or not snapshot.contains(task.connector):
            if self._book.state(task) is not None:
                self._book.forget_task(task)
        elif snapshot.target_state(task.connector) == TargetState.PAUSED:
            self._book.say(task, State.PAUSED)
        elif snapshot.target_state(task.connector) == TargetState.STOPPED:
            self._book.forget_task(task)
        else:
            self._book.say(task, State.UNASSIGNED)

    # --- PartHost ---------------------------------------------------------------------------------------------------

    def started(self, name: str) -> None:
        """See PartHost."""
        if self._leading:
            if self._book.state(name) is not State.RUNNING:
                log.info("Connector %s is RUNNING", name)
            self._book.say(name, State.RUNNING)
            self._answer(name, True)

    def failed(self, name: str, trace: str) -> None:
        """See PartHost."""
        if self._leading:
            log.error("Connector %s is FAILED: %s", name, last_line(trace))
            self._book.say(name, State.FAILED, trace if trace.endswith("\n") else trace + "\n")
            self._answer(name, False)

    def troubled(self, name: str, line: str | None) -> None:
        """See PartHost. The line is shown as the trace of the state the connector is in."""
        if not self._leading:
            return
        state = self._book.state(name)
        if state is not State.FAILED:
            self._book.say(name, state or State.UNASSIGNED, line)

    def reconfigure(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """See PartHost."""
        if self._leading:
            self._newest_tasks[name] = task_configs
            task = asyncio.create_task(self._store_tasks(name, task_configs))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _store_tasks(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        """Writes task configs if they differ from those in force, again until it is done or they are outdated."""
        while True:
            async with self._turn:
                snapshot = self._configs.snapshot()
                outdated = self._newest_tasks.get(name) is not task_configs or name not in self._parts.names()
                if not self._leading or outdated or snapshot.target_state(name) != TargetState.STARTED:
                    return
                if not tasks_changed(snapshot, name, task_configs):
                    return
                try:
                    if not self._configs.claimed:
                        await self._configs.claim()
                        continue  # with what another leader may have written
                    await self._configs.put_task_configs(name, task_configs)
                    return
                except (ClusterUnreachable, NotAuthorized) as error:
                    log.warning(
                        "The task configs of connector %s can't be written yet and are tried again: %s", name, error
                    )
            await asyncio.sleep(RETRY_S)

    # --- TaskEvents -------------------------------------------------------------------------------------------------

    def task_state(self, task: TaskId, state: str, trace: str | None) -> None:
        """See TaskEvents."""
        if not self._leading or task not in self._wanted:
            return
        if state == State.UNASSIGNED and self._book.state(task) is State.RESTARTING:
            state = State.RESTARTING
        self._book.say(task, State(state), trace)
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


def last_line(trace: str) -> str:
    """What a stack trace comes to: its last line."""
    return (trace.strip().splitlines() or [""])[-1]


def tasks_changed(snapshot: ConfigSnapshot, name: str, task_configs: Sequence[Mapping[str, str]]) -> bool:
    """Connect's rule: other task configs, or another connector config than when they were committed."""
    if name in snapshot.inconsistent or snapshot.applied_configs.get(name) != snapshot.connectors.get(name):
        return True
    return [dict(config) for config in snapshot.tasks(name)] != [dict(config) for config in task_configs]


def _texts(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}
