"""The source offsets of connectors, as REST lists, sets and resets them (KIP-875).

REST can change them only while no task writes them: the connector's target state is STOPPED, it has no tasks, and the last
task has committed and returned, on whichever worker it ran. They are where the connector's tasks write them, which may be
another cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    ConnectorNotFound,
    NotStopped,
    StaleConfiguration,
    TasksElsewhere,
)
from mirror_connect.app.herder.interfaces import Resolver
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.herder.plugins import CLASS
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.herder.views import Config
from mirror_connect.app.herder.zombie_fencing import ZombieFencing
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import Offset, OffsetEntry, Partition, SourceOffsetStore, record_size
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.config.java_maps import in_hash_order
from mirror_connect.connectors.definition import UnknownConnectorClass
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.checks import RefusedOffset
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.admin.admin_errors import AdminError

log = logging.getLogger(__name__)

# The store with the offsets of a connector, by its resolved config.
StoreOf = Callable[[Mapping[str, str]], Awaitable[SourceOffsetStore]]
Change = tuple[Partition | None, Offset | None]

# Tasks commit and return within two seconds, or they are killed; a machine may be slow. What a lost worker has sent may land
# for 30 s.
TASKS_WAIT_S: Final = 35.0
POLL_S: Final = 0.05
RECORD_LIMIT: Final = 900_000


@dataclass(frozen=True, slots=True)
class Transactions:
    """For connectors that copy exactly once: their former tasks are fenced, and changes are one transaction.

    As in Connect, it has the transactional id of the connector's first task.
    """

    fencing: ZombieFencing
    transactional_id: Callable[[TaskId], str]


class SourceOffsets:
    """See the module. `elsewhere` says which other workers may still write anything of a stopped connector.

    `transactions`: None if connectors copy at least once.
    """

    def __init__(
        self,
        configs: ConfigStore,
        leadership: Leadership,
        reconciler: Reconciler,
        resolver: Resolver,
        store_of: StoreOf,
        *,
        elsewhere: Callable[[str], str],
        transactions: Transactions | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._transactions = transactions
        self._configs = configs
        self._leadership = leadership
        self._reconciler = reconciler
        self._reads = ConfigReads(resolver.resolve, "offsets")
        self._store_of = store_of

    async def list(self, name: str) -> list[OffsetEntry]:
        """All committed source offsets of a connector, read to the topic's present end."""
        await self._leadership.until_ready()
        snapshot = self._configs.snapshot()
        if not snapshot.contains(name):
            raise ConnectorNotFound(name)
        config = snapshot.connectors[name]
        resolved = await self._resolved(config)
        store = await self._store(config, resolved)
        try:
            return await store.entries(name)
        except (ClusterUnreachable, NotAuthorized) as error:
            raise _redacted(error, config, resolved) from error

    async def alter(self, name: str, changes: Sequence[Change]) -> None:
        """Sets offsets, all or none of them; None removes one, whatever its partition looks like."""
        # In the bytes of a Java worker, which finds offsets by the exact bytes of the key.
        ordered: list[Change] = [(in_hash_order(partition), in_hash_order(offset)) for partition, offset in changes]
        for partition, offset in ordered:
            if record_size(name, partition, offset) > RECORD_LIMIT:
                raise BadRequest(f"A source partition and its offset take more than {RECORD_LIMIT} bytes")

        idle: list[str] = []

        def check(config: Config, resolved: Mapping[str, str]) -> None:
            idle.clear()
            try:
                definition = connector_definition(resolved.get(CLASS, ""), config.get(CLASS))
                for partition, offset in ordered:
                    if offset is None:
                        continue
                    if partition is None:
                        raise RefusedOffset("Source partitions may not be null")
                    definition.check_offset(partition, offset)
                    if (why := definition.idle_offset(resolved, partition)) is not None:
                        idle.append(why)
            except (RefusedOffset, UnknownConnectorClass) as error:
                raise BadRequest(str(error)) from None

        await self._change(name, check, lambda store, transactional_id: store.put(name, ordered, transactional_id))
        removed = sum(offset is None for _, offset in ordered)
        done = ((len(ordered) - removed, "set"), (removed, "removed"))
        parts = [f"{counted(count, 'source offset')} {what}" for count, what in done if count]
        log.info("Connector %s: %s", ConnectorName(name), ", ".join(parts) or "no source offset changed")
        # Connect's connectors take it, too, and REST has no place to say it.
        for why, count in Counter(idle).items():
            log.warning(
                "Connector %s: no task will read %s of those: %s",
                ConnectorName(name),
                counted(count, "source offset"),
                why,
            )

    async def reset(self, name: str) -> None:
        """Removes every offset of a connector."""
        await self._change(name, lambda *_: None, lambda store, transactional_id: store.forget(name, transactional_id))
        log.info("Connector %s: all source offsets removed", ConnectorName(name))

    async def _change(
        self,
        name: str,
        check: Callable[[Config, Mapping[str, str]], None],
        write: Callable[[SourceOffsetStore, str], Awaitable[None]],
    ) -> None:
        transactional_id = ""
        while True:
            async with self._leadership.writing() as snapshot:
                config = _stopped(name, snapshot)
            # Without the lock: files, clusters and tasks may be slow, and others may write meanwhile.
            resolved = await self._resolved(config)
            check(config, resolved)
            await self._tasks_gone(name)
            store = await self._store(config, resolved)
            if self._transactions is not None:
                await self._transactions.fencing.lead_round(name, 0, ended=True)
                transactional_id = self._transactions.transactional_id(TaskId(name, 0))
            async with self._leadership.writing() as snapshot:
                if _stopped(name, snapshot) != config or self._reconciler.may_write(name) or self._elsewhere(name):
                    continue
                # Under the lock: nobody resumes the connector before this is written, and its tasks read to the end.
                try:
                    await write(store, transactional_id)
                except (ClusterUnreachable, NotAuthorized) as error:
                    raise _redacted(error, config, resolved) from error
                return

    async def _tasks_gone(self, name: str) -> None:
        try:
            async with asyncio.timeout(TASKS_WAIT_S):
                while self._reconciler.may_write(name) or self._elsewhere(name):
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            why = self._elsewhere(name)
            raise (TasksElsewhere(name, why) if why else StaleConfiguration()) from None

    async def _resolved(self, config: Config) -> Mapping[str, str]:
        try:
            return await self._reads.resolve(set_values(config))
        except ConfigError as error:
            raise BadRequest(str(error)) from None

    async def _store(self, config: Config, resolved: Mapping[str, str]) -> SourceOffsetStore:
        try:
            return await self._store_of(resolved)
        except (ClusterUnreachable, NotAuthorized, AdminError, ConfigError) as error:
            raise _redacted(error, config, resolved) from error


def _redacted(error: Exception, config: Config, resolved: Mapping[str, str]) -> ConnectError:
    # The text names the addresses of the cluster, which may come from a config provider.
    provided = {value for name, value in resolved.items() if value and value != config.get(name)}
    return ConnectError(redact(str(error), provided))


def _stopped(name: str, snapshot: ConfigSnapshot) -> Config:
    if not snapshot.contains(name):
        raise ConnectorNotFound(name)
    if snapshot.target_state(name) != TargetState.STOPPED or snapshot.task_count(name):
        raise NotStopped(name)
    return snapshot.connectors[name]
