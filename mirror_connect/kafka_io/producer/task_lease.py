"""The time for which a task may still write. The worker renews it with each answer to a report.

These check it: `Sender` (sender.py) before it takes batches, and when `Produce.encode` writes a request;
`ProducerIdentity.take` (producer_identity.py); `TransactionCoordinator` (transaction_coordinator.py); `OffsetSyncs`
(offset_syncs_writer.py); `GroupSync` (group_sync.py).
"""

from __future__ import annotations

from collections.abc import Callable

from mirror_connect.connectors.clock import boot_clock


class LeaseLostError(Exception):
    """The lease ended before a request that needs it was written to the connection: nothing was sent."""


class LeaseCheck:
    """Called when a request is written, which may be long after `send`: the connection may have to be made first.

    `passed`: whether the request was written.
    """

    __slots__ = ("_valid", "passed")

    def __init__(self, valid: Callable[[], bool]) -> None:
        self._valid = valid
        self.passed = False

    def __call__(self) -> None:
        """Raises LeaseLostError without a lease."""
        if not self._valid():
            raise LeaseLostError
        self.passed = True


class TaskLease:
    """`clock` gives seconds and continues while the process is stopped."""

    def __init__(self, clock: Callable[[], float] = boot_clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    def renew(self, asked: float, lease_ms: int) -> None:
        """Notes the worker's answer, in ms. `asked`: the clock before the report was sent.

        The lease counts from then, so it is never too long, however long the answer took.
        """
        self._until = asked + lease_ms / 1000

    def end(self) -> None:
        """Nothing may be written until the next `renew`."""
        self._until = float("-inf")

    def valid(self) -> bool:
        """Whether the target may be written to at this moment."""
        return self._clock() < self._until

    @property
    def left_s(self) -> float:
        """For how many seconds it is still valid; 0 without one."""
        return max(0.0, self._until - self._clock())
