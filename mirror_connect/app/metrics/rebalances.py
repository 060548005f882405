"""How often a worker's group has rebalanced and how long that took, as Kafka's connect-worker-rebalance-metrics tell it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mirror_connect.app.metrics.recent_window import RecentWindow
from mirror_connect.connectors.task_measures import Window


@dataclass(frozen=True, slots=True)
class RebalanceFigures:
    """`recent`: durations of the last minute in ms, None without any. `since_ms`: since the end of the last one."""

    rebalancing: bool
    completed: int
    recent: Window | None
    since_ms: float | None


class Rebalances:
    """From the moment in which the worker joins again until it has its assignment. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._completed = 0
        self._begun: float | None = None
        self._ended: float | None = None
        self._recent = RecentWindow()

    def begin(self) -> None:
        """It joins. A join that fails goes on in the next one."""
        if self._begun is None:
            self._begun = self._clock()

    def end(self) -> None:
        """It has its assignment."""
        if self._begun is None:
            return
        now = self._clock()
        took = int((now - self._begun) * 1000)
        self._recent.add(Window(took, took, took, 1), now)
        self._completed, self._begun, self._ended = self._completed + 1, None, now

    def figures(self) -> RebalanceFigures:
        """As of now."""
        now = self._clock()
        since = None if self._ended is None else (now - self._ended) * 1000
        return RebalanceFigures(self._begun is not None, self._completed, self._recent.recent(now), since)
