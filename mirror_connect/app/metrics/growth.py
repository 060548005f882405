"""Two counters that only grow, records and bytes, and how fast they grew lately."""

from __future__ import annotations

import math
from typing import Final

from mirror_connect.app.metrics.figures import Rate

WINDOW_S: Final = 15.0
# What is added within one step has one mark. So a window is up to a step longer than WINDOW_S.
STEP_S: Final = 3.0
_MARKS: Final = math.ceil(WINDOW_S / STEP_S) + 3
# The shortest time that a rate is computed over: that of the first moment would be anything.
_SHORTEST_S: Final = 1.0


class Growth:
    """See the module. Times are seconds of a monotonic clock; `now`: when counting begins."""

    __slots__ = ("_begin", "_marks", "bytes", "records")

    def __init__(self, now: float) -> None:
        self.records = 0
        self.bytes = 0
        self._begin = now
        # (step, both counters at its end), in their order. Nothing has grown in a step without a mark.
        self._marks: list[tuple[int, int, int]] = []

    def add(self, records: int, bytes_: int, now: float) -> None:
        """So much more."""
        self.records += records
        self.bytes += bytes_
        step, marks = int(now // STEP_S), self._marks
        if marks and marks[-1][0] == step:
            marks[-1] = (step, self.records, self.bytes)
            return
        marks.append((step, self.records, self.bytes))
        if len(marks) > _MARKS:
            del marks[0]

    def rate(self, now: float) -> Rate:
        """The mean of the last WINDOW_S, or since the beginning if that is later."""
        # The newest step that ended before the window.
        last_before = int((now - WINDOW_S) // STEP_S) - 1
        marks = self._marks
        if not marks or marks[-1][0] <= last_before:
            return _NOTHING
        records = bytes_ = 0
        for step, records_then, bytes_then in marks:
            if step > last_before:
                break
            records, bytes_ = records_then, bytes_then
        seconds = max(min(now - self._begin, now - (last_before + 1) * STEP_S), _SHORTEST_S)
        return Rate((self.records - records) / seconds, (self.bytes - bytes_) / seconds)


_NOTHING: Final = Rate(0.0, 0.0)
