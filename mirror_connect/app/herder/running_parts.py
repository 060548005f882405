"""The connector parts that run in this worker: one at most for each connector, replaced only after its end.

A part is started in the background (resolving secrets reads files, and a predecessor may take a moment to end), and what
a replaced or stopped part still says is not heard.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.interfaces import PartFactory, Resolver
from mirror_connect.app.worker_connectors.host import ConnectorPart, PartHost
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.definition import UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.secrets import redact, resolved_secrets

log = logging.getLogger(__name__)
# Between two starts: those of hundreds of connectors, each with clients to be made, would keep REST waiting meanwhile.
PACE_S: Final = 0.02


class RunningParts:
    """See the module; `host` hears of the parts that count."""

    def __init__(
        self, make_part: PartFactory, resolver: Resolver, host: PartHost, notices: ConfigNotices | None = None
    ) -> None:
        self._make_part = make_part
        self._notices = notices or ConfigNotices()
        self._reads = ConfigReads(resolver.resolve, "connectors")
        self._host = host
        self._current: dict[str, _Ears] = {}
        self._changes: dict[str, asyncio.Task[None]] = {}
        self._parts: dict[str, ConnectorPart] = {}
        self._pace = asyncio.Lock()

    def names(self) -> frozenset[str]:
        """Connectors with a part that was started and not stopped; a failed one counts."""
        return frozenset(self._current)

    def secrets(self) -> frozenset[str]:
        """The secrets of these connectors, as far as their configs are resolved."""
        return frozenset().union(*(ears.secrets for ears in self._current.values()))

    def start(self, name: str, config: Mapping[str, str]) -> None:
        """Starts a connector, or starts it anew with this (raw) config."""
        ears = self._current[name] = _Ears(self._host, lambda: self._current.get(name) is ears)
        self._change(name, lambda: self._replace(name, config, ears))

    def stop(self, name: str) -> None:
        """Stops a connector if it runs."""
        if self._current.pop(name, None) is not None:
            self._change(name, lambda: self._end(name))

    async def stop_all(self) -> None:
        """Stops every connector and returns when all have ended."""
        for name in list(self._current):
            self.stop(name)
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

        self._changes[name] = asyncio.create_task(in_turn())

    async def _replace(self, name: str, config: Mapping[str, str], ears: _Ears) -> None:
        await self._end(name)
        if not ears.heard():
            return
        try:
            resolved = await self._reads.resolve(config)
            if not ears.heard():
                return
            ears.secrets = resolved_secrets(config, resolved)
            # Also of configs that another worker, perhaps one in Java, has accepted.
            definition = connector_definition(resolved["connector.class"])
            await asyncio.to_thread(self._notices.say, name, definition, resolved, config)
            async with self._pace:
                if ears.heard():
                    await asyncio.sleep(PACE_S)
            if not ears.heard():
                return
            part = self._parts[name] = self._make_part(name, config, resolved, ears)
            part.start()
        except Exception as error:  # noqa: BLE001 — whatever it is, it becomes the connector's trace
            # One connector that can't be started is its own trouble alone: FAILED, with the reason.
            told = isinstance(error, (ConfigError, UnknownConnectorClass))
            ears.failed(name, str(error) if told else "".join(traceback.format_exception(error)))

    async def _end(self, name: str) -> None:
        part = self._parts.pop(name, None)
        if part is None:
            return
        try:
            await part.stop()
        except Exception:
            log.exception("Connector %s did not stop cleanly", name)


class _Ears:
    """A PartHost that goes deaf when its part is no longer the connector's."""

    def __init__(self, host: PartHost, heard: Callable[[], bool]) -> None:
        self._host = host
        self.heard = heard
        self.secrets: frozenset[str] = frozenset()

    def started(self, name: str) -> None:
        if self.heard():
            self._host.started(name)

    def failed(self, name: str, trace: str) -> None:
        if self.heard():
            self._host.failed(name, redact(trace, self.secrets))

    def troubled(self, name: str, line: str | None) -> None:
        if self.heard():
            self._host.troubled(name, None if line is None else redact(line, self.secrets))

    def reconfigure(self, name: str, task_configs: Sequence[Mapping[str, str]]) -> None:
        if self.heard():
            self._host.reconfigure(name, task_configs)
