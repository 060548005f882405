"""How much of a copy sampling verification has compared, and what it found, as counts that only grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class VerifiedRecords:
    """Source offsets, as `verify --follow` counts them: `copied` since the beginning, of them `compared` and `counted`.

    `findings`: records by kind of fault (verify/findings.py), also those of which there are none.
    """

    copied: int = 0
    compared: int = 0
    counted: int = 0
    findings: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, more: VerifiedRecords) -> VerifiedRecords:
        kinds = {**self.findings, **more.findings}
        return VerifiedRecords(
            self.copied + more.copied,
            self.compared + more.compared,
            self.counted + more.counted,
            {kind: self.findings.get(kind, 0) + more.findings.get(kind, 0) for kind in kinds},
        )

    def followed_by(self, newer: VerifiedRecords) -> VerifiedRecords:
        """The newer counts, but none goes back: after a link went back, fewer offsets may be copied."""
        kinds = {**self.findings, **newer.findings}
        return VerifiedRecords(
            max(self.copied, newer.copied),
            max(self.compared, newer.compared),
            max(self.counted, newer.counted),
            {kind: max(self.findings.get(kind, 0), newer.findings.get(kind, 0)) for kind in kinds},
        )
