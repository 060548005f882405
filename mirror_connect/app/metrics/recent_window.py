"""Smallest, largest and mean duration of the last minute, as Kafka's metrics keep them: two samples of 30 seconds."""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.task_measures import Window

SAMPLE_S: Final = 30.0


class RecentWindow:
    """See the module. `now`: seconds of a monotonic clock."""

    __slots__ = ("_before", "_count", "_least", "_most", "_number", "_total")

    def __init__(self) -> None:
        self._number = 0
        self._least = self._most = self._total = self._count = 0
        self._before: Window | None = None

    def add(self, window: Window, now: float) -> None:
        """So many more. Called for each partition of each report, so it makes no new Window."""
        number = int(now // SAMPLE_S)
        least, most, total, count = window
        if number != self._number:
            self._before = self._present if number == self._number + 1 else None
            self._number, self._count = number, 0
        if self._count:
            if least < self._least:  # noqa: PLR1730 — a call takes three times as long
                self._least = least
            if most > self._most:  # noqa: PLR1730
                self._most = most
            self._total += total
            self._count += count
        else:
            self._least, self._most, self._total, self._count = least, most, total, count

    def recent(self, now: float) -> Window | None:
        """What was added in the last 30 to 60 seconds; None if nothing was."""
        passed = int(now // SAMPLE_S) - self._number
        if passed > 1:
            return None
        present = self._present
        if passed == 1 or present is None:
            return present
        return present.plus(self._before)

    @property
    def _present(self) -> Window | None:
        return Window(self._least, self._most, self._total, self._count) if self._count else None
