"""How the records of topics are divided among Spark's tasks: a slice for each partition, more where it is long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition

# A second or two of one task: long enough to pay for its start, short enough that the tasks end together.
MOST_OFFSETS: Final = 500_000
# Of one partition: each costs a connection and a Python process's turn.
MOST_SLICES: Final = 200


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets first…end-1 of a partition."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def key(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def slices_of(logs: Mapping[TopicPartition, tuple[int, int]], most: int = MOST_OFFSETS) -> list[Slice]:
    """The slices of each log, (first, end), in the order of their offsets. A log without offsets has none."""
    return [each for key, (first, end) in sorted(logs.items()) for each in _of_log(key, first, end, most)]


def _of_log(key: TopicPartition, first: int, end: int, most: int) -> Iterator[Slice]:
    if first >= end:
        return
    pieces = min(MOST_SLICES, -(-(end - first) // most))
    size = -(-(end - first) // pieces)
    for begin in range(first, end, size):
        yield Slice(key.topic, key.partition, begin, min(begin + size, end))
