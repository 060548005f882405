"""What a feed has given to its target partition and the target has not acknowledged: the one place a position follows from.

Offsets are the source's, or for records of a task's own making numbers that the feed counts up. A batch that was split
is acknowledged in pieces. So nothing here counts batches: what counts is the lowest offset that is not acknowledged.
"""

from __future__ import annotations

from collections import deque

from mirror_connect.kafka_io.records.record_batch import Outgoing


class NotInFlightError(Exception):
    """An acknowledgement of what was not given out, or out of order: a fault of ours. A position must not follow from it."""


class InFlight:
    """The batches of one feed that are on their way, oldest first, by the offsets that they cover."""

    __slots__ = ("_covered",)

    def __init__(self) -> None:
        # [lowest offset that is not acknowledged, last offset] of each batch.
        self._covered: deque[list[int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._covered)

    @property
    def oldest(self) -> int | None:
        """The lowest offset that is not acknowledged; None when nothing is in flight."""
        return self._covered[0][0] if self._covered else None

    def given(self, outgoing: Outgoing) -> None:
        """The feed's `take` returns this batch."""
        self._covered.append([outgoing.first_offset, outgoing.last_offset])

    def merged(self, outgoing: Outgoing) -> None:
        """The batch that was given out last goes as this one, which may cover offsets behind it, too."""
        self._covered[-1][1] = outgoing.last_offset

    def acked(self, outgoing: Outgoing) -> bool:
        """The target has this batch, or this piece of one; whether the whole batch is there now. NotInFlightError."""
        if not self._covered:
            raise NotInFlightError(f"offsets {outgoing.first_offset} to {outgoing.last_offset}: nothing is in flight")
        head = self._covered[0]
        lowest, last = head
        # A piece begins at its first record: offsets without one, between two pieces, belong to none of them.
        if not lowest <= outgoing.first_offset <= outgoing.last_offset <= last:
            raise NotInFlightError(
                f"offsets {outgoing.first_offset} to {outgoing.last_offset}: {lowest} to {last} are to come next"
            )
        if outgoing.last_offset < last:
            head[0] = outgoing.last_offset + 1
            return False
        self._covered.popleft()
        return True

    def clear(self) -> None:
        """All of it is given up, and will be given out again."""
        self._covered.clear()
