"""Where a consumer group stands in the partitions that one member has: copied so far, and committed so far.

An offset here is the one to read next, as groups have it. It only says what the target has acknowledged. So committing it
at any time loses nothing, also after the member has lost the partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mirror_connect.connectors.partitions import TopicPartition


class Positions:
    """The positions of one member, in one event loop."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int | None] = {}
        self._committed: dict[TopicPartition, int] = {}

    def assign(self, partitions: Collection[TopicPartition], committed: Mapping[TopicPartition, int]) -> None:
        """Begins with these partitions alone, at the group's committed offsets."""
        self._next = {partition: committed.get(partition) for partition in partitions}
        self._committed = {partition: committed[partition] for partition in partitions if partition in committed}

    def begin(self, starts: Mapping[TopicPartition, int]) -> None:
        """Sets the starts of partitions without a position. They are committed too: else a restart could skip records."""
        for partition, offset in starts.items():
            if partition in self._next and self._next[partition] is None:
                self._next[partition] = offset

    def drop(self) -> None:
        """Forgets all partitions."""
        self._next, self._committed = {}, {}

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that this member has."""
        return frozenset(self._next)

    @property
    def unknown(self) -> list[TopicPartition]:
        """The partitions without a position."""
        return sorted(partition for partition, offset in self._next.items() if offset is None)

    @property
    def uncommitted(self) -> frozenset[TopicPartition]:
        """The partitions for which the group has no offset."""
        return frozenset(self._next.keys() - self._committed.keys())

    def next_offset(self, partition: TopicPartition) -> int | None:
        """The offset to read next; None if unknown. KeyError for a partition that this member does not have."""
        return self._next[partition]

    def copied(self, partition: TopicPartition, offset: int) -> bool:
        """The target has all records up to this offset. Whether it is lower than before: the topic was made again."""
        if partition not in self._next:
            return False
        before, self._next[partition] = self._next[partition], offset + 1
        return before is not None and offset + 1 < before

    def to_commit(self) -> dict[TopicPartition, int]:
        """The offsets that have changed since they were committed."""
        return {
            partition: offset
            for partition, offset in self._next.items()
            if offset is not None and self._committed.get(partition) != offset
        }

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has these offsets now."""
        self._committed |= {partition: offset for partition, offset in offsets.items() if partition in self._next}
