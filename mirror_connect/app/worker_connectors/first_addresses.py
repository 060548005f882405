"""Checks that the clusters of a starting task have an address: without one the task fails, as Kafka's clients do.

The check is only at the beginning of a run: a running task waits for name servers as it waits for clusters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from mirror_connect.connectors.config.table import RefusedConfig
from mirror_connect.connectors.errors import ADDRESS_ADVICE, AddressUnknown
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.addresses import bootstrap_servers, has_address

BOOTSTRAP: Final = "bootstrap.servers"
# Name servers may fail for a moment. A starting connector is tried as often and as long.
TRIES: Final = 3
TRIED_FOR_S: Final = 3.0


class FirstAddresses:
    """See the module. `has_address` is called in a thread."""

    def __init__(self, has_address: Callable[[str, int], bool] = has_address) -> None:
        self._has_address = has_address
        self._known: dict[TaskId, str] = {}
        # For a run: since when (seconds of the loop's clock) and how often there was no address.
        self._missed: dict[TaskId, tuple[str, float, int]] = {}
        # A refused task that is restarted fails at once if nothing has changed.
        self._refused: set[TaskId] = set()

    async def check(self, task: TaskId, run_id: str, clusters: Mapping[str, Mapping[str, str]]) -> None:
        """Checks clusters, by name with their client properties. Raises AddressUnknown to ask again, then RefusedConfig."""
        if self._known.get(task) == run_id:
            return
        for what, properties in clusters.items():
            if not await asyncio.to_thread(self._any_has_address, properties[BOOTSTRAP]):
                raise self._problem(task, run_id, what, properties[BOOTSTRAP])
        self._missed.pop(task, None)
        self._refused.discard(task)
        self._known[task] = run_id

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets all tasks but these."""
        self._known = {task: run_id for task, run_id in self._known.items() if task in tasks}
        self._missed = {task: missed for task, missed in self._missed.items() if task in tasks}
        self._refused.intersection_update(tasks)

    def _any_has_address(self, servers: str) -> bool:
        return any(self._has_address(host, port) for host, port in bootstrap_servers(servers))

    def _problem(self, task: TaskId, run_id: str, what: str, servers: str) -> Exception:
        now = asyncio.get_running_loop().time()
        missing, since, tries = self._missed.get(task, (run_id, now, 0))
        if missing != run_id:
            since, tries = now, 0
        self._missed[task] = (run_id, since, tries + 1)
        # Kafka's sentence, which people search for.
        line = f"No resolvable bootstrap urls given in bootstrap.servers of the {what}: {servers}. {ADDRESS_ADVICE}"
        if task not in self._refused and (tries + 1 < TRIES or now - since < TRIED_FOR_S):
            return AddressUnknown(line)
        self._refused.add(task)
        return RefusedConfig(BOOTSTRAP, line)
