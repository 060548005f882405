"""What a consumer group skips and repeats that goes on at a translated position, counted record by record.

Every record has a number of its own, the same on both clusters, so no arithmetic on offsets is needed: transaction markers,
aborted records that were left out and records that were copied twice are all accounted for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# (offset, number) in the order of offsets; only records that carry data, never a transaction's marker.
Log = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`skipped`: unread records that are on the target, but only before the position; `repeated`: read ones at or behind it.

    A record is unread if its source offset is at or above the group's source position. What isn't copied yet is neither.
    """

    skipped: int
    repeated: int


class PartitionTruth:
    """Both logs of one partition. ValueError if a number is there twice at the source: then nothing could be told."""

    def __init__(self, source: Log, target: Log) -> None:
        if len({number for _, number in source}) != len(source):
            raise ValueError("a number was written twice at the source")
        # The last copy counts: who goes on before it reads the record.
        last = {number: offset for offset, number in target}
        copied = [(offset, last[number]) for offset, number in source if number in last]
        self._upstream = [offset for offset, _ in copied]
        self._last_copy = [offset for _, offset in copied]
        self.records = len(source)

    def judge(self, position: int, translated: int) -> Verdict:
        """Of a group that has read everything before `position` at the source and goes on at `translated` on the target."""
        skipped = repeated = 0
        for upstream, last_copy in zip(self._upstream, self._last_copy, strict=True):
            if upstream >= position:
                skipped += last_copy < translated
            else:
                repeated += last_copy >= translated
        return Verdict(skipped, repeated)

    def first_unread(self, position: int) -> float:
        """The lowest place on the target that an unread record lies at last; beyond it a record is skipped. inf: none."""
        pairs = zip(self._upstream, self._last_copy, strict=True)
        return min((last for upstream, last in pairs if upstream >= position), default=math.inf)
