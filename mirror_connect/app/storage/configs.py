"""The config topic: connectors, their task configs and target states, which are what users want.

Reads use memory (`snapshot`). Every write returns when it was read back from the topic, so that the writer sees it. Only the
group's leader writes connectors, target states, task configs, restarts and the session key. Before that it claims the topic,
which fences every former leader, and reads what former leaders have written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from mirror_connect.app.config.inter_worker import InterWorker
from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage.config_records import Entry, RestartRequest, SessionKey
from mirror_connect.app.storage.config_view import Change, ConfigSnapshot, ConfigView, Skipped
from mirror_connect.app.storage.topic_log import READ_TIMEOUT, TopicLog, skipped_line
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord

log = logging.getLogger(__name__)

Listener = Callable[[Change], None]


class ConfigStore:
    """The config topic as the herder uses it. All writes raise ClusterUnreachable or NotAuthorized."""

    def __init__(
        self, topic_log: TopicLog, clock: Callable[[], float] = time.time, inter_worker: InterWorker | None = None
    ) -> None:
        self._log = topic_log
        self._clock = clock
        self._inter_worker = inter_worker or InterWorker()
        self._view = ConfigView()
        self._listeners: list[Listener] = []
        self._following = False
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Reads the topic to its end. Listeners get only the changes after it."""
        self._view = ConfigView()
        self._following = False
        await self._log.start(self._receive)
        self._following = True

    async def stop(self) -> None:
        """Stops following the topic."""
        await self._log.stop()

    def add_listener(self, listener: Listener) -> None:
        """Calls `listener` on the loop with every change in the topic, own writes too."""
        self._listeners.append(listener)

    def snapshot(self) -> ConfigSnapshot:
        """The state as read so far; immutable."""
        return self._view.snapshot()

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._log.name

    @property
    def offset(self) -> int:
        """Of the last record that was read; -1 before the first."""
        return self._view.snapshot().offset

    async def refresh(self, timeout: float = READ_TIMEOUT) -> ConfigSnapshot:
        """The state after reading to the topic's present end, for example for a new leader."""
        await self._log.read_to_end(timeout)
        return self.snapshot()

    async def claim(self) -> ConfigSnapshot:
        """Makes this worker the only writer, and reads all that others wrote: none of it arrives later. For the leader."""
        async with self._writing:
            await self._log.claim()
            await self._log.read_to_end()
        return self.snapshot()

    @property
    def claimed(self) -> bool:
        """Whether this worker may write. False after a failed write: another worker may have claimed the topic."""
        return self._log.claimed

    def relinquish(self) -> None:
        """Gives up the claim: this worker no longer leads."""
        self._log.relinquish()

    async def put_connector(self, name: str, config: Mapping[str, str], target_state: str | None = None) -> None:
        """Creates a connector or replaces its config; an initial target state is written before it."""
        entries = [records.target_state_entry(name, target_state)] if target_state is not None else []
        await self._write([*entries, records.connector_entry(name, config)])

    async def delete_connector(self, name: str) -> None:
        """Deletes a connector. As in Kafka, its task, commit and offset records stay in their topics."""
        await self._write(records.deletion_entries(name))

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Writes and commits the task configs of a connector, all at once."""
        async with self._writing:
            # Reads everything before: the commit must not include task records of another leader.
            await self._log.read_to_end()
            await self._log.append_all([records.task_entry(name, task, config) for task, config in enumerate(configs)])
            # The commit comes after every task record is acknowledged: it must never exist without them.
            await self._log.append(*records.commit_entry(name, len(configs)))
            await self._log.read_to_end()

    async def put_task_count(self, name: str, count: int) -> None:
        """Notes how many tasks of a connector may have transactions, once those of the generation before are fenced."""
        await self._write([records.fencing_entry(name, count)])

    async def put_target_state(self, name: str, state: str) -> None:
        """Writes STARTED, PAUSED or STOPPED."""
        await self._write([records.target_state_entry(name, state)])

    async def put_restart_request(self, request: RestartRequest) -> None:
        """Asks all workers to restart instances of a connector."""
        await self._write([records.restart_entry(request)])

    async def put_logger_level(self, namespace: str, level: str) -> None:
        """Sets a log level on all workers."""
        async with self._writing:
            await self._log.append_as_member(*records.logger_entry(namespace, level))
            await self._log.read_to_end()

    @property
    def lacks_session_key(self) -> bool:
        """Whether the leader has to write a session key: there is none, or it is too old or of another kind."""
        key = self.snapshot().session_key
        return key is None or self._inter_worker.replaces(key.key, key.algorithm, key.created, self._now_ms())

    async def put_session_key(self) -> bool:
        """Writes a new session key if there has to be one; returns whether it did. The leader signs and calls it."""
        if not self.lacks_session_key:
            return False
        key = SessionKey(self._inter_worker.new_key(), self._inter_worker.generation_algorithm, self._now_ms())
        await self._write([records.session_key_entry(key)])
        return True

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    async def _write(self, entries: Sequence[Entry]) -> None:
        async with self._writing:
            await self._log.append_all(entries)
            await self._log.read_to_end()

    def _receive(self, record: LogRecord) -> None:
        change = self._view.apply(record.key, record.value, record.offset)
        if isinstance(change, Skipped):
            log.error(skipped_line(self._log, record, change.reason))
            return
        if change is None or not self._following:
            return
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:
                # A listener's bug must not keep the record from the others, nor stop the reading.
                log.exception("Config topic: a listener failed on %s", change)
