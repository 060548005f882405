"""The offsets of a feed that the target has not acknowledged yet. The source offset follows from these alone.

Offsets are those of the source; for a task's own records the feed numbers them. A batch that was split is acknowledged in
pieces. So nothing here counts batches: only the lowest offset that is not acknowledged matters.
"""

from __future__ import annotations

from collections import deque

from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, ProducerBatch


class NotInFlightError(Exception):
    """An acknowledgement that does not fit: a bug here. No source offset may follow from it."""


class InFlight:
    """The batches of one feed that are in flight, oldest first, by the offsets that they cover."""

    __slots__ = ("_covered",)

    def __init__(self) -> None:
        # [lowest offset that is not acknowledged, last offset, about the timestamp of the lowest] of each batch.
        self._covered: deque[list[int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._covered)

    def __len__(self) -> int:
        return len(self._covered)

    @property
    def oldest(self) -> int | None:
        """The lowest offset that is not acknowledged; None when nothing is in flight."""
        return self._covered[0][0] if self._covered else None

    @property
    def oldest_ms(self) -> int:
        """About the timestamp of the record there; NO_TIMESTAMP when nothing is in flight."""
        return self._covered[0][2] if self._covered else NO_TIMESTAMP

    def given(self, batch: ProducerBatch) -> None:
        """The feed's `take` returns this batch."""
        self._covered.append([batch.first_offset, batch.last_offset, batch.first_ms])

    def merged(self, batch: ProducerBatch) -> None:
        """The last batch is replaced by this one, which may cover later offsets too."""
        self._covered[-1][1] = batch.last_offset

    def acked(self, batch: ProducerBatch) -> bool:
        """The target has this batch, or this piece of one. True if the whole batch is there now. NotInFlightError."""
        if not self._covered:
            raise NotInFlightError(f"offsets {batch.first_offset} to {batch.last_offset}: nothing is in flight")
        head = self._covered[0]
        lowest, last, _ = head
        # A piece begins at its first record. So offsets without a record, between two pieces, belong to neither.
        if not lowest <= batch.first_offset <= batch.last_offset <= last:
            raise NotInFlightError(
                f"offsets {batch.first_offset} to {batch.last_offset}: {lowest} to {last} are to come next"
            )
        if batch.last_offset < last:
            head[0], head[2] = batch.last_offset + 1, batch.max_timestamp
            return False
        self._covered.popleft()
        return True

    def clear(self) -> None:
        """Forgets all batches: they will be taken again."""
        self._covered.clear()
