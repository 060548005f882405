"""The source offsets that are called missing so far. One that is found on the target later is taken out.

They are kept as ranges, which stay small when millions of records are missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

# Ranges of two numbers each: a few megabytes.
MOST: Final = 50_000


class MissingRanges:
    """`full_from`: missing offsets from here on are not kept, because there were too many ranges; None while all are."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.full_from: int | None = None

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[at]

    @property
    def first(self) -> int | None:
        """The lowest missing offset."""
        return self._firsts[0] if self._firsts else None

    def any(self, first: int, last: int) -> bool:
        """Whether one of these offsets is missing."""
        at = bisect_left(self._lasts, first)
        return at < len(self._firsts) and self._firsts[at] <= last

    def add(self, offset: int, before: int) -> bool:
        """Adds an offset above all others. `before`: the offset of the record before it. False: there was no room."""
        if self._lasts and self._lasts[-1] == before:
            # The offsets between them are no records but markers of transactions.
            self._lasts[-1] = offset
            return True
        if self.full_from is not None or len(self._firsts) >= MOST:
            self.full_from = offset if self.full_from is None else self.full_from
            return False
        self._firsts.append(offset)
        self._lasts.append(offset)
        return True

    def take(self, first: int, last: int) -> None:
        """Takes these offsets out: they were found."""
        at = bisect_left(self._lasts, first)
        end = bisect_right(self._firsts, last)
        left = [(begin, min(stop, first - 1)) for begin, stop in self._ranges(at, end) if begin < first]
        left += [(max(begin, last + 1), stop) for begin, stop in self._ranges(at, end) if stop > last]
        self._firsts[at:end] = [begin for begin, _ in left]
        self._lasts[at:end] = [stop for _, stop in left]

    def _ranges(self, at: int, end: int) -> list[tuple[int, int]]:
        return list(zip(self._firsts[at:end], self._lasts[at:end], strict=True))
