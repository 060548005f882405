"""The trace of a RUNNING task: its present problems, then the events since its start.

A problem is shown while it lasts. An event is past, like records that were deleted before they were read. It stays in the
status, or only the log would show it. The trace of a FAILED task comes from query.py and task_runs.py instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from mirror_connect.connectors.clock import utc
from mirror_connect.connectors.problems import Problem, status_lines
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.task_protocol import TaskReport

# So many of the newest events, and so many characters of each line: a status is one Kafka record.
MOST_LINES: Final = 20
LONGEST_LINE: Final = 500


class PastEvents:
    """The past events of one run. `now` is in seconds since 1970."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, str]] = deque(maxlen=MOST_LINES)
        self._count = 0

    def add(self, event: Problem, secrets: Iterable[str], now: float) -> str:
        """Keeps it and returns its line without secrets. A line that is there already came with a repeated report."""
        line = redact(event.line, secrets)
        if all(line[:LONGEST_LINE] != known for _, known in self._kept):
            self.keep(line, now)
        return line

    def keep(self, line: str, now: float) -> None:
        """Keeps a line of the worker's own, without secrets."""
        self._kept.append((now, line[:LONGEST_LINE]))
        self._count += 1

    @property
    def lines(self) -> list[str]:
        """The newest last; none if nothing has happened."""
        if not self._kept:
            return []
        before = self._count - len(self._kept)
        earlier = f" ({before} earlier ones are in the log)" if before else ""
        return [
            f"Events since the task started{earlier}:",
            *(f"{utc(when)} {line}" for when, line in self._kept),
        ]


def running_trace(
    report: TaskReport, late: Iterable[str | None], events: PastEvents, secrets: Iterable[str]
) -> str | None:
    """The trace of a task that runs, or None. `late`: why it does not have its new partitions yet, if so."""
    lines = [*status_lines(report.problems, report.more_problems), *filter(None, late)]
    shown = redact("\n".join(lines), secrets).splitlines()
    # Cut after redaction, which would not find half a secret.
    return "\n".join((*(line[:LONGEST_LINE] for line in shown), *events.lines)) or None
