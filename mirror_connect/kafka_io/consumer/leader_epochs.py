"""Which leader epochs the records of one partition's log were written in, as far as they were read (KIP-320).

A leader's epoch is higher than that of each leader before it, so an epoch and where it ended tell one history of a log
from another: after an unclean leader election the log is shorter, and grows again with other records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror_connect.connectors.records.positions import NO_EPOCH

# Epochs change with leaders: so many are remembered that only what is long past is forgotten.
MOST: Final = 32


class LeaderEpochs:
    """Where each epoch began. An offset of which nothing is known has NO_EPOCH."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        # (first offset read of it, epoch), both rising, except that NO_EPOCH stands for formats that hold none.
        self._begun: list[tuple[int, int]] = []

    def know(self, offset: int, epoch: int) -> None:
        """The record at `offset`, or the last one below it, was written in `epoch`: all that is known."""
        self._begun = [] if epoch < 0 else [(offset, epoch)]

    def read(self, begun: Iterable[tuple[int, int]]) -> None:
        """What a fetch brought: each first offset with another epoch than before, see fetched.whole_batches."""
        known = self._begun
        for offset, epoch in begun:
            while known and known[-1][0] >= offset:
                known.pop()
            last = known[-1][1] if known else NO_EPOCH
            # Epochs never go back in a log; the checksum of a batch doesn't cover its epoch, so it may be damaged.
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
        """Reading goes on at `offset`, behind a record of `epoch`; it would have at `expected` by itself."""
        if expected is not None and offset > expected:
            # Which epochs those in between had is not known.
            self._begun.clear()
        else:
            self.cut(offset)
        if epoch != NO_EPOCH and self.at(offset - 1) == NO_EPOCH:
            # Of a position that came back nothing below it was read: where it goes back the broker has told the epoch.
            self.know(offset - 1, epoch)

    def cut(self, offset: int) -> None:
        """What was read from `offset` on is not in the log any more, or is read again."""
        while self._begun and self._begun[-1][0] >= offset:
            self._begun.pop()

    def clear(self) -> None:
        """Nothing is known."""
        self._begun.clear()


def divergence(position: int, epochs: LeaderEpochs, epoch: int, end: int) -> int | None:
    """The offset below `position` from which on the log holds something else than was read; None if it doesn't.

    `epoch`, `end`: the broker's answer for the epoch of the last record read: the highest epoch not above it that its
    log has, and where that one ends there.
    """
    last = epochs.at(position - 1)
    if epoch >= last:
        return end if end < position else None
    # The log knows nothing of what was read in later epochs than that one.
    first = epochs.first_after(epoch)
    return min(end, position - 1 if first is None else first)
