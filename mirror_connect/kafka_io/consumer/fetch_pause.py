"""How long small fetches pause: a little while processors are free, and longer while this process waits for one.

A fetch for one record costs the brokers and this process nearly as much as one for many. At 2,000 records a second, a fetch
for each record kept two cores so busy that the slowest hundredth of the records came later than with fewer fetches. Where
others want the processors, too, such a process has more to do than its share, and all records wait.
"""

from __future__ import annotations

import asyncio
from typing import Final

# From one fetch to the next. An answer that took longer is followed at once, so a record that comes alone never waits.
BETWEEN_SMALL_S: Final = 0.0015
LONGEST_S: Final = 0.008
# So many times as long as timers are late. On free processors that is 0.1 ms, and on saturated ones 0.3 to 0.8 ms.
TIMES_LATE: Final = 12.0
# Of the timers that are measured: whole milliseconds, as epoll waits for these; and so seldom that they cost nothing.
_TIMER_S: Final = 0.002
_TIMER_EVERY_S: Final = 0.05
# Timers that the mean is about: it follows within a second.
_TIMERS: Final = 16


class FetchPause:
    """Of one Fetcher, for all its fetches. `shortest`: seconds from a fetch with few bytes to the next one, at least."""

    def __init__(self, shortest: float = BETWEEN_SMALL_S) -> None:
        self._shortest = shortest
        self._late = 0.0
        self._next_timer = 0.0

    @property
    def seconds(self) -> float:
        """From a fetch with few bytes to the next one, at present."""
        return max(self._shortest, min(LONGEST_S, TIMES_LATE * self._late))

    def answered(self) -> None:
        """An answer had records, but few bytes. While these come, it is measured how late timers are."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now >= self._next_timer:
            self._next_timer = now + _TIMER_EVERY_S
            due = now + _TIMER_S
            loop.call_at(due, self._fired, loop, due)

    def _fired(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # One that waited for long says no more than that it did.
        late = min(LONGEST_S, max(0.0, loop.time() - due))
        self._late += (late - self._late) / _TIMERS
