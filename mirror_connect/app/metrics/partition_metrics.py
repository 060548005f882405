"""What is known of one source partition of a connector, whichever task has it."""

from __future__ import annotations

from mirror_connect.app.metrics.growth import Growth
from mirror_connect.app.metrics.recent_window import RecentWindow
from mirror_connect.connectors.task_measures import PartitionMeasures


class PartitionMetrics:
    """See the module. `told`: the last row about it, which came from `attempt` of `task`.

    `growth` counts in the life of the process: what was told by former tasks and attempts as well. `age`, `latency`: of the
    last minute, see PartitionMeasures.
    """

    __slots__ = ("age", "attempt", "growth", "latency", "task", "told")

    def __init__(self, told: PartitionMeasures, now: float) -> None:
        self.told = told
        self.task = -1
        self.attempt = ""
        self.growth = Growth(now)
        self.age = RecentWindow()
        self.latency = RecentWindow()
