"""Whether the clusters that a task starts with have an address at all: if not, it fails, as Kafka's clients do when made.

Looked at when a run begins and never again: a task that has run waits for name servers as it waits for clusters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from mirror_connect.connectors.config.config_table import RefusedConfig
from mirror_connect.connectors.errors import AddressUnknown
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.client.addresses import bootstrap_servers, has_address

BOOTSTRAP: Final = "bootstrap.servers"
# Name servers have bad moments: as often, and as long, as a connector that starts is tried.
TRIES: Final = 3
TRIED_FOR_S: Final = 3.0


class FirstAddresses:
    """See the module. `has_address` is asked in a thread."""

    def __init__(self, has_address: Callable[[str, int], bool] = has_address) -> None:
        self._has_address = has_address
        self._known: dict[TaskId, str] = {}
        # Of a run: since when (seconds of the loop's clock) and how often there was no address.
        self._missed: dict[TaskId, tuple[str, float, int]] = {}
        # Who has been refused and is restarted hears at once that nothing has changed.
        self._refused: set[TaskId] = set()

    async def check(self, task: TaskId, run_id: str, clusters: Mapping[str, Mapping[str, str]]) -> None:
        """Clusters by what they are called, each with client properties. AddressUnknown: ask again; then RefusedConfig."""
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
        line = f"No resolvable bootstrap urls given in bootstrap.servers of the {what}: {servers}"
        if task not in self._refused and (tries + 1 < TRIES or now - since < TRIED_FOR_S):
            return AddressUnknown(line)
        self._refused.add(task)
        return RefusedConfig(BOOTSTRAP, line)
