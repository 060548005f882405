"""Configs resolved in threads of their own: a file on a share that doesn't answer holds these, and nothing else.

The loop's default executor serves the restart of Spark, writes and much more; six reads that hang would be all of it on a
machine with two cores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mirror_connect.connectors.errors import ConfigError

THREADS: Final = 4
PATIENCE_S: Final = 10.0

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]


class ConfigReads:
    """Asks config providers for one purpose; another purpose has another one. `name`: of its threads."""

    def __init__(self, resolve: Resolve, name: str, patience_s: float = PATIENCE_S) -> None:
        self._resolve = resolve
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix=f"config-reads-{name}")

    async def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config with its references replaced. ConfigError as of the resolver, or when it takes too long."""
        if not any("${" in value for value in config.values()):
            # Nothing to read, so it waits for nobody who reads.
            return await asyncio.to_thread(self._resolve, config)
        try:
            async with asyncio.timeout(self._patience_s):
                # One that still waits for a thread is given up with this.
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, config)
        except TimeoutError:
            problem = (
                f"reading what the config refers to takes more than {self._patience_s:g} s, here or for the "
                f"{THREADS} configs before it; does a file lie on a share that doesn't answer?"
            )
            raise ConfigError("config.providers", None, problem) from None
