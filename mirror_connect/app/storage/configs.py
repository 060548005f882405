"""The config topic: connectors, their task configs and target states; the worker's asked state.

Reads are answered from memory (`snapshot`); every write returns when it has come back through the topic, so that
the writer sees it. Only the group's leader writes connectors, target states, task configs, restarts and the session key:
it claims the topic first, which fences every former leader, and reads what those have written.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mirror_connect.app.storage import config_records as records
from mirror_connect.app.storage.config_records import Entry, RestartRequest, SessionKey
from mirror_connect.app.storage.config_view import Change, ConfigSnapshot, ConfigView
from mirror_connect.app.storage.topic_log import TopicLog
from mirror_connect.kafka_io.consumer.topic_log_io import LogRecord

log = logging.getLogger(__name__)

Listener = Callable[[Change], None]

KEY_LIFETIME_MS: Final = 3_600_000


class ConfigStore:
    """The config topic as the herder uses it. All writes raise ClusterUnreachable or NotAuthorized."""

    def __init__(self, topic_log: TopicLog, clock: Callable[[], float] = time.time) -> None:
        self._log = topic_log
        self._clock = clock
        self._view = ConfigView()
        self._listeners: list[Listener] = []
        self._following = False
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Read the topic to its end. Changes are told to listeners from now on only."""
        self._view = ConfigView()
        self._following = False
        await self._log.start(self._receive)
        self._following = True

    async def stop(self) -> None:
        """Stop following the topic."""
        await self._log.stop()

    def add_listener(self, listener: Listener) -> None:
        """Have `listener` called on the loop with every change read from the topic, own writes included."""
        self._listeners.append(listener)

    def snapshot(self) -> ConfigSnapshot:
        """The state as far as it has been read; immutable."""
        return self._view.snapshot()

    async def refresh(self) -> ConfigSnapshot:
        """Read to the topic's present end first, e.g. on becoming leader."""
        await self._log.read_to_end()
        return self.snapshot()

    async def claim(self) -> ConfigSnapshot:
        """Become the one that writes, and know all that others wrote: none of it comes later. For the group's leader."""
        async with self._writing:
            await self._log.claim()
            await self._log.read_to_end()
        return self.snapshot()

    @property
    def claimed(self) -> bool:
        """Whether this worker may write; not any more after a write has failed, as another may have claimed the topic."""
        return self._log.claimed

    def relinquish(self) -> None:
        """This worker leads no more."""
        self._log.relinquish()

    async def put_connector(self, name: str, config: Mapping[str, str], target_state: str | None = None) -> None:
        """Create a connector or replace its config; an initial target state goes in front of it."""
        entries = [records.target_state_entry(name, target_state)] if target_state is not None else []
        await self._write([*entries, records.connector_entry(name, config)])

    async def delete_connector(self, name: str) -> None:
        """Delete a connector; its task, commit and offset records stay in their topics, as in Kafka."""
        await self._write(records.deletion_entries(name))

    async def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Put the task configs of a connector in force, all at once."""
        async with self._writing:
            # Written only when everything before is known: a commit must not meet another leader's leftovers.
            await self._log.read_to_end()
            await self._log.append_all([records.task_entry(name, task, config) for task, config in enumerate(configs)])
            # The commit comes after every task record is acknowledged: it must never be there without them.
            await self._log.append(*records.commit_entry(name, len(configs)))
            await self._log.read_to_end()

    async def put_target_state(self, name: str, state: str) -> None:
        """STARTED, PAUSED or STOPPED."""
        await self._write([records.target_state_entry(name, state)])

    async def put_restart_request(self, request: RestartRequest) -> None:
        """Tell all workers to restart instances of a connector."""
        await self._write([records.restart_entry(request)])

    async def put_fencing_count(self, name: str, tasks: int) -> None:
        """Record a completed round of fencing (exactly-once)."""
        await self._write([records.fencing_entry(name, tasks)])

    async def put_logger_level(self, namespace: str, level: str) -> None:
        """Set a log level on all workers."""
        async with self._writing:
            await self._log.append_as_member(*records.logger_entry(namespace, level))
            await self._log.read_to_end()

    async def put_session_key(self, lifetime_ms: int = KEY_LIFETIME_MS) -> bool:
        """Write a new session key if there is none or it is older than `lifetime_ms`; says whether it did.

        For the leader, at its start and then now and again. We need no such key, but Java workers that take the
        topics over, and those who read them, expect one.
        """
        now = int(self._clock() * 1000)
        present = self.snapshot().session_key
        if present is not None and now < present.created + lifetime_ms:
            return False
        await self._write([records.session_key_entry(SessionKey.new(now))])
        return True

    async def _write(self, entries: Sequence[Entry]) -> None:
        async with self._writing:
            await self._log.append_all(entries)
            await self._log.read_to_end()

    def _receive(self, record: LogRecord) -> None:
        change = self._view.apply(record.key, record.value)
        if change is None or not self._following:
            return
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:
                # A listener's mistake must not keep the record from the others, nor stop the reading.
                log.exception("Config topic: a listener failed on %s", change)
