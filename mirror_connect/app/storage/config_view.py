"""What the records of the config topic mean together (docs/internal-formats.md, section 3).

`ConfigView` takes records in order and returns what each one changed; `snapshot()` is the state as one immutable value.
No I/O. The rules are those of Kafka's KafkaConfigBackingStore, so that Java workers and ours see the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage.config_records import RawConfig, RestartRequest, SessionKey
from mirror_connect.app.storage.json_text import shown
from mirror_connect.app.storage.partition_owners import PartitionOwners, first_owners
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class ConnectorUpdated:
    """A connector's config was written, perhaps the same config again."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksUpdated:
    """A commit was read: the task configs count now, or the connector has become inconsistent."""

    connector: str


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A connector's target state has changed."""

    connector: str
    state: str


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    """The snapshot has a new session key."""


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """A request set a log level for all workers."""

    namespace: str
    level: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """The record can't be read and changed nothing. `reason`: what is wrong with it, for the log."""

    reason: str


Change = (
    ConnectorUpdated
    | ConnectorRemoved
    | TasksUpdated
    | TargetStateChanged
    | RestartRequest
    | SessionKeyChanged
    | LoggerLevelSet
)


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """The config topic at one moment. Configs are as stored: references to config providers, and secrets in clear text.

    As in Kafka, `task_configs` also has configs of deleted tasks; `task_counts` is how many of them count.
    `generations` counts applied commits from 0; only exactly-once needs `fencing_counts` and `pending_fencing`.
    `applied_configs`: the connector config at the last commit of its task configs.
    `offset`: of the last record; -1 before the first. `owners`: of the partitions of each connector, deleted ones too.
    """

    connectors: Mapping[str, RawConfig] = field(repr=False)
    target_states: Mapping[str, str]
    task_counts: Mapping[str, int]
    task_configs: Mapping[str, Mapping[int, RawConfig]] = field(repr=False)
    inconsistent: frozenset[str]
    generations: Mapping[str, int]
    fencing_counts: Mapping[str, int]
    pending_fencing: frozenset[str]
    applied_configs: Mapping[str, RawConfig] = field(repr=False)
    session_key: SessionKey | None
    offset: int = field(default=-1, compare=False)
    owners: Mapping[str, PartitionOwners] = field(default_factory=dict, repr=False)

    def contains(self, connector: str) -> bool:
        """Whether the connector exists."""
        return connector in self.connectors

    def target_state(self, connector: str) -> str | None:
        """STARTED, PAUSED or STOPPED; None for a connector that does not exist."""
        return self.target_states.get(connector, records.STARTED) if connector in self.connectors else None

    def task_count(self, connector: str) -> int:
        """The number of tasks; 0 while the connector is inconsistent, as in Kafka."""
        return 0 if connector in self.inconsistent else self.task_counts.get(connector, 0)

    def has_former_tasks(self, connector: str) -> bool:
        """Whether its tasks are those of an earlier config. That isn't known any more once compaction has removed it."""
        applied, config = self.applied_configs.get(connector), self.connectors.get(connector)
        if applied is None or config is None or self.task_count(connector) == 0:
            return False
        return records.set_values(applied) != records.set_values(config)

    def tasks(self, connector: str) -> list[RawConfig]:
        """The configs of these tasks, by number."""
        configs = self.task_configs.get(connector, {})
        return [configs[task] for task in range(self.task_count(connector)) if task in configs]


class ConfigView:
    """Builds the state from the topic's records."""

    def __init__(self) -> None:
        self._connectors: dict[str, RawConfig] = {}
        self._target_states: dict[str, str] = {}
        self._task_counts: dict[str, int] = {}
        self._task_configs: dict[str, dict[int, RawConfig]] = {}
        self._uncommitted: dict[str, dict[int, RawConfig]] = {}
        # The partitions in these. Read record by record: those of a whole connector would hold up the event loop.
        self._read: dict[str, dict[int, Sequence[TopicPartition]]] = {}
        self._inconsistent: set[str] = set()
        self._generations: dict[str, int] = {}
        self._fencing_counts: dict[str, int] = {}
        self._pending_fencing: set[str] = set()
        self._applied: dict[str, RawConfig] = {}
        self._session_key: SessionKey | None = None
        self._owners: dict[str, PartitionOwners] = {}
        self._offset = -1
        self._snapshot: ConfigSnapshot | None = None

    def snapshot(self) -> ConfigSnapshot:
        """The present state; the same object until the next record."""
        if self._snapshot is None:
            tasks = {name: MappingProxyType(dict(configs)) for name, configs in self._task_configs.items()}
            self._snapshot = ConfigSnapshot(
                connectors=MappingProxyType(dict(self._connectors)),
                target_states=MappingProxyType(dict(self._target_states)),
                task_counts=MappingProxyType(dict(self._task_counts)),
                task_configs=MappingProxyType(tasks),
                inconsistent=frozenset(self._inconsistent),
                generations=MappingProxyType(dict(self._generations)),
                fencing_counts=MappingProxyType(dict(self._fencing_counts)),
                pending_fencing=frozenset(self._pending_fencing),
                applied_configs=MappingProxyType(dict(self._applied)),
                session_key=self._session_key,
                offset=self._offset,
                owners=MappingProxyType(dict(self._owners)),
            )
        return self._snapshot

    def apply(self, key: bytes | None, value: bytes | None, offset: int | None = None) -> Change | Skipped | None:
        """Takes the next record; returns what it changed, or None for no change. Never raises.

        `offset`: the record's; without it, the next one.
        """
        self._snapshot = None
        self._offset = self._offset + 1 if offset is None else offset
        text = (key or b"").decode(errors="replace")
        if text == records.SESSION_KEY:
            return self._session(value)
        for prefix, read in _READERS:
            if text.startswith(prefix):
                return read(self, text.removeprefix(prefix), value)
        return Skipped(f"its key {shown(text)} is unknown")

    def _target(self, connector: str, value: bytes | None) -> Change | Skipped | None:
        before = self._target_states.get(connector)
        if value is None:
            # No change: the connector's own tombstone came before, or it is STARTED from now on, as in Kafka.
            self._target_states.pop(connector, None)
            if connector in self._connectors:
                self._target_states[connector] = records.STARTED
            return None
        state = records.target_state(value)
        if state is None:
            return _unreadable("target state", connector)
        self._target_states[connector] = state
        return TargetStateChanged(connector, state) if state != before else None

    def _connector(self, connector: str, value: bytes | None) -> Change | Skipped | None:
        if value is None:
            self._forget(connector)
            self._owners[connector] = first_owners(self._offset)
            return ConnectorRemoved(connector)
        config = records.properties(value)
        if config is None:
            return _unreadable("config", connector)
        self._connectors[connector] = MappingProxyType(config)
        self._target_states.setdefault(connector, records.STARTED)
        return ConnectorUpdated(connector)

    def _task(self, rest: str, value: bytes | None) -> Change | Skipped | None:
        task, config = records.task_key(records.TASK + rest), records.properties(value)
        if task is None or config is None:
            return _unreadable("task config", rest)
        self._uncommitted.setdefault(task[0], {})[task[1]] = MappingProxyType(config)
        text, owners = config.get(ASSIGNED_PARTITIONS) or "", self._owners.get(task[0])
        known = owners is not None and owners.has_read(task[1], text)
        self._read.setdefault(task[0], {})[task[1]] = (
            owners.listed[task[1]] if owners and known else stored_partitions(text)
        )
        return None

    def _commit(self, connector: str, value: bytes | None) -> Change | Skipped | None:
        if connector not in self._connectors:
            # The connector was deleted, and compaction has removed some records: its remaining tasks must not start again.
            # Or its config was written again later, and tasks of other workers own what this commit gives them.
            self._forget(connector)
            self._owners.pop(connector, None)
            return None
        tasks = records.count(value, "tasks")
        if tasks is None:
            return _unreadable("commit", connector)
        buffered = self._uncommitted.get(connector)
        # Counted without a set: a record may name any number of tasks, and a set of them could take all memory.
        if sum(1 for number in buffered or () if number < tasks) == tasks:
            if buffered is not None:
                self._task_configs.setdefault(connector, {}).update(buffered)
                self._generations[connector] = self._generations.get(connector, -1) + 1
            self._inconsistent.discard(connector)
            self._applied[connector] = self._connectors[connector]
        else:
            # Compaction kept the commit but not all of its tasks; the leader makes the configs again.
            self._inconsistent.add(connector)
        if buffered is not None:
            # Always emptied: records of a later set must never complete an incomplete one.
            buffered.clear()
        self._task_counts[connector] = tasks
        self._note_owners(connector, self._read.pop(connector, {}))
        self._pending_fencing.add(connector)
        return TasksUpdated(connector)

    def _restart(self, connector: str, value: bytes | None) -> Change | Skipped | None:
        found = records.restart_request(connector, value)
        return _unreadable("restart request", connector) if found is None and value is not None else found

    def _fencing(self, connector: str, value: bytes | None) -> Change | Skipped | None:
        tasks = records.count(value, "task-count")
        if tasks is None:
            return _unreadable("task count", connector)
        self._fencing_counts[connector] = tasks
        self._pending_fencing.discard(connector)
        return None

    def _session(self, value: bytes | None) -> Change | Skipped | None:
        key = records.session_key(value)
        if key is None:
            return Skipped("the session key is unreadable")
        self._session_key = key
        return SessionKeyChanged()

    def _logger(self, namespace: str, value: bytes | None) -> Change | Skipped | None:
        level = records.level(value)
        if level is None:
            return None if value is None else _unreadable("logger level", namespace)
        return LoggerLevelSet(namespace, level)

    def _forget(self, connector: str) -> None:
        # The fencing count stays: producers of the old tasks may still live when the name is used again.
        for each in (
            self._connectors,
            self._task_counts,
            self._task_configs,
            self._uncommitted,
            self._read,
            self._applied,
        ):
            each.pop(connector, None)

    def _note_owners(self, connector: str, read: Mapping[int, Sequence[TopicPartition]]) -> None:
        if connector in self._inconsistent:
            # Workers that have read it whole may own anything by it. So the next whole one is the first that is known.
            self._owners.pop(connector, None)
            return
        tasks = range(self._task_counts[connector])
        configs = self._task_configs.get(connector, {})
        texts = [configs.get(task, {}).get(ASSIGNED_PARTITIONS) or "" for task in tasks]
        known = self._owners.get(connector)
        self._owners[connector] = (
            first_owners(self._offset, texts, read) if known is None else known.following(self._offset, texts, read)
        )


# In Kafka's order: the first matching prefix counts.
_READERS: Final = (
    (records.TARGET_STATE, ConfigView._target),
    (records.CONNECTOR, ConfigView._connector),
    (records.TASK, ConfigView._task),
    (records.COMMIT, ConfigView._commit),
    (records.RESTART, ConfigView._restart),
    (records.FENCING, ConfigView._fencing),
    (records.LOGGER, ConfigView._logger),
)


def _unreadable(what: str, name: str) -> Skipped:
    return Skipped(f"the {what} of {shown(name)} is unreadable")
