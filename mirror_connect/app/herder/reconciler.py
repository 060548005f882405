"""Makes what runs here equal to what the group has assigned to this worker and the config topic asks for; writes statuses.

Everything here runs at once on the event loop. Changes come from the group (`assign`, `retire`) and from the config topic,
this worker's own changes too: a change that is not written has no effect. New connectors and new tasks come with an
assignment. A changed config of what is assigned here counts at once.

What is taken away is ended first. Until then this worker claims it, so that nobody else starts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.interfaces import Claims, ConnectorFactory, Resolver, Supervisor
from mirror_connect.app.herder.lifecycle import State, TargetState
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.herder.running_connectors import RunningConnectors
from mirror_connect.app.herder.status_book import StatusBook, Subject
from mirror_connect.app.herder.task_config_writes import TaskConfigWrites
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.storage.config_records import RestartRequest, set_values
from mirror_connect.app.storage.config_view import (
    Change,
    ConfigSnapshot,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateChanged,
    TasksUpdated,
)
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.partition_owners import NO_COMMIT
from mirror_connect.app.supervisor.interfaces import STARTING, WantedTask
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.problems import Problem
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.verified_records import VerifiedRecords

log = logging.getLogger(__name__)

# Before another worker may start what has ended here, its last status is written, unless that takes longer.
LAST_STATUS_S: Final = 1.0
# Why a connector or task is UNASSIGNED, for its trace, until there is a newer reason.
TAKEN_OVER: Final = "This worker is taking it over."
MOVED: Final = "It moves to another worker of the group."
RECONFIGURED: Final = "It is being started with its changed config."
RESTARTED: Final = "It is being restarted."
GIVEN_UP: Final = "Its worker has stopped. Another worker of the group takes over, or the next one that starts."


class Reconciler:
    """Receives ConnectorEvents and TaskEvents. `freed` is called when this worker claims less than before."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        book: StatusBook,
        supervisor: Supervisor,
        new_connector: ConnectorFactory,
        resolver: Resolver,
        notices: ConfigNotices,
        task_configs: TaskConfigWrites,
        freed: Callable[[], None],
        track_topics: bool = True,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        self._configs = configs
        self._book = book
        self._supervisor = supervisor
        self._connectors = RunningConnectors(new_connector, resolver, self, notices, ended=self._connector_ended)
        self._task_configs = task_configs
        self._freed = freed
        self._track_topics = track_topics
        self._metrics = metrics or WorkerMetrics()
        self._assigned_connectors: frozenset[str] = frozenset()
        self._assigned_tasks: frozenset[TaskId] = frozenset()
        self._wanted: dict[TaskId, WantedTask] = {}
        # Tasks that may still write: wanted ones that have not failed, and others until they have ended.
        self._live: set[TaskId] = set()
        # What was taken away and is claimed until it has ended here.
        self._ending: set[Subject] = set()
        # Of these what has ended, and whose last status is being written.
        self._releasing: dict[Subject, asyncio.Task[None]] = {}
        self._waiting: dict[Subject, list[asyncio.Future[bool]]] = {}

    def start(self) -> None:
        """Begins to listen; call it once, when the config topic has been read."""
        self._supervisor.listen(self)
        self._configs.add_listener(self._changed)

    # The group's assignment.

    def revoke(self, connectors: Collection[str], tasks: Collection[TaskId]) -> None:
        """Ends what is not among these any more."""
        dropped_connectors = self._assigned_connectors.difference(connectors)
        dropped_tasks = self._assigned_tasks.difference(tasks)
        if not dropped_connectors and not dropped_tasks:
            return
        self._assigned_connectors -= dropped_connectors
        self._assigned_tasks -= dropped_tasks
        self._ending |= dropped_connectors | dropped_tasks
        for name in sorted(dropped_connectors):
            self._task_configs.forget(name)
            if not self._connectors.stop(name):
                self._release(name)
        self._want_all()
        for task in sorted(dropped_tasks - self._live):
            self._release(task)

    def assign(self, connectors: Collection[str], tasks: Collection[TaskId]) -> None:
        """Runs these, and nothing else. Call it when the config topic has been read as far as the leader had read it."""
        self.revoke(connectors, tasks)
        snapshot = self._configs.snapshot()
        new_connectors = sorted(set(connectors) - self._assigned_connectors)
        new_tasks = sorted(set(tasks) - self._assigned_tasks)
        self._assigned_tasks |= frozenset(new_tasks)
        for task in new_tasks:
            self._take_over_task(task, snapshot)
        self._assigned_connectors |= frozenset(new_connectors)
        for name in new_connectors:
            try:
                self._take_over(name, snapshot)
            except Exception as error:
                # Only this connector fails: the others run.
                log.exception("Connector %s can't be taken over", ConnectorName(name))
                self.connector_failed(name, f"{type(error).__name__}: {error}")
        # Even if nothing is new: what others have confirmed counts when this worker has read so far, and something may have
        # failed before.
        self._want_all()

    def retire(self) -> None:
        """Ends everything at once, because other workers may run it by now. Nothing here writes any more, nor statuses."""
        if not (self._assigned_connectors or self._assigned_tasks or self._ending):
            return
        self._assigned_connectors, self._assigned_tasks = frozenset(), frozenset()
        self.release_nothing()
        self._task_configs.forget_all()
        self._live.clear()
        self._wanted = {}
        self._supervisor.retire()
        self._book.forget_all()
        self._connectors.stop_each()

    def claims(self) -> Claims:
        """What is assigned to this worker or has not surely ended here. Not what was retired."""
        owners = self._configs.snapshot().owners
        return Claims(
            self._assigned_connectors | {each for each in self._ending if isinstance(each, str)},
            self._assigned_tasks
            | {each for each in self._ending if isinstance(each, TaskId)}
            | self._supervisor.claimed_tasks(),
            self._supervisor.confirmed(),
            self._supervisor.readiness,
            {
                name: owners[name].commit if name in owners else NO_COMMIT
                for name in {task.connector for task in self._assigned_tasks}
            },
        )

    def has(self, subject: Subject) -> bool:
        """Whether a connector (by name) or a task is assigned to this worker."""
        return subject in (self._assigned_tasks if isinstance(subject, TaskId) else self._assigned_connectors)

    def _take_over(self, name: str, snapshot: ConfigSnapshot) -> None:
        self._keep(name)
        if snapshot.contains(name):
            if self._book.state(name) is not None:
                self._book.put(name, State.UNASSIGNED, TAKEN_OVER)
            self._begin(name, snapshot)

    def _take_over_task(self, task: TaskId, snapshot: ConfigSnapshot) -> None:
        self._keep(task)
        if task.task >= snapshot.task_count(task.connector):
            return
        if self._book.state(task) is not None:
            self._book.put(task, State.UNASSIGNED, TAKEN_OVER)
        if snapshot.target_state(task.connector) == TargetState.PAUSED:
            self._book.put(task, State.PAUSED)

    def _release(self, subject: Subject) -> None:
        """It has ended here. Another worker may have it when its last status is written."""
        if subject not in self._ending or subject in self._releasing:
            return
        exists = self._exists(subject)
        if exists and self._book.state(subject) is not None:
            self._book.put(subject, State.UNASSIGNED, MOVED)

        async def release() -> None:
            await self._book.flush(LAST_STATUS_S)
            if self._releasing.get(subject) is asyncio.current_task():
                del self._releasing[subject]
                self._ending.discard(subject)
                self._book.let_go(subject)
                self._freed()

        self._releasing[subject] = asyncio.create_task(release())

    def _keep(self, subject: Subject) -> None:
        """It is assigned to this worker again before anybody else could have it."""
        self._ending.discard(subject)
        if (releasing := self._releasing.pop(subject, None)) is not None:
            releasing.cancel()

    def _exists(self, subject: Subject) -> bool:
        snapshot = self._configs.snapshot()
        if isinstance(subject, TaskId):
            return snapshot.contains(subject.connector) and subject.task < snapshot.task_count(subject.connector)
        return snapshot.contains(subject)

    # For the worker, and for requests.

    def secrets(self) -> frozenset[str]:
        """The secrets of the connectors that run in this worker."""
        return self._connectors.secrets()

    async def stop_connectors(self) -> None:
        """Shutdown, first half: stops connectors. Tasks may still be ending."""
        self._task_configs.stop()
        await self._connectors.stop_all()

    def release_nothing(self) -> None:
        """What was taken away and ends from now on is nobody's concern: this worker leaves the group, or has left it."""
        self._ending.clear()
        for releasing in self._releasing.values():
            releasing.cancel()
        self._releasing.clear()

    def give_up(self) -> None:
        """Shutdown, second half: sets everything that ran here to UNASSIGNED. Call it when no task runs here any more."""
        given: list[Subject] = [*sorted(self._assigned_connectors), *sorted(self._assigned_tasks)]
        for subject in given:
            if self._exists(subject) and self._book.state(subject) is not None:
                self._book.put(subject, State.UNASSIGNED, GIVEN_UP)
        self._assigned_connectors, self._assigned_tasks = frozenset(), frozenset()

    def expect(self, subject: Subject) -> asyncio.Future[bool]:
        """A future: true when the connector or task runs next, false when it fails."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(subject, []).append(future)
        return future

    def may_write(self, name: str) -> bool:
        """Whether a task of this connector may still write records and source offsets here, wanted or not."""
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

    # The config topic.

    def _changed(self, change: Change) -> None:
        match change:
            case ConnectorUpdated(name):
                if name in self._assigned_connectors:
                    self._connector_updated(name)
            case ConnectorRemoved(name):
                self._removed(name)
            case TargetStateChanged(name):
                self._target_changed(name)
            case TasksUpdated(name):
                if name in self._assigned_connectors and name in self._configs.snapshot().inconsistent:
                    self._begin(name, self._configs.snapshot())
                self._want_all()
                self._task_configs.check(name)
            case RestartRequest():
                self._restart(change)

    def _removed(self, name: str) -> None:
        self._task_configs.forget(name)
        self._connectors.stop(name)
        # The leader removes their statuses, which must not come again.
        told: list[Subject] = [name, *(task for task in self._wanted if task.connector == name)]
        for subject in told:
            self._book.let_go(subject)
        self._want_all()

    def _connector_updated(self, name: str) -> None:
        if self._book.state(name) is not None:
            self._book.put(name, State.UNASSIGNED, RECONFIGURED)
        self._begin(name, self._configs.snapshot())

    def _target_changed(self, name: str) -> None:
        snapshot = self._configs.snapshot()
        if not snapshot.contains(name):
            # An initial state, which is written before the connector.
            return
        if name in self._assigned_connectors:
            failed = self._book.state(name) is State.FAILED
            if not failed or snapshot.target_state(name) == TargetState.STOPPED:
                self._begin(name, snapshot)
        self._want_all()

    def _begin(self, name: str, snapshot: ConfigSnapshot) -> None:
        """Brings a connector instance to its target state."""
        self._task_configs.forget(name)
        match snapshot.target_state(name):
            case TargetState.STARTED:
                former = snapshot.has_former_tasks(name)
                self._connectors.start(name, set_values(snapshot.connectors[name]), former_tasks=former)
            case TargetState.PAUSED:
                self._connectors.stop(name)
                self._book.put(name, State.PAUSED)
                self._answer(name, True)
            case TargetState.STOPPED:
                self._connectors.stop(name)
                self._book.put(name, State.STOPPED)
                self._answer(name, True)

    def _restart(self, request: RestartRequest) -> None:
        """Each worker restarts what it runs. What nobody has now is started anew by whoever gets it."""
        plan = RestartPlan.of(request, self._configs.snapshot(), self._book)
        for task in plan.tasks:
            if self.has(task):
                self.restart_task(task, announced=True)
        if plan.connector and self.has(request.connector):
            self.restart_connector(request.connector, announced=True)

    def _want_all(self) -> None:
        """Gives the supervisor all tasks that should run now, and settles those that should not run any more."""
        snapshot = self._configs.snapshot()
        wanted = self._should_run(snapshot)
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
        self._supervisor.want(wanted, snapshot.owners, snapshot.offset)
        gone = (before.keys() - wanted.keys()) | {task for task in self._assigned_tasks if not self._exists(task)}
        for task in sorted(gone - self._live):
            self._settle(task)

    def _should_run(self, snapshot: ConfigSnapshot) -> dict[TaskId, WantedTask]:
        wanted = {}
        for name in sorted({task.connector for task in self._assigned_tasks}):
            if snapshot.target_state(name) == TargetState.STARTED:
                owners = snapshot.owners.get(name)
                for number, config in enumerate(snapshot.tasks(name)):
                    if (task := TaskId(name, number)) in self._assigned_tasks:
                        text = config.get(ASSIGNED_PARTITIONS) or ""
                        known = owners is not None and owners.has_read(number, text)
                        wanted[task] = WantedTask(
                            set_values(config), owners.given[number] if owners and known else None
                        )
        return wanted

    def _settle(self, task: TaskId) -> None:
        """Writes the status of a task that no longer runs: paused, or deleted. The leader forgets deleted connectors."""
        snapshot = self._configs.snapshot()
        if not snapshot.contains(task.connector):
            self._book.let_go(task)
        elif task.task >= snapshot.task_count(task.connector):
            if self._book.state(task) is not None:
                self._book.forget_task(task)
        elif task in self._ending:
            self._release(task)
        elif snapshot.target_state(task.connector) == TargetState.PAUSED:
            self._book.put(task, State.PAUSED)
        elif snapshot.target_state(task.connector) == TargetState.STOPPED:
            self._book.forget_task(task)
        else:
            self._book.put(task, State.UNASSIGNED)

    # ConnectorEvents.

    def connector_started(self, name: str) -> None:
        """See ConnectorEvents."""
        if name in self._assigned_connectors:
            if self._book.state(name) is not State.RUNNING:
                log.info("Connector %s is RUNNING", ConnectorName(name))
            self._book.put(name, State.RUNNING)
            self._answer(name, True)

    def connector_failed(self, name: str, trace: str) -> None:
        """See ConnectorEvents."""
        if name in self._assigned_connectors:
            log.error("Connector %s is FAILED: %s", ConnectorName(name), (trace.splitlines() or [""])[0])
            self._book.put(name, State.FAILED, trace if trace.endswith("\n") else trace + "\n")
            self._answer(name, False)

    def connector_problem(self, name: str, line: str | None) -> None:
        """See ConnectorEvents. REST shows the line as the trace of the connector's present state."""
        if name not in self._assigned_connectors:
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
        if name in self._assigned_connectors:
            self._task_configs.want(name, task_configs)

    def _connector_ended(self, name: str) -> None:
        self._release(name)

    # TaskEvents.

    def task_state(self, task: TaskId, state: str, trace: str | None, *, waits: bool = False) -> None:
        """See TaskEvents."""
        if task not in self._wanted:
            return
        # As in Connect, until the task runs or fails. One that waits for something is shown as such, or nobody would look.
        if state == State.UNASSIGNED and not waits and self._book.state(task) is State.RESTARTING:
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
        if task not in self._live:
            return
        self._live.discard(task)
        if task not in self._wanted:
            self._settle(task)
            self._release(task)

    def topics_written(self, task: TaskId, topics: Sequence[str]) -> None:
        """See TaskEvents."""
        may_tell = task in self._wanted or task in self._live
        if may_tell and self._track_topics and self._configs.snapshot().contains(task.connector):
            for topic in topics:
                self._book.topic(task.connector, task.task, topic)

    def _answer(self, subject: Subject, runs: bool) -> None:
        for future in self._waiting.pop(subject, []):
            if not future.done():
                future.set_result(runs)
