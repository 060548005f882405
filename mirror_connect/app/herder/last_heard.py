"""What statuses are worth while this worker has no word from its own cluster.

Connect shows the last status for as long as it likes. This worker knows better: its lease is over, so it has stopped its
connectors and tasks, and nobody could write down that they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirror_connect.app.storage.status import RUNNING, UNASSIGNED, Status
from mirror_connect.connectors.utc_time import utc


@dataclass(frozen=True, slots=True)
class Silence:
    """`since`: of the last word, in seconds since 1970; `why`: one line, as far as it is known."""

    since: float
    why: str

    def __str__(self) -> str:
        return f"This worker has no word from its own cluster since {utc(self.since)}: {self.why}"


def as_last_heard(status: Status, worker_id: str, silence: Silence) -> Status:
    """For people; the state of what this worker ran, or the last one that it heard of, and why that is all."""
    if status.worker_id == worker_id and status.state == RUNNING:
        return replace(status, state=UNASSIGNED, trace=f"{silence}; what it ran is stopped until it has")
    line = f"{silence}; this is what was so then"
    return replace(status, trace=line if status.trace is None else f"{status.trace.rstrip()}\n{line}")
