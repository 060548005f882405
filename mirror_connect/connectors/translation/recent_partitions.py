"""Values by partition, up to a limit: topics of syncs and ranges can hold any name.

Anyone with write access can add unlimited partitions. Those with the oldest records are dropped first. They are not
copied at present, unless more partitions are copied than the limit allows.
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
    """Values of the most recent partitions. `crowded`: whether any was dropped yet."""

    def __init__(self, most: int = MOST_PARTITIONS) -> None:
        self.crowded = False
        self._most = most
        self._known: dict[TopicPartition, T] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._known)

    def get(self, partition: TopicPartition) -> T | None:
        """The last value that was put."""
        return self._known.get(partition)

    def put(self, partition: TopicPartition, what: T) -> None:
        """Stores a value from a new record. The partition is the most recent one now."""
        self._known.pop(partition, None)
        self._known[partition] = what
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
            self.crowded = True
