"""What sampling verification has told of one connector. It is unknown until it tells, and after it has ended."""

from __future__ import annotations

from mirror_connect.connectors.verified_records import VerifiedRecords


class VerificationMetrics:
    """See the module. `told`: when it told last, in seconds of the worker's clock; None: it is unknown."""

    def __init__(self) -> None:
        self.told: float | None = None
        self._former = self._present = VerifiedRecords()

    @property
    def total(self) -> VerifiedRecords:
        """With what it told in former starts of the connector: counts that never go back."""
        return self._former + self._present

    def take(self, verified: VerifiedRecords | None, now: float) -> None:
        """What the present start has counted so far; None: it has ended."""
        if verified is None:
            self._former, self._present = self.total, VerifiedRecords()
            self.told = None
        else:
            self._present, self.told = verified, now
