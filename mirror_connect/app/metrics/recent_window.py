"""Smallest, largest and mean duration of the last minute, as Kafka's metrics keep them: two samples of 30 seconds."""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.task_measures import Window

SAMPLE_S: Final = 30.0


class RecentWindow:
    """See the module. `now`: seconds of a monotonic clock."""

    __slots__ = ("_before", "_number", "_present")

    def __init__(self) -> None:
        self._number = 0
        self._present: Window | None = None
        self._before: Window | None = None

    def add(self, window: Window, now: float) -> None:
        """So many more."""
        number = int(now // SAMPLE_S)
        if number != self._number:
            self._before = self._present if number == self._number + 1 else None
            self._number, self._present = number, None
        self._present = window.plus(self._present)

    def recent(self, now: float) -> Window | None:
        """What was added in the last 30 to 60 seconds; None if nothing was."""
        passed = int(now // SAMPLE_S) - self._number
        if passed > 1:
            return None
        if passed == 1 or self._present is None:
            return self._present
        return self._present.plus(self._before)
