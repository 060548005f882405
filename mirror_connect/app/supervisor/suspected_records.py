"""The records among which is one that needs more stack or memory than Spark has, and those that Spark gets no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.task_protocol import SourceRange

# Of records that need too much, until the task has run steadily for a while. Each of them costs some restarts.
MOST_TOO_MUCH: Final = 100
# Of ranges of records, in a line.
MOST_SHOWN: Final = 3


class SuspectedRecords:
    """Of a task with this config. `ranges`: the records that Spark had when it last gave back no more.

    Each attempt sends smaller parts of them, until Spark has a single one when it ends.
    """

    def __init__(self, identity: Mapping[str, str]) -> None:
        self.identity = identity
        self.ranges: tuple[SourceRange, ...] = ()
        self.too_much: tuple[SourceRange, ...] = ()
        # Why the present attempt's Spark ends: its heap is full, and the attempt waited for its statement.
        self.filled: str | None = None
        self._newest = False

    def begins(self) -> None:
        """Another attempt begins with them."""
        self._newest, self.filled = False, None

    def lost(self, ranges: tuple[SourceRange, ...]) -> None:
        """The present attempt has said which records Spark had."""
        self.ranges, self._newest = ranges, True

    def found(self) -> SourceRange | None:
        """The single record that Spark had when the last attempt ended. None if that is not known."""
        if not self._newest or len(self.ranges) != 1 or len(self.too_much) >= MOST_TOO_MUCH:
            return None
        (found,) = self.ranges
        return found if found.first == found.last and found not in self.too_much else None

    def refuse(self, record: SourceRange) -> None:
        """Spark does not get it any more."""
        self.too_much, self.ranges = (*self.too_much, record), ()

    @property
    def line(self) -> str:
        """The first of them, for people; empty if none are known."""
        return "; ".join(map(str, self.ranges[:MOST_SHOWN]))
