"""The time for which a task may write: part of its worker's place in the group, handed over with each answer to a report."""

from __future__ import annotations

from collections.abc import Callable

from mirror_connect.connectors.boot_clock import boot_clock


class LeaseLostError(Exception):
    """The lease ran out before a request that needs it was written to the connection: nothing was sent."""


class TaskLease:
    """`clock` gives seconds and goes on while the process is stopped."""

    def __init__(self, clock: Callable[[], float] = boot_clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    def renew(self, asked: float, lease_ms: int) -> None:
        """The worker answered with this many ms; `asked`: the clock from before the report was sent.

        However long the answer took, the lease is never too long.
        """
        self._until = asked + lease_ms / 1000

    def valid(self) -> bool:
        """Whether the target may be written to at this moment."""
        return self._clock() < self._until
