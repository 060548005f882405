"""What is known of partitions, of so many at most: topics of mappings hold whatever names are written to them.

Who may write there can make up partitions without end. What has gone longest without a new record goes first: that is no
partition that is copied at present, unless there are more of these than the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from mirror_connect.connectors.partitions import TopicPartition

# More than one connector copies. With names of 240 letters, the first offset sync of each takes 103 MB together, and a
# second one 46 MB more.
MOST_PARTITIONS: Final = 100_000
T = TypeVar("T")


class RecentPartitions(Generic[T]):
    """`crowded`: whether anything was dropped yet."""

    def __init__(self, most: int = MOST_PARTITIONS) -> None:
        self.crowded = False
        self._most = most
        self._known: dict[TopicPartition, T] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._known)

    def get(self, partition: TopicPartition) -> T | None:
        """What was put last."""
        return self._known.get(partition)

    def put(self, partition: TopicPartition, what: T) -> None:
        """A new record has led to this; the partition is the most recent one now."""
        self._known.pop(partition, None)
        self._known[partition] = what
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
            self.crowded = True
