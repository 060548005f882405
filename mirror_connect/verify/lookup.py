"""Finds the target's next records in the source: by their timestamp, else among the records copied last."""

from __future__ import annotations

from typing import Final

from mirror_connect.verify.comparison import Comparison
from mirror_connect.verify.records import Record

# So many records in a row must be equal, or all up to the end of the log.
AGREEING: Final = 4
# How many offsets back to search where timestamps find nothing.
_LOOK_BACK: Final = 2_000
# After so many lookups that found nothing, only one in two, four, eight … is tried.
_PATIENCE: Final = 32


class Lookup:
    """Reads the source at other offsets. The comparison's position in it stays."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._misses = 0

    async def wanted(self) -> list[Record]:
        """The target's next records by one producer, as many as must be equal."""
        target = self._comparison.target
        theirs = await target.want(AGREEING)
        return theirs[: next(iter(target.segments(len(theirs))), None)]

    async def find(self, wanted: list[Record], least: int) -> int | None:
        """The offset from which on the source has these records, or at least the first `least` of them."""
        if self._misses >= _PATIENCE and self._misses & (self._misses - 1):
            self._misses += 1
            return None
        found = await self._found(wanted, least)
        if found is None:
            self._misses += 1
        return found

    async def _found(self, wanted: list[Record], least: int) -> int | None:
        comparison = self._comparison
        source = comparison.source
        if comparison.timestamps and wanted[0][1] >= 0:
            offset = await source.log.offset_at(wanted[0][1])
            found = None if offset is None else self.offset_of(wanted, least, await source.records_at(offset))
            if found is not None:
                return found
        # Timestamps need not rise. A copier mostly repeats what it copied last.
        offset = max(comparison.start, comparison.done_to - _LOOK_BACK)
        while offset < comparison.done_to:
            records = await source.records_at(offset)
            found = self.offset_of(wanted, least, records)
            if found is not None:
                return found
            if not records:
                break
            offset = records[-1][0] + 1
        # Otherwise a copier has started from the beginning, or where records were skipped.
        for beginning in (comparison.start, comparison.missing.first):
            if beginning is not None and beginning < comparison.done_to - _LOOK_BACK:
                found = self.offset_of(wanted, least, await source.records_at(beginning))
                if found is not None:
                    return found
        return None

    def offset_of(self, wanted: list[Record], least: int, records: list[Record]) -> int | None:
        """The offset in `records` where most of `wanted` is."""
        content = self._comparison.content
        sought = [content(record) for record in wanted]
        contents = [content(record) for record in records]
        best, most = None, 0
        for at, each in enumerate(contents):
            if each != sought[0] or records[at][0] < self._comparison.start:
                continue
            room = min(len(sought), len(contents) - at)
            agreeing = 1
            while agreeing < room and contents[at + agreeing] == sought[agreeing]:
                agreeing += 1
            if agreeing > most and agreeing >= min(least, room):
                best, most = records[at][0], agreeing
        return best
