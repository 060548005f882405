"""The resolved configs of tasks, each for the time of one run of the task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)


class ResolvedTaskConfigs:
    """Reads the config providers at the start of each epoch of a run, to find changed secrets.

    Connect reads them only at a task's start, so a provider's file that is deleted later must not end a running task.
    """

    def __init__(self, resolve: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        self._reads = ConfigReads(resolve, "tasks")
        self._last: dict[TaskId, tuple[str, Mapping[str, str], Mapping[str, str]]] = {}

    async def of(self, task: TaskId, run_id: str, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config with the providers' values. ConfigError if a provider fails at the run's beginning."""
        try:
            resolved = await self._reads.resolve(config)
        except ConfigError as error:
            before = self._last.get(task)
            if before is None or before[0] != run_id:
                raise
            log.warning("Task %s continues with its previous values: %s", task, error)
            _, written, had = before
            # A value that differs as written is new: partitions that were added.
            return {name: had[name] if written.get(name) == value else value for name, value in config.items()}
        self._last[task] = run_id, dict(config), resolved
        return resolved

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets the values of all tasks but these."""
        self._last = {task: last for task, last in self._last.items() if task in tasks}
