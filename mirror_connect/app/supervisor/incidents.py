"""What has happened to a task and stays so, like records that were gone before they were read: lines of its status.

What lasts is told as long as it lasts (standing partitions, outages); what is past would be told by the log alone, and who
looks at REST would never hear of it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mirror_connect.connectors.utc_time import utc

# The newest of them are kept, and of each line so much; a status is one record of Kafka's.
MOST_LINES: Final = 20
LONGEST_LINE: Final = 500


class Incidents:
    """Of one run. `now` is in seconds since 1970."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, str]] = deque(maxlen=MOST_LINES)
        self._count = 0

    def add(self, line: str, now: float) -> None:
        """Keeps it, without secrets; a line that is there already came with a report that was sent twice."""
        line = line[:LONGEST_LINE]
        if all(line != kept for _, kept in self._kept):
            self._kept.append((now, line))
            self._count += 1

    @property
    def lines(self) -> list[str]:
        """For the status, the newest last; none if nothing has happened."""
        if not self._kept:
            return []
        before = self._count - len(self._kept)
        earlier = f"; {before} earlier ones are in the log" if before else ""
        return [
            f"Has happened, until the task is restarted{earlier}:",
            *(f"{utc(when)} {line}" for when, line in self._kept),
        ]
