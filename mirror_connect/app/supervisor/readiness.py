"""Whether this worker's Spark can take tasks, as its group should know it.

A start takes seconds. What runs elsewhere should not move here before it, because it would stand still meanwhile. Spark that
ends is normally back within seconds, too, which is nothing to tell a group of: tasks that move there and back stand still
twice. Only where it stays away, others do better.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

# Spark that has ended and is back within this time was never away, for the group.
BRIEFLY_S: Final = 15.0
# After that it may not come at all.
FAILING_S: Final = 60.0


class Readiness(IntEnum):
    """The lower, the better. STARTING: Spark will soon be there. FAILING: it has been away for FAILING_S or longer."""

    READY = 0
    STARTING = 1
    FAILING = 2


class SparkReadiness:
    """See the module. `now` is what the last `look` has found.

    `slots`: None while Spark is away, 0 while a cluster has no executor for it; `clock` gives seconds.
    """

    def __init__(self, slots: Callable[[], int | None], clock: Callable[[], float]) -> None:
        self.now = Readiness.STARTING
        self._slots = slots
        self._clock = clock
        self._away_since: float | None = clock()
        self._was_there = False

    def look(self) -> bool:
        """Finds out `now` again; returns whether it has changed. Call it some times a second, and when Spark comes."""
        before, self.now = self.now, self._found()
        return self.now is not before

    def _found(self) -> Readiness:
        if self._slots():
            self._was_there, self._away_since = True, None
            return Readiness.READY
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        away = now - self._away_since
        if away >= FAILING_S:
            return Readiness.FAILING
        return Readiness.READY if self._was_there and away < BRIEFLY_S else Readiness.STARTING
