"""What both ways of reading share: which cluster, which partition, which offset to ask for, and what can't be compared."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Place = Literal["source", "target"]
Key = tuple[str, int]

# What ListOffsets takes instead of a timestamp (Kafka's protocol guide).
EARLIEST: Final = -2
LATEST: Final = -1


class Partition(NamedTuple):
    """A partition of either cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CannotCompareError(Exception):
    """A partition, or everything, can't be compared; the text is one line that says why."""
