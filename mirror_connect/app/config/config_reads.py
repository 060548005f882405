"""Resolves configs in threads of its own: a file on a share that doesn't answer blocks these, and nothing else.

The loop's default executor serves the restart of Spark, writes and much more. On a machine with two cores, six reads that
hang would block all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from mirror_connect.connectors.errors import ConfigError

THREADS: Final = 4
PATIENCE_S: Final = 10.0

T = TypeVar("T")


class ConfigReads(Generic[T]):
    """Reads config providers for one purpose; each purpose has its own. `name`: of its threads."""

    def __init__(self, resolve: Callable[[Mapping[str, str]], T], name: str, patience_s: float = PATIENCE_S) -> None:
        self._resolve = resolve
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix=f"config-reads-{name}")

    async def resolve(self, config: Mapping[str, str]) -> T:
        """The config with its references replaced, as `resolve` gives it. ConfigError of it, or if it takes too long."""
        if not any("${" in value for value in config.values()):
            # Without references it need not wait for the threads that read.
            return await asyncio.to_thread(self._resolve, config)
        try:
            async with asyncio.timeout(self._patience_s):
                # The timeout also cancels a call that still waits for a thread.
                return await asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, config)
        except TimeoutError:
            problem = (
                f"reading the references of the config took more than {self._patience_s:g} s, or those of {THREADS} other "
                "configs did; look for a file on a share, or a Kubernetes API, that does not answer"
            )
            raise ConfigError("config.providers", None, problem) from None
