"""The status topic: the states of connectors and tasks, and the topics that they wrote to.

docs/internal-formats.md, section 4, describes the records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mirror_connect.app.storage import json_text
from mirror_connect.app.storage.config_records import numbered
from mirror_connect.app.storage.topic_log import TopicLog, skipped_line
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord

log = logging.getLogger(__name__)

# The version of Connect's API that we implement: `version` of the root resource, of plugins and of statuses.
CONNECT_VERSION: Final = "4.3.1"

UNASSIGNED: Final = "UNASSIGNED"
RUNNING: Final = "RUNNING"

_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_TOPIC_OWNER: Final = ":connector-"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or task. `generation`: of the worker group.

    `trace`: why it is in this state, or its problems; None if there is nothing to show. `version`: of the plugin; None for a
    task that failed before it ran. `since_ms`: since when it has this state, in ms since the epoch, as the records'
    timestamps tell it; None if it is not known. It is no part of a record's value.
    """

    state: str
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = CONNECT_VERSION
    since_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a task wrote to; `discovered` in ms since the epoch."""

    topic: str
    connector: str
    task: int
    discovered: int


# The name of a connector or a task, and the status that was read of it; None: it was removed.
StatusListener = Callable[[str | TaskId, Status | None], None]


def encode_status(status: Status) -> bytes:
    """The record value of a connector's or task's status."""
    return json_text.encode(
        {
            "state": status.state,
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    )


def decode_status(value: bytes) -> Status | None:
    """The status in a record value, or None; `version` may be missing (workers before 4.1)."""
    record = json_text.decode_object(value) or {}
    match record:
        case {"state": str(state), "worker_id": str(worker_id), "generation": int(generation)}:
            trace, version = record.get("trace"), record.get("version")
            if isinstance(trace, str | None) and isinstance(version, str | None):
                return Status(state, worker_id, generation, trace, version)
    return None


def topic_key(connector: str, topic: str) -> bytes:
    """The record key of a topic status."""
    return f"{_TOPIC}{topic}{_TOPIC_OWNER}{connector}".encode()


def encode_topic(status: TopicStatus) -> bytes:
    """The record value of a topic status."""
    inner: dict[str, Any] = {
        "name": status.topic,
        "connector": status.connector,
        "task": status.task,
        "discoverTimestamp": status.discovered,
    }
    return json_text.encode({"topic": inner})


class StatusStore:
    """The status topic as the herder uses it: reads from memory, writes to the topic.

    Reads see a write when it was read back (milliseconds later). Writes raise ClusterUnreachable, NotAuthorized.
    """

    def __init__(self, topic_log: TopicLog) -> None:
        self._log = topic_log
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, TopicStatus]] = {}
        self._listeners: list[StatusListener] = []

    async def start(self) -> None:
        """Reads the topic to its end and follows it."""
        self._connectors, self._tasks, self._topics = {}, {}, {}
        await self._log.start(self._receive)

    async def stop(self) -> None:
        """Stops following the topic."""
        await self._log.stop()

    def add_listener(self, listener: StatusListener) -> None:
        """Calls `listener` on the loop with each status that is read, also with one that readers ignore."""
        self._listeners.append(listener)

    async def refresh(self) -> None:
        """Reads to the topic's present end."""
        await self._log.read_to_end()

    def connector(self, name: str) -> Status | None:
        """A connector's status; None for a new or deleted connector."""
        return self._connectors.get(name)

    def connectors(self) -> frozenset[str]:
        """Connectors that have a status or whose tasks have one."""
        return frozenset(self._connectors) | frozenset(self._tasks)

    def task(self, task: TaskId) -> Status | None:
        """A task's status."""
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, connector: str) -> Mapping[int, Status]:
        """The statuses of a connector's tasks, by number."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> list[TopicStatus]:
        """The topics that a connector wrote to since its creation or the last reset."""
        return list(self._topics.get(connector, {}).values())

    async def put_connector(self, name: str, status: Status) -> None:
        """Writes a connector's status."""
        await self._log.append((_CONNECTOR + name).encode(), encode_status(status))

    async def put_task(self, task: TaskId, status: Status) -> None:
        """Writes a task's status. Readers ignore a late UNASSIGNED of a worker that lost the task to another worker."""
        await self._log.append(f"{_TASK}{task}".encode(), encode_status(status))

    async def put_topic(self, status: TopicStatus) -> bool:
        """Writes that a task writes to a topic, unless that is known already; returns whether it was new."""
        if status.topic in self._topics.get(status.connector, {}):
            return False
        await self._log.append(topic_key(status.connector, status.topic), encode_topic(status))
        return True

    async def delete_task(self, task: TaskId) -> None:
        """Removes a task's status."""
        await self._log.append(f"{_TASK}{task}".encode(), None)

    async def delete_topics(self, connector: str) -> None:
        """Removes the topics of a connector; tasks that continue to write add them again."""
        await self._log.append_all([(topic_key(connector, topic), None) for topic in self._topics.get(connector, {})])

    async def delete_connector(self, name: str) -> None:
        """Removes all records of a deleted connector: its topics, its tasks, itself."""
        topics = [topic_key(name, topic) for topic in self._topics.get(name, {})]
        tasks = [f"{_TASK}{TaskId(name, task)}".encode() for task in self._tasks.get(name, {})]
        await self._log.append_all([(key, None) for key in [*topics, *tasks, (_CONNECTOR + name).encode()]])

    def _receive(self, record: LogRecord) -> None:
        key = (record.key or b"").decode(errors="replace")
        if key.startswith(_CONNECTOR):
            self._read_connector(key.removeprefix(_CONNECTOR), record)
        elif key.startswith(_TASK):
            self._read_task(key.removeprefix(_TASK), record)
        elif key.startswith(_TOPIC):
            self._read_topic(key.removeprefix(_TOPIC), record)
        else:
            self._log_unknown(record)

    def _log_unknown(self, record: LogRecord) -> None:
        log.warning(skipped_line(self._log, record, f"its key {_shown_key(record)} is unknown"))

    def _log_unreadable(self, record: LogRecord) -> None:
        log.warning(skipped_line(self._log, record, f"the value of {_shown_key(record)} is unreadable"))

    def _read_connector(self, name: str, record: LogRecord) -> None:
        if not name:
            self._log_unknown(record)
        elif record.value is None:
            self._connectors.pop(name, None)
            self._tasks.pop(name, None)
            self._tell(name, None)
        elif status := decode_status(record.value):
            status = _dated(self._connectors.get(name), status, record)
            self._connectors[name] = status
            self._tell(name, status)
        else:
            self._log_unreadable(record)

    def _read_task(self, key: str, record: LogRecord) -> None:
        found = numbered(key)
        if found is None:
            self._log_unknown(record)
            return
        connector, task = found[0], TaskId(*found)
        if record.value is None:
            tasks = self._tasks.get(connector, {})
            tasks.pop(task.task, None)
            if not tasks:
                self._tasks.pop(connector, None)
            self._tell(task, None)
        elif (status := decode_status(record.value)) is None:
            self._log_unreadable(record)
        else:
            known = self.task(task)
            status = _dated(known, status, record)
            if not _stale(known, status):
                self._tasks.setdefault(connector, {})[task.task] = status
            self._tell(task, status)

    def _tell(self, subject: str | TaskId, status: Status | None) -> None:
        for listener in self._listeners:
            listener(subject, status)

    def _read_topic(self, key: str, record: LogRecord) -> None:
        # The name of a topic can't hold a colon, that of a connector can.
        topic, colon, connector = key.partition(_TOPIC_OWNER)
        if not (topic and colon and connector):
            self._log_unknown(record)
        elif record.value is None:
            self._topics.get(connector, {}).pop(topic, None)
        else:
            match (json_text.decode_object(record.value) or {}).get("topic"):
                case {"name": str(name), "connector": str(owner), "task": int(task), "discoverTimestamp": int(when)}:
                    self._topics.setdefault(owner, {})[name] = TopicStatus(name, owner, task, when)
                case _:
                    self._log_unreadable(record)


def _shown_key(record: LogRecord) -> str:
    return json_text.shown((record.key or b"").decode(errors="replace"))


def _dated(known: Status | None, status: Status, record: LogRecord) -> Status:
    # A record that only tells another trace, or comes again, does not begin the state anew. After a start only the last one
    # may be left in the compacted topic: then the state has lasted at least since that one.
    if known is not None and known.state == status.state and known.since_ms is not None:
        return replace(status, since_ms=known.since_ms)
    return replace(status, since_ms=record.timestamp if record.timestamp > 0 else None)


def _stale(known: Status | None, status: Status) -> bool:
    # A worker wrote it that gave the task up after another worker had started it. Connect also ignores that of the same
    # worker: there UNASSIGNED means only that it gives the task up, here also that the task waits, with the reason.
    return (
        known is not None
        and status.state == UNASSIGNED
        and known.state == RUNNING
        and known.worker_id != status.worker_id
        and known.generation >= status.generation
    )
