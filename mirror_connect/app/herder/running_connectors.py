"""The connectors that run in this worker: each at most once, and replaced only after its end.

A connector starts in the background: to resolve secrets it reads files, and its predecessor may take a moment to end. When a
connector is replaced or stopped, its context is closed, so its late events have no effect.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.interfaces import ConnectorFactory, Resolver
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, ConnectorEvents, WorkerConnector
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.definition import UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.secrets import resolved_secrets

log = logging.getLogger(__name__)
# Between two starts: hundreds of connectors that make their clients at once would keep REST waiting.
PACE_S: Final = 0.02


class RunningConnectors:
    """See the module; `events` gets the events of connectors that are not replaced or stopped.

    `ended` is called when a connector that was stopped has ended, and was not started again.
    """

    def __init__(
        self,
        new_connector: ConnectorFactory,
        resolver: Resolver,
        events: ConnectorEvents,
        notices: ConfigNotices | None = None,
        *,
        ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._new_connector = new_connector
        self._notices = notices or ConfigNotices()
        self._reads = ConfigReads(resolver.resolve, "connectors")
        self._events = events
        self._ended = ended
        self._contexts: dict[str, ConnectorContext] = {}
        self._changes: dict[str, asyncio.Task[None]] = {}
        self._connectors: dict[str, WorkerConnector] = {}
        self._pace = asyncio.Lock()

    def names(self) -> frozenset[str]:
        """Connectors that were started and not stopped, failed ones too."""
        return frozenset(self._contexts)

    def secrets(self) -> frozenset[str]:
        """The secrets in the resolved configs of these connectors."""
        return frozenset().union(*(context.secrets for context in self._contexts.values()))

    def start(self, name: str, config: Mapping[str, str], *, former_tasks: bool = False) -> None:
        """Starts a connector, or starts it again with this (raw) config. `former_tasks`: see ConnectorContext."""
        if (replaced := self._contexts.get(name)) is not None:
            replaced.close()
        context = self._contexts[name] = ConnectorContext(name, self._events, former_tasks=former_tasks)
        self._change(name, lambda: self._replace(config, context))

    def stop(self, name: str) -> bool:
        """Stops a connector if it runs; whether it has still to end."""
        if (context := self._contexts.pop(name, None)) is not None:
            context.close()
            self._change(name, lambda: self._end(name))
        return name in self._changes

    def stop_each(self) -> None:
        """Stops every connector."""
        for name in list(self._contexts):
            self.stop(name)

    async def stop_all(self) -> None:
        """Stops every connector and returns when all have ended."""
        self.stop_each()
        await asyncio.gather(*self._changes.values(), return_exceptions=True)

    def _change(self, name: str, change: Callable[[], Awaitable[None]]) -> None:
        before = self._changes.get(name)

        async def in_turn() -> None:
            if before is not None:
                await asyncio.wait([before])
            try:
                await change()
            finally:
                if self._changes.get(name) is asyncio.current_task():
                    del self._changes[name]
                    if name not in self._contexts:
                        self._ended(name)

        self._changes[name] = asyncio.create_task(in_turn())

    async def _replace(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        name = context.name
        await self._end(name)
        if context.closed:
            return
        try:
            resolved = await self._reads.resolve(config)
            if context.closed:
                return
            context.secrets = resolved_secrets(config, resolved)
            # Checked again: another worker, perhaps a Java worker, may have accepted the config.
            definition = connector_definition(resolved["connector.class"])
            await asyncio.to_thread(self._notices.log_once, name, definition, resolved, config)
            async with self._pace:
                if not context.closed:
                    await asyncio.sleep(PACE_S)
            if context.closed:
                return
            connector = self._connectors[name] = self._new_connector(config, resolved, context)
            connector.start()
        except Exception as error:  # noqa: BLE001 — any error becomes the connector's trace
            # Only this connector fails. As in a task's trace, the first line is the error.
            expected = isinstance(error, (ConfigError, UnknownConnectorClass))
            stack = "".join(traceback.format_exception(error))
            context.raise_error(
                " ".join(str(error).splitlines()) if expected else f"{type(error).__name__}: {error}\n{stack}"
            )

    async def _end(self, name: str) -> None:
        connector = self._connectors.pop(name, None)
        if connector is None:
            return
        try:
            await connector.stop()
        except Exception:
            log.exception("Connector %s did not stop cleanly", ConnectorName(name))
