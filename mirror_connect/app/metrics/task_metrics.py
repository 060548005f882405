"""What is known of one task: the last that it told, and what all its attempts have counted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from mirror_connect.app.metrics.figures import UNKNOWN_AFTER_S
from mirror_connect.app.metrics.shown_problem import PresentProblems
from mirror_connect.connectors.task_measures import RequestMeasures, TaskMeasures

NOTHING: Final = TaskMeasures(0)
# A report may come again, up to half a minute later. What seems to be much older has another reason: the clock was set back.
_LATE_MS: Final = 60_000


class TaskMetrics:
    """See the module.

    `attempt`: the process that has reported last. `heard`: when its event loop was last known to answer; `heard_ms`: when
    the report came. `told`: its last measures, without rows. `counted`: (records, bytes) of each partition by this attempt.
    `attempts`: how many processes and epochs have reported. `epochs`, `restarts`: how many of them came after the planned
    end of an epoch, and after any other end. `skipped`: records that all of them have given up.
    """

    __slots__ = (
        "_epoch_ended",
        "_former",
        "_skipped_before",
        "attempt",
        "attempts",
        "counted",
        "epochs",
        "heard",
        "heard_ms",
        "problems",
        "restarts",
        "skipped",
        "told",
    )

    def __init__(self) -> None:
        self.attempt = ""
        self.attempts = self.epochs = self.restarts = 0
        self._epoch_ended = False
        self.skipped = 0
        self._skipped_before = 0
        self.heard = -math.inf
        self.heard_ms: int | None = None
        self.told = NOTHING
        self.counted: dict[tuple[str, int], tuple[int, int]] = {}
        self.problems = PresentProblems()
        self._former = NOTHING

    def is_heard(self, now: float) -> bool:
        """Whether it has reported in the last seconds, and does not hang."""
        return now - self.heard < UNKNOWN_AFTER_S

    def measures(self, now: float) -> bool:
        """Whether what it has measured is known. What has not changed is not told again, as long as it reports."""
        return self.told is not NOTHING and self.is_heard(now)

    def hear(self, attempt: str, heard: float, now_ms: int, skipped: int = 0, *, epoch_ended: bool = False) -> None:
        """A report of this attempt, which comes before its measures are taken. `skipped`: records, within the attempt.

        `epoch_ended`: it is the attempt's last one, and the next attempt begins as planned.
        """
        if attempt != self.attempt:
            if self.attempts:
                self.epochs += self._epoch_ended
                self.restarts += not self._epoch_ended
            self.attempts += 1
            self._skipped_before = self.skipped
            self._former, self.told = both(self._former, self.told), NOTHING
            self.attempt = attempt
            self.counted.clear()
        self._epoch_ended = epoch_ended
        self.heard, self.heard_ms = heard, now_ms
        self.skipped = max(self.skipped, self._skipped_before + skipped)

    def is_repeated(self, measures: TaskMeasures) -> bool:
        """Whether a report of the present attempt comes again, or after a later one."""
        return 0 <= self.told.at_ms - measures.at_ms < _LATE_MS

    @property
    def total(self) -> TaskMeasures:
        """With the cumulative counts of all attempts; the others are those of the last report."""
        return both(self._former, self.told)


def both(former: TaskMeasures, present: TaskMeasures) -> TaskMeasures:
    """The counts of both attempts together, and what is no count from the present one."""
    requests = {(each.side, each.kind): each for each in former.requests}
    for each in present.requests:
        before = requests.get((each.side, each.kind))
        requests[each.side, each.kind] = each if before is None else _sum(before, each)
    batches = dict(former.batches)
    for kind, (count, size) in present.batches.items():
        count_before, size_before = batches.get(kind, (0, 0))
        batches[kind] = (count_before + count, size_before + size)
    return replace(
        present,
        latency_counts=added(former.latency_counts, present.latency_counts),
        latency_total_ms=former.latency_total_ms + present.latency_total_ms,
        batches=batches,
        filtered=former.filtered + present.filtered,
        record_errors=former.record_errors + present.record_errors,
        records_skipped=former.records_skipped + present.records_skipped,
        errors_logged=former.errors_logged + present.errors_logged,
        last_error_ms=former.last_error_ms if present.last_error_ms is None else present.last_error_ms,
        dead_letters=former.dead_letters + present.dead_letters,
        failed_dead_letters=former.failed_dead_letters + present.failed_dead_letters,
        compressed_bytes=former.compressed_bytes + present.compressed_bytes,
        sampled=(former.sampled[0] + present.sampled[0], former.sampled[1] + present.sampled[1]),
        requests=tuple(requests.values()),
        commits=former.commits + present.commits,
        failed_commits=former.failed_commits + present.failed_commits,
    )


def added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Two histograms as one; an empty one counts nothing."""
    if not (one and other):
        return one or other
    return tuple(first + second for first, second in zip(one, other, strict=True))


def _sum(before: RequestMeasures, now: RequestMeasures) -> RequestMeasures:
    return RequestMeasures(
        now.side,
        now.kind,
        before.requests + now.requests,
        before.errors + now.errors,
        before.total_ms + now.total_ms,
        now.most_ms,
        before.sent + now.sent,
        before.received + now.received,
        before.throttled_ms + now.throttled_ms,
    )
