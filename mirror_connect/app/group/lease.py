"""For how long a worker's place in its group is certain, and since when its coordinator has not answered.

A place is certain for session.timeout.ms after the worker *sent* a heartbeat that the coordinator accepted, minus two
seconds for requests in flight. After that another worker may have it. The clock also counts while the process is stopped or
the machine sleeps.

A heartbeat that is answered with REBALANCE_IN_PROGRESS was accepted, too: the coordinator starts the session anew, and no
new generation begins without the member before rebalance.timeout.ms is over. That time began after the last heartbeat that
was accepted in a settled group, so until it is over, such a heartbeat renews the lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mirror_connect.app.herder.interfaces import Silence

MARGIN_SECONDS: Final = 2.0


class GroupLease:
    """See the module. `clock` is the boot_clock. `last_beat`: when the last accepted heartbeat was sent."""

    def __init__(self, session_s: float, rebalance_s: float, clock: Callable[[], float]) -> None:
        self._session = session_s
        self._rebalance = rebalance_s
        self._clock = clock
        self._until = float("-inf")
        self._settled = float("-inf")
        self.last_beat = float("-inf")
        # When the coordinator last answered, in seconds since 1970 and by the clock; and why it has not answered since.
        self._last_answer: tuple[float, float] | None = None
        self._problem: str | None = None

    def remaining(self) -> float:
        """Seconds for which the place is certain; 0 if it is not."""
        return max(0.0, self._until - self._clock())

    def renew(self, sent: float, *, settled: bool) -> None:
        """The coordinator has accepted what was sent then. `settled`: the group did not rebalance."""
        self.last_beat = sent
        self._last_answer, self._problem = (time.time(), self._clock()), None
        if settled:
            self._settled = sent
        self._until = min(sent + self._session, self._settled + self._rebalance) - MARGIN_SECONDS

    def end(self) -> None:
        """The place is somebody else's, or may be."""
        self._until = self._settled = float("-inf")

    def no_answer(self, problem: str) -> None:
        """The coordinator did not answer: ask again at once."""
        self._problem = problem
        self.last_beat = float("-inf")

    def silence(self, refusal: str) -> Silence | None:
        """Since when and why there is no answer; None while the place is certain, and before the first answer.

        `refusal`: why the broker keeps the worker out of the group, or empty.
        """
        if self._last_answer is None or self.remaining() > 0:
            return None
        since, at = self._last_answer
        overdue = "its heartbeats get no answer" if self._clock() - at > self._session else ""
        why = self._problem or refusal or overdue
        return Silence(since, why) if why else None
