"""What a request that writes a connector's config waits for, before its answer.

In distributed mode Connect answers when the config is written, in standalone mode when the connector has started and its
tasks are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from mirror_connect.app.errors import StartFailed
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.herder.task_config_writes import TaskConfigWrites
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore

# Connect waits up to 90 s; many clients time out after 30.
START_WAIT_S: Final = 25.0

# Waits, and returns the configs after the start; None if nothing was waited for.
Started = Callable[[], Awaitable[ConfigSnapshot | None]]


class Starts(Protocol):
    """See the module."""

    def expect(self, name: str) -> Started:
        """Call it before the write, under the lock for writes, and the returned function after both."""


class NoStarts:
    """Distributed mode: another worker may start the connector."""

    def expect(self, name: str) -> Started:
        """See Starts."""
        del name
        return _nothing


class AwaitedStarts:
    """Standalone mode. A start that takes longer than START_WAIT_S goes on, as the status shows."""

    def __init__(self, reconciler: Reconciler, task_configs: TaskConfigWrites, configs: ConfigStore) -> None:
        self._reconciler = reconciler
        self._task_configs = task_configs
        self._configs = configs

    def expect(self, name: str) -> Started:
        """See Starts. The function raises StartFailed."""
        runs = self._reconciler.expect(name)

        async def started() -> ConfigSnapshot:
            try:
                async with asyncio.timeout(START_WAIT_S):
                    if not await runs:
                        raise StartFailed(f"Failed to transition connector {name} to state STARTED")
                    await self._task_configs.stored(name)
            except TimeoutError:
                pass
            return self._configs.snapshot()

        return started


async def _nothing() -> None:
    return None
