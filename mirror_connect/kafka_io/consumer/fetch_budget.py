"""How many bytes may be on their way: the memory a task takes, shared fairly between brokers and partitions.

Counted are whole frames, because a partition's slice keeps all of its frame alive, and the room reserved for answers.
"""

from __future__ import annotations

from typing import Final

_LEAST: Final = 256 << 10


class FetchBudget:
    """`limit` bytes in all; one batch that is larger than what was asked for may exceed it, once per broker."""

    def __init__(self, limit: int, request_max: int, partition_max: int) -> None:
        self.limit = limit
        self.used = 0
        self._reserved = 0
        self._request_max = request_max
        self._partition_max = partition_max
        self.loaded_partitions = 0

    @property
    def is_tight(self) -> bool:
        """More than half is in use: the target is the slower side, so copying is cheaper than keeping frames alive."""
        return self.used > self.limit // 2

    def reserve(self, brokers: int) -> int:
        """Room for an answer of one of `brokers` brokers; 0 when there is too little at present.

        One share more than brokers, so that what one brought can be worked on while the next answer comes.
        """
        share = max(1, min(self._request_max, self.limit // (brokers + 1)))
        room = min(share, self.limit - self.used - self._reserved)
        # A sliver of room isn't worth a request; with nothing in use any limit must let one through.
        if room < share // 4:
            return 0
        self._reserved += room
        return room

    def unreserve(self, size: int) -> None:
        """The answer has come, or never will."""
        self._reserved -= size

    def take(self, size: int) -> None:
        """A frame has come and is kept."""
        self.used += size

    def free(self, size: int) -> None:
        """A frame is no longer needed."""
        self.used -= size

    def partition_cap(self, released: int) -> int:
        """How much one partition may hold unreleased: with k loaded ones a (k+1)th finds as much room as each of them.

        `released`: how much of it was. Little at first, as its records may not be taken: many such would hold all there is.
        """
        return min(self.limit // (1 + self.loaded_partitions), _LEAST + released)

    def partition_bytes(self, released: int) -> int:
        """What to ask for one partition: in steps of two, lest each change be told to the broker for every partition."""
        cap = self.limit // (1 + self.loaded_partitions)
        size = self._partition_max
        while size > cap // 2 and size > _LEAST:
            size //= 2
        return max(1, min(size, _LEAST + released))
