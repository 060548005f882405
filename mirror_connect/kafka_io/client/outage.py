"""What doesn't answer at present: since when and why, as a line of its task's status.

The line holds no figure that grows, so a status is written when something changes: not before the silence has lasted for a
moment, as every broker restarts now and then, and another reason is taken up twice a minute at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.utc_time import utc

SHOWN_AFTER_S: Final = 2.0
REASON_S: Final = 30.0
# Since when, by run and name: the epoch that follows in this process goes on with it.
_begun: dict[tuple[str, str], float] = {}


class Outage:
    """`what`: which thing can't be done, without a full stop; `run`: whose. `clock` gives seconds since 1970."""

    def __init__(self, what: str, run: str = "", clock: Callable[[], float] = time.time) -> None:
        self._what = what
        self._key = (run, what)
        self._clock = clock
        self._since: float | None = None
        self._reason = ""
        self._reason_at = 0.0

    def lasts(self, reason: str) -> None:
        """It was tried again, in vain."""
        now = self._clock()
        if self._since is None:
            self._since = _begun.setdefault(self._key, now)
            self._reason, self._reason_at = reason, now
        elif reason != self._reason and now - self._reason_at >= REASON_S:
            self._reason, self._reason_at = reason, now

    def over(self) -> None:
        """It answers."""
        self._since = None
        _begun.pop(self._key, None)

    @property
    def line(self) -> str:
        """For the status; empty while all is well, or may be again in a moment."""
        if self._since is None or self._clock() - self._since < SHOWN_AFTER_S:
            return ""
        return f"{self._what} since {utc(self._since)}: {self._reason}; it is tried again until it answers"


def cluster_away(name: str, bootstrap: str | None, run: str = "") -> Outage:
    """Of a whole cluster; `bootstrap` as the client properties have it."""
    return Outage(f"The {name} (bootstrap.servers {bootstrap or 'not given'}) can't be reached", run)
