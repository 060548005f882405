"""What a task's config resolves to, for as long as one run of the task goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)


class ResolvedRuns:
    """Asks the config providers at the start of each epoch of a run, so that changed secrets are found.

    Connect asks at a task's start only: a provider's file that is gone later must not end a task that runs.
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
            log.warning("Task %s goes on with the values it had: %s", task, error)
            _, written, had = before
            # What is not written as it was is new: partitions that joined.
            return {name: had[name] if written.get(name) == value else value for name, value in config.items()}
        self._last[task] = run_id, dict(config), resolved
        return resolved

    def keep(self, tasks: Collection[TaskId]) -> None:
        """Forgets the values of all tasks but these."""
        self._last = {task: last for task, last in self._last.items() if task in tasks}
