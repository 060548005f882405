"""Measures the commits of a task's source offsets."""

from __future__ import annotations

import time

from mirror_connect.spark_jobs.copy.flow_measures import DurationSum


class CommitMeasures:
    """`commits`, `failed`: how many so far; `took`: how long. `committed_ms`: see TaskMeasures.committed_ms.

    `noted_ms`: when the offsets of the next commit were noted.
    """

    def __init__(self) -> None:
        self.commits = self.failed = 0
        self.took = DurationSum()
        self.committed_ms: int | None = None
        self.noted_ms = 0

    def note(self) -> None:
        """The source offsets are noted now, for the next commit."""
        self.noted_ms = int(time.time() * 1000)

    def done(self, noted_ms: int, seconds: float | None) -> None:
        """All that was noted by then is committed; None: nothing had to be written."""
        self.committed_ms = noted_ms
        if seconds is not None:
            self.commits += 1
            took = int(seconds * 1000)
            self.took.add(took, took, 1)
