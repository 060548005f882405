"""One hour of a link in steps of ten seconds, and since when it has its present state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

STEP_S: Final = 10
KEPT_S: Final = 3600


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A link at one moment. Records and bytes are those of a second, as a mean of the step before. None: not told.

    `state`: as in the status topic.
    """

    time_ms: int
    lag_records: int | None
    lag_seconds: float | None
    records: float | None
    bytes: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    state: str


class LinkHistory:
    """See the module."""

    def __init__(self) -> None:
        self._points: deque[HistoryPoint] = deque(maxlen=KEPT_S // STEP_S)
        self._state: tuple[str, int] | None = None

    def since_ms(self, state: str, now_ms: int) -> int:
        """Since when the link has this state, its present one, as far as this process has seen."""
        if self._state is None or self._state[0] != state:
            self._state = (state, now_ms)
        return self._state[1]

    def add(self, point: HistoryPoint) -> None:
        """The next one; the oldest is forgotten after an hour."""
        self._points.append(point)

    def points(self, minutes: float, now_ms: int) -> list[HistoryPoint]:
        """Those of the last minutes, the newest last."""
        return [each for each in self._points if each.time_ms > now_ms - minutes * 60_000]
