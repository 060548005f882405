"""The leader epochs of the records that were read from one partition (KIP-320).

Each leader's epoch is higher than those before. So an epoch, with the offset where it ended, distinguishes two histories of
a log: after an unclean leader election the log is shorter, and grows again with other records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror_connect.connectors.records.source_offsets import NO_EPOCH

# Epochs only change with leaders, so more than this many reach far back.
MOST: Final = 32


class LeaderEpochs:
    """Where each epoch began. Unknown offsets have NO_EPOCH."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        # (first offset read of it, epoch). Both rise, except for NO_EPOCH of formats without epochs.
        self._begun: list[tuple[int, int]] = []

    def know(self, offset: int, epoch: int) -> None:
        """Notes the epoch of the record at `offset` or the last one below it, and forgets all others."""
        self._begun = [] if epoch < 0 else [(offset, epoch)]

    def read(self, begun: Iterable[tuple[int, int]]) -> None:
        """Notes what a fetch brought: each first offset with another epoch than before (completed_fetch.WholeBatches)."""
        known = self._begun
        for offset, epoch in begun:
            while known and known[-1][0] >= offset:
                known.pop()
            last = known[-1][1] if known else NO_EPOCH
            # Epochs never go back in a log. But a batch's checksum doesn't cover its epoch, which may be corrupt.
            if epoch > last or (epoch < 0 <= last):
                known.append((offset, max(epoch, NO_EPOCH)))
        del known[:-MOST]

    def at(self, offset: int) -> int:
        """The epoch of the record at `offset`, or of the last one below it."""
        for begun, epoch in reversed(self._begun):
            if begun <= offset:
                return epoch
        return NO_EPOCH

    def first_after(self, epoch: int) -> int | None:
        """The first offset read that was written in a later epoch than this one."""
        return next((begun for begun, each in self._begun if each > epoch), None)

    def go_on(self, offset: int, expected: int | None, epoch: int = NO_EPOCH) -> None:
        """Reading continues at `offset`, after a record of `epoch`; without a jump it would have continued at `expected`."""
        if expected is not None and offset > expected:
            # The epochs of the offsets in between are not known.
            self._begun.clear()
        else:
            self.cut(offset)
        if epoch != NO_EPOCH and self.at(offset - 1) == NO_EPOCH:
            # This position came from a stored offset, so nothing below it was read. The broker gave the epoch.
            self.know(offset - 1, epoch)

    def cut(self, offset: int) -> None:
        """Forgets what was read from `offset` on: it is not in the log any more, or is read again."""
        while self._begun and self._begun[-1][0] >= offset:
            self._begun.pop()

    def clear(self) -> None:
        """Forgets all epochs."""
        self._begun.clear()


def divergence(position: int, epochs: LeaderEpochs, epoch: int, end: int) -> int | None:
    """The first offset below `position` at which the log differs from what was read; None if it doesn't differ.

    `epoch`, `end`: the broker's answer for the epoch of the last record read: the highest epoch in its log that is not
    above that one, and where it ends there.
    """
    last = epochs.at(position - 1)
    if epoch >= last:
        return end if end < position else None
    # The log has nothing of what was read in later epochs than that one.
    first = epochs.first_after(epoch)
    return min(end, position - 1 if first is None else first)
