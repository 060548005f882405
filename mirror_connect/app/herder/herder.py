"""One method for each REST operation; knows neither HTTP nor Spark.

Reads are answered from this worker's copy of the topics, on every worker. Writes are the leader's: one after the other, in
Connect's order of records, and what runs follows from what has been written (app/herder/reconciler.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    ConnectorExists,
    ConnectorNotFound,
    Forbidden,
    NoStatus,
    NotLeader,
    RestartOfUnknownConnector,
    StartFailed,
    TaskWithoutOwner,
    UnknownConnector,
    UnknownTask,
)
from mirror_connect.app.herder import validation
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.interfaces import Membership, PartFactory, Resolver, Supervisor
from mirror_connect.app.herder.last_heard import as_last_heard
from mirror_connect.app.herder.lifecycle import State, TargetState
from mirror_connect.app.herder.log_levels import LoggerLevel, LogLevels, level_named
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.herder.restart_plan import RestartPlan
from mirror_connect.app.herder.signatures import check_signature
from mirror_connect.app.herder.source_offsets import Change as OffsetChange
from mirror_connect.app.herder.source_offsets import SourceOffsets, StoreOf
from mirror_connect.app.herder.standing import Standing
from mirror_connect.app.herder.status_book import StatusBook, Subject
from mirror_connect.app.herder.validation import ConfigRules, Validation
from mirror_connect.app.herder.views import (
    Config,
    ConnectorInfo,
    ConnectorStatus,
    Health,
    PluginInfo,
    ServerInfo,
    StateInfo,
)
from mirror_connect.app.storage.config_records import RestartRequest, connector_entry
from mirror_connect.app.storage.config_view import Change, ConfigSnapshot, LoggerLevelSet
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetEntry
from mirror_connect.app.storage.status import CONNECT_VERSION, Status, StatusStore
from mirror_connect.app.version import COMMIT
from mirror_connect.connectors.config.config_values import trim
from mirror_connect.connectors.config.validators import plain_name
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.secrets import secrets_of
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

# Connect waits for 90 s at most; many clients give up after 30.
START_WAIT_S: Final = 25.0
HEALTH_WAIT_S: Final = 10.0
SEEN_WAIT_S: Final = 2.0
# A record must stay below the broker's message.max.bytes (1 MiB by default), its task configs are a little larger.
CONFIG_LIMIT: Final = 900_000


@dataclass(frozen=True, slots=True)
class TopicTracking:
    """`topic.tracking.enable` and `topic.tracking.allow.reset`."""

    enabled: bool = True
    reset_allowed: bool = True


class Herder:
    """See the module. `worker_id` is host:port of the advertised REST listener; `offsets_of` opens offset topics."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        membership: Membership,
        supervisor: Supervisor,
        make_part: PartFactory,
        resolver: Resolver,
        worker_id: str,
        offsets_of: StoreOf,
        topic_tracking: TopicTracking = TopicTracking(),
        rules: ConfigRules | None = None,
        log_levels: LogLevels | None = None,
        signature_algorithms: Sequence[str] = ("HmacSHA256",),
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self._membership = membership
        self._worker_id = worker_id
        self._tracking = topic_tracking
        rules = rules or ConfigRules()
        notices = ConfigNotices(rules.offsets_topic, rules.converters)
        self._validation = Validation(resolver, rules, notices)
        self._turn = asyncio.Lock()
        self._book = StatusBook(statuses, worker_id, lambda: membership.generation)
        self._reconciler = Reconciler(
            configs=configs,
            statuses=statuses,
            book=self._book,
            supervisor=supervisor,
            make_part=make_part,
            resolver=resolver,
            notices=notices,
            turn=self._turn,
            track_topics=topic_tracking.enabled,
        )
        self._standing = Standing(membership, configs, statuses, self._reconciler, self._turn)
        self._offsets = SourceOffsets(configs, self._standing, self._reconciler, resolver, offsets_of)
        self._levels = log_levels or LogLevels()
        self._signature_algorithms = signature_algorithms
        self._cluster_id: str | None = None

    # --- for whoever builds the worker ------------------------------------------------------------------------------

    def start(self, kafka_cluster_id: str) -> None:
        """Begins to answer; config and status store have been started. Leads as soon as `membership` says so."""
        self._cluster_id = kafka_cluster_id
        self._book.start()
        self._reconciler.start()
        self._configs.add_listener(self._logger_told)
        self._standing.start()

    def standing_changed(self, _: object = None) -> None:
        """To be called whenever `membership` changes its mind."""
        self._standing.changed()

    async def secrets(self) -> frozenset[str]:
        """The secrets of all connectors that there are, with those that config providers have given to running ones."""
        running = self._reconciler.secrets()
        return running | await asyncio.to_thread(_secrets, self._configs.snapshot())

    async def end_parts(self) -> None:
        """Shutdown, first half: no more writes, connectors stopped. Then the supervisor is to be stopped."""
        await self._standing.end()
        await self._reconciler.end_parts()

    async def stop(self, patience_s: float = 2.0) -> None:
        """Shutdown, second half: says UNASSIGNED of all that ran here, and waits until that is written."""
        if self._standing.started and self._membership.is_leader:
            # Also if it has not taken over: nothing runs now, and what a killed predecessor left must not say RUNNING.
            self._reconciler.give_up_all()
            if not await self._book.flush(patience_s):
                log.warning("Not all statuses could be written before the end")
        await self._book.stop()

    # --- the worker -------------------------------------------------------------------------------------------------

    async def server_info(self) -> ServerInfo:
        """GET /."""
        await self._standing.until_ready()
        return ServerInfo(CONNECT_VERSION, COMMIT, self._cluster_id or "")

    async def health(self) -> Health:
        """GET /health: whether requests that change something get their turn."""
        if not self._standing.ready:
            return Health("starting", "Worker is still starting up.")
        try:
            async with asyncio.timeout(HEALTH_WAIT_S), self._turn:
                if (silence := self._membership.silence) is not None:
                    return Health("unhealthy", f"{silence}.")
                return Health("healthy", "Worker has completed startup and is ready to handle requests.")
        except TimeoutError:
            return Health(
                "unhealthy", "Worker was unable to handle this request and may be unable to handle other requests."
            )

    # --- reading ----------------------------------------------------------------------------------------------------

    async def connectors(self) -> list[str]:
        """All names."""
        await self._standing.until_ready()
        return list(self._configs.snapshot().connectors)

    async def connector(self, name: str) -> ConnectorInfo:
        """One connector as configured."""
        snapshot = await self._containing(name)
        return _info(name, snapshot.connectors[name], snapshot)

    def has(self, name: str) -> bool:
        """Whether there is a connector of this name, as far as this worker has read."""
        return self._configs.snapshot().contains(name)

    async def config(self, name: str) -> Config:
        """One connector's config as stored."""
        return (await self._containing(name)).connectors[name]

    async def tasks(self, name: str) -> list[tuple[TaskId, Config]]:
        """The task configs in force."""
        snapshot = await self._containing(name)
        return [(TaskId(name, number), config) for number, config in enumerate(snapshot.tasks(name))]

    async def status(self, name: str) -> ConnectorStatus:
        """One connector as it is."""
        await self._standing.until_ready()
        status = self._statuses.connector(name)
        if status is None:
            raise NoStatus(name)
        tasks = {
            number: self._seen(self._book.shown(TaskId(name, number), task))
            for number, task in self._statuses.tasks(name).items()
        }
        kind = validation.connector_type(self._configs.snapshot().connectors.get(name))
        return ConnectorStatus(name, self._seen(status), tasks, kind)

    async def task_status(self, name: str, task: int) -> StateInfo:
        """One task as it is."""
        await self._standing.until_ready()
        status = self._statuses.task(TaskId(name, task))
        if status is None:
            raise NoStatus(name, task)
        return self._seen(self._book.shown(TaskId(name, task), status))

    def _seen(self, status: Status) -> StateInfo:
        silence = self._membership.silence
        return _state(status if silence is None else as_last_heard(status, self._worker_id, silence))

    async def topics(self, name: str) -> list[str]:
        """The topics that a connector has written to; none for an unknown one."""
        await self._standing.until_ready()
        if not self._tracking.enabled:
            raise Forbidden("Topic tracking is disabled.")
        return sorted(topic.topic for topic in self._statuses.topics(name))

    async def offsets(self, name: str) -> list[OffsetEntry]:
        """The committed source offsets of a connector."""
        return await self._offsets.list(name)

    def plugins(self, *, connectors_only: bool = True) -> list[PluginInfo]:
        """All connector classes, and the other plugins if asked for."""
        return validation.plugins(connectors_only=connectors_only)

    def plugin_settings(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        """The definitions of a connector class' settings."""
        return validation.plugin_settings(plugin, version)

    async def validate(self, plugin: str, config: Config) -> dict[str, Any]:
        """Every setting of a config judged."""
        return await self._validation.infos(plugin, config)

    async def refuse_worker_request(self, body: bytes, algorithm: str | None, signature: str | None) -> NoReturn:
        """What Connect's workers ask each other: never done here, and only who has signed it hears why."""
        await self._standing.until_ready()
        key = self._configs.snapshot().session_key
        check_signature(body, algorithm, signature, allowed=self._signature_algorithms, key=key)
        raise NotLeader(None if self._membership.is_leader else self._membership.leader_url)

    # --- what is logged ---------------------------------------------------------------------------------------------

    def logger_levels(self) -> dict[str, LoggerLevel]:
        """The levels of all loggers of this worker."""
        return self._levels.levels()

    def logger_level(self, name: str) -> LoggerLevel | None:
        """The level of one logger, None for an unknown one."""
        return self._levels.level(name)

    def set_logger_level(self, name: str, level: str) -> list[str]:
        """Sets a logger and those below it on this worker; the names of those that had another level."""
        return self._levels.change(name, level)

    async def set_cluster_logger_level(self, name: str, level: str) -> None:
        """Sets a logger on all workers that run now, this one included. Any member of the group writes it, as in Connect."""
        await self._standing.until_ready()
        try:
            await self._configs.put_logger_level(name, level)
        except (ClusterUnreachable, NotAuthorized) as error:
            raise ConnectError(str(error)) from error

    def _logger_told(self, change: Change) -> None:
        if not isinstance(change, LoggerLevelSet):
            return
        level = level_named(change.level)
        if level is None:
            log.warning("The config topic has an unknown level for logger %r: %r", change.namespace, change.level)
        else:
            self._levels.change(change.namespace, level)

    # --- writing ----------------------------------------------------------------------------------------------------

    async def create(self, name: str, config: Config, initial_state: TargetState | None) -> ConnectorInfo:
        """A connector that there is not yet."""
        named = _named(name, config)
        _check_size(name, named)
        await self._validation.check(named)
        async with self._standing.writing() as snapshot:
            if snapshot.contains(name):
                raise ConnectorExists(name)
            with _told(name, f"created, asked to be {initial_state}" if initial_state else "created"):
                await self._put(name, named, initial_state)
        return _info(name, named, None)

    async def put(self, name: str, config: Config) -> tuple[bool, ConnectorInfo]:
        """A connector's whole config, new or replaced; says whether the connector is new."""
        named = _named(name, config)
        _check_size(name, named)
        await self._validation.check(named)
        async with self._standing.writing() as snapshot:
            created = not snapshot.contains(name)
            with _told(name, "created" if created else _change_words(snapshot.connectors[name], named, by_name=False)):
                await self._put(name, named, None)
        return created, _info(name, named, snapshot)

    async def patch(self, name: str, patch: Config) -> ConnectorInfo:
        """Some settings of a connector; None takes one away. Connect does not check `name` here, and stores it."""
        while True:
            before = (await self._containing(name)).connectors[name]
            merged = {
                setting: value for setting, value in {**before, **patch}.items() if patch.get(setting, "") is not None
            }
            _check_size(name, merged)
            await self._validation.check(merged)
            async with self._standing.writing() as snapshot:
                if not snapshot.contains(name):
                    raise ConnectorNotFound(name)
                if snapshot.connectors[name] != before:
                    # Somebody else was faster, and what they wrote must not get lost.
                    continue
                with _told(name, _change_words(before, merged, by_name=True)):
                    await self._put(name, merged, None)
            return _info(name, merged, snapshot)

    async def delete(self, name: str) -> None:
        """Forgets a connector; its positions stay."""
        async with self._standing.writing() as snapshot:
            if not snapshot.contains(name):
                raise ConnectorNotFound(name)
            with _told(name, "deleted"):
                await self._configs.delete_connector(name)

    async def pause(self, name: str) -> None:
        """Asks for PAUSED."""
        await self._ask_for(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        """Asks for STARTED."""
        await self._ask_for(name, TargetState.STARTED)

    async def stop_connector(self, name: str) -> None:
        """Asks for STOPPED; the tasks' configs are gone before, so that nobody starts them in between."""
        async with self._standing.writing() as snapshot:
            if not snapshot.contains(name):
                raise UnknownConnector(name)
            with _told(name, "asked to stop"):
                await self._configs.put_task_configs(name, [])
                await self._configs.put_target_state(name, TargetState.STOPPED)

    async def reset_topics(self, name: str) -> None:
        """Forgets the topics that a connector has written to."""
        await self._standing.until_ready()
        if not self._tracking.enabled:
            raise Forbidden("Topic tracking is disabled.")
        if not self._tracking.reset_allowed:
            raise Forbidden("Topic tracking reset is disabled.")
        async with self._standing.writing():
            await self._statuses.delete_topics(name)

    async def alter_offsets(self, name: str, changes: Sequence[OffsetChange]) -> None:
        """Sets source offsets of a stopped connector, or forgets them."""
        await self._offsets.alter(name, changes)

    async def reset_offsets(self, name: str) -> None:
        """Forgets all source offsets of a stopped connector."""
        await self._offsets.reset(name)

    async def restart(self, name: str) -> None:
        """The connector instance alone; StartFailed if it fails again."""
        async with self._standing.writing() as snapshot:
            if not snapshot.contains(name):
                raise RestartOfUnknownConnector(name)
            runs = self._reconciler.expect(name)
            log.info("Connector %s: restarted, without its tasks", name)
            self._reconciler.restart_connector(name)
        await _until_started(runs, f"Failed to start connector: {name}")

    async def restart_with_tasks(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Instance and tasks, or what has failed of them; the answer says what is being restarted."""
        request = RestartRequest(name, include_tasks, only_failed)
        async with self._standing.writing() as snapshot:
            if not snapshot.contains(name):
                raise RestartOfUnknownConnector(name)
            if self._statuses.connector(name) is None:
                raise NoStatus(name)
            plan = RestartPlan.of(request, snapshot, self._book)
            now = await self.status(name)
            with _told(name, _restart_words(plan, only_failed=only_failed)):
                await self._configs.put_restart_request(request)
        # Who is told RESTARTING and asks for the status shall not read the FAILED of before.
        await self._book.seen(SEEN_WAIT_S)
        restarting: set[Subject] = {*plan.tasks, *([name] if plan.connector else [])}
        tasks = {
            number: _restarting(state) if TaskId(name, number) in restarting else state
            for number, state in now.tasks.items()
        }
        connector = _restarting(now.connector) if name in restarting else now.connector
        return ConnectorStatus(name, connector, tasks, now.type)

    async def restart_task(self, name: str, number: int) -> None:
        """One task; StartFailed if it fails again."""
        task = TaskId(name, number)
        async with self._standing.writing() as snapshot:
            if not snapshot.contains(name):
                raise RestartOfUnknownConnector(name)
            if number not in snapshot.task_configs.get(name, {}):
                raise UnknownTask(name, number)
            if number >= snapshot.task_count(name):
                raise TaskWithoutOwner
            runs = self._reconciler.expect(task)
            log.info("Task %s: restarted", task)
            self._reconciler.restart_task(task)
        await _until_started(runs, f"Failed to start task: {task}")

    async def _ask_for(self, name: str, state: TargetState) -> None:
        async with self._standing.writing() as snapshot:
            if not snapshot.contains(name):
                raise UnknownConnector(name)
            with _told(name, "asked to pause" if state is TargetState.PAUSED else "asked to resume"):
                await self._configs.put_target_state(name, state)

    async def _put(self, name: str, config: Config, state: TargetState | None) -> None:
        await self._configs.put_connector(name, _texts(config), state)

    async def _containing(self, name: str) -> ConfigSnapshot:
        await self._standing.until_ready()
        snapshot = self._configs.snapshot()
        if not snapshot.contains(name):
            raise ConnectorNotFound(name)
        return snapshot


def _secrets(snapshot: ConfigSnapshot) -> frozenset[str]:
    tasks = [config for name in snapshot.connectors for config in snapshot.tasks(name)]
    return frozenset().union(*map(secrets_of, (*snapshot.connectors.values(), *tasks)))


def _check_size(name: str, config: Config) -> None:
    # Counted before it is written: of megabytes that would hold up the loop.
    size = sum(len(setting) + len(value or "") for setting, value in config.items())
    if size <= CONFIG_LIMIT:
        size = len(connector_entry(name, config)[1] or b"")
    if size > CONFIG_LIMIT:
        raise BadRequest(
            f"The config of connector {name} is {size} bytes long; the config topic takes no more than {CONFIG_LIMIT}"
        )


async def _until_started(runs: asyncio.Future[bool], failure: str) -> None:
    try:
        async with asyncio.timeout(START_WAIT_S):
            if await runs:
                return
    except TimeoutError:
        # It goes on trying, for example because a cluster does not answer; the status tells the rest.
        return
    raise StartFailed(failure)


@contextlib.contextmanager
def _told(name: str, line: str) -> Iterator[None]:
    """Says what is asked of a connector before it is written: what follows from it may be in the log a moment later."""
    log.info("Connector %s: %s", name, line)
    try:
        yield
    except Exception as error:
        why = str(error) or type(error).__name__
        log.warning(
            "Connector %s: the config topic did not take that, it may not have happened (%s): %s", name, line, why
        )
        raise


def _change_words(before: Config, after: Config, *, by_name: bool) -> str:
    """`by_name`: with the settings that differ; their values may be secret."""
    names = sorted({name for name, _ in before.items() ^ after.items()})
    if not names:
        return "same config again"
    return f"config changed ({', '.join(names)})" if by_name else "config changed"


def _restart_words(plan: RestartPlan, *, only_failed: bool) -> str:
    parts = [*(["the connector"] if plan.connector else []), *(f"task {task}" for task in plan.tasks)]
    if not parts:
        return "nothing to restart, as nothing has failed"
    return f"restarted {'what has failed: ' if only_failed else ''}{', '.join(parts)}"


def _named(name: str, config: Config) -> dict[str, str | None]:
    """The config with its name; BadRequest if it says another one."""
    given = config.get("name")
    if given is not None and given != name:
        raise BadRequest(f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")
    # Connect looks at the trimmed name, so that PUT takes one with a line feed at its end; it would forge lines in logs.
    if (complaint := plain_name("name", name, str)) is not None and plain_name("name", trim(name), str) is None:
        raise BadRequest(complaint)
    return {**config, "name": name}


def _info(name: str, config: Config, snapshot: ConfigSnapshot | None) -> ConnectorInfo:
    count = snapshot.task_count(name) if snapshot is not None and snapshot.contains(name) else 0
    return ConnectorInfo(
        name, config, tuple(TaskId(name, task) for task in range(count)), validation.connector_type(config)
    )


def _state(status: Status) -> StateInfo:
    return StateInfo(status.state, status.worker_id, status.version, status.trace)


def _restarting(state: StateInfo) -> StateInfo:
    """With its old trace if it had failed, as Connect answers it; others of ours tell of what is over now."""
    trace = state.trace if state.state == State.FAILED else None
    return StateInfo(State.RESTARTING, state.worker_id, state.version, trace)


def _texts(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}
